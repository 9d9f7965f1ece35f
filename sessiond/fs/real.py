"""The real disk. Python itself repeats system calls that a signal interrupts (PEP 475)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat as statmod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from sessiond.fs.confined import Confinement
from sessiond.fs.group_sync import GroupSync
from sessiond.fs.port import DiskFailed, Stat

_BASE = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # O_NONBLOCK: opening a FIFO or a device returns at once
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class RealFileSystem:
    def __init__(self) -> None:
        self._confined = Confinement()
        self._sync_dir_together = GroupSync()

    def confine(self, root: str, inner: str = "") -> None:
        self._confined.add(root, inner)

    def hold(self, root: str) -> AbstractContextManager[None]:
        return self._confined.hold(root)

    def stat(self, path: str) -> Stat | None:
        name, folder = self._confined.held(path)
        try:
            return _stat_of(os.stat(name, dir_fd=folder))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link to itself is dangling too
                return None
            raise

    def look(self, path: str) -> Stat | None:
        name, folder = self._confined.held(path)
        try:
            return _stat_of(os.lstat(name, dir_fd=folder))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def has_name(self, path: str) -> bool:
        name, folder = self._confined.held(path)
        try:
            os.lstat(name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_link(self, path: str) -> bool:
        return os.path.islink(path)

    def list_dir(self, path: str) -> list[str]:
        return os.listdir(path)

    def real_path(self, path: str) -> str:
        return os.path.realpath(path)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        name, folder = self._confined.held(path)
        with _opened(name, os.O_RDONLY, folder) as fd:
            wanted = _regular(fd, path).st_size - offset if size < 0 else size
            parts: list[bytes] = []
            while wanted > 0 and (part := os.pread(fd, wanted, offset)):
                parts.append(part)
                offset += len(part)
                wanted -= len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)

    def make_dirs(self, path: str, mode: int = 0o700) -> None:
        missing: list[str] = []
        while not self._is_dir(path):
            missing.append(path)
            path = os.path.dirname(path)
        with contextlib.suppress(PermissionError):  # of a parent that others created, so it is old
            # A process that was killed right after it created this one has not synced it.
            self.sync_dir(os.path.dirname(path))
        for folder in reversed(missing):
            self._confined.forget(folder)
            # Suppressed: another process was faster; if it is not a folder the next step raises.
            with contextlib.suppress(FileExistsError), self._confined.at(folder) as (name, fd):
                os.mkdir(name, mode, dir_fd=fd)
            if not self._is_dir(folder):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
            self.sync_dir(os.path.dirname(folder))

    def _is_dir(self, path: str) -> bool:
        name, folder = self._confined.held(path)
        try:
            return statmod.S_ISDIR(os.stat(name, dir_fd=folder).st_mode)
        except OSError:
            return False

    def create(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        with self._confined.at(path) as (name, folder):
            fd = os.open(name, _BASE | os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            try:
                os.fchmod(fd, mode)  # exact, whatever the umask is: an adopted file keeps its mode
                _write_all(fd, data)
                _sync_file(fd, path)
                return _stat_of(os.fstat(fd))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)
                raise
            finally:
                os.close(fd)

    def append(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        try:
            flags = os.O_WRONLY | os.O_APPEND | self._confined.flag(path)
            with self._confined.at(path) as (name, folder), _opened(name, flags, folder) as fd:
                return _append_all(fd, path, data)
        except FileNotFoundError:
            stat = self.create(path, data, mode)  # O_EXCL: a dangling link is not written through
            self.sync_dir(os.path.dirname(path))
            return stat

    def replace(self, source: str, target: str) -> None:
        self._confined.forget(source)
        with self._confined.at(source) as (old, from_fd), self._confined.at(target) as (new, to_fd):
            os.replace(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd)

    def link(self, source: str, target: str) -> None:
        with self._confined.at(source) as (old, from_fd), self._confined.at(target) as (new, to_fd):
            os.link(old, new, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)

    def remove(self, path: str) -> None:
        with self._confined.at(path) as (name, folder):
            os.unlink(name, dir_fd=folder)

    def remove_dir(self, path: str) -> None:
        self._confined.forget(path)
        with self._confined.at(path) as (name, folder):
            os.rmdir(name, dir_fd=folder)

    def sync_dir(self, path: str) -> None:
        with self._confined.at(path) as (name, folder):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | self._confined.flag(path)
            fd = os.open(name, flags, dir_fd=folder)
        try:
            stat = os.fstat(
                fd
            )  # another disk may be at the same path by now: callers that share a sync have the same folder open
            self._sync_dir_together((stat.st_dev, stat.st_ino), lambda: _sync_folder(fd, path))
        finally:
            os.close(fd)

    def open_log(self, path: str, mode: int = 0o600) -> RealLogFile:
        with self._confined.at(path) as (name, folder):
            fd = os.open(name, _BASE | os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, mode, dir_fd=folder)
        try:
            size = _regular(fd, path).st_size
            os.lseek(fd, size, os.SEEK_SET)
            return RealLogFile(fd, path, size)
        except BaseException:
            os.close(fd)
            raise

    def open_hint(self, path: str, mode: int = 0o600) -> RealHint:
        fd = os.open(path, _BASE | os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, mode)
        try:
            _regular(fd, path)
        except BaseException:
            os.close(fd)
            raise
        return RealHint(fd, path)

    def lock(self, path: str) -> RealLock:
        with self._confined.at(path) as (name, folder):
            fd = os.open(name, _BASE | os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
        try:
            _regular(fd, path)
            # flock, not fcntl: a lock of fcntl vanishes as soon as anything in this process closes the same file.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(fd)
            raise
        return RealLock(fd)

    def free_bytes(self, path: str) -> int:
        figures = os.statvfs(path)
        return figures.f_bavail * figures.f_frsize


_ZEROS = bytes(64 * 1024)


class RealLogFile:
    """`size` is the position of the next write; the file may be longer, so it is not opened for appending."""

    def __init__(self, fd: int, path: str, size: int) -> None:
        self._fd = fd
        self._path = path
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    def write(self, data: bytes) -> None:
        for count in _writes(self._fd, data):
            self._size += count

    def sync(self) -> None:
        _sync_file(self._fd, self._path)
        if not os.fstat(self._fd).st_nlink:  # it is durable, and nobody will ever open it again
            raise DiskFailed(errno.ENOENT, "it was removed by another program", self._path)

    def reserve(self, size: int) -> None:
        # Zeros, not fallocate: marking allocated blocks as written is metadata as well, which ext4 without a journal leaves
        # out of an fdatasync.
        try:
            offset = self._size
            while offset < size:
                offset += os.pwrite(self._fd, _ZEROS[: size - offset], offset)
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self.sync()

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._size = os.lseek(self._fd, size, os.SEEK_SET)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealHint:
    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path

    def put(self, data: bytes) -> None:
        if os.pwrite(self._fd, data, 0) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        _sync_file(self._fd, self._path)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealLock:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """The file remains: removing it would let two others hold locks on two files of one name."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@contextlib.contextmanager
