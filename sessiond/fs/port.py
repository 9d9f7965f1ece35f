"""What the rest of the program may ask of the operating system, and what it may rely on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import msgspec


class DiskFailed(OSError):
    """A sync failed, or what a failed write left behind could not be cut off: what is on the disk is unknown.

    Final for the file in question. A second sync may well succeed and mean nothing: the kernel has dropped the pages by
    then. Any other OSError of this module means that nothing of the call is there.
    """


class Linked(OSError):
    """Below a confined folder there is a link where a folder or a file of ours should be. Nothing was done. `filename` is the link."""


class Stat(msgspec.Struct, frozen=True):
    """Of the file that a path leads to (links followed). Times in nanoseconds, size in bytes."""

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
    """Only `look` can say so."""


class LogFile(Protocol):
    """An append-only file under one writer (the journal's thread)."""

    @property
    def size(self) -> int:
        """Bytes that were written, those of a write that failed halfway included. The file may be longer by zeros."""

    def write(self, data: bytes) -> None:
        """Append all of `data`, over as many write calls as it takes. After an OSError part of it may be there."""

    def sync(self) -> None:
        """fdatasync. DiskFailed: nothing that was written since the last success may be trusted, ever."""

    def reserve(self, size: int) -> None:
        """Write zeros till the file is so long, and sync them: a sync of what takes their place has no metadata to record. OSError:
        the file is as it was. DiskFailed.
        """

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Hint(Protocol):
    """A few bytes that are replaced over and over. Unless they are synced they survive the process, perhaps not the machine."""

    def put(self, data: bytes) -> None:
        """In the place of what was there, in one write; always of the same length. OSError: anything may be there."""

    def sync(self) -> None:
        """From now on nothing older is there. DiskFailed."""

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class FileSystem(Protocol):
    """Paths are absolute strings. Only regular files and folders are touched; nothing blocks on a FIFO."""

    def confine(self, root: str, inner: str = "") -> None:
        """From now on nothing is changed below `root` (or below `root/inner`) by way of a link: Linked. `root` itself may be
        one. Reading follows links as before.
        """

    def hold(self, root: str) -> AbstractContextManager[None]:
        """Until this ends, this thread reads and changes what is below `root` in the folder that is there now, whatever takes its
        place. OSError if `root` cannot be opened. This does not hold `list_dir`, `is_link`, `real_path` and locks.
        """

    def stat(self, path: str) -> Stat | None:
        """None if there is nothing (a dangling link is nothing)."""

    def look(self, path: str) -> Stat | None:
        """As `stat`, but of a link itself, not of what it leads to. None where the name is free."""

    def has_name(self, path: str) -> bool:
        """Whether the name is taken, be it by a link that leads nowhere."""

    def is_link(self, path: str) -> bool:
        """Whether the name itself is a symbolic link."""

    def list_dir(self, path: str) -> list[str]:
        """The names in a folder, in no order. FileNotFoundError if there is none."""

    def real_path(self, path: str) -> str:
        """Where links lead; the path itself where nothing is there yet."""

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        """Up to `size` bytes (-1: all) of a regular file. For anything else IsADirectoryError or OSError(EINVAL)."""

    def make_dirs(self, path: str, mode: int = 0o700) -> None:
        """A folder with its parents, durably: each new one, and the one that was there, is synced into its own parent."""

    def create(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        """A new file (O_EXCL, O_NOFOLLOW) with `data`, itself synced, the folder not; nothing is left of it on failure.
        FileExistsError if the name is taken, be it by a dangling link."""

    def append(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        """Bytes at the end of a file (links followed, but for confined folders), then fdatasync. A file that was not there is made with `mode`
        and its folder synced. After a failed write what was written is cut off again; DiskFailed where that fails, or
        where somebody else has written behind it."""

    def replace(self, source: str, target: str) -> None:
        """Rename over `target`. Durable only after `sync_dir`."""

    def link(self, source: str, target: str) -> None:
        """A second name for a file. FileExistsError if taken. Durable only after `sync_dir`."""

    def remove(self, path: str) -> None:
        """Durable only after `sync_dir`."""

    def remove_dir(self, path: str) -> None:
        """An empty folder."""

    def sync_dir(self, path: str) -> None:
        """Make the names in a folder durable. DiskFailed."""

    def open_log(self, path: str, mode: int = 0o600) -> LogFile:
        """For appending; made if it is not there (then the folder must be synced by the caller)."""

    def open_hint(self, path: str, mode: int = 0o600) -> Hint:
        """Made if it is not there; its name is not synced either."""

    def lock(self, path: str) -> Lock:
        """An exclusive flock on a file that is made if needed, held until released or the process ends.
        BlockingIOError if another has it."""

    def free_bytes(self, path: str) -> int:
        """What an ordinary user may still write to the file system that holds `path`."""
