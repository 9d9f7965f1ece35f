"""Sessions as other tools write them: copies in which a tool goes on with what another one began.

`selection` says which part of a session is told, `fitting` what a target has no place for, a module for each target how its
files look, `check` that a copy reads back as what was written. Nothing here talks to the daemon.
"""
