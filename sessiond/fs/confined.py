"""Folders below which links are never followed to what is written.

Below a confined folder a path is walked one folder at a time from the root's own descriptor, and the operation is relative
to the last one. So a link that replaces a folder at any moment has no effect.

Several calls can be held to one folder. The disk of a store may be unmounted, or another one mounted, between any two calls:
while the root is held, all of them go to the folder that was there at the beginning, wherever it is by then.
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
        """Until this ends, calls of this thread below `root` go to the folder that is there now. OSError if `root` cannot be opened."""
        root, before = root.rstrip("/"), self._held.roots
        if root in before:
            yield
            return
        fd = os.open(root, _WALK & ~os.O_NOFOLLOW)
        self._held.roots = {**before, root: fd}
        try:
            yield
        finally:
            self._held.roots = before
            os.close(fd)

    def held(self, path: str) -> tuple[str, int | None]:
        """(path, descriptor of the folder that it is relative to) for a system call that may follow links."""
        for root, fd in self._held.roots.items():
            if path == root:
                return ".", fd
            if path.startswith(root + "/"):
                return path[len(root) + 1 :], fd
        return path, None

    @contextlib.contextmanager
    def at(self, path: str) -> Iterator[tuple[str, int | None]]:
        """(name, descriptor of the folder that it is relative to) for a system call; the path itself and None if links are
        followed, or if there is no folder on the way. Linked.
        """
        root = self._root(path)
        folders = [] if root is None else path[len(root) + 1 :].split("/")[:-1]
        if root is None or not folders:
            name, fd = self.held(path)
            walked = None
        else:
            name = path.rpartition("/")[2]
            fd = walked = _walk(root, folders, self._held.roots.get(root))
        try:
            yield name, fd
        except OSError as error:
            if error.filename == name:
                error.filename = path
            raise
        finally:
            if walked is not None:
                os.close(walked)


def _walk(root: str, folders: list[str], held: int | None) -> int:
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
        self.roots: dict[str, int] = {}
        """Root -> its descriptor."""
