"""The input of `sessiond resume`, and what it tells."""

from __future__ import annotations

from typing import NamedTuple

from sessiond.resume.make import Made


class Wish(NamedTuple):
    """`calls`: whether calls of tools are told. `cwd` None: the session's folder, or this one if it has none."""

    at: int | None
    last: int | None
    calls: bool
    cwd: str | None
    dry_run: bool


def document(session_id: str, tool: str, cwd: str, made: Made, command: list[str]) -> dict[str, object]:
    written = made.written
    lost = [{"what": what, "count": number} for what, number in sorted(made.lost.items())]
    return {
        "sessionId": session_id,
        "tool": tool,
        "id": None if written is None else written.id,
        "path": None if written is None else written.path,
        "cwd": cwd,
        "command": command,
        "lost": lost,
        "messages": made.messages,
    }
