"""sessiond's own JSON export (`{session, messages, notes, state}`) as lines of the native format, which its reader then
reads: one way in, with the same checks, for both exports that keep everything.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from sessiond.importers.document import Item, items
from sessiond.importers.record import Opener, SkippedLine
from sessiond.model.session import UPDATABLE
from sessiond.model.values import is_session_id

HEAD_BYTES = 16 * 1024
"""Of a file, enough for `is_export`: the members that it looks for stand before any that may be long."""
_ARRAYS = frozenset({"messages", "notes"})
_BEGINNING = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"session"\s*:\s*\{\s*"sessionId"\s*:\s*"')
_OTHERS = (b'"createdAt"', b'"updatedAt"', b'"messageCount"')
_encode = msgspec.json.Encoder().encode


class Exported(msgspec.Struct, frozen=True):
    """`content`: lines of the native format. `places`: for each of them the line of the document that it came from.
    `local_id`: None where the document names none that is a session id.
    """

    local_id: str | None
    content: bytes
    places: list[int]
    problems: list[SkippedLine]

    def place(self, line: int | None) -> int | None:
        """The document's line for one of `content`, both counted from 1."""
        return None if line is None else self.places[line - 1]


def is_export(head: bytes) -> bool:
    """`head`: the first bytes of a file."""
    return _BEGINNING.match(head) is not None and all(member in head for member in _OTHERS)


def read(path: str, open_: Opener) -> Exported:
    """The whole document, in memory. What of it is damaged is left out and told. Raises OSError."""
    lines: list[tuple[int, dict[str, Any]]] = []
    problems: list[SkippedLine] = []
    info: dict[str, Any] = {}
    began = 1
    state: Item | None = None
    for item in items(path, open_, _ARRAYS):
        if isinstance(item, SkippedLine):
            problems.append(item)
        elif item.element and item.key == "messages" and isinstance(item.value, dict) and "role" in item.value:
            lines.append((item.line, item.value))
        elif item.element and item.key == "notes" and isinstance(item.value, dict):
            note = item.value
            lines.append(
                (item.line, {"change": "note", "seq": note.get("seq"), "at": note.get("timestamp"), "note": note})
            )
        elif item.key == "session" and isinstance(item.value, dict):
            info, began = item.value, item.line
        elif item.key == "state":
            state = item
        else:
            problems.append(SkippedLine(path, item.line, f"no part of a session: {item.key}"))
    local_id, seq, at = _local_id(info), info.get("seq", 0), info.get("updatedAt")
    header = {"sessiond": 1, "id": local_id, "createdAt": info.get("createdAt")}
    header |= {key: info[key] for key in UPDATABLE if key in info}
    lines.insert(0, (began, header))
    if state is not None and state.value:
        lines.append((state.line, {"change": "state", "seq": seq, "at": at, "values": state.value}))
    # Last, because it says how the session was when all of the others had been said.
    lines.append((began, {"change": "base", "seq": seq, "updatedAt": at}))
    content = b"".join(_encode(value) + b"\n" for _, value in lines)
    return Exported(local_id, content, [line for line, _ in lines], problems)


def _local_id(info: dict[str, Any]) -> str | None:
    found = info.get("sessionId")
    return found if isinstance(found, str) and is_session_id(found) else None
