"""The files of one store on disk: reads a session's files as they are, and brings them up to date without ever losing
another program's write. Synchronous; the folder store calls it on a thread, one call at a time for a session.

A version of a file is known by inode, size and mtime (`Print`). Before every change the file is compared with the version
that was seen last. A rewrite goes to a temporary file, and the displaced inode keeps a dot-name until it is checked again
after the rename: another program's write in between is found there and put back, to be merged.
"""

from __future__ import annotations

import contextlib
import logging
import os
import posixpath
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from sessiond.errors import FEWER_FILES, OUT_OF_FILES, BadFile, Unavailable
from sessiond.formats.base import TAIL_BYTES, Format, Tail, Write
from sessiond.formats.sidecar import FOLDER
from sessiond.fs import FileSystem, Stat
from sessiond.store.discovery import names
from sessiond.store.own_writes import OwnWrites
from sessiond.store.port import OutsideChange

log = logging.getLogger(__name__)
Print: TypeAlias = tuple[int, int, int]
"""Inode, size in bytes, mtime in nanoseconds."""
UNSEEN: Print = (0, -1, 0)
"""A version that no file has."""
ATTEMPTS = 16
"""How often a write gives way to a program that writes the same file in a tight loop."""
MARK = ".sessiond-"

_LOOKS = 8
"""How often a name without a file behind it is checked before it counts as a dangling link."""


class FilesSnapshot(msgspec.Struct):
    """A session's files as they were read, each with the version that was read."""

    files: dict[str, bytes]
    prints: dict[str, Print]


