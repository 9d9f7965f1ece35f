"""The parts that the importers of whole documents share: a file's name and time, the files next to it, and a reader of its records."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from sessiond.importers.bytestream import utf8
from sessiond.importers.document import items, members
from sessiond.importers.draft import moment, suggest_id
from sessiond.importers.lines import LineReader, fed
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.model.values import JsonObject

_NO_ARRAYS: frozenset[str] = frozenset()


def stem(path: str) -> str:
    """The file's name without its folder and its last suffix."""
    return os.path.splitext(os.path.basename(path))[0]


def folder_name(path: str) -> str:
    """The name of the folder that the file is in."""
    return os.path.basename(os.path.dirname(os.path.abspath(path)))


def written_at(path: str) -> str | None:
    """Return when the file was last written: the best guess for a source without times."""
    try:
        return moment(os.stat(path).st_mtime)
    except OSError:
        return None


def path_of(uri: object) -> str | None:
    """The path that a `file:` URI, or a plain path, names."""
    if not isinstance(uri, str) or not uri:
        return None
    return unquote(urlsplit(uri).path) if uri.startswith("file:") else uri


def beside(path: str, name: str, open_: Opener) -> JsonObject:
    """The JSON object in a small file next to this one; empty if there is none."""
    other = os.path.join(os.path.dirname(os.path.abspath(path)), name)
    return members(other, open_, _NO_ARRAYS) if os.path.isfile(other) else {}


def rest_of(record: JsonObject, *used: str) -> JsonObject:
    """The fields of a record that were not used and that say something."""
    return {key: value for key, value in record.items() if key not in used and value not in (None, "", [], {})}


def without(record: JsonObject, *used: str) -> JsonObject:
    """A copy of a record without these fields. Quicker than a comprehension where nearly all fields remain."""
    rest = record.copy()
    for key in used:
        rest.pop(key, None)
    return rest


def parent_of(tool: str, source_id: object) -> JsonObject | None:
    """The `parent` of a session, from the id that the tool's record gives; None if it gives none."""
    if not isinstance(source_id, str) or not source_id:
        return None
    return {"sessionId": suggest_id(tool, source_id), "seq": None}


def listed(value: object) -> list[Any]:
    """A value that should be a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def mapped(value: object) -> JsonObject:
    """A value that should be an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def word(value: object) -> str:
    """A value that should be a text, such as a kind; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def read_records(make: Callable[[JsonObject], LineReader], path: str, open_: Opener, *arrays: str) -> Iterator[Event]:
    """A complete `read` for a JSON document: passes each object of `arrays` (or of a root array) to the reader that `make`
    returns for the document's other members, and what was skipped to the caller.
    """
    names = frozenset(arrays)
    reader = make(members(path, open_, names))
    for item in items(path, open_, names):
        if isinstance(item, SkippedLine):
            yield item
        elif item.element and isinstance(item.value, dict):
            yield from fed(reader, path, item.line, item.value)
        elif item.element:
            yield SkippedLine(path, item.line, f"an element{_of(item.key)} that is not an object")
    yield from reader.end()


def _of(key: str | None) -> str:
    return f" of `{key}`" if key else ""


def conversations(path: str, open_: Opener, mark: str) -> Iterator[tuple[int, JsonObject] | SkippedLine]:
    """The conversations of a JSON document, with their lines: each object in its root array, or the root object itself. An
    object without the member `mark` is reported.
    """
    single: JsonObject = {}
    for item in items(path, open_, _NO_ARRAYS):
        if isinstance(item, SkippedLine):
            yield item
        elif not item.element:
            single[item.member] = item.value
        elif isinstance(item.value, dict) and mark in item.value:
            yield item.line, item.value
        else:
            yield SkippedLine(path, item.line, f"not a conversation: it has no {mark}")
    if mark in single:
        yield 1, single


def read_text(path: str, open_: Opener) -> Generator[SkippedLine, None, str]:
    """The whole text of a file; reports bytes that had to be replaced."""
    with utf8(path, open_) as file:
        raw = file.read()
    text = raw.decode("utf-8", "replace")
    if "\ufffd" in text and "\ufffd".encode() not in raw:
        yield SkippedLine(path, None, "replaced bytes that are not valid UTF-8", taken=True)
    return text.replace("\r\n", "\n")
