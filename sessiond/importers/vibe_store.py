"""Mistral Vibe 3's store: `CURRENT` names a generation, whose manifest names the chunks with the history; the journal's
segments hold the changes since then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from typing import Any, TypeAlias

from sessiond.importers.alone import alone, step
from sessiond.importers.document import items
from sessiond.importers.draft import SessionDraft
from sessiond.importers.lines import objects
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import beside, listed, mapped, rest_of, word
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_NAME = re.compile(r"[0-9a-zA-Z_-]+")
"""Names in the store's files are used as names of files, so they must not lead elsewhere."""
_Entries: TypeAlias = dict[str, JsonObject]
"""By id, in the order in which they came."""
_JOURNAL = frozenset({"projection_delta", "command_reserved"})
_USED = ("id", "type", "role", "content", "text", "summary", "createdAt", "sessionId", "detail", "state", "title")


def read_store(draft: SessionDraft, path: str, open_: Opener, start: Event) -> Iterator[Event]:
    """The session of the store whose `meta.json` is at `path`. `start`: its first event."""
    yield start
    entries = yield from _snapshot(path, open_)
    yield from _replay(draft, path, open_, entries)
    for entry in entries.values():
        yield from alone(path, f"entry {entry.get('id')}", _entry(draft, entry))
    yield from draft.end()


def _snapshot(path: str, open_: Opener) -> Generator[Event, None, _Entries]:
    """The entries of the history when the newest generation was written."""
    entries: _Entries = {}
    generation = str(beside(path, "CURRENT", open_).get("generation"))
    if not _NAME.fullmatch(generation):
        yield SkippedLine(path, None, "`CURRENT` does not name a generation")
        return entries
    state = beside(path, f"generations/{generation}/manifest.json", open_).get("projection_state")
    for chunk in listed(mapped(state).get("chunks")):
        file = os.path.join(os.path.dirname(path), "chunks", f"{chunk}.json")
        if not _NAME.fullmatch(str(chunk)) or not os.path.isfile(file):
            yield SkippedLine(path, None, f"there is no chunk {chunk}")
            continue
        for item in items(file, open_, frozenset()):
            if isinstance(item, SkippedLine):
                yield item
            else:
                yield from alone(file, "this entry", step(_put, entries, item.value), item.line)
    return entries


def _replay(draft: SessionDraft, path: str, open_: Opener, entries: _Entries) -> Iterator[Event]:
    """Apply the journal's changes to the history. Those that the generation already has are applied again, to no effect."""
    folder = os.path.join(os.path.dirname(path), "journal")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        file = os.path.join(folder, name)
        for item in objects(file, open_):
            if isinstance(item, SkippedLine):
                yield item
            else:
                yield from alone(file, "this record", _record(draft, file, entries, *item), item[0])


def _record(draft: SessionDraft, file: str, entries: _Entries, line: int, record: JsonObject) -> Iterator[Event]:
    if word(record.get("type")) not in _JOURNAL:
        draft.unknown(record.get("type"))
    for change in listed(mapped(record.get("payload")).get("delta")):
        yield from alone(file, "a change in this record", step(_apply, draft, entries, change), line)


def _apply(draft: SessionDraft, entries: _Entries, change: Any) -> None:
    """Entries that the journal removes are kept: an import loses nothing."""
    op = mapped(change).get("op")
    if op in ("append_entry", "replace_entry"):
        _put(entries, change.get("entry"))
    elif op == "set_history_entries" and isinstance(change.get("entries"), list):
        for entry in change["entries"]:
            _put(entries, entry)
    elif op != "remove_entry":
        draft.unknown(f"delta {op}")


def _put(entries: _Entries, entry: object) -> None:
    if isinstance(entry, dict):
        entries[str(entry.get("id"))] = entry


def _entry(draft: SessionDraft, entry: JsonObject) -> Iterator[Event]:
    kind = entry.get("type")
    turn = Turn(str(entry.get("role") or "assistant"), rest_of(entry, *_USED))
    if kind == "message":
        turn.take(entry.get("content"))
    elif kind == "reasoning":
        turn.think(entry.get("text") or "\n\n".join(map(str, listed(entry.get("summary")))))
    elif kind == "effect":
        _take_effect(turn, entry)
    else:
        turn = Turn("system", {"record": entry})
    yield from turn.events(draft, id=entry.get("id"), time=entry.get("createdAt"))


def _take_effect(turn: Turn, entry: JsonObject) -> None:
    """A call of a tool, and what it gave."""
    given, known = entry.get("detail"), entry.get("state")
    detail = mapped(given)
    state = mapped(known)
    call_id = entry.get("id")
    turn.call(call_id, detail.get("toolName") or entry.get("title"), detail.get("input"))
    turn.metadata |= rest_of(detail, "toolName", "input", "display")
    output = state.get("output")
    if isinstance(output, dict):
        shown = output.get("content") or output.get("structured_content") or state.get("outputText") or ""
        more: JsonObject = {"state": rest} if (rest := rest_of(state, "output", "outputText", "display")) else {}
        turn.result(call_id, shown, more, error=output.get("type") not in ("success", None))
    elif state:
        turn.metadata["state"] = rest_of(state, "display")
