"""Cursor's command: `~/.cursor/chats/<folder>/<id>/store.db`, a SQLite file of blobs. The newest root, in Protocol Buffers,
names the blobs of the conversation in their order; a message is JSON with the AI SDK's blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from sessiond.importers import protobuf
from sessiond.importers.alone import alone, step
from sessiond.importers.blocks import text_of
from sessiond.importers.database import MAGIC, Database, guarded
from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.protobuf import NotProtobuf
from sessiond.importers.record import Event, Ignored, Opener, SkippedLine
from sessiond.importers.source_file import folder_name, listed, mapped, rest_of, word, written_at
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_ID_BYTES = 32
_QUERY = re.compile(r"\s*<user_query>\n?(.*?)\n?</user_query>\s*", re.DOTALL)
_ADDED = ("<user_info>", "<system_reminder>", "<environment_details>")
_ABOUT = ("agentId", "latestRootBlobId", "name", "createdAt", "lastUsedModel")


class CursorAgent(Tool):
    name = "cursor-agent"

    def recognise(self, path: str, head: bytes) -> int:
        if os.path.basename(path) != "store.db" or not head.startswith(MAGIC):
            return 0
        return 90 if b"blobs" in head and b"meta" in head else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from guarded(path, open_, lambda database: _read(database, path))

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return [os.path.join(home, ".cursor", "chats")]


def _read(database: Database, path: str) -> Iterator[Event]:
    database.require("blobs", "id", "data")
    database.require("meta", "key", "value")
    about: JsonObject = {}
    for row in database.rows("SELECT value FROM meta ORDER BY key"):
        yield from alone(path, "what the store says of the session", step(_learn, about, row))
    created = moment(about.get("createdAt")) or written_at(path)
    draft = SessionDraft(CursorAgent.name, path, word(about.get("agentId")) or folder_name(path), fallback_time=created)
    yield draft.start(
        name=about.get("name"),
        createdAt=created,
        model=about.get("lastUsedModel"),
        metadata=rest_of(about, *_ABOUT),
    )
    seen: dict[str, None] = {}
    yield from _reach(database, path, word(about.get("latestRootBlobId")), seen)
    others = [row["id"] for row in database.rows("SELECT id FROM blobs ORDER BY rowid") if row["id"] not in seen]
    silent = 0
    for nth, blob_id in enumerate([*seen, *others]):
        data = _blob(database, blob_id)
        if data.lstrip().startswith(b"{"):
            said = _message(draft, str(blob_id), data, branch=nth >= len(seen) > 0)
            yield from alone(path, f"blob {blob_id}", said)
        else:
            silent += 1
    yield from draft.end()
    if silent:
        yield Ignored(path, "blobs that are not messages", silent)


def _about(value: str) -> JsonObject:
    """A value of the table `meta`: JSON, which newer versions write in hexadecimal digits."""
    try:
        return mapped(decode(value.encode() if value.startswith("{") else bytes.fromhex(value))[0])
    except ValueError:  # NotJson is one
        return {}


def _blob(database: Database, blob_id: object) -> bytes:
    # `hex`: a row's blob would come as text.
    for row in database.rows("SELECT hex(data) AS data FROM blobs WHERE id = ?", blob_id):
        return bytes.fromhex(str(row["data"]))
    return b""


def _learn(about: JsonObject, row: JsonObject) -> None:
    about |= _about(str(row["value"]))


def _reach(database: Database, path: str, root: str, seen: dict[str, None]) -> Iterator[Event]:
    """Adds the ids of all blobs below a root to `seen`, in the order in which they are named."""
    waiting, known = [root], {root}
    while waiting:
        blob_id = waiting.pop()
        data = _blob(database, blob_id)
        if data:
            seen[blob_id] = None
        named: list[str] = []
        yield from alone(path, f"what blob {blob_id} names", step(_add_named, named, data))
        fresh = [one for one in dict.fromkeys(named) if one not in known]
        known.update(fresh)
        waiting += reversed(fresh)


def _add_named(named: list[str], data: bytes) -> None:
    try:
        found = {} if data.startswith(b"{") else protobuf.fields(data)
    except NotProtobuf:
        return
    named += [
        one.hex()
        for number in sorted(found)
        for one in found[number]
        if isinstance(one, bytes) and len(one) == _ID_BYTES
    ]


def _message(draft: SessionDraft, blob_id: str, data: bytes, *, branch: bool) -> Iterator[Event]:
    try:
        message = mapped(decode(data)[0])
    except NotJson as error:
        yield SkippedLine(draft.path, None, f"blob {blob_id}: {error}")
        return
    role = word(message.get("role"))
    if not role:
        draft.keep(message)
        return
    turn = Turn(role, rest_of(message, "role", "content", "id"))
    content = message.get("content")
    if role == "system" or (role == "user" and text_of(content).lstrip().startswith(_ADDED)):
        turn.metadata["injected"] = True
    for block in listed(content) or [content]:
        text = mapped(block).get("text") if mapped(block).get("type") == "text" else block
        asked = _QUERY.fullmatch(text) if role == "user" and isinstance(text, str) else None
        turn.take(asked[1] if asked else [block])
    if branch:
        turn.metadata["branch"] = True
    yield from turn.events(draft, id=blob_id)
