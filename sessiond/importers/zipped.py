"""An export as the ZIP file that people get from ChatGPT, Claude.ai or Google. It is read where it is: nothing is unpacked to a
disk, so the names of its members lead nowhere.
"""

from __future__ import annotations

import errno
import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from sessiond.importers.record import BUFFER_BYTES, Event, Importer, Opener, SkippedLine, open_source
from sessiond.limits import KIB, MIB

_MOST_MEMBERS = 2_000
_MOST_BYTES = 32_768 * MIB
_MOST_RATIO = 200
"""JSON is packed to a tenth of its size, rarely to a fiftieth. A larger member that claims more was made to do harm."""
_SMALL_BYTES = 64 * MIB
_HEAD_BYTES = 64 * KIB
_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
"""What `zipfile` raises for a damaged file, and for one that is packed in a way it does not know."""


class ArchiveRefused(Exception):
    """The ZIP file is not read. The text says why, and what to do."""


class DamagedArchive(OSError):
    """A member cannot be unpacked to its end."""


class Inside(NamedTuple):
    """The export in a ZIP file: whose it is, its members in the order of their names, and their bytes, packed."""

    tool: str
    members: list[zipfile.ZipInfo]

    @property
    def size(self) -> int:
        return sum(one.compress_size for one in self.members)


def look(path: str, importers: list[Importer]) -> Inside | None:
    """Find an export of one of these tools in the ZIP file, or return None. Raises Refused, OSError.

    The folder of the first member that an importer recognises counts, searched from the root down: files that somebody
    sent to the assistant lie deeper, and are not mistaken for an export.
    """
    with open_source(path) as raw, _opened(raw) as file:
        place, found, locked = None, Inside("", []), False
        for member in _candidates(file):
            folder = posixpath.dirname(member.filename)
            if place not in (None, folder):
                continue
            if member.flag_bits & 1:
                locked = True
                continue
            scores = {one.name: one.recognise(member.filename, _head(file, member)) for one in importers}
            tool = max(scores, key=lambda name: scores[name], default="")
            if scores.get(tool, 0) > 0 and found.tool in ("", tool):
                place, found = folder, Inside(tool, [*found.members, member])
    if locked and not found.members:
        raise ArchiveRefused("its files are encrypted; unpack it with its password, and import the folder")
    _check_size(found.members)
    return found if found.members else None


def read(importer: Importer, path: str, open_: Opener) -> Iterator[Event]:
    """The events of all members that the importer recognises, as of one source at `path`. Raises OSError."""
    try:
        inside = look(path, [importer])
    except ArchiveRefused as error:
        yield SkippedLine(path, None, str(error))
        return
    for member in inside.members if inside is not None else ():
        with open_(path) as raw, _opened(raw) as file:
            try:
                for event in importer.read(path, lambda _, file=file, member=member: _stream(file, member)):  # type: ignore[misc]
                    yield _named(event, member.filename)
            except DamagedArchive as error:
                yield SkippedLine(path, None, f"{member.filename}: {error.strerror}")


def _opened(raw: BinaryIO) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(raw)
    except _FAULTS as error:
        raise ArchiveRefused(f"a damaged ZIP file: {error}") from error


def _candidates(file: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the files that may be an export's, those nearest to the root first."""
    names = [
        one for one in file.infolist() if one.filename.lower().endswith(".json") and "__MACOSX/" not in one.filename
    ]
    return sorted(names, key=lambda one: (one.filename.count("/"), one.filename))[:_MOST_MEMBERS]


def _check_size(members: list[zipfile.ZipInfo]) -> None:
    """By the sizes that the ZIP file says; more than that is not read from a member."""
    for one in members:
        if one.file_size > max(_SMALL_BYTES, _MOST_RATIO * one.compress_size):
            raise ArchiveRefused(
                f"{one.filename} unpacks to {one.file_size:,} bytes of {one.compress_size:,}, which no export does"
            )
    total = sum(one.file_size for one in members)
    if total > _MOST_BYTES:
        raise ArchiveRefused(
            f"it unpacks to {total:,} bytes; at most {_MOST_BYTES:,} are read. Unpack it, and import the folder"
        )


def _head(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    try:
        with file.open(member) as stream:
            return stream.read(_HEAD_BYTES)
    except _FAULTS:
        return b""  # it may be any file; if it is the export, nothing else is found


def _stream(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_Member(file, member), BUFFER_BYTES))


class _Member(io.RawIOBase):
    """A member, unpacked while it is read. OSError if it is damaged."""

    def __init__(self, file: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        super().__init__()
        self._stream = _guarded(file.open, member)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return int(_guarded(self._stream.seek, offset, whence))

    def tell(self) -> int:
        return int(self._stream.tell())

    def readinto(self, buffer: Any) -> int:
        found = _guarded(self._stream.read, len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _guarded(call: Any, *arguments: object) -> Any:
    try:
        return call(*arguments)
    except _FAULTS as error:
        raise DamagedArchive(errno.EIO, f"damaged ZIP data: {error}") from error


def _named(event: Event, member: str) -> Event:
    """A word about a line says of which member."""
    return (
        msgspec.structs.replace(event, reason=f"{member}: {event.reason}") if isinstance(event, SkippedLine) else event
    )
