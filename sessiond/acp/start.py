"""Puts the parts together for one connection. The standard library only: an editor waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from sessiond.acp.naming import all_names
from sessiond.acp.pump import Pump
from sessiond.acp.recall import LOG, Recaller, private
from sessiond.acp.replaying import AUTO, Replaying
from sessiond.acp.spool import Spool
from sessiond.acp.switch import Switch
from sessiond.endpoint import NoHome, places
from sessiond.errors import SessiondError


def folder() -> str:
    """Return where spools are. NoHome."""
    return os.path.join(places().data, "acp")


def connect(command: Sequence[str], replay: str = AUTO) -> NoReturn:
    """Run the agent between our standard input and output, recorded if a spool can be written. `replay`: who repeats a
    conversation, one of MODES (replaying.py). FileNotFoundError, PermissionError; SessiondError if the working directory is gone.
    """
    head = {"agent": os.path.basename(command[0]), "command": list(command), "cwd": _here(), "pid": os.getpid()}
    spool = None
    where = ""
    try:
        where = folder()
        spool = Spool.made(where, json.dumps(head).encode())
    except (OSError, NoHome) as error:
        print(f"sessiond: nothing is recorded: {error}", file=sys.stderr)
    try:
        recaller = Recaller(where if spool is not None else None)
        Pump(command, spool, lambda: _recorder(where, spool), Switch(Replaying(replay)), recaller).run()
    except OSError:
        if spool is not None:
            os.unlink(spool.path)
        raise


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it would look as if the agent's command were missing
        hint = "start it again in a folder that exists"
        raise SessiondError("the folder in which this was started was removed", hint=hint) from None


def join(name: str) -> None:
    """Be a second editor of a conversation that runs, until one of the two ends. NobodyThereError, NoHome."""
    from sessiond.acp.joined import Joined, found

    path, key, initialized = found(name)
    Joined(path, key, tuple(all_names(key, "")[1:2]), initialized, folder()).run()


_APART = ("/bin/sh", "-c", '"$@" &', "sh")
"""Starts a command that is nobody's child. Some editors (acpx) kill what descends from the process that they started, whatever
session it is in, and the recorder has work to do then.
"""


def _recorder(where: str, spool: Spool | None) -> int | None:
    """Start the process that records; the writing end of the pipe that wakes it. None: it will be brought in later."""
    if spool is None:
        return None
    reading, writing = os.pipe2(os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
    os.set_blocking(writing, False)
    command = [sys.executable, "-X", "utf8", "-m", "sessiond.acp.recorder", where]
    try:
        with open(os.path.join(where, LOG), "ab", opener=private) as log:
            subprocess.Popen(  # noqa: S603  our own interpreter and our own module
                [*_APART, *command, str(spool.descriptor), str(reading)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(spool.descriptor, reading),
                start_new_session=True,
            ).wait()
    except OSError:
        os.close(writing)
        return None
    finally:
        os.close(reading)
    return writing
