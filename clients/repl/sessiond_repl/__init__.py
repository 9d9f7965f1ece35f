"""A terminal conversation that is kept in a session: `sessiond repl`.

terminal | plain     the user interfaces: a prompt with prompt-toolkit; or lines in, lines out
commands             /sessions, /load, ...: one function each
chat                 the open session, what is said in it, and what others do in it
agent                one turn of a command that plays the assistant
view                 which part of the session is already on the screen: no I/O
live                 follows the open session, also after the daemon was gone

The connection to the daemon is that of `sessiond.client`.
"""

from __future__ import annotations

import asyncio
import os
import sys


def interactive() -> bool:
    """Whether somebody sits at a terminal that can do more than print lines."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb")


def run(session_id: str | None, agent: str | None) -> int:
    """Talk until the end of input or /quit. Returns the exit code.

    `session_id`: the session to resume; None makes a new one. `agent`: a shell command that answers every message.
    Raises SessiondError if it cannot begin; ImportError without prompt-toolkit.
    """
    if interactive():
        from sessiond_repl.terminal import converse
    else:
        from sessiond_repl.plain import converse
    return asyncio.run(converse(session_id, agent))
