"""A disk in memory that crashes as a real one may.

What a program sees (the page cache) and what is on the disk are kept apart, for the bytes of every file and for every name
in every folder. `crash_images` yields the disks that a power failure at this moment may leave: unsynced data is there, or is
not, or in part (torn), or as zeros, or although something older is not (reordered); a new name is there or not, in any
combination that keeps the order of what happened to one name and lets a rename's new name exist before its old one is gone.

`crash_at = n` raises `Crash` instead of the step number n (counted from 0 in `steps`), and in every later call.
`revive()` is a kill -9 instead of a power failure: the page cache is still there. `fail` makes steps raise OSErrors.
`capacity` is the size of the disk in bytes.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import posixpath
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from sessiond.fs import DiskFailed, Stat

_MAX_PRODUCT = 4096
"""Combinations that are enumerated; beyond, they are sampled."""


class Crash(BaseException):
    """The power is gone. No Exception, so that nothing but a test handles it."""


@dataclass
class _Op:
    """One change of a file's bytes: `data` written at `offset`, or with None the file cut to `offset` bytes."""

    offset: int
    data: bytes | None
    fate: str = "open"
    """`open`: not synced yet; `kept`: synced; `lost`: its sync failed, and no later one tells the truth about it; `hint`: nobody will sync it."""


@dataclass
class _File:
    mode: int
    ino: int
    data: bytearray = field(default_factory=bytearray)
    base: bytes = b""
    """On the disk before `ops`."""
    ops: list[_Op] = field(default_factory=list)
    mtime_ns: int = 0

    def settle(self) -> None:
        while self.ops and self.ops[0].fate == "kept":
            self.base = _apply(self.base, self.ops.pop(0), "full")


@dataclass
class _Folder:
    ino: int
    mode: int = 0o700
    names: dict[str, _Node] = field(default_factory=dict)
    durable: dict[str, _Node] = field(default_factory=dict)


_Node = _File | _Folder


@dataclass(eq=False)
class _NameOp:
    folder: _Folder
    name: str
    node: _Node | None
    after: _NameOp | None = None
    """It is never on the disk without this one (a rename's new name comes before its old one goes)."""


@dataclass
class _Fault:
    step: str
    path: str
    skip: int
    times: int
    error: int
    written: int
    """Of a write: how many bytes get through before it fails."""