def _opened(path: str, flags: int, folder: int | None = None) -> Iterator[int]:
    fd = os.open(path, _BASE | flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _regular(fd: int, path: str) -> os.stat_result:
    stat = os.fstat(fd)
    if statmod.S_ISDIR(stat.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not statmod.S_ISREG(stat.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return stat


def _append_all(fd: int, path: str, data: bytes) -> Stat:
    before = _regular(fd, path).st_size
    written = 0
    try:
        for count in _writes(fd, data):
            written += count
    except OSError as error:
        _cut_back(fd, path, before, written, error)
        raise
    _sync_file(fd, path)
    return _stat_of(os.fstat(fd))


def _cut_back(fd: int, path: str, before: int, written: int, error: OSError) -> None:
    """Cut off a failed append. Bytes that another program added meanwhile must not be cut."""
    try:
        if os.fstat(fd).st_size == before + written:
            os.ftruncate(fd, before)
            return
    except OSError as second:
        raise DiskFailed(second.errno, second.strerror, path) from error
    raise DiskFailed(error.errno, error.strerror, path) from error


def _writes(fd: int, data: bytes) -> Iterator[int]:
    """Write everything; yields the length of each write. A full disk is a short write first, then one that raises."""
    if not data:
        return
    count = os.write(fd, data)
    yield count
    if count == len(data):
        return
    rest = memoryview(data)[count:]
    while rest:
        count = os.write(fd, rest)
        if count == 0:
            raise OSError(errno.EIO, "write made no progress")
        yield count
        rest = rest[count:]


def _write_all(fd: int, data: bytes) -> None:
    for _ in _writes(fd, data):
        pass


def _sync_file(fd: int, path: str) -> None:
    try:
        if _FULL_SYNC is None or not _full_sync(fd, _FULL_SYNC):
            _fdatasync(fd)
    except OSError as error:
        raise DiskFailed(error.errno, error.strerror, path) from error


def _sync_folder(fd: int, path: str) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        # Some network file systems cannot sync a folder and return EINVAL; nothing more can be done there.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise DiskFailed(error.errno, error.strerror, path) from error


def _full_sync(fd: int, command: int) -> bool:
    """macOS: fsync leaves the data in the drive's cache. False if the file system lacks the stronger call."""
    try:
        fcntl.fcntl(fd, command)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
            return False
        raise
    return True


def _stat_of(stat: os.stat_result) -> Stat:
    return Stat(
        dev=stat.st_dev,
        ino=stat.st_ino,
        size=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        mode=statmod.S_IMODE(stat.st_mode),
        uid=stat.st_uid,
        nlink=stat.st_nlink,
        is_file=statmod.S_ISREG(stat.st_mode),
        is_dir=statmod.S_ISDIR(stat.st_mode),
        is_link=statmod.S_ISLNK(stat.st_mode),
    )
