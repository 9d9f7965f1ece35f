"""The sessions of a file in the native format. An export of several sessions is their files in a row, and each header
begins the next session.
"""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from sessiond.formats.shared_line import whole_records
from sessiond.importers.record import Opener
from sessiond.model.values import JsonObject, is_session_id

_BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode


class SessionLines(msgspec.Struct, frozen=True):
    """`content`: whole lines of one session. `line`: number of the first one in the file, from 1. `local_id`: None if the
    header is missing or has no valid session id.
    """

    local_id: str | None
    line: int
    content: bytes


def sections(path: str, open_: Opener) -> Generator[SessionLines, None, None]:
    """One session at a time, so a file costs no more memory than its largest session. Raises OSError.

    Lines before the first header belong to its session. A header that names the current session again does not begin another.
    """
    held: list[bytes] = []
    began, header = 1, None
    with open_(path) as file:
        for number, line in ((number, piece) for number, whole in enumerate(file, 1) for piece in _apart(whole)):
            found = _header(line)
            if found is not None and header is not None and not _same(found, header):
                content = b"".join(held)
                held.clear()  # so that only the section itself is in memory while the caller works on it
                yield SessionLines(_id_of(header), began, content)
                began, header = number, None
                del content
            held.append(line)
            header = header or found
    yield SessionLines(_id_of(header), began, b"".join(held))


def _apart(line: bytes) -> list[bytes]:
    """The line, in two if it is the last line of a session and, without a line end between them, the header of the next."""
    if b'"sessiond"' not in line or _header(line) is not None:
        return [line]
    at = next((start for start, end in whole_records(line) if start and _header(line[start:end]) is not None), None)
    return [line] if at is None else [line[:at] + b"\n", *_apart(line[at:])]


def _header(line: bytes) -> JsonObject | None:
    """The content of a header line; None for any other line."""
    if b'"sessiond"' not in line:  # inside a text the quotation marks would be escaped
        return None
    try:
        value = _decode(line.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(value, dict) or "sessiond" not in value or value.keys() & {"role", "change"}:
        return None
    return value


def _same(header: JsonObject, other: JsonObject) -> bool:
    return _id_of(header) is not None and _id_of(header) == _id_of(other)


def _id_of(header: JsonObject | None) -> str | None:
    found = None if header is None else header.get("id")
    return found if isinstance(found, str) and is_session_id(found) else None
