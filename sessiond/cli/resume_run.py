"""Copies for `sessiond resume`: the daemon gives the session, and this process writes it, with the user's own rights."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from sessiond.cli.resume_document import Wish, document
from sessiond.cli.resume_here import resume_here
from sessiond.cli.whole_export import whole_export
from sessiond.client.blocking import Sessiond
from sessiond.endpoint import user_home
from sessiond.exporters.document import session_of
from sessiond.resume.make import make
from sessiond.resume.selection import selected
from sessiond.resume.targets import NAMES, OWN, target
from sessiond.resume.workplace import workplace

Agree = Callable[[dict[str, Any]], None]
"""Is shown what would be copied and lost, before anything is written; raises if that will not do."""


def resume(client: Sessiond, session_id: str, tool: str, wish: Wish, agree: Agree | None = None) -> dict[str, Any]:
    """The document of `sessiond resume --json`. SessiondError, OSError; then nothing was written."""
    session = session_of(msgspec.json.decode(whole_export(client, session_id, "json")))
    told = selected(session, at=wish.at, last=wish.last)
    cwd = workplace(session, wish.cwd)
    if tool == OWN:
        return resume_here(client, session_id, session, told, wish, cwd, agree)
    goal = target(tool, user_home(os.environ), os.environ)
    if not wish.dry_run:
        goal.check()
    if agree is not None:
        seen = make(goal, session, session_id, told, cwd, at=wish.at, calls=wish.calls, dry_run=True)
        agree(document(session_id, tool, cwd, seen, []))
    made = make(goal, session, session_id, told, cwd, at=wish.at, calls=wish.calls, dry_run=wish.dry_run)
    words = [] if made.written is None else goal.command(made.written)
    return document(session_id, tool, cwd, made, words)


def targets() -> list[dict[str, object]]:
    """Every target, and where its program is."""
    found = []
    for name in NAMES:
        if name == OWN:
            program, path = OWN, sys.argv[0]
        else:
            one = target(name, user_home(os.environ), os.environ)
            program, path = one.program, one.found() or ""
        found.append({"tool": name, "program": program, "installed": bool(path), "path": path or None})
    return found
