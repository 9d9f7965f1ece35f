"""Sessions as resources: `sessiond://session/ID`, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from sessiond.client import requests
from sessiond.client.types import SessionInfo
from sessiond.errors import SessionNotFound
from sessiond.exporters import export
from sessiond.exporters.document import session_of as model_of
from sessiond.exporters.redact import Redactor
from sessiond.exporters.turns import worth_reading
from sessiond.mcp.listing import sessions
from sessiond.mcp.memory import Memory, blanked
from sessiond.mcp.messages import body_of
from sessiond.mcp.pages import ToolPage
from sessiond.mcp.quoting import NOTICE, quoted
from sessiond.mcp.reading import clean
from sessiond.mcp.refusals import Refused, no_session
from sessiond.mcp.shapes import MAX_SEQ, ListedSession
from sessiond.model.message import Message

PREFIX = "sessiond://session/"
TEMPLATES = (
    ("sessiond://session/{sessionId}", "session", "A session as Markdown, with its newest messages."),
    ("sessiond://session/{sessionId}{?before}", "session-before", "The same, with the messages before a seq."),
)
LISTED = 50
MARKDOWN_CHARS = 200_000
"""Of messages, about: about 50,000 tokens. The newest are shown, and the first lines say how to get the others."""
_NO_RESOURCE = (
    "No resource has this address. Use sessiond://session/ID, or sessiond://session/ID?before=SEQ for older messages."
)
_PAGE = 50
_NOTE_CHARS = 20_000
_FIELDS = ("sessionId", "name", "createdAt", "updatedAt", "model", "cwd", "tags", "summary", "seq")


def uri_of(session_id: str) -> str:
    return PREFIX + quote(session_id, safe="/")


def parse(uri: str) -> tuple[str, int | None]:
    """The session's id, and `before`. Refused for anything else."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # such as a bracket without its other one
        raise Refused(_NO_RESOURCE) from None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    before = query.pop("before", "")
    usable = not before or (before.isascii() and before.isdigit() and 0 < int(before[:20]) <= MAX_SEQ)
    if not uri.startswith(PREFIX) or parts.fragment or query or not usable:
        raise Refused(_NO_RESOURCE)
    return unquote(parts.path.removeprefix("/")), int(before) if before else None


async def listed(memory: Memory, cursor: str) -> tuple[list[ListedSession], str | None]:
    """A page of the sessions that may be shown, and the next page's cursor."""
    place = memory.cursors.place("resources", cursor)
    page: ToolPage[ListedSession] = await sessions(memory, {}, lambda _: True, place, LISTED)
    return page.items, memory.cursors.give("resources", page.place)


async def markdown(memory: Memory, uri: str) -> str:
    """A session, quoted as a whole. Refused."""
    session_id, before = parse(uri)
    info = await memory.gate().one(session_id)
    redactor = await memory.blanks.of(info)
    try:
        wires, older = await _newest(memory, session_id, before, redactor)
        notes = [] if before else await _notes(memory, session_id, redactor)
    except SessionNotFound:
        raise no_session(session_id) from None
    gate = memory.gate()
    info = await gate.one(session_id)  # after it was read: it may have become private meanwhile
    text = "".join(_rendered(info, gate.parent_of(info), wires, notes, redactor)).rstrip("\f\n ")
    head = [NOTICE]
    if older is not None:
        head.append(f"Older messages: {uri_of(session_id)}?before={older}, or call the tool read with before={older}.")
    return "\n\n".join([*head, quoted(text)]) + "\n"


def _rendered(
    info: SessionInfo,
    parent: str | None,
    wires: list[dict[str, object]],
    notes: list[dict[str, object]],
    redactor: Redactor | None,
) -> Iterator[str]:
    plain = {key: value for key, value in msgspec.to_builtins(info).items() if key in _FIELDS}
    shown = {**blanked(redactor, plain), "sessionId": plain["sessionId"]}
    session = model_of({"session": shown, "messages": [], "notes": notes})
    session.local_id = info.session_id
    session.parent = None if parent is None else {"sessionId": parent, "seq": None}
    return export(session, map(Message.from_wire, wires), "markdown")


async def _newest(
    memory: Memory, session_id: str, before: int | None, redactor: Redactor | None
) -> tuple[list[dict[str, object]], int | None]:
    """The newest messages that fit, oldest first, and where older ones begin."""
    found: list[dict[str, Any]] = []
    left = MARKDOWN_CHARS
    more = True
    while more:
        which = {"last": _PAGE} if before is None else {"before": before, "limit": _PAGE}
        page = (await memory.client.answer(requests.read(session_id, **which))).plain
        more = page["hasMore"] and bool(page["messages"])
        for raw in reversed(page["messages"]):
            wire = clean(redactor, raw)
            message = Message.from_wire(wire)
            size = len(body_of(message, thinking=True)) + 100 if worth_reading(message) else 0
            if size > left and found:
                return found, found[0]["seq"]
            if size > left:
                wire, size = _cut(wire, message, left), left
            left -= size
            found.insert(0, wire)
        before = page["messages"][0]["seq"] if page["messages"] else before
    return found, None


def _cut(wire: dict[str, object], message: Message, chars: int) -> dict[str, object]:
    """Only the beginning of a message that is larger than everything that may be shown."""
    text = body_of(message, thinking=False)
    hint = f"\n[the first {chars} of {len(text)} characters; for the rest call the tool read with around={wire['seq']}]"
    kept = {key: value for key, value in wire.items() if key not in ("toolCalls", "thinking")}
    return {**kept, "content": text[:chars] + hint}


async def _notes(memory: Memory, session_id: str, redactor: Redactor | None) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    left = _NOTE_CHARS
    for note in reversed(await memory.client.session(session_id).notes()):
        left -= len(note.heading) + len(note.content)
        if left < 0:
            break
        wire: dict[str, object] = msgspec.to_builtins(note)
        found.insert(0, {**blanked(redactor, wire), "id": note.id, "timestamp": note.timestamp})
    return found
