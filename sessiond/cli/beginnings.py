"""What people know a session by that has no name: its summary, or how it begins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from sessiond.cli.client import Client
from sessiond.cli.output import content_text, one_line
from sessiond.cli.paths import here
from sessiond.errors import SessiondError

_CHARS = 44
_MESSAGES = 8
"""Among so many a person says something, or the beginning tells nothing."""
_BYTES, _LEAST_BYTES = 8 << 20, 32 << 10
"""Of session files read for one list, each counted with at least the second number: half a second on a busy machine."""


def beginnings(client: Client, infos: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Session id -> a few words, for those of a `session/list` that have no name. Without an entry: none were found, or
    finding them would read too much.
    """
    found: dict[str, str] = {}
    left = _BYTES
    for info in infos:
        if info.get("name"):
            continue
        words = one_line(info.get("summary") or "", _CHARS)
        if not words and info["messageCount"] and (cost := _cost(info["path"])) <= left:
            left -= cost
            words = _said(client, info["sessionId"])
        if words:
            found[info["sessionId"]] = words
    return found


def _cost(path: str) -> int:
    try:
        return max(_LEAST_BYTES, os.path.getsize(here(path)))
    except (OSError, ValueError):
        return _LEAST_BYTES  # not saved yet, or a name that is no text


def _said(client: Client, session_id: str) -> str:
    """The first words of the first message that a person wrote."""
    try:
        page = client.call("session/read", {"sessionId": session_id, "since": 0, "limit": _MESSAGES})
    except SessiondError:
        return ""  # a list shows what there is; whoever opens the session is told what is wrong with it
    said = (
        one_line(content_text(message.get("content", ""))[: _CHARS * 100], _CHARS)
        for message in page["messages"]
        if message["role"] == "user" and (message.get("metadata") or {}).get("injected") is not True
    )
    return next(filter(None, said), "")
