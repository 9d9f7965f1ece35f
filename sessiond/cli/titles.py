"""The words by which people recognise an unnamed session: its summary, or how it begins."""

from __future__ import annotations

import os
from collections.abc import Iterable

from sessiond.cli.output import content_text, one_line
from sessiond.cli.pages import read
from sessiond.cli.paths import here
from sessiond.client.blocking import Sessiond
from sessiond.client.types import SessionInfo
from sessiond.errors import SessiondError

_CHARS = 44
_MESSAGES = 8
"""How many messages are read to find one that a person wrote."""
_BYTES, _LEAST_BYTES = 8 << 20, 32 << 10
"""How much of the session files one list reads. Each file counts as at least the second number: half a second on a busy
machine.
"""


def beginnings(client: Sessiond, infos: Iterable[SessionInfo]) -> dict[str, str]:
    """Session id -> a few words, for the unnamed sessions of a `session/list`. There is no entry if no words were found, or
    if finding them would read too much.
    """
    found: dict[str, str] = {}
    left = _BYTES
    for info in infos:
        if info.name:
            continue
        words = one_line(info.summary or "", _CHARS)
        if not words and info.message_count and (cost := _cost(info.path)) <= left:
            left -= cost
            words = _said(client, info.session_id)
        if words:
            found[info.session_id] = words
    return found


def _cost(path: str) -> int:
    try:
        return max(_LEAST_BYTES, os.path.getsize(here(path)))
    except (OSError, ValueError):
        return _LEAST_BYTES  # not saved yet, or the name is not valid text


def _said(client: Sessiond, session_id: str) -> str:
    """The first words of the first message that a person wrote."""
    try:
        page = client.answer(read(session_id, 0, _MESSAGES)).value
    except SessiondError:
        return ""  # a list shows what there is; opening the session says what is wrong with it
    said = (
        one_line(content_text(message.content)[: _CHARS * 100], _CHARS)
        for message in page.messages
        if message.role == "user" and not message.injected
    )
    return next(filter(None, said), "")
