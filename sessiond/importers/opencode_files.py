"""opencode's sessions as files: what `opencode export` writes, and the folder `storage` of versions before 1.2."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from sessiond.importers.alone import alone
from sessiond.importers.came_from import came_from
from sessiond.importers.document import items, members
from sessiond.importers.draft import SessionDraft, suggest_id
from sessiond.importers.opencode_message import message_of
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import listed, mapped, rest_of, stem
from sessiond.model.values import JsonObject

TOOL = "opencode"
_ARRAYS = frozenset({"messages"})


def exported(path: str, open_: Opener) -> Iterator[Event]:
    """Read what `opencode export` writes: `{info, messages: [{info, parts}]}`."""
    info = mapped(members(path, open_, _ARRAYS).get("info"))
    draft = SessionDraft(TOOL, path, str(info.get("id") or stem(path)))
    yield _start(draft, info)
    for item in items(path, open_, _ARRAYS):
        if isinstance(item, SkippedLine):
            yield item
        elif item.element:
            entry = mapped(item.value)
            said = _of_document(draft, mapped(entry.get("info")), map(mapped, listed(entry.get("parts"))))
            yield from alone(path, "this message", said, item.line)
    yield from draft.end()


def stored_in(path: str) -> str | None:
    """The `storage` folder of a session's file (`storage/session/PROJECT/ID.json`), which versions before 1.2 wrote."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    storage = os.path.dirname(folder)
    there = os.path.basename(folder) == "session" and os.path.isdir(os.path.join(storage, "message"))
    return storage if there else None


def stored(path: str, open_: Opener) -> Iterator[Event]:
    """A file for each session, each message (`message/SESSION/ID.json`) and each part (`part/MESSAGE/ID.json`)."""
    storage = stored_in(path) or ""
    info = members(path, open_, frozenset())
    draft = SessionDraft(TOOL, path, str(info.get("id") or stem(path)))
    yield _start(draft, info)
    for message in _files(os.path.join(storage, "message", stem(path))):
        parts = (members(part, open_, frozenset()) for part in _files(os.path.join(storage, "part", stem(message))))
        yield from alone(message, "this message", _of_document(draft, members(message, open_, frozenset()), parts))
    yield from draft.end()


def _files(folder: str) -> list[str]:
    """The JSON files of a folder in the order of their ids, which is that of time."""
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    except OSError:
        return []


def _start(draft: SessionDraft, info: JsonObject) -> Event:
    times = mapped(info.get("time"))
    parent = info.get("parentID")
    return draft.start(
        name=info.get("title"),
        cwd=info.get("directory"),
        createdAt=times.get("created"),
        updatedAt=times.get("updated"),
        archived=bool(times.get("archived")),
        parent=(
            {"sessionId": suggest_id(TOOL, parent), "seq": None}
            if isinstance(parent, str)
            else came_from(info.get("metadata"))
        ),
        metadata=rest_of(info, "id", "parentID", "title", "directory", "time")
        | ({"sidechain": True} if isinstance(parent, str) else {})
        | ({"time_archived": times["archived"]} if times.get("archived") else {}),
    )


def _of_document(draft: SessionDraft, about: JsonObject, parts: Iterable[JsonObject]) -> Iterator[Event]:
    """A message and its parts, whose ids, and those of what they belong to, are in the objects themselves."""
    own = {key: value for key, value in about.items() if key != "sessionID"}
    listed_parts: list[tuple[str, object]] = []
    for part in parts:
        rest = {key: value for key, value in part.items() if key not in ("id", "messageID", "sessionID")}
        listed_parts.append((str(part.get("id") or ""), rest))
    yield from message_of(draft, own, mapped(about.get("time")).get("created"), listed_parts)
