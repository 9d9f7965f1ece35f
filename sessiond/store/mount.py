"""Mounts a folder as a store: the lock that two daemons never share, the marker that tells the folder from an empty mount
point, and what to do when the folder cannot be written, disappears or comes back.

An adopted folder gets `.sessiond/store.json` (a store id) and `.sessiond/lock` (flock). The data folder remembers the id
under `data/mounts/`, so that a folder without its marker is known not to be the one.

The data folder itself has a lock, too. A lock is held on a file, not on a path: if somebody renames or removes the folder while the
daemon runs, and another one comes to be at the path, a second daemon can take the lock there. From then on the first one would
write files of the second, since everything of a store is written by path. So it is looked whether the path still leads to our file.
"""

from __future__ import annotations

import errno
import logging
import posixpath
import uuid

import msgspec

from sessiond.formats.sidecar import FOLDER
from sessiond.fs import FileSystem, Lock, atomic_write
from sessiond.store.files import id_of

log = logging.getLogger(__name__)
MARKER = ".sessiond/store.json"
_LOCK = ".sessiond/lock"
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class OutOfReach(Exception):
    """The folder cannot be used now; the text says why, for people."""


class Claim:
    """A folder that is ours while this is held. `writable` False: it may only be read, and extras go under `extras`."""

    def __init__(self, lock: Lock | None, writable: bool, extras: str | None, store_id: str | None = None) -> None:
        self._lock = lock
        self.store_id = store_id
        self.writable = writable
        self.extras = extras

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


class Ownership:
    """`path`: of a file or folder that is ours now, such as the lock file. Its methods block."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._identity = self._look()

    def is_lost(self) -> bool:
        """Return whether the path leads to something else, or to nothing. False if that cannot be found out now."""
        try:
            return self._look() != self._identity
        except OSError:
            return False

    def _look(self) -> tuple[int, int] | None:
        found = self._fs.look(self._path)
        return None if found is None else (found.dev, found.ino)


class Mounter:
    """`data_dir`: the daemon's own data folder."""

    def __init__(self, fs: FileSystem, data_dir: str) -> None:
        self._fs = fs
        self._data_dir = data_dir

    def claim(self, name: str, root: str, *, accepted: bool = False) -> Claim:
        """Take a folder. OutOfReach. `accepted`: a person says that this is the store's folder, so it gets its marker again if that
        was removed, by `git clean` for example. It is not taken if it is empty: that is how a missing disk looks.
        """
        marker = posixpath.join(root, MARKER)
        known = self._remembered(name)
        expected = known[0] if known is not None and known[1:] == (root, True) else None
        try:
            stat = self._fs.stat(root)
            if stat is None or not stat.is_dir:
                raise OutOfReach(f"{root} is not a folder")
            self._fs.list_dir(root)
            for relative in (FOLDER, MARKER, _LOCK):
                path = posixpath.join(root, relative)
                if self._fs.is_link(path):
                    raise OutOfReach(f"{path} is a link, and nothing is read or written through it; remove the link")
            store_id = self._id_in(marker) if self._fs.stat(marker) is not None else None
            there = self._fs.stat(marker) is not None or (accepted and bool(self._fs.list_dir(root)))
        except OSError as error:
            raise OutOfReach(f"{error.filename or root}: {error.strerror}") from error
        if expected is not None and not there:
            raise OutOfReach(
                f"{root} has no {MARKER}: it is empty or another folder, perhaps a disk that is not mounted; "
                f"if it is the right one, `sessiond adopt {root} --name {name}` says so"
            )
        if expected is not None and store_id not in (None, expected):
            raise OutOfReach(
                f"{root} holds a different store from the one that was mounted there; mount the right disk, "
                "or adopt this folder under another name"
            )
        try:
            return self._take(name, root, marker, store_id, expected)
        except BlockingIOError as error:
            raise OutOfReach(f"{root} is in use by another sessiond") from error
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise OutOfReach(f"{root}: {error.strerror}") from error
        extras = posixpath.join(self._data_dir, "extras", name)
        self._fs.make_dirs(extras)
        # The id is kept: the folder may become writable again, and another one may be mounted there.
        self._remember(name, root, expected or "", marked=expected is not None)
        return Claim(None, writable=False, extras=extras, store_id=expected)

    def _take(self, name: str, root: str, marker: str, store_id: str | None, expected: str | None) -> Claim:
        """`store_id`: what the marker says, None if it is missing or damaged."""
        self._fs.make_dirs(posixpath.dirname(marker))
        lock = self._fs.lock(posixpath.join(root, _LOCK))
        try:
            if store_id is None:
                store_id = expected or str(uuid.uuid4())
                content = msgspec.json.encode({"id": store_id, "sessiond": 1}) + b"\n"
                atomic_write(self._fs, marker, content, follow=False)
            self._remember(name, root, store_id, marked=True)
        except BaseException:
            lock.release()
            raise
        return Claim(lock, writable=True, extras=None, store_id=store_id)

    def _id_in(self, marker: str) -> str | None:
        store_id = id_of(self._fs.read(marker))
        if store_id is None:
            log.warning("%s is damaged and will be rewritten", marker)
        return store_id

    def _record(self, name: str) -> str:
        return posixpath.join(self._data_dir, "mounts", f"{name}.json")

    def _remembered(self, name: str) -> tuple[str, str, bool] | None:
        """(store id, folder, whether it was marked)."""
        path = self._record(name)
        if self._fs.stat(path) is None:
            return None
        try:
            record = msgspec.json.decode(self._fs.read(path))
            return str(record["id"]), str(record["path"]), bool(record["marked"])
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError):
            log.warning("%s cannot be read; the store %s counts as new", path, name)
            return None

    def _remember(self, name: str, root: str, store_id: str, *, marked: bool) -> None:
        if self._remembered(name) != (store_id, root, marked):
            self._fs.make_dirs(posixpath.join(self._data_dir, "mounts"))
            content = msgspec.json.encode({"id": store_id, "path": root, "marked": marked})
            atomic_write(self._fs, self._record(name), content)
