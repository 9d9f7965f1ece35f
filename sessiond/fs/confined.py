"""Folders below which links are never followed to what is written.

Below a confined folder a path is walked one folder at a time from the root's own descriptor, and the operation is relative
to the last one. So a link that replaces a folder at any moment has no effect.

Several calls can be held to one folder. The disk of a store may be unmounted, or another one mounted, between any two calls:
while the root is held, all of them go to the folder that was there at the beginning, wherever it is by then. A folder below it is walked to
once in that time. If another one has its place at the end, the holder is told, because what it wrote is not where it should be.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator

from sessiond.fs.port import Linked

_WALK = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


class Confinement:
    def __init__(self) -> None:
        self._roots: tuple[tuple[str, str], ...] = ()
        """(the prefix of paths, the root from which they are walked)."""
        self._held = _Held()

    def add(self, root: str, inner: str) -> None:
        root = root.rstrip("/")
        one = (f"{root}/{inner}/" if inner else root + "/", root)
        if one not in self._roots:
            self._roots += (one,)

    def flag(self, path: str) -> int:
        """For opening what is at `path` itself."""
        return 0 if self._root(path) is None else os.O_NOFOLLOW

    def _root(self, path: str) -> str | None:
        for prefix, root in self._roots:
            if path.startswith(prefix):
                return root
        return None

    @contextlib.contextmanager
    def hold(self, root: str) -> Iterator[None]:
        """Until this ends, calls of this thread below `root` go to the folder that is there now. OSError if `root` cannot be opened, or if a
        folder below it has another one in its place at the end.
        """
        root, before = root.rstrip("/"), self._held.roots
        if root in before:
            yield
            return
        one = _HeldRoot(root, os.open(root, _WALK & ~os.O_NOFOLLOW))
        self._held.roots = {**before, root: one}
        try:
            yield
            one.check()
        finally:
            self._held.roots = before
            one.close()

    def forget(self, folder: str) -> None:
        """It is about to be made, moved or removed: whoever holds its root walks to it again."""
        for one in self._held.roots.values():
            one.forget(folder)

    def held(self, path: str) -> tuple[str, int | None]:
        """(path, descriptor of the folder that it is relative to) for a system call that may follow links."""
        for root, one in self._held.roots.items():
            if path == root:
                return ".", one.fd
            if path.startswith(root + "/"):
                return path[len(root) + 1 :], one.fd
        return path, None

    @contextlib.contextmanager
    def at(self, path: str) -> Iterator[tuple[str, int | None]]:
        """Yield (name, descriptor of the folder that it is relative to) for a system call. Linked.

        In a folder below a confined root the name is the last part of the path, so the call meets no link on the way. For anything
        else, even a file in the root itself, it is what `held` returns.
        """
        root = self._root(path)
        folders = [] if root is None else path[len(root) + 1 :].split("/")[:-1]
        if root is None or not folders:
            name, fd = self.held(path)
            walked = None
        else:
            folder, _, name = path.rpartition("/")
            one = self._held.roots.get(root)
            walked = _walk(root, folders) if one is None else None
            fd = walked if one is None else one.walk(folder, folders)
        try:
            yield name, fd
        except OSError as error:
            if error.filename == name:
                error.filename = path
            raise
        finally:
            if walked is not None:
                os.close(walked)


class _HeldRoot:
    """A root that a thread holds, and the folders below it that it has walked to."""

    def __init__(self, root: str, fd: int) -> None:
        self.fd = fd
        self._root = root
        self._folders: dict[str, int] = {}
        """Path -> descriptor."""

    def walk(self, folder: str, names: list[str]) -> int:
        """The descriptor of a folder. It is closed with the root."""
        fd = self._folders.get(folder)
        if fd is None:
            fd = self._folders[folder] = _walk(self._root, names, self.fd)
        return fd

    def forget(self, folder: str) -> None:
        for path in [one for one in self._folders if one == folder or one.startswith(folder + "/")]:
            os.close(self._folders.pop(path))

    def check(self) -> None:
        """Every folder that was used is still where it was. OSError."""
        for path, fd in self._folders.items():
            used = os.fstat(fd)
            try:
                there = os.lstat(path[len(self._root) + 1 :], dir_fd=self.fd)
            except OSError as error:
                error.filename = path
                raise
            if (used.st_dev, used.st_ino) != (there.st_dev, there.st_ino):
                raise OSError(errno.ESTALE, "it was replaced while files in it were written", path)

    def close(self) -> None:
        for fd in (*self._folders.values(), self.fd):
            os.close(fd)


def _walk(root: str, folders: list[str], held: int | None = None) -> int:
    # The root itself may be a link: it is the folder that was configured.
    fd = os.open(root, _WALK & ~os.O_NOFOLLOW) if held is None else os.dup(held)
    path = root
    for name in folders:
        path = f"{path}/{name}"
        try:
            inner = os.open(name, _WALK, dir_fd=fd)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP) and _is_link(name, fd):
                raise Linked(errno.ELOOP, "it is a link, and nothing is written through it", path) from error
            error.filename = path
            raise
        finally:
            os.close(fd)
        fd = inner
    return fd


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False


class _Held(threading.local):
    def __init__(self) -> None:
        self.roots: dict[str, _HeldRoot] = {}
        """By their paths."""
