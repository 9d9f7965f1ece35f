"""The files of one store on disk: reading a session's files as they are, and bringing them up to date without ever
losing somebody else's write. Synchronous; the folder store calls it on a thread, one call at a time for a session.

A version of a file is known by inode, size and mtime (`Print`). Before every change the file is compared with the
version that was seen last. A rewrite goes to a temporary file, and the displaced inode keeps a dot-name until it was
looked at again after the rename: a write by somebody else in between is found there and put back, to be merged.
"""

from __future__ import annotations

import contextlib
import posixpath
import secrets
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from sessiond.errors import BadFile
from sessiond.formats.base import TAIL_BYTES, Format, Tail, Write
from sessiond.formats.sidecar import FOLDER
from sessiond.fs import FileSystem, Stat
from sessiond.limits import MIB

Print: TypeAlias = tuple[int, int, int]
"""Inode, size in bytes, mtime in nanoseconds."""
UNSEEN: Print = (0, -1, 0)
"""A version that no file has."""
ATTEMPTS = 16
"""How often whoever writes gives way to somebody who writes the same file in a tight loop."""
MARK = ".sessiond-"

_CHUNK_BYTES = 1 * MIB
_LOOKS = 8
"""How often a name without a file behind it is looked at before it counts as a link that leads nowhere."""


class OutsideChange(Exception):
    """A file is not the version that was seen last: read and merge it before anything is written."""


class Snapshot(msgspec.Struct):
    """A session's files as they were read, each with the version that was read."""

    files: dict[str, bytes]
    prints: dict[str, Print]


