"""Hints of the system about a folder and the folders in it that hold sessions, read by a separate thread: starting a watch
goes through the folders, and waiting for hints blocks.

On Linux the folders are watched by inotify directly (docs/decisions/0021), elsewhere by watchfiles.
"""

from __future__ import annotations

import os
import posixpath
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from sessiond.fs import inotify, off_loop
from sessiond.fs.inotify import Inotify, Noticed
from sessiond.shield import shielded

if TYPE_CHECKING:
    from sessiond.store.context import Run

_GATHER_S = 0.2
"""Hints within this time are passed on together."""
_STEP_S = 0.05
"""After this long without another hint they are passed on at once."""
_LOOK_S = 2.0
"""How often to check whether the folder at the path is still the one that is watched."""

_CHANGES = (
    inotify.MODIFY
    | inotify.ATTRIB
    | inotify.CLOSE_WRITE
    | inotify.MOVED_FROM
    | inotify.MOVED_TO
    | inotify.CREATE
    | inotify.DELETE
)
_OF_ITSELF = inotify.DELETE_SELF | inotify.MOVE_SELF
_GONE = _OF_ITSELF | inotify.UNMOUNT | inotify.IGNORED
_COMES = inotify.CREATE | inotify.MOVED_TO | inotify.ATTRIB
_GOES = inotify.DELETE | inotify.MOVED_FROM


class HintsLost(Exception):
    """Hints were lost: everything must be compared."""


class HintSource(Protocol):
    """A source of hints. `wait` and `close` on one thread, `wake` on any."""

    def wait(self) -> set[str]:
        """Absolute paths that may have been written, as soon as there are some, or an empty set after a while or a `wake`.
        After OSError, RuntimeError or Lost it is of no further use.
        """

    def wake(self) -> None: ...

    def close(self) -> None: ...


