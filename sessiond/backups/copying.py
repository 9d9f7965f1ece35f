"""A tree of copies that is made under a temporary name, each copy with its sum, and gets its real name when it is complete.

Synchronous; a backup calls it on a thread. Everything is synced before the name is given, so a tree with the real name is
complete, even after a power failure.
"""

from __future__ import annotations

import errno
import hashlib
import posixpath
from collections.abc import Callable, Iterator

import msgspec

from sessiond.backups.manifest import CONFIG, DATA
from sessiond.fs import FileSystem, Stat
from sessiond.limits import MIB

_CHUNK_BYTES = 8 * MIB
_LOOKS = 8
SUMS = "SHA256SUMS"


class CopiedFile(msgspec.Struct, frozen=True):
    """A file in the tree, and the version of the original that was copied."""

    version: tuple[int, int, int] | None
    """Inode, size and mtime; None if it kept changing while it was read."""
    bytes: int
    sha256: str


class Unreadable(Exception):
    """An original cannot be read; the text says why, for people."""


class BackupTree:
    """`target`: the real name, which must be free. `tag`: tells our own leftovers from those of others."""

    def __init__(self, fs: FileSystem, target: str, tag: str) -> None:
        self._fs = fs
        self._target = target
        folder, name = posixpath.split(target)
        short = name.encode()[:150].decode(errors="ignore")
        self._root = posixpath.join(folder, f".{short}.{tag}.new")
        self.copies: dict[str, CopiedFile] = {}
        """Copies by their path in the tree."""
        self._folders: set[str] = set()

    @property
    def total_bytes(self) -> int:
        return sum(copy.bytes for copy in self.copies.values())

    def begin(self) -> None:
        """Create a tree without files. Leftovers of our earlier ones after a crash are removed."""
        self.abandon()
        for folder in (self._root, *(posixpath.join(self._root, name) for name in (DATA, CONFIG))):
            self._fs.make_dirs(folder)  # also where nothing will be in it: both are copied when a backup is put back
            self._folders.add(folder)

    def copy(self, source: str, name: str, size: int | None = None) -> bool:
        """Copy a file, or its first `size` bytes, unless the tree has this version of it. False: it is gone, and its copy is
        removed. Unreadable: an error of the original; OSError: of the copy.
        """
        for _ in range(_LOOKS):
            try:
                before = self._fs.stat(source)
            except OSError as error:
                raise Unreadable(f"cannot be examined: {error.strerror or error}") from error
            if before is None:
                self.drop(name)
                return False
            version = (before.ino, before.size, before.mtime_ns)
            if name in self.copies and self.copies[name].version == version:
                return True
            try:
                count, digest = self._write(source, name, before, before.size if size is None else size)
            except FileNotFoundError as error:
                if error.filename != source:
                    raise
                continue  # it disappeared between two checks
            after = self._fs.stat(source)
            steady = after is not None and (after.ino, after.size, after.mtime_ns) == version
            self.copies[name] = CopiedFile(version if steady else None, count, digest)
            if steady or size is not None:
                return True
        return self._fs.stat(source) is not None

    def _write(self, source: str, name: str, stat: Stat, size: int) -> tuple[int, str]:
        path = self._place(name)
        if name in self.copies:
            self.drop(name)
        digest, offset = hashlib.sha256(), 0
        while True:
            part = self._read(source, offset, min(_CHUNK_BYTES, size - offset))
            digest.update(part)
            if offset == 0:
                self._fs.create(path, part, stat.mode & 0o777 | 0o600)
                self.copies[name] = CopiedFile(None, 0, "")
            elif part:
                self._fs.append(path, part)
            offset += len(part)
            if not part or offset >= size:
                return offset, digest.hexdigest()

    def _read(self, source: str, offset: int, size: int) -> bytes:
        try:
            return self._fs.read(source, offset, size)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Unreadable(f"cannot be read: {error.strerror or error}") from error

    def path(self, name: str) -> str:
        return posixpath.join(self._root, name)

    def put(self, name: str, content: bytes) -> None:
        """Write a file with this content."""
        self._fs.create(self._place(name), content)
        self.copies[name] = CopiedFile(None, len(content), hashlib.sha256(content).hexdigest())

    def drop(self, name: str) -> None:
        if self.copies.pop(name, None) is not None:
            self._fs.remove(posixpath.join(self._root, name))

    def _place(self, name: str) -> str:
        path = posixpath.join(self._root, name)
        folder = posixpath.dirname(path)
        if folder not in self._folders:
            self._fs.make_dirs(folder)
            while folder not in self._folders:
                self._folders.add(folder)
                folder = posixpath.dirname(folder)
        return path

    def finish(self) -> None:
        """Give the tree its name. FileExistsError if that was taken meanwhile."""
        self._fs.create(posixpath.join(self._root, SUMS), encode_sums(self.copies))
        for folder in sorted(self._folders, reverse=True):
            self._fs.sync_dir(folder)
        if self._fs.has_name(self._target):
            raise FileExistsError(errno.EEXIST, "File exists", self._target)
        self._fs.replace(self._root, self._target)
        self._root = self._target  # to be removed again if the next step fails
        self._fs.sync_dir(posixpath.dirname(self._target))

    def abandon(self) -> None:
        """Remove everything."""
        if self._fs.has_name(self._root):
            remove_tree(self._fs, self._root)
            self._fs.sync_dir(posixpath.dirname(self._root))


def remove_tree(fs: FileSystem, folder: str) -> None:
    """Remove a folder of ours, which has no links in it."""
    for name in fs.list_dir(folder):
        path = posixpath.join(folder, name)
        stat = fs.stat(path)
        if stat is not None and stat.is_dir:
            remove_tree(fs, path)
        else:
            fs.remove(path)
    fs.remove_dir(folder)


def walk(fs: FileSystem, root: str, below: str = "", *, passed: Callable[[str, OSError], None]) -> Iterator[str]:
    """Regular files under `root`, as relative paths. Files that disappear meanwhile are left out. `passed` is called with
    what cannot be examined, and why.
    """
    place = posixpath.join(root, below) if below else root
    try:
        names = fs.list_dir(place)
    except FileNotFoundError:
        return
    except OSError as error:
        passed(place, error)
        return
    for name in sorted(names):
        relative = posixpath.join(below, name)
        try:
            stat = fs.stat(posixpath.join(root, relative))
        except OSError as error:
            passed(posixpath.join(root, relative), error)
            continue
        if stat is not None and stat.is_dir:
            yield from walk(fs, root, relative, passed=passed)
        elif stat is not None and stat.is_file:
            yield relative


def encode_sums(copies: dict[str, CopiedFile]) -> bytes:
    """Encode the sums as `sha256sum` writes them and `sha256sum --check` reads them."""
    lines = []
    for name, copy in sorted(copies.items()):
        escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{'' if escaped == name else chr(92)}{copy.sha256}  {escaped}\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def decode_sums(content: bytes) -> dict[str, str]:
    """Path -> sum. ValueError for a malformed line."""
    found = {}
    for number, line in enumerate(content.decode("utf-8", "surrogateescape").split("\n")[:-1], 1):
        escaped = line.startswith("\\")
        digest, gap, name = line[escaped : escaped + 64], line[escaped + 64 : escaped + 66], line[escaped + 66 :]
        if gap != "  " or len(digest) != 64 or not name:
            raise ValueError(f"line {number} is not a sum")
        if escaped:
            name = name.replace("\\\\", "\0").replace("\\n", "\n").replace("\\r", "\r").replace("\0", "\\")
        found[name] = digest
    if not content.endswith(b"\n"):
        raise ValueError("its end is missing")
    return found