class CrashFS:
    def __init__(self, *, seed: int = 0, capacity: int | None = None) -> None:
        self.seed = seed
        self.capacity = capacity
        self.steps = 0
        self.trace: list[str] = []
        self.crash_at: int | None = None
        self.crashed = False
        self.story = "as it was"
        """Of an image: what became of that which was not synced."""
        self._faults: list[_Fault] = []
        self._inos = itertools.count(2)
        self._root = _Folder(ino=1)
        self._pending: list[_NameOp] = []
        self._locks: set[str] = set()
        self._now_ns = 1_000_000_000
        self.written = 0
        """Bytes, in all files."""

    # What tests do to it

    def fail(self, step: str, error: int, *, path: str = "", skip: int = 0, times: int = 1, written: int = 0) -> None:
        """The next steps of a kind whose path contains `path`, after `skip` of them, raise. Kinds: read, list, make (a
        name), write, sync, truncate, rename, link, remove, sync_dir. A failed sync loses its data: later ones lie."""
        self._faults.append(_Fault(step, path, skip, times, error, written))

    def heal(self) -> None:
        self._faults.clear()

    def revive(self) -> None:
        """The process was killed, the machine was not."""
        self.crash_at, self.crashed = None, False
        self._locks.clear()

    def used(self) -> int:
        files = {id(node): node for _, node in self._walk(self._root, "/") if isinstance(node, _File)}
        return sum(len(node.data) for node in files.values())

    def tree(self) -> dict[str, bytes]:
        """Every file's path and bytes, as a program sees them."""
        return {path: bytes(node.data) for path, node in self._walk(self._root, "/") if isinstance(node, _File)}

    def poke(self, path: str, data: bytes) -> None:
        """Somebody or something changed a file's bytes, durably."""
        node = self._file(path)
        node.data, node.base, node.ops = bytearray(data), bytes(data), []

    # Images

    def crash_images(self, limit: int | None = None) -> Iterator[CrashFS]:
        """Every disk that a crash now may leave, each once; more than `limit` are sampled, the extremes first."""
        seen: set[tuple[tuple[str, bytes | None], ...]] = set()
        for image in self._images(limit or _MAX_PRODUCT):
            content = tuple(
                (path, bytes(node.data) if isinstance(node, _File) else None)
                for path, node in image._walk(image._root, "/")
            )
            if content not in seen:
                seen.add(content)
                yield image
                if limit is not None and len(seen) >= limit:
                    return

    def _images(self, limit: int) -> Iterator[CrashFS]:
        name_states = list(self._name_states(limit))
        variants: dict[int, list[tuple[str, bytes]]] = {}
        states = [(names, self._files_of(names, variants)) for names in name_states]
        sizes = [_product(len(variants[ino]) for ino in files) for _, files in states]
        if sum(sizes) <= limit:
            for names, files in states:
                for choice in itertools.product(*(variants[ino] for ino in files)):
                    yield self._image(names, dict(zip(files, choice, strict=True)))
            return
        print(f"crash images: {limit} of {sum(sizes)}, seed {self.seed}")
        rng = random.Random(f"{self.seed} {self.steps}")
        extremes = [(state, place) for place in (0, -1) for state in (states[0], states[-1])]
        for (names, files), place in extremes:
            yield self._image(names, {ino: variants[ino][place] for ino in files})
        for _ in range(limit * 2):
            names, files = rng.choices(states, [size**0.5 for size in sizes])[0]
            yield self._image(names, {ino: rng.choice(variants[ino]) for ino in files})

    def _name_states(self, limit: int) -> Iterator[frozenset[_NameOp]]:
        """Sets of name operations that may have reached the disk; the empty set first, all of them last."""
        entries: dict[tuple[int, str], list[_NameOp]] = {}
        for op in self._pending:
            entries.setdefault((op.folder.ino, op.name), []).append(op)
        lists = list(entries.values())
        if _product(len(ops) + 1 for ops in lists) <= limit:
            cuts: Iterator[tuple[int, ...]] = itertools.product(*(range(len(ops) + 1) for ops in lists))
        else:
            rng = random.Random(self.seed)
            most = tuple(len(ops) for ops in lists)
            middle = [tuple(rng.randint(0, len(ops)) for ops in lists) for _ in range(limit)]
            cuts = iter([tuple(0 for _ in lists), *middle, most])
        for cut in cuts:
            chosen = frozenset(op for ops, count in zip(lists, cut, strict=True) for op in ops[:count])
            if all(op.after is None or op.after in chosen or op.after not in self._pending for op in chosen):
                yield chosen

    def _files_of(self, chosen: frozenset[_NameOp], variants: dict[int, list[tuple[str, bytes]]]) -> list[int]:
        """The files that can be reached then, and (into `variants`) what may be in them: the least first, all last."""
        found: list[int] = []
        folders = [self._root]
        while folders:
            folder = folders.pop()
            for _, node in sorted(self._durable_names(folder, chosen).items()):
                if isinstance(node, _Folder):
                    folders.append(node)
                elif node.ino not in found:
                    found.append(node.ino)
                    if node.ino not in variants:
                        variants[node.ino] = _variants(node, self.seed)
        return found

    def _durable_names(self, folder: _Folder, chosen: frozenset[_NameOp]) -> dict[str, _Node]:
        names = dict(folder.durable)
        for op in self._pending:
            if op.folder is folder and op in chosen:
                _set_name(names, op)
        return names

    def _image(self, chosen: frozenset[_NameOp], contents: dict[int, tuple[str, bytes]]) -> CrashFS:
        image = CrashFS(seed=self.seed, capacity=self.capacity)
        image._inos, image._now_ns = itertools.count(next(self._inos) + 1000), self._now_ns
        made: dict[int, _File] = {}

        def copy(folder: _Folder, into: _Folder) -> None:
            for name, node in self._durable_names(folder, chosen).items():
                if isinstance(node, _Folder):
                    twin: _Node = _Folder(node.ino, node.mode)
                    copy(node, twin)
                else:
                    data = contents[node.ino][1]
                    twin = made.setdefault(
                        node.ino, _File(node.mode, node.ino, bytearray(data), data, [], node.mtime_ns)
                    )
                into.names[name] = into.durable[name] = twin

        copy(self._root, image._root)
        gone = [op.name for op in self._pending if op not in chosen]
        states = [f"{ino}: {story}" for ino, (story, _) in contents.items() if story != "all"]
        image.story = f"before step {self.steps}; names not there: {gone}; files: {states}"
        return image

    # The port

    def confine(self, root: str, inner: str = "") -> None:
        """Links do not exist here."""

    def hold(self, root: str) -> AbstractContextManager[None]:
        """Folders are not swapped here."""
        return contextlib.nullcontext()

    def is_link(self, path: str) -> bool:
        return False

    def stat(self, path: str) -> Stat | None:
        self._alive()
        node = self._find(path)
        if node is None:
            return None
        is_file = isinstance(node, _File)
        size, mtime = (len(node.data), node.mtime_ns) if isinstance(node, _File) else (0, 0)
        links = sum(1 for _, other in self._walk(self._root, "/") if other is node)
        return Stat(1, node.ino, size, mtime, node.mode, os.getuid(), links, is_file, not is_file)

    def look(self, path: str) -> Stat | None:
        return self.stat(path)

    def has_name(self, path: str) -> bool:
        return self.stat(path) is not None

    def list_dir(self, path: str) -> list[str]:
        self._alive()
        self._maybe_fail("list", path)
        return list(self._folder(path).names)

    def real_path(self, path: str) -> str:
        return posixpath.normpath(path)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        self._alive()
        self._maybe_fail("read", path)
        data = self._file(path).data
        return bytes(data[offset:] if size < 0 else data[offset : offset + size])

    def make_dirs(self, path: str, mode: int = 0o700) -> None:
        missing: list[str] = []
        while not isinstance(self._find(path), _Folder):
            missing.append(path)
            path = posixpath.dirname(path)
        self.sync_dir(posixpath.dirname(path))
        for folder in reversed(missing):
            self._step("make", folder)
            self._need_free(folder)
            self._name(folder, _Folder(next(self._inos), mode))
            self.sync_dir(posixpath.dirname(folder))

    def create(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        self._make(path, mode)
        try:
            self._write(path, data)
            self._sync(path)
        except OSError:
            self._name(path, None)
            raise
        return self._stat(path)

    def append(self, path: str, data: bytes, mode: int = 0o600) -> Stat:
        if self._find(path) is None:
            self.create(path, data, mode)
            self.sync_dir(posixpath.dirname(path))
            return self._stat(path)
        before = len(self._file(path).data)
        try:
            self._write(path, data)
        except OSError:
            self._truncate(path, before)
            raise
        self._sync(path)
        return self._stat(path)

    def replace(self, source: str, target: str) -> None:
        self._step("rename", source)
        node = self._existing(source)
        arrival = self._name(target, node)
        self._name(source, None, after=arrival)

    def link(self, source: str, target: str) -> None:
        self._step("link", target)
        node = self._file(source)
        self._need_free(target)
        self._name(target, node)

    def remove(self, path: str) -> None:
        self._step("remove", path)
        self._file(path)
        self._name(path, None)

    def remove_dir(self, path: str) -> None:
        self._step("remove", path)
        if self._folder(path).names:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._name(path, None)

    def sync_dir(self, path: str) -> None:
        self._alive()
        folder = self._folder(path)
        try:
            self._step("sync_dir", path)
        except DiskFailed:
            raise
        except OSError as error:
            raise DiskFailed(error.errno, error.strerror, path) from error
        due = {op for op in self._pending if op.folder is folder}
        while more := {op.after for op in due if op.after in self._pending} - due:
            due |= {op for op in more if op is not None}
        for op in [op for op in self._pending if op in due]:
            _set_name(op.folder.durable, op)
            self._pending.remove(op)

    def open_log(self, path: str, mode: int = 0o600) -> CrashLog:
        if self._find(path) is None:
            self._make(path, mode)
        self._alive()
        return CrashLog(self, path, self._file(path))

    def open_hint(self, path: str, mode: int = 0o600) -> CrashHint:
        if self._find(path) is None:
            self._make(path, mode)
        self._alive()
        return CrashHint(self, path, self._file(path))

    def lock(self, path: str) -> CrashLock:
        if self._find(path) is None:
            self._make(path, 0o600)
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "locked", path)
        self._locks.add(path)
        return CrashLock(self._locks, path)

    def free_bytes(self, path: str) -> int:
        self._alive()
        return 1 << 40 if self.capacity is None else max(0, self.capacity - self.used())

    # Steps

    def _alive(self) -> None:
        if self.crashed:
            raise Crash

    def _step(self, kind: str, path: str) -> None:
        self._alive()
        if self.crash_at == self.steps:
            self.crashed = True
            raise Crash
        self.steps += 1
        self.trace.append(f"{kind} {posixpath.basename(path)}")
        self._maybe_fail(kind, path)

    def _maybe_fail(self, kind: str, path: str) -> None:
        fault = self._fault(kind, path)
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error), path)

    def _fault(self, kind: str, path: str) -> _Fault | None:
        for fault in self._faults:
            if fault.step == kind and fault.path in path:
                if fault.skip:
                    fault.skip -= 1
                elif fault.times:
                    fault.times -= 1
                    return fault
        return None

    def _make(self, path: str, mode: int) -> None:
        self._step("make", path)
        self._need_free(path)
        if self.capacity is not None and self.used() >= self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self._name(path, _File(mode, next(self._inos)))

    def _write(self, path: str, data: bytes, node: _File | None = None, at: int | None = None) -> None:
        self._alive()
        node = node or self._file(path)
        at = len(node.data) if at is None else at
        if self.crash_at == self.steps:
            self._step("write", path)
        self.steps += 1
        self.trace.append(f"write {posixpath.basename(path)} {len(data)}")
        fault = self._fault("write", path)
        through, error = (fault.written, fault.error) if fault else (len(data), 0)
        there = len(node.data) - at
        if self.capacity is not None and through > (room := there + max(0, self.capacity - self.used())):
            through, error = room, errno.ENOSPC
        if through:
            node.ops.append(_Op(at, bytes(data[:through])))
            node.data[at : at + through] = data[:through]
            self.written += through
            self._now_ns += 1_000_000
            node.mtime_ns = self._now_ns
        if error:
            raise OSError(error, os.strerror(error), path)

    def _reserve(self, path: str, size: int, node: _File) -> None:
        self._step("reserve", path)
        more = size - len(node.data)
        if self.capacity is not None and more > self.capacity - self.used():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if more > 0:
            node.ops.append(_Op(len(node.data), bytes(more)))
            node.data += bytes(more)
        self._sync(path, node)

    def _truncate(self, path: str, size: int, node: _File | None = None) -> None:
        self._step("truncate", path)
        node = node or self._file(path)
        if size != len(node.data):
            node.ops.append(_Op(size, None))
            del node.data[size:]

    def _sync(self, path: str, node: _File | None = None) -> None:
        node = node or self._file(path)
        try:
            self._step("sync", path)
        except OSError as error:
            for op in node.ops:
                if op.fate == "open":
                    op.fate = "lost"
            raise DiskFailed(error.errno, error.strerror, path) from error
        for op in node.ops:
            if op.fate == "open":
                op.fate = "kept"
        node.settle()

    # Names

    def _name(self, path: str, node: _Node | None, after: _NameOp | None = None) -> _NameOp:
        folder, name = posixpath.split(path)
        op = _NameOp(self._folder(folder), name, node, after)
        _set_name(op.folder.names, op)
        self._pending.append(op)
        return op

    def _find(self, path: str) -> _Node | None:
        node: _Node = self._root
        for part in path.strip("/").split("/"):
            if part:
                if not isinstance(node, _Folder) or part not in node.names:
                    return None
                node = node.names[part]
        return node

    def _existing(self, path: str) -> _Node:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node

    def _file(self, path: str) -> _File:
        node = self._existing(path)
        if isinstance(node, _Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _folder(self, path: str) -> _Folder:
        node = self._existing(path)
        if isinstance(node, _File):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _need_free(self, path: str) -> None:
        self._folder(posixpath.dirname(path))
        if self._find(path) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def _stat(self, path: str) -> Stat:
        stat = self.stat(path)
        assert stat is not None
        return stat

    def _walk(self, folder: _Folder, path: str) -> Iterator[tuple[str, _Node]]:
        for name, node in sorted(folder.names.items()):
            inner = posixpath.join(path, name)
            yield inner, node
            if isinstance(node, _Folder):
                yield from self._walk(node, inner)


class CrashLog:
    def __init__(self, fs: CrashFS, path: str, node: _File) -> None:
        self._fs = fs
        self._path = path
        self._node = node
        self._size = len(node.data)

    @property
    def size(self) -> int:
        return self._size

    def write(self, data: bytes) -> None:
        before = self._fs.written
        try:
            self._fs._write(self._path, data, self._node, self._size)
        finally:
            self._size += self._fs.written - before

    def reserve(self, size: int) -> None:
        self._fs._reserve(self._path, size, self._node)

    def sync(self) -> None:
        self._fs._sync(self._path, self._node)

    def truncate(self, size: int) -> None:
        self._fs._truncate(self._path, size, self._node)
        self._size = size

    def close(self) -> None:
        pass


class CrashHint:
    """Of what is not synced the images have all of the newest bytes, or a part, or none; what came between is left out."""

    def __init__(self, fs: CrashFS, path: str, node: _File) -> None:
        self._fs = fs
        self._path = path
        self._node = node

    def sync(self) -> None:
        try:
            self._fs._step("sync", self._path)
        except OSError as error:
            raise DiskFailed(error.errno, error.strerror, self._path) from error
        self._node.base, self._node.ops = bytes(self._node.data), []

    def put(self, data: bytes) -> None:
        self._fs._alive()
        self._node.data[:] = data
        self._node.ops = [_Op(0, data, "hint")]

    def close(self) -> None:
        pass


class CrashLock:
    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        self._locks.discard(self._path)


def _set_name(names: dict[str, _Node], op: _NameOp) -> None:
    if op.node is None:
        names.pop(op.name, None)
    else:
        names[op.name] = op.node


def _product(numbers: Iterator[int]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total


def _variants(node: _File, seed: int) -> list[tuple[str, bytes]]:
    """What may be in a file after a crash, with a word for each; only what was synced comes first, everything last."""
    fates = [_fates(op) for op in node.ops]
    if _product(len(options) for options in fates) <= 512:
        choices = list(itertools.product(*fates))
    else:
        rng = random.Random(f"{seed} {node.ino} {len(node.ops)}")
        first, last = tuple(options[0] for options in fates), tuple(options[-1] for options in fates)
        middle = [tuple(rng.choice(options) for options in fates) for _ in range(510)]
        choices = [first, *middle, last]
    found: dict[bytes, str] = {}
    for choice in choices:
        data = node.base
        for op, fate in zip(node.ops, choice, strict=True):
            data = _apply(data, op, fate)
        found.pop(data, None)  # the last word for the same bytes, so that all of it stays last
        found[data] = "all" if all(fate == "full" for fate in choice) else ", ".join(choice)
    return [(story, data) for data, story in found.items()]


def _fates(op: _Op) -> list[str]:
    if op.fate == "kept":
        return ["full"]
    if op.data is None:
        return ["none", "full"]
    if op.fate == "hint":
        return ["none", "zeros for 16", "full"]
    size = len(op.data)
    cuts = sorted(cut for cut in {1, 8, 40, size // 2, size - 1} if 0 < cut < size)
    return ["none", "zeros", *(f"first {cut}" for cut in cuts), *(f"zeros for {cut}" for cut in cuts[-2:]), "full"]


def _apply(data: bytes, op: _Op, fate: str) -> bytes:
    """`data` after as much of an operation as reached the disk. A gap before what is written reads as zeros."""
    if fate == "none":
        return data
    if op.data is None:
        return data[: op.offset]
    written = op.data
    if fate.startswith("first "):
        written = written[: int(fate.split()[1])]
    elif fate.startswith("zeros"):  # the size grew, the data did not come
        count = int(fate.split()[2]) if fate != "zeros" else len(written)
        written = b"\0" * count + written[count:]
    padded = data.ljust(op.offset, b"\0")
    return padded[: op.offset] + written + padded[op.offset + len(written) :]