class Hints:
    """`told(paths)` is called on the thread with absolute paths that may have been written, `failed(error)` at most once, as
    the last call. `run`: threads for the folder's disk. Call `open`, then `close`.
    """

    def __init__(
        self, told: Callable[[Sequence[str]], object], failed: Callable[[Exception], object], run: Run = off_loop
    ) -> None:
        self._run_on_its_disk = run
        self._told = told
        self._failed = failed
        self._stop = threading.Event()
        self._source: HintSource | None = None
        self._thread: threading.Thread | None = None
        self._hidden = False

    async def open(self, path: str, inner: Callable[[str], bool], *, links: bool = False, hidden: bool = False) -> None:
        """Every write after this returns is reported. `inner(folder)`: whether a folder (relative) may hold files of
        sessions. `links`: folders that links lead to are watched as if they were in place of the links, each once.
        `hidden`: also what has a name with a dot, as in other tools' folders; in our own these are ours. OSError,
        RuntimeError. If it is cancelled, `close` still releases what it took.
        """
        await shielded(self._open(path, inner, links, hidden))

    async def _open(self, path: str, inner: Callable[[str], bool], links: bool, hidden: bool) -> None:
        self._hidden = hidden
        self._source = await self._run_on_its_disk(source_of, path, inner, links, hidden)
        self._thread = threading.Thread(target=self._run, args=(self._source,), name=f"watch {path}", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        self._stop.set()
        if self._source is not None and self._thread is not None:
            self._source.wake()
            await self._run_on_its_disk(self._thread.join)
            await self._run_on_its_disk(self._source.close)

    def _run(self, source: HintSource) -> None:
        try:
            while not self._stop.is_set():
                found = [path for path in source.wait() if self._hidden or is_theirs(path)]
                if found:
                    self._told(found)
        except Exception as error:
            self._failed(error)


def source_of(path: str, inner: Callable[[str], bool], links: bool = False, hidden: bool = False) -> HintSource:
    """Blocks. OSError, RuntimeError."""
    return Folders(path, inner, links, hidden) if sys.platform == "linux" else Notify(path)


def is_theirs(path: str) -> bool:
    """Return whether a path is neither one of our dot-names (temporary files, displaced versions) nor under `.sessiond/`."""
    return not path.rpartition("/")[2].startswith(".") and "/.sessiond/" not in path


class Folders:
    """inotify on a folder and each folder below it that `inner` accepts. `links`: also on those that links lead to. `hidden`: also on those with a
    dot at the beginning of their name, and on such files.
    """

    def __init__(self, root: str, inner: Callable[[str], bool], links: bool = False, hidden: bool = False) -> None:
        self._root = root
        self._inner = inner
        self._links = links
        self._hidden = hidden
        self._folders: dict[int, str] = {}
        """Watch -> folder, relative; "" is the root."""
        self._inotify = Inotify()
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._root_watch = self._add("", inotify.ONLY_DIR | _OF_ITSELF)
            self._identity = self._look()
            self._add_below("")
        except BaseException:
            self.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._inotify.fileno(), select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        self._waking = select.poll()  # `select.select` takes no descriptor over 1023
        self._waking.register(self._woken, select.POLLIN)

    def wake(self) -> None:
        os.write(self._waker, b"\0")

    def close(self) -> None:
        self._inotify.close()
        for end in (self._woken, self._waker):
            os.close(end)

    def wait(self) -> set[str]:
        found: set[str] = set()
        if not self._poll.poll(_LOOK_S * 1000) and self._look() != self._identity:
            raise FileNotFoundError(2, "it is another folder now", self._root)
        began = time.monotonic()
        while noticed := self._inotify.read():
            for one in noticed:
                found.update(posixpath.join(self._root, name) for name in self._take(one))
            if time.monotonic() - began > _GATHER_S or self._is_woken():
                break
            self._poll.poll(_STEP_S * 1000)
        return found

    def _is_woken(self) -> bool:
        return bool(self._waking.poll(0))

    def _look(self) -> tuple[int, int]:
        stat = os.stat(self._root)
        return stat.st_dev, stat.st_ino

    def _take(self, one: Noticed) -> Iterator[str]:
        """The relative paths of one event. A folder is reported only after it is watched, so nothing in it is missed."""
        if one.mask & inotify.OVERFLOW:
            raise HintsLost("more was written than the system could report")
        if one.mask & _GONE and one.watch == self._root_watch:
            raise FileNotFoundError(2, "it is gone", self._root)
        folder = self._folders.get(one.watch)
        if one.mask & inotify.IGNORED:
            self._folders.pop(one.watch, None)
        elif folder is not None and one.name and (self._hidden or not one.name.startswith(".")):
            name = posixpath.join(folder, one.name)
            is_folder = one.mask & inotify.IS_DIR or (one.mask & (_COMES | _GOES) and self._is_linked(name))
            if is_folder and self._inner(name):
                if one.mask & _GOES:
                    self._drop(name)
                else:  # it came, or its mode or time changed
                    self._watch(name)
            yield name

    def _is_linked(self, name: str) -> bool:
        """Return whether a name is, or was, that of a link to a folder."""
        return self._links and (name in self._folders.values() or os.path.isdir(posixpath.join(self._root, name)))

    def _add(self, folder: str, more: int) -> int:
        watch = self._inotify.add(posixpath.join(self._root, folder), _CHANGES | more | inotify.MASK_ADD)
        if not self._links or watch not in self._folders:  # a link to what is watched already has its first name
            self._folders[watch] = folder
        return watch

    def _watch(self, folder: str) -> None:
        """Watch a folder in the root, and those in it. One that is gone, a link or inaccessible is reported when that changes."""
        before = set(self._folders)
        try:
            watch = self._add(folder, inotify.ONLY_DIR | (0 if self._links else inotify.DONT_FOLLOW))
            if watch not in before:  # otherwise it is there under another name, perhaps above itself
                self._add_below(folder)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return

    def _add_below(self, folder: str) -> None:
        with os.scandir(posixpath.join(self._root, folder)) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                name = posixpath.join(folder, entry.name)
                seen = self._hidden or not entry.name.startswith(".")
                if seen and self._inner(name) and entry.is_dir(follow_symlinks=self._links):
                    self._watch(name)

    def _drop(self, folder: str) -> None:
        """It was renamed or removed: changes in it are reported under the new name."""
        gone = [watch for watch, name in self._folders.items() if name == folder or name.startswith(folder + "/")]
        for watch in gone:
            del self._folders[watch]
            self._inotify.drop(watch)


class Notify:
    """watchfiles' own object, which watches all folders below the root."""

    def __init__(self, root: str) -> None:
        # Imported here, on a thread: it takes a while, and the daemon should answer its first client before it watches
        # anything.
        from watchfiles._rust_notify import RustNotify

        self._stop = threading.Event()
        self._notify = RustNotify([root], False, False, 0, True, True)

    def wait(self) -> set[str]:
        found = self._notify.watch(int(_GATHER_S * 1000), int(_STEP_S * 1000), int(_LOOK_S * 1000), self._stop)
        return {path for _, path in found} if isinstance(found, set) else set()

    def wake(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self._notify.close()
