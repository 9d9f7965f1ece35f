"""A shared store: a folder store whose sessions are ordered by a hub, so that several machines can write one session.

Nothing of it is imported without a shared store in the configuration.
"""
