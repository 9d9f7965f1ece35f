"""Everything that the rest of the program may ask the operating system for, and what it may rely on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import msgspec


class DiskFailed(OSError):
    """A sync failed, or the remains of a failed write could not be cut off: the state of the disk is unknown.

    Final for the file in question. A second sync may well succeed and mean nothing: the kernel has dropped the pages by
    then. Any other OSError of this module means that the call had no effect.
    """


class Linked(OSError):
    """Below a confined folder there is a link where a folder or a file of ours should be. Nothing was done. `filename` is the link."""


class Stat(msgspec.Struct, frozen=True):
    """The file that a path leads to (links followed). Times in nanoseconds, size in bytes."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    mode: int
    uid: int
    nlink: int
    is_file: bool
    is_dir: bool
    is_link: bool = False
    """Only `look` sets this."""


class LogFile(Protocol):
    """An append-only file with one writer (the journal's thread)."""

    @property
    def size(self) -> int:
        """Bytes that were written, including those of a write that failed halfway. The file may be longer, with zeros."""

    def write(self, data: bytes) -> None:
        """Append all of `data`, with as many write calls as necessary. After an OSError part of it may be there."""

    def sync(self) -> None:
        """fdatasync. DiskFailed: what was written since the last success must never be trusted, or the file was removed."""

    def reserve(self, size: int) -> None:
        """Write zeros until the file has this size, and sync them: a sync of what replaces them has no metadata to record.
        OSError: the file is as it was. DiskFailed.
        """

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Hint(Protocol):
    """A few bytes that are replaced over and over. Unless synced, they survive the process, but perhaps not a crash of the machine."""

    def put(self, data: bytes) -> None:
        """Replace the content in one write; always of the same length. OSError: anything may be there."""

    def sync(self) -> None:
        """Afterwards the content on the disk is not older than this. DiskFailed."""

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class FileSystem(Protocol):
    """Paths are absolute strings. Only regular files and folders are touched; nothing blocks on a FIFO."""

    def confine(self, root: str, inner: str = "") -> None:
        """From now on nothing is changed through a link below `root` (or below `root/inner`): Linked. `root` itself may be
        one. Reading follows links as before.
        """

    def hold(self, root: str) -> AbstractContextManager[None]:
        """Until this ends, this thread's calls below `root` go to the folder that is there now, even if it is replaced.
        OSError if `root` cannot be opened. Does not apply to `list_dir`, `is_link`, `real_path` and locks.
        """

    def stat(self, path: str) -> Stat | None:
        """None if it does not exist (a dangling link does not count)."""

    def look(self, path: str) -> Stat | None:
        """Like `stat`, but for a link itself, not its target. None if the name is free."""

    def has_name(self, path: str) -> bool:
        """Return whether the name is taken, even by a dangling link."""

    def is_link(self, path: str) -> bool:
        """Return whether the name itself is a symbolic link."""

    def list_dir(self, path: str) -> list[str]:
        """The names in a folder, in any order. FileNotFoundError if it does not exist."""

    def real_path(self, path: str) -> str:
        """The path with links resolved; the path itself if nothing is there yet."""

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        """Up to `size` bytes (-1: all) of a regular file. For anything else IsADirectoryError or OSError(EINVAL)."""

    def make_dirs(self, path: str, mode: int = 0o700) -> None:
        """Create a folder with its parents, durably: each new one, and the existing one, is synced into its own parent."""

    def create(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        """Create a file (O_EXCL, O_NOFOLLOW) with `data`; the file is synced, the folder is not; on failure nothing is left
        of it. FileExistsError if the name is taken, even by a dangling link.
        """

    def append(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        """Append bytes to a file (links followed, except in confined folders), then fdatasync. A missing file is created
        with `mode` and its folder synced. After a failed write the written part is cut off again; DiskFailed if that fails,
        or if another program has written after it.
        """

    def replace(self, source: str, target: str) -> None:
        """Rename over `target`. Durable only after `sync_dir`."""

    def link(self, source: str, target: str) -> None:
        """Give a file a second name. FileExistsError if it is taken. Durable only after `sync_dir`."""

    def remove(self, path: str) -> None:
        """Durable only after `sync_dir`."""

    def remove_dir(self, path: str) -> None:
        """Remove an empty folder."""

    def sync_dir(self, path: str) -> None:
        """Make the names in a folder durable. DiskFailed."""

    def open_log(self, path: str, mode: int = 0o600) -> LogFile:
        """Open for appending; created if missing (then the caller must sync the folder)."""

    def open_hint(self, path: str, mode: int = 0o600) -> Hint:
        """Open; created if missing, without syncing its name."""

    def lock(self, path: str) -> Lock:
        """An exclusive flock on a file that is created if needed, held until released or the process ends. BlockingIOError
        if another has it.
        """

    def free_bytes(self, path: str) -> int:
        """Bytes that an ordinary user may still write to the file system of `path`."""
