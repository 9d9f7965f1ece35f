"""Session files as stock editors see them: outline, hover, diagnostics, actions, and symbols over all sessions. Implements `documents.Documents`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

from sessiond.errors import SessiondError
from sessiond.formats import registry
from sessiond.formats.base import Decoded, Format
from sessiond.formats.locations import MessageLocation, places
from sessiond.fs import NAMED
from sessiond.model.message import Message
from sessiond.model.values import JsonObject, join_wire_id, split_wire_id
from sessiond.rpc.documents import Action, DocumentProblem, Hover, OutlineNode, Symbol
from sessiond.schema.sessions import SearchResult
from sessiond.store.port import Store

_TITLE = 80
_SYMBOLS = 100


class Searcher(Protocol):
    async def search(self, peer: None, *, query: str, limit: int | None = None) -> SearchResult: ...


class _Document:
    """One session file: its text as the editor has it, and its decoded content."""

    def __init__(self, store: Store, local_id: str, path: str, text: str, decoded: Decoded) -> None:
        self.wire_id = join_wire_id(store.name, local_id)
        self.path = path
        self.text = text
        self.decoded = decoded
        self.places: list[MessageLocation] = [] if decoded.fatal else places(text, decoded.session.messages())

    def at(self, line: int) -> MessageLocation | None:
        return next((place for place in self.places if place.start_line <= line <= place.end_line), None)


class SessionDocuments:
    """`search`: the service's own, whose hits become symbols."""

    def __init__(self, stores: Mapping[str, Store], searcher: Searcher) -> None:
        self._stores = stores
        self._searcher = searcher

    async def outline(self, uri: str, text: str | None) -> Sequence[OutlineNode]:
        document = await self._document(uri, text)
        return [] if document is None else [_node(place) for place in document.places]

    async def hover(self, uri: str, text: str | None, line: int) -> Hover | None:
        document = await self._document(uri, text)
        place = document.at(line) if document else None
        if place is None:
            return None
        return Hover(markdown=_about(place.message), start_line=place.start_line, end_line=place.end_line)

    async def diagnostics(self, uri: str, text: str | None) -> Sequence[DocumentProblem]:
        document = await self._document(uri, text)
        if document is None:
            return []
        return [
            DocumentProblem(
                line=(problem.line or 1) - 1, message=problem.message, severity="error" if problem.fatal else "warning"
            )
            for problem in document.decoded.problems
            if not problem.path.startswith(".sessiond/")
        ]

    async def actions(self, uri: str, text: str | None, start_line: int, end_line: int) -> Sequence[Action]:
        document = await self._document(uri, text)
        if document is None or document.decoded.fatal is not None:
            return []
        session: JsonObject = {"sessionId": document.wire_id}
        actions = [
            Action(title="Resume this session", method="session/open", params=session),
            Action(title="Export as Markdown", method="session/export", params={**session, "format": "markdown"}),
        ]
        place = document.at(start_line)
        if place is not None:
            params = {**session, "atSeq": place.message.seq}
            actions.insert(1, Action(title="Fork the session after this message", method="session/fork", params=params))
        return actions

    async def symbols(self, query: str) -> Sequence[Symbol]:
        """One symbol for each hit, leading to its line in the session file."""
        if not query.strip():
            return []
        try:
            page = await self._searcher.search(None, query=query, limit=_SYMBOLS)
        except SessiondError:
            return []  # a stock client has no place to show why a query is invalid
        opened: dict[str, _Document | None] = {}
        symbols = []
        for hit in page.hits:
            wire_id = hit.session_id
            if wire_id not in opened:
                opened[wire_id] = await self._by_id(wire_id)
            document = opened[wire_id]
            if document is not None:
                lines = {place.message.id: place.start_line for place in document.places}
                symbols.append(
                    Symbol(
                        name=_one_line(hit.snippet),
                        kind=hit.role or "session",
                        container=hit.name or wire_id,
                        uri="file://" + quote(os.fsencode(document.path)),
                        line=lines.get(hit.message_id or "", 0),
                    )
                )
        return symbols

    async def _by_id(self, wire_id: str) -> _Document | None:
        name, local_id = split_wire_id(wire_id)
        store = self._stores.get(name)
        if store is None:
            return None
        return await self._document("file://" + quote(os.fsencode(store.file_path(local_id))), None)

    async def _document(self, uri: str, text: str | None) -> _Document | None:
        """None for a document outside all stores."""
        parts = urlsplit(uri)
        if parts.scheme not in ("file", ""):
            return None
        return await NAMED.call(self._read, unquote(parts.path, errors="surrogateescape"), text)

    def _read(self, path: str, text: str | None) -> _Document | None:
        path = os.path.realpath(path)
        for store in list(self._stores.values()):
            root = os.path.realpath(store.path)
            if path.startswith(root.rstrip("/") + "/"):
                return _decode(store, root, path, text)
        return None


def _decode(store: Store, root: str, path: str, text: str | None) -> _Document | None:
    fmt: Format = registry.get(store.format)
    relative = os.path.relpath(path, root)
    local_id = next((one for one, main in fmt.find([relative]).items() if main == relative), None)
    if local_id is None:
        return None
    files = {}
    for name in fmt.paths(local_id):
        target = os.path.join(root, name)
        if os.path.isfile(target):
            with open(target, "rb") as file:
                files[name] = file.read()
    if text is not None:
        files[relative] = text.encode("utf-8", "replace")
    if relative not in files:
        return None
    shown = files[relative].decode("utf-8", "replace")
    return _Document(store, local_id, path, shown, fmt.decode(local_id, files))


def _node(place: MessageLocation) -> OutlineNode:
    message = place.message
    calls = [
        OutlineNode(
            name=str(call.get("name", "tool")), kind="tool", start_line=place.start_line, end_line=place.end_line
        )
        for call in message.tool_calls
        if isinstance(call, dict)
    ]
    title = _one_line(message.text()) or ", ".join(call.name for call in calls) or "(no text)"
    return OutlineNode(
        name=f"{message.role}: {title}",
        kind=message.role,
        detail=message.timestamp,
        start_line=place.start_line,
        end_line=place.end_line,
        children=calls,
    )


def _one_line(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _TITLE]).split())
    return line if len(line) <= _TITLE else line[: _TITLE - 1] + "…"


def _about(message: Message) -> str:
    """Time, model and tokens, if known."""
    metadata = message.metadata
    rows = [f"**{message.role}** · {message.timestamp} · seq {message.seq}"]
    for label, keys in (("model", ("model",)), ("tokens", ("tokens", "usage", "outputTokens"))):
        value = next((metadata[key] for key in keys if key in metadata), None)
        if value is not None:
            rows.append(f"{label}: `{value}`")
    if message.status not in (None, "done"):
        rows.append(f"status: {message.status}")
    return "\n\n".join(rows)
