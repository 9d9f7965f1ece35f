"""Turns sessiond's own JSON export (`{session, messages, notes, state}`) into lines of the native format for its reader,
so that both lossless exports are imported the same way, with the same checks.
"""

from __future__ import annotations

import re
from collections.abc import Generator

import msgspec

from sessiond.importers.document import DocumentItem, Root, roots
from sessiond.importers.record import Opener, SkippedLine
from sessiond.model.session import UPDATABLE
from sessiond.model.values import JsonObject, is_session_id

HEAD_BYTES = 16 * 1024
"""How much of a file `is_export` needs: the members that it looks for come before any that may be long."""
_ARRAYS = frozenset({"messages", "notes"})
_BEGINNING = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*"session"\s*:\s*\{\s*"sessionId"\s*:\s*"')
_OTHERS = (b'"createdAt"', b'"updatedAt"', b'"messageCount"')
_encode = msgspec.json.Encoder().encode


class ExportedSection(msgspec.Struct, frozen=True):
    """`content`: lines of the native format. `places`: the source line of each of them. `line`: where the document, or its
    session info, begins. `local_id`: None if the document has no valid session id.
    """

    local_id: str | None
    line: int
    content: bytes
    places: list[int]
    problems: list[SkippedLine]

    def place(self, line: int | None) -> int | None:
        """The file's line for a line of `content`, both counted from 1."""
        return None if line is None else self.places[line - 1]


def is_export(head: bytes) -> bool:
    """`head`: the first bytes of a file."""
    return _BEGINNING.match(head) is not None and all(member in head for member in _OTHERS)


def read(path: str, open_: Opener) -> Generator[ExportedSection, None, None]:
    """Each document of the file, with one at a time in memory. A file has one document, or several in an array or one
    after the other. Damaged parts are left out and reported. Raises OSError.
    """
    reading: _Document | None = None
    strays: list[SkippedLine] = []
    for item in roots(path, open_, _ARRAYS):
        if isinstance(item, Root):
            if reading is not None:
                yield reading.finish()
            reading = _Document(path, item.line, strays)
            strays = []
        elif reading is not None:
            reading.take(item)
        elif isinstance(item, SkippedLine):
            strays.append(item)
    yield (reading or _Document(path, 1, strays)).finish()


class _Document:
    """One session while its document is being read. `problems`: what was skipped before it."""

    def __init__(self, path: str, line: int, problems: list[SkippedLine]) -> None:
        self._path = path
        self._began = line
        self._problems = problems
        self._lines: list[tuple[int, JsonObject]] = []
        self._info: JsonObject = {}
        self._state: DocumentItem | None = None

    def take(self, item: DocumentItem | SkippedLine) -> None:
        if isinstance(item, SkippedLine):
            self._problems.append(item)
        elif item.element and item.key == "messages" and isinstance(item.value, dict) and "role" in item.value:
            self._lines.append((item.line, item.value))
        elif item.element and item.key == "notes" and isinstance(item.value, dict):
            note = item.value
            line = {"change": "note", "seq": note.get("seq"), "at": note.get("timestamp"), "note": note}
            self._lines.append((item.line, line))
        elif item.key == "session" and isinstance(item.value, dict):
            self._info, self._began = item.value, item.line
        elif item.key == "state":
            self._state = item
        else:
            self._problems.append(SkippedLine(self._path, item.line, f"not part of a session: {item.key}"))

    def finish(self) -> ExportedSection:
        info, began, lines = self._info, self._began, self._lines
        local_id, seq, at = _local_id(info), info.get("seq", 0), info.get("updatedAt")
        header = {"sessiond": 1, "id": local_id, "createdAt": info.get("createdAt")}
        header |= {key: info[key] for key in UPDATABLE if key in info}
        lines.insert(0, (began, header))
        if self._state is not None and self._state.value:
            values = {"change": "state", "seq": seq, "at": at, "values": self._state.value}
            lines.append((self._state.line, values))
        # Last, because it describes the session after all the other lines.
        lines.append((began, {"change": "base", "seq": seq, "updatedAt": at}))
        content = b"".join(_encode(value) + b"\n" for _, value in lines)
        return ExportedSection(local_id, began, content, [line for line, _ in lines], self._problems)


def _local_id(info: JsonObject) -> str | None:
    found = info.get("sessionId")
    return found if isinstance(found, str) and is_session_id(found) else None