class StoreFiles:
    """`root`: the store's folder. `marker`: a file in it that shows that it is the one, or None for the default store.
    `extras`: where `.sessiond/` files go where the folder cannot be written.
    """

    def __init__(
        self, fs: FileSystem, root: str, fmt: Format, *, marker: str | None = None, extras: str | None = None
    ) -> None:
        self.fs = fs
        self.root = root
        self.format = fmt
        self.marker = marker
        self.extras = extras
        self._leftovers: dict[str, list[str]] = {}
        """Displaced versions, by the file that they were, which the disk did not let us remove."""

    def reachable(self) -> bool:
        """Whether the folder is there and is the one. An unmounted disk leaves an empty folder, in which nothing was
        deleted.
        """
        try:
            stat = self.fs.stat(self.root)
            if stat is None or not stat.is_dir:
                return False
            return self.marker is None or self.fs.stat(self.path(self.marker)) is not None
        except OSError:  # its permission was taken away, or the disk does not answer
            return False

    def path(self, relative: str) -> str:
        base = self.extras if self.extras and relative.startswith(FOLDER + "/") else self.root
        return posixpath.join(base, relative)

    def names(self) -> list[str]:
        """Relative paths of what lies in the folder, two levels deep; dot-names of the top level are left out."""
        top = sorted(name for name in self.fs.list_dir(self.root) if not name.startswith("."))
        # What is a session's file by its name need not be asked whether it is a folder.
        files = set(self.format.find(top).values())
        found: list[str] = []
        for name in top:
            found.append(name)
            if name not in files and self._is_folder(name):
                found += self._below(name)
        return found

    def _is_folder(self, name: str) -> bool:
        stat = self.fs.stat(self.path(name))
        return stat is not None and stat.is_dir

    def _below(self, folder: str) -> list[str]:
        try:
            inner = sorted(self.fs.list_dir(self.path(folder)))
        except OSError:
            return []
        found = [f"{folder}/{name}" for name in inner if not name.startswith(".")]
        if self.format.name == "cortex" and folder == "transcripts":
            # Also a link that leads nowhere: that is a file which cannot be read.
            inside = [f"{name}/transcript.jsonl" for name in found]
            found += [name for name in inside if self.fs.has_name(self.path(name))]
        return found

    def find(self) -> dict[str, str]:
        """Sessions in the folder: local id -> main file (relative)."""
        try:
            return self.format.find(self.names())
        except FileNotFoundError:
            return {}

    def print_of(self, relative: str) -> Print | None:
        """The version of a file as it stands now. BadFile for what is no regular file."""
        for _ in range(_LOOKS):
            stat = self.fs.stat(self.path(relative))
            if stat is not None:
                break
            if not self.fs.has_name(self.path(relative)):
                return None
        else:  # its name is there each time, and never a file behind it: not just made, nor just removed
            raise BadFile(f"{self.path(relative)} is a link that leads nowhere", path=self.path(relative), line=None)
        if not stat.is_file:
            raise BadFile(
                f"{self.path(relative)} is no regular file",
                hint="move it away; sessiond reads regular files only",
                path=self.path(relative),
                line=None,
            )
        return (stat.ino, stat.size, stat.mtime_ns)

    def prints(self, local_id: str) -> dict[str, Print]:
        found = {}
        for relative in self.format.paths(local_id):
            one = self.print_of(relative)
            if one is not None:
                found[relative] = one
        return found

    def own_prints(self, local_id: str) -> dict[str, Print]:
        """As `prints`, less the files that it shares with other sessions: those have not been read for it yet."""
        return {path: one for path, one in self.prints(local_id).items() if path not in self.shared_files()}

    def read(self, local_id: str) -> Snapshot:
        """All files of a session, each read as one version (again, where it changed while it was read)."""
        snapshot = Snapshot({}, {})
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

    def read_end(self, local_id: str, least: int, count: int) -> tuple[Snapshot, bytes] | None:
        """All files of a session but the main one, and the last `count` bytes of that, as one version. None where that has
        fewer than `least` bytes, or where somebody writes just now.
        """
        main = self.format.main_path(local_id)
        before = self.prints(local_id)
        if main not in before or before[main][1] < least:
            return None
        files = {relative: self._read(relative) for relative in before if relative != main}
        size = before[main][1]
        end = self.fs.read(self.path(main), max(0, size - count), min(size, count))
        return (Snapshot(files, before), end) if self.prints(local_id) == before else None

    def lacks(self, relative: str, expected: Print | None, needles: Sequence[bytes]) -> bool:
        """Whether none of `needles` is in a file, and the file is the `expected` version."""
        overlap = max(map(len, needles)) - 1
        offset, rest = 0, b""
        if expected is None or self.print_of(relative) != expected:
            return False
        while chunk := self.fs.read(self.path(relative), offset, min(_CHUNK_BYTES, expected[1] - offset)):
            offset += len(chunk)
            if any(needle in part for needle in needles for part in (rest + chunk[:overlap], chunk)):
                return False
            rest = chunk[-overlap:] if overlap else b""
        return offset == expected[1] and self.print_of(relative) == expected

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
        size = one[1]
        start = max(0, size - TAIL_BYTES)
        return Tail(exists=True, size=size, end=self.fs.read(self.path(relative), start, size - start))

    def perform(
        self, writes: Sequence[Write], expected: Mapping[str, Print], done: dict[str, Print] | None = None
    ) -> dict[str, Print]:
        """Do the steps in order, each durable before the next; answers the new versions of what was written, which `done` has too,
        also where a step fails.

        OutsideChange if a file is not the expected version (absent = must not be there): then nothing of that file was
        lost, and what was written before it can be written again.
        """
        done = {} if done is None else done
        for write in writes:
            self._make_folder(posixpath.dirname(self.path(write.path)))
            wanted = done.get(write.path, expected.get(write.path))
            if self.print_of(write.path) != wanted:
                raise OutsideChange(write.path)
            if write.how == "append":
                done[write.path] = self._append(write, wanted)
            elif write.how == "replace":
                done[write.path] = self._replace(write, wanted, done)
            elif wanted is not None:
                self.fs.remove(self.path(write.path))
                self.fs.sync_dir(posixpath.dirname(self.path(write.path)))
        return done

    def make(self, local_id: str, writes: Sequence[Write], expected: Mapping[str, Print]) -> dict[str, Print]:
        """As `perform`, for a session that is not there yet. Where it fails, what it wrote is taken back, unless somebody else wrote
        on it since.
        """
        made: dict[str, Print] = {}
        try:
            return self.perform(writes, expected, made)
        except (OSError, OutsideChange):
            with contextlib.suppress(OSError):  # what went wrong first is told; half of it is tidied by the next try
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

    def _append(self, write: Write, wanted: Print | None) -> Print:
        path = self.fs.real_path(self.path(write.path))
        stat = self.fs.append(path, write.data)  # a file that it makes is durable, name and all
        size_before = wanted[1] if wanted else 0
        if stat.size != size_before + len(write.data):
            # Somebody appended between our look and our write. Both are there; what he wrote is read next.
            return (stat.ino, -1, stat.mtime_ns)
        return (stat.ino, stat.size, stat.mtime_ns)

    def _replace(self, write: Write, wanted: Print | None, done: dict[str, Print]) -> Print:
        path = self.fs.real_path(self.path(write.path))
        folder, name = posixpath.split(path)
        token = f"{MARK}{secrets.token_hex(4)}"
        fresh, displaced = posixpath.join(folder, f".{name}{token}.new"), posixpath.join(folder, f".{name}{token}.old")
        old = self.fs.stat(path) if wanted is not None else None
        stat = self.fs.create(fresh, write.data, (old.mode & 0o7777) if old else 0o600)
        try:
            if wanted is None:
                self.fs.link(
                    fresh, path
                )  # fails where a rename would silently displace a file that somebody made just now
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
            # A second name of the file may be left, which would bring it back at the next start after it was deleted.
            self._leftovers.setdefault(write.path, []).append(displaced)
            if self.fs.stat(fresh) is not None:
                self.fs.remove(fresh)
            raise
        self.fs.sync_dir(folder)
        if self._print_at(displaced) != wanted:
            # He had the old inode open and wrote to it after our look. His version counts again, to be merged; ours is in the journal.
            self.fs.replace(displaced, path)
            self.fs.sync_dir(folder)
            raise OutsideChange(write.path)
        try:
            self.fs.remove(displaced)
        except OSError:  # the new version is there and durable; the old one goes with the file, or at the next start
            self._leftovers.setdefault(write.path, []).append(displaced)
        return _print(stat)

    def _print_at(self, path: str) -> Print | None:
        stat = self.fs.stat(path)
        return _print(stat) if stat else None

    def remove(self, local_id: str) -> None:
        """All files of a session; folders that it alone was in go too."""
        for relative in self.format.paths(local_id):
            if relative in self.shared_files():
                continue
            path = self.path(relative)
            if self.fs.has_name(path):
                self._remove_displaced(relative, path)
                self.fs.remove(path)
                self.fs.sync_dir(posixpath.dirname(path))
        self._remove_empty(posixpath.dirname(self.format.main_path(local_id)))

    def _remove_displaced(self, relative: str, path: str) -> None:
        """No older version of a file that goes may be left, for certain: at the next start that would be the session."""
        for leftover in self._leftovers.pop(relative, []):
            if self.fs.has_name(leftover):
                self.fs.remove(leftover)
        self.fs.sync_dir(posixpath.dirname(path))

    def sync_main(self, local_id: str) -> None:
        """The main file as it stands is on the disk, whoever wrote it."""
        path = self.fs.real_path(self.path(self.format.main_path(local_id)))
        self.fs.append(path, b"")
        self.fs.sync_dir(posixpath.dirname(path))

    def clear_leftovers(self, local_id: str) -> None:
        """A sidecar without its main file is of another life of this id."""
        if self.print_of(self.format.main_path(local_id)) is None:
            self.remove(local_id)

    def put_back(self, local_id: str, files: Mapping[str, bytes]) -> None:
        """Files of a session that is not there, byte for byte. The main file last: the session is there when it is."""
        self.clear_leftovers(local_id)
        main = self.format.main_path(local_id)
        for relative in sorted(files, key=lambda one: one == main):
            target = self.path(relative)
            folder = posixpath.dirname(target)
            self.fs.make_dirs(folder)
            self.fs.create(target, files[relative])
            self.fs.sync_dir(folder)

    def shared_files(self) -> tuple[str, ...]:
        """Files that belong to several sessions of the folder (amacs' scratchpad): never removed with one of them."""
        return tuple(getattr(self.format, "shared_files", ()))

    def _remove_empty(self, folder: str) -> None:
        if folder in ("", ".", "transcripts"):
            return
        try:
            if not self.fs.list_dir(self.path(folder)):
                self.fs.remove_dir(self.path(folder))
                self.fs.sync_dir(posixpath.dirname(self.path(folder)))
        except OSError:
            # It was only to tidy up: somebody put a file there meanwhile, or took the folder away.
            return

    def clean(self) -> list[str]:
        """After a crash: temporary files of ours are removed; a displaced version that nothing replaced yet comes back.
        Answers the names.
        """
        seen = []
        for folder in sorted({"", FOLDER, *(posixpath.dirname(main) for main in self.find().values())}):
            try:
                names = self.fs.list_dir(self.path(folder) if folder else self.root)
            except OSError:
                continue
            for name in names:
                if name.startswith(".") and MARK in name and name.endswith((".new", ".old")):
                    self._settle(posixpath.join(self.path(folder) if folder else self.root, name))
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


def _print(stat: Stat) -> Print:
    return (stat.ino, stat.size, stat.mtime_ns)