class StoreFiles:
    """`root`: the store's folder. `marker`: a file in it that identifies it, or None for the default store. `extras`: where
    `.sessiond/` files go if the folder cannot be written.
    """

    def __init__(
        self, fs: FileSystem, root: str, fmt: Format, *, marker: str | None = None, extras: str | None = None
    ) -> None:
        self.fs = fs
        self.root = root
        self.format = fmt
        self.marker = marker
        self.extras = extras
        self.is_lost: Callable[[], bool] = lambda: False
        """Whether somebody else has the folder now. Blocks."""
        self.store_id: str | None = None
        """What the marker must say. None: anything."""
        self.own = OwnWrites()
        self._leftovers: dict[str, list[str]] = {}
        """Displaced versions that the disk did not let us remove, by the file that they were."""

    def reachable(self) -> bool:
        """Return whether the folder exists and is the right one. In the empty folder of an unmounted disk nothing was deleted."""
        with contextlib.suppress(OSError):  # permission was removed, or the disk does not respond
            return self._is_ours()
        return False

    def _is_ours(self) -> bool:
        stat = self.fs.stat(self.root)
        if stat is None or not stat.is_dir or self.is_lost():
            return False
        if self.marker is None:
            self.fs.stat(self.path(FOLDER))  # whether it exists or not: a folder that may not be searched raises
            return True
        marker = self.fs.read(self.path(self.marker)) if self.fs.stat(self.path(self.marker)) is not None else None
        return marker is not None and self.store_id in (None, id_of(marker))

    def check_reachable(self) -> None:
        """Called before anything is written. An empty mount point and another disk at the same path look like a folder, too."""
        try:
            if self._is_ours():
                return
        except OSError as error:
            raise self._gone(error) from error
        raise self._gone()

    def _gone(self, error: OSError | None = None) -> Unavailable:
        if error is not None and error.errno in OUT_OF_FILES:
            return Unavailable(f"{self.root} cannot be opened: {error.strerror}", hint=FEWER_FILES)
        hint = "make the folder available again; what waits is safe in the journal, and nothing was written there"
        return Unavailable(f"{self.root} is gone or has been replaced by another folder", hint=hint)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Everything within happens in the folder that is there now, which is the store's. Unavailable."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self.fs.hold(self.root))
            except OSError as error:
                raise self._gone(error) from error
            self.check_reachable()
            yield

    def path(self, relative: str) -> str:
        base = self.extras if self.extras and relative.startswith(FOLDER + "/") else self.root
        return posixpath.join(base, relative)

    def names(self) -> list[str]:
        """Relative paths of what is in the folder, two levels deep; dot-names of the top level are left out."""
        return names(self.fs, self.format, self.root, self.sessions_under)

    def find(self) -> dict[str, str]:
        """Sessions in the folder: local id -> main file (relative)."""
        try:
            return self.format.find(self.names())
        except FileNotFoundError:
            return {}

    def print_of(self, relative: str) -> Print | None:
        """A file's present version. BadFile if it is not regular, behind a link that is not followed, or may not be
        examined.
        """
        for _ in range(_LOOKS):
            try:
                self._check_folders(relative)
                found = self.fs.look(self.path(relative))
                if found is None:
                    return None
                if found.is_link and relative.startswith(FOLDER + "/"):
                    raise linked(self.path(relative))
                stat = self.fs.stat(self.path(relative)) if found.is_link else found
            except OSError as error:
                path = self.path(relative)
                what = f"{path} cannot be examined: {error.strerror}"
                raise BadFile(what, hint="check the mode and owner of its folder", path=path, line=None) from error
            if stat is not None:
                break
        else:  # its name exists each time, and never a file behind it: it was not just created or removed
            raise BadFile(f"{self.path(relative)} is a dangling link", path=self.path(relative), line=None)
        if not stat.is_file:
            raise BadFile(
                f"{self.path(relative)} is not a regular file",
                hint="move it away; sessiond reads regular files only",
                path=self.path(relative),
                line=None,
            )
        if stat.uid != os.geteuid() and found.is_link:
            raise BadFile(
                f"{self.path(relative)} is a link to another user's file",
                hint="sessiond follows links only to files that you own",
                path=self.path(relative),
                line=None,
            )
        return (stat.ino, stat.size, stat.mtime_ns)

    def _check_way(self, relative: str) -> None:
        """Make sure that no folder below the root is reached by a link, and no file of ours is one. BadFile."""
        self._check_folders(relative)
        if relative.startswith(FOLDER + "/") and self.fs.is_link(self.path(relative)):
            raise linked(self.path(relative))

    def _check_folders(self, relative: str) -> None:
        parts = relative.split("/")
        for count in range(1, len(parts)):
            path = self.path("/".join(parts[:count]))
            if self.fs.is_link(path):
                raise linked(path)

    def _target(self, relative: str, there: Print | None) -> str:
        """Return where to write a file whose version is `there`: at a link's target if that is the user's own file. BadFile;
        OutsideChange for a new link, so that no file is created at its target.
        """
        self._check_way(relative)
        path = self.path(relative)
        if relative.startswith(FOLDER + "/") or not self.fs.is_link(path):
            return path
        target = self.fs.real_path(path)
        if there is None or self.fs.stat(target) is None:
            raise OutsideChange(relative)
        return target

    def prints(self, local_id: str) -> dict[str, Print]:
        found = {}
        for relative in self.format.paths(local_id):
            one = self.print_of(relative)
            if one is not None:
                found[relative] = one
        return found

    def read(self, local_id: str) -> FilesSnapshot:
        """All files of a session, each read as one version (and read again if it changed meanwhile)."""
        snapshot = FilesSnapshot({}, {})
        for relative in self.format.paths(local_id):
            for _ in range(8):
                before = self.print_of(relative)
                if before is None:
                    break
                content = self._read(relative)
                if self.print_of(relative) == before:
                    snapshot.files[relative] = content
                    snapshot.prints[relative] = before
                    break
            else:
                raise OutsideChange(relative)
        return snapshot

    def read_end(self, local_id: str, least: int, count: int) -> tuple[FilesSnapshot, bytes] | None:
        """Read, as one version, all files of a session except the main one, and the last `count` bytes of that. None if that has fewer than
        `least` bytes, or is being written.
        """
        main = self.format.main_path(local_id)
        before = self.prints(local_id)
        if main not in before or before[main][1] < least:
            return None
        files = {relative: self._read(relative) for relative in before if relative != main}
        size = before[main][1]
        end = self.fs.read(self.path(main), max(0, size - count), min(size, count))
        return (FilesSnapshot(files, before), end) if self.prints(local_id) == before else None

    def read_side(self, local_id: str) -> dict[str, bytes]:
        side = {}
        for relative in self.format.side_files(local_id):
            if self.print_of(relative) is not None:
                side[relative] = self._read(relative)
        return side

    def _read(self, relative: str) -> bytes:
        path = self.path(relative)
        try:
            return self.fs.read(path)
        except PermissionError as error:
            raise BadFile(f"{path} may not be read", hint="check its mode and owner", path=path, line=None) from error

    def tail(self, local_id: str) -> Tail:
        relative = self.format.main_path(local_id)
        one = self.print_of(relative)
        if one is None:
            return Tail(exists=False)
        start = max(0, one[1] - TAIL_BYTES)
        return Tail(exists=True, size=one[1], end=self.fs.read(self.path(relative), start, one[1] - start))

    def perform(
        self, writes: Sequence[Write], expected: Mapping[str, Print], done: dict[str, Print] | None = None
    ) -> dict[str, Print]:
        """Carry out the steps in order, each durable before the next; returns the new versions of the written files. `done`
        gets them too, even if a step fails.

        OutsideChange if a file is not the expected version (absent = must not exist): then nothing of that file was lost,
        and what was written before it can be written again.
        """
        done = {} if done is None else done
        with self.held():
            self._perform(writes, expected, done)
        # The folder may have gone meanwhile: then this was written where nobody can find it, and does not count.
        self.check_reachable()
        return done

    def _perform(self, writes: Sequence[Write], expected: Mapping[str, Print], done: dict[str, Print]) -> None:
        for write in writes:
            wanted = done.get(write.path, expected.get(write.path))
            if self.print_of(write.path) != wanted:
                raise OutsideChange(write.path)
            if posixpath.dirname(write.path):  # the root exists: it is held
                self._make_folder(posixpath.dirname(self.path(write.path)))
            if write.how != "remove":
                with self.own.writing(write.path):
                    put = self._append if write.how == "append" else self._replace
                    done[write.path] = put(write, wanted, done)
                    self.own.wrote(write.path, done[write.path])
            elif wanted is not None:
                self.fs.remove(self.path(write.path))
                self.fs.sync_dir(posixpath.dirname(self.path(write.path)))

    def make(self, local_id: str, writes: Sequence[Write], expected: Mapping[str, Print]) -> dict[str, Print]:
        """Like `perform`, for a new session. On failure removes what it wrote, unless another program wrote to it since."""
        made: dict[str, Print] = {}
        try:
            return self.perform(writes, expected, made)
        except (OSError, OutsideChange):
            with contextlib.suppress(OSError):  # the first error is raised; the next attempt cleans up the rest
                self._take_back(local_id, made)
            raise

    def _take_back(self, local_id: str, made: Mapping[str, Print]) -> None:
        for relative, one in reversed(list(made.items())):
            path = self.path(relative)
            if relative not in self.shared_files() and self._print_at(path) == one:
                self.fs.remove(path)
                self.fs.sync_dir(posixpath.dirname(path))
        self._remove_empty(posixpath.dirname(self.format.main_path(local_id)))

    def _make_folder(self, path: str) -> None:
        if self.fs.stat(path) is None:
            self.fs.make_dirs(path, 0o700)

    def _append(self, write: Write, wanted: Print | None, done: dict[str, Print]) -> Print:
        path = self._target(write.path, wanted)
        there = None if wanted is None else self.fs.stat(path)
        if there is not None and there.nlink > 1:  # written in place, a file elsewhere would change too
            whole = self.fs.read(path) + write.data  # if it has changed since, `_replace` finds that
            return self._replace(Write(write.path, whole, "replace"), wanted, done)
        stat = self.fs.append(path, write.data)  # a file that this creates is durable, including its name
        size_before = wanted[1] if wanted else 0
        if stat.size != size_before + len(write.data):
            # Another program appended between our check and our write. Both are there; its text is read next.
            return (stat.ino, -1, stat.mtime_ns)
        return (stat.ino, stat.size, stat.mtime_ns)

    def _replace(self, write: Write, wanted: Print | None, done: dict[str, Print]) -> Print:
        path = self._target(write.path, wanted)
        folder = posixpath.dirname(path)
        fresh, displaced = self._beside(path, "new"), self._beside(path, "old")
        old = self.fs.stat(path) if wanted is not None else None
        stat = self.fs.create(fresh, write.data, _mode(old))
        try:
            if wanted is None:
                # It fails where a rename would silently displace a file that was created just now.
                self.fs.link(fresh, path)
                done[write.path] = _print(stat)
                self.fs.remove(fresh)
                self.fs.sync_dir(folder)
                return _print(stat)
            self.fs.link(path, displaced)
            if self._print_at(displaced) != wanted:
                self.fs.remove(displaced)
                raise OutsideChange(write.path)
            self.fs.replace(fresh, path)
        except FileExistsError as error:
            self.fs.remove(fresh)
            raise OutsideChange(write.path) from error
        except BaseException:
            # A second name of the file may remain, which would bring it back at the next start after it was deleted.
            self._leftovers.setdefault(write.path, []).append(displaced)
            if self.fs.stat(fresh) is not None:
                self.fs.remove(fresh)
            raise
        self.fs.sync_dir(folder)
        if self._print_at(displaced) != wanted:
            # Another program had the old inode open and wrote to it after our check. Its version counts again; ours is in
            # the journal.
            self.fs.replace(displaced, path)
            self.fs.sync_dir(folder)
            raise OutsideChange(write.path)
        try:
            self.fs.remove(displaced)
        except OSError:  # the new version is durable; the old one is removed with the file, or at the next start
            self._leftovers.setdefault(write.path, []).append(displaced)
        return _print(stat)

    def _print_at(self, path: str) -> Print | None:
        stat = self.fs.stat(path)
        return _print(stat) if stat else None

    def remove(self, local_id: str, seen: Print | None = None, keep: Callable[[bytes], object] | None = None) -> None:
        """Remove all files of a session, and folders that only it was in. `keep` gets the main file's content before it is
        removed, if that is another version than `seen`.
        """
        with self.held():
            for relative in self.format.paths(local_id):
                path = self.path(relative)
                if relative in self.shared_files() or not self.fs.has_name(path):
                    continue
                self._remove_displaced(relative, path)
                if keep is not None and relative == self.format.main_path(local_id):
                    self._remove_seen(relative, path, seen, keep)
                else:
                    self.fs.remove(path)
                self.fs.sync_dir(posixpath.dirname(path))
            self._remove_empty(posixpath.dirname(self.format.main_path(local_id)))

    def _remove_seen(self, relative: str, path: str, seen: Print | None, keep: Callable[[bytes], object]) -> None:
        """Once its name is gone, no program that opens it by name can write it, so it is checked after that."""
        stat = self.fs.stat(path)
        if stat is None or not stat.is_file:
            self.fs.remove(path)
            return
        aside = self._beside(path, "old")
        self.fs.replace(path, aside)
        left = self._leftovers.setdefault(relative, [])
        left.append(aside)
        if self._print_at(aside) != seen:
            keep(self.fs.read(aside))
        self.fs.remove(aside)
        left.remove(aside)

    def _beside(self, path: str, what: str) -> str:
        """A name for another version of a file: `new`, or `old`, which comes back at the next start if the file is missing."""
        folder, name = posixpath.split(path)
        return posixpath.join(folder, f".{name}{MARK}{secrets.token_hex(4)}.{what}")

    def _remove_displaced(self, relative: str, path: str) -> None:
        """Make sure that no older version of a removed file is left: at the next start that would become the session."""
        for leftover in self._leftovers.pop(relative, []):
            if self.fs.has_name(leftover):
                self.fs.remove(leftover)
        self.fs.sync_dir(posixpath.dirname(path))

    def sync_main(self, local_id: str) -> None:
        """Bring the present main file to the disk, whichever program wrote it."""
        with self.held():
            main = self.format.main_path(local_id)
            path = self._target(main, self.print_of(main))
            self.fs.append(path, b"")
            self.fs.sync_dir(posixpath.dirname(path))

    def clear_leftovers(self, local_id: str) -> None:
        """Remove a sidecar without its main file: it belongs to an earlier session of this id."""
        if self.print_of(self.format.main_path(local_id)) is None:
            self.remove(local_id)

    def put_back(self, local_id: str, files: Mapping[str, bytes]) -> None:
        """Write files of a missing session, byte for byte. The main file comes last: the session exists when it does."""
        with self.held():
            self.clear_leftovers(local_id)
            self._put_back(local_id, files)

    def _put_back(self, local_id: str, files: Mapping[str, bytes]) -> None:
        main = self.format.main_path(local_id)
        for relative in sorted(files, key=lambda one: one == main):
            path = self.path(relative)
            folder, fresh = posixpath.dirname(path), self._beside(path, "new")
            self._check_way(relative)
            self.fs.make_dirs(folder)
            self.fs.create(fresh, files[relative])
            self.fs.link(fresh, path)  # complete or missing
            self.fs.remove(fresh)
            self.fs.sync_dir(folder)

    def sessions_under(self, folder: str) -> list[str] | None:
        """The sessions whose files are in a folder (relative) if it exists; None: it may be any."""
        under = self.format.abilities.sessions_under
        return [] if under is None else under(folder)

    def put_back_missing(self, local_id: str, files: Mapping[str, bytes]) -> bool:
        """Like `put_back` if the main file has gone; otherwise what is there remains, and this returns False."""
        if self.fs.has_name(self.path(self.format.main_path(local_id))):
            return False
        self.put_back(local_id, files)
        return True

    def shared_files(self) -> tuple[str, ...]:
        """Files that belong to several sessions of the folder: never removed with one of them."""
        return self.format.abilities.shared_files

    def _remove_empty(self, folder: str) -> None:
        if folder in ("", ".", *self.format.abilities.nested):
            return
        try:
            if not self.fs.list_dir(self.path(folder)):
                self.fs.remove_dir(self.path(folder))
                self.fs.sync_dir(posixpath.dirname(self.path(folder)))
        except OSError:
            # This only cleans up: a file was put there meanwhile, or the folder was removed.
            return

    def clean(self) -> list[str]:
        """Clean up after a crash: remove temporary files, bring back displaced versions that nothing replaced. Returns
        names.
        """
        seen = []
        for folder in sorted({"", FOLDER, *(posixpath.dirname(main) for main in self.find().values())}):
            if folder and any(self.fs.is_link(self.path(one)) for one in (folder, posixpath.dirname(folder)) if one):
                continue  # nothing of ours is behind a link
            try:
                names = self.fs.list_dir(self.path(folder) if folder else self.root)
            except OSError:
                continue
            for name in names:
                if name.startswith(".") and MARK in name and name.endswith((".new", ".old")):
                    leftover = posixpath.join(self.path(folder) if folder else self.root, name)
                    try:
                        self._settle(leftover)
                    except OSError as error:  # the disk is read-only now: a later start settles it
                        log.warning("%s is left over from a crash and remains: %s", leftover, error)
                        continue
                    seen.append(name)
        return seen

    def _settle(self, leftover: str) -> None:
        folder, name = posixpath.split(leftover)
        target = posixpath.join(folder, name[1:].partition(MARK)[0])
        if name.endswith(".old") and self.fs.stat(target) is None:
            self.fs.replace(leftover, target)
        else:
            self.fs.remove(leftover)
        self.fs.sync_dir(folder)


def linked(path: str) -> BadFile:
    hint = "remove the link, or replace it by its target"
    return BadFile(f"{path} is a link, and nothing is read or written through it", hint=hint, path=path, line=None)


def _mode(old: Stat | None) -> int:
    """The mode of the file that replaces `old`: the same, or 0600 if its owner cannot read it. A program that removed that
    permission for a moment would give it back to the old file only.
    """
    return 0o600 if old is None or not old.mode & 0o400 else old.mode & 0o7777


def id_of(marker: bytes) -> str | None:
    """The store's id in a marker file; None if it is damaged."""
    try:
        return str(msgspec.json.decode(marker)["id"])
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError):
        return None


def _print(stat: Stat) -> Print:
    return (stat.ino, stat.size, stat.mtime_ns)
