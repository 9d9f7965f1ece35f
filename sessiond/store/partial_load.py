"""Examines the files of large sessions in part: reads their end before the whole, searches them for ids, and checks them without
keeping them.

docs/decisions/0017-a-large-session-is-glanced-at-first.md
docs/decisions/0079-a-large-session-is-shortened.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sessiond.formats.base import Decoded
from sessiond.formats.sidecar import sidecar_path
from sessiond.limits import MIB, Limits
from sessiond.model.session import AbsentIds
from sessiond.store.corruption import apart
from sessiond.store.files import FilesSnapshot, Print, StoreFiles

_MOST_IDS = 4
"""Searching the file for more ids takes as long as reading all of it."""
_CHUNK_BYTES = 1 * MIB
_PLAIN = re.compile(r"[A-Za-z0-9_.:+@=~-]+")
"""Ids that are in a file unescaped, whichever program wrote it."""


def glance_at(
    files: StoreFiles, limits: Limits, local_id: str, pending_from: int | None
) -> tuple[FilesSnapshot, Decoded] | None:
    """The session according to its sidecar and the end of its file, with messages absent; None if it must be read
    completely.

    `pending_from`: seq of the first change that the journal still has. Blocks.
    """
    partial = files.format.abilities.partial_load
    read = (
        files.read_end(local_id, limits.glanced_file_bytes, limits.glanced_end_bytes) if partial is not None else None
    )
    if partial is None or read is None:
        return None
    snapshot, end = read
    main, side = files.format.main_path(local_id), sidecar_path(local_id)
    if apart(snapshot.prints[main], snapshot.prints.get(side)):
        return None
    decoded = partial.load(local_id, snapshot.files.get(side), snapshot.prints[main][1], end, pending_from)
    return None if decoded is None else (snapshot, decoded)


def check(files: StoreFiles, local_id: str, expected: Mapping[str, Print], before: int) -> AbsentIds | None:
    """The ids of all messages with a seq below `before`, if the files are the `expected` versions and a sound main file. Blocks."""
    partial, main = files.format.abilities.partial_load, files.format.main_path(local_id)
    if partial is None or files.prints(local_id) != expected:
        return None
    passing = partial.check(files.read_side(local_id).get(sidecar_path(local_id)))
    path, offset, size = files.path(main), 0, expected[main][1]

    def ids() -> Iterator[str]:
        nonlocal offset
        while part := files.fs.read(path, offset, min(_CHUNK_BYTES, size - offset)):
            offset += len(part)
            yield from passing.take(part, before)

    try:
        found = AbsentIds(ids())
    except ValueError:
        return None
    same = passing.agrees and offset == size and files.prints(local_id) == expected
    return found if same else None


def lacks(files: StoreFiles, main: str, expected: Print | None, message_ids: Sequence[str]) -> bool:
    """Return whether a search proves that no message with one of these ids is in a file. Blocks."""
    if not (len(message_ids) <= _MOST_IDS and all(map(_PLAIN.fullmatch, message_ids))):
        return False
    return _lacks(files, main, expected, [f'"{one}"'.encode() for one in message_ids])


def _lacks(files: StoreFiles, relative: str, expected: Print | None, needles: Sequence[bytes]) -> bool:
    """Return whether none of `needles` is in a file, and the file is the `expected` version."""
    overlap = max(map(len, needles)) - 1
    offset, rest = 0, b""
    if expected is None or files.print_of(relative) != expected:
        return False
    path = files.path(relative)
    while chunk := files.fs.read(path, offset, min(_CHUNK_BYTES, expected[1] - offset)):
        offset += len(chunk)
        if any(needle in part for needle in needles for part in (rest + chunk[:overlap], chunk)):
            return False
        rest = chunk[-overlap:] if overlap else b""
    return offset == expected[1] and files.print_of(relative) == expected
