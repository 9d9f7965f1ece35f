"""The trash of one store: a folder an entry under `data/trash/<store>/`, never inside an adopted folder. Synchronous.

An entry holds `meta.json`, the session in the native format (`session.jsonl`, lossless), and under `files/` the
original files byte for byte where there were any, so that a restore brings back even what was not understood.
"""

from __future__ import annotations

import logging
import posixpath
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from sessiond.errors import AlreadyExists, BadFile, SessionNotFound
from sessiond.formats import jsonl
from sessiond.formats.base import Files
from sessiond.fs import FileSystem, atomic_write
from sessiond.model.session import Session, SessionInfo
from sessiond.store.port import Trashed

log = logging.getLogger(__name__)


class _Meta(msgspec.Struct):
    trash_id: str
    local_id: str
    """The id that the session had."""
    deleted_at: str
    reason: str
    info: SessionInfo
    files: list[str] = []
    """Relative path of each original, in the order of `files/0`, `files/1`, ..."""


P = ParamSpec("P")
T = TypeVar("T")


def _alone(method: Callable[Concatenate[Trash, P], T]) -> Callable[Concatenate[Trash, P], T]:
    @wraps(method)
    def call(self: Trash, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._one_by_one:
            return method(self, *args, **kwargs)

    return call


class Trash:
    def __init__(self, fs: FileSystem, folder: str) -> None:
        self.fs = fs
        self.folder = folder
        self._one_by_one = threading.RLock()
        """Its calls come from several threads, and an entry is several files."""

    @_alone
    def put(self, trash_id: str, session: Session, files: Files, *, at: str, reason: str) -> None:
        """Make an entry, durable when this returns. An older one of the same id is renamed to `ID.was-SEQ`."""
        if self.mark(trash_id) is not None:
            self._rename_older(trash_id)
        entry = posixpath.join(self.folder, trash_id)
        self.fs.make_dirs(posixpath.join(entry, "files") if files else entry)
        self._clear(entry)
        for number, content in enumerate(files.values()):
            self.fs.create(posixpath.join(entry, "files", str(number)), content)
        if files:
            self.fs.sync_dir(posixpath.join(entry, "files"))
        native = jsonl.encode(session, {})
        self.fs.create(posixpath.join(entry, "session.jsonl"), native[0].data)
        meta = _Meta(trash_id, session.local_id, at, reason, session.info(trash_id), list(files))
        # The entry counts from here on: everything before it is synced.
        atomic_write(self.fs, posixpath.join(entry, "meta.json"), msgspec.json.encode(meta))

    def _clear(self, entry: str) -> None:
        """What a crash left of an entry that never got its `meta.json`."""
        for folder in (posixpath.join(entry, "files"), entry):
            if self.fs.stat(folder) is not None:
                for name in self.fs.list_dir(folder):
                    path = posixpath.join(folder, name)
                    stat = self.fs.stat(path)
                    if stat is not None and not stat.is_dir:
                        self.fs.remove(path)

    def _rename_older(self, trash_id: str) -> None:
        try:
            meta = self._meta(trash_id)
            seq = meta.info.seq if meta else 0
        except BadFile:
            seq = 0  # it cannot be read, and is kept all the same
        base = f"{trash_id[:100]}.was-{seq}"
        name, number = base, 2
        while self.mark(name) is not None:
            name, number = f"{base}-{number}", number + 1
        self.fs.replace(posixpath.join(self.folder, trash_id), posixpath.join(self.folder, name))
        self.fs.sync_dir(self.folder)

    def _meta(self, trash_id: str) -> _Meta | None:
        path = posixpath.join(self.folder, trash_id, "meta.json")
        if self.fs.stat(path) is None:
            return None
        try:
            return msgspec.json.decode(self.fs.read(path), type=_Meta)
        except msgspec.MsgspecError as error:
            raise BadFile(
                f"{path} cannot be read: {error}",
                hint="what was deleted lies beside it, in session.jsonl",
                path=path,
                line=None,
            ) from error

    @_alone
    def list(self) -> list[Trashed]:
        if self.fs.stat(self.folder) is None:
            return []
        entries = []
        for name in sorted(self.fs.list_dir(self.folder)):
            try:
                meta = self._meta(name)
            except BadFile as error:
                log.warning("%s", error.message)  # one entry, not the whole trash
                continue
            if meta is not None:
                info = msgspec.structs.replace(meta.info, session_id=name)
                entries.append(Trashed(trash_id=name, deleted_at=meta.deleted_at, info=info, reason=meta.reason))
        return entries

    @_alone
    def expire(self, before: str) -> Sequence[str]:
        """Take out for ever what was deleted before a time (RFC 3339, UTC). What they were; unreadable entries stay."""
        old = [entry.trash_id for entry in self.list() if entry.deleted_at < before]
        for trash_id in old:
            self.remove(trash_id)
        return old

    @_alone
    def info(self, trash_id: str) -> Trashed | None:
        """One entry; None where there is none. BadFile."""
        meta = self._meta(trash_id)
        return None if meta is None else Trashed(trash_id, meta.deleted_at, meta.info, meta.reason)

    @_alone
    def describe_anew(self, trash_id: str) -> str | None:
        """Make the `meta.json` of an entry whose own cannot be read from the session beside it, and keep a copy. What was done, for people;
        None where the session cannot be read either.
        """
        entry = posixpath.join(self.folder, trash_id)
        content = self.fs.read(posixpath.join(entry, "session.jsonl"))
        decoded = jsonl.decode(trash_id, {jsonl.main_path(trash_id): content})
        if decoded.fatal is not None:
            return None
        path = posixpath.join(entry, "meta.json")
        copy = self.keep_bytes(f"{trash_id}%2Fmeta.json", self.fs.read(path))
        session = decoded.session
        # The originals' names are lost with it; the session itself is whole.
        meta = _Meta(trash_id, trash_id, session.updated_at, "deleted", session.info(trash_id))
        atomic_write(self.fs, path, msgspec.json.encode(meta))
        return f"made anew from the session beside it ({len(session)} messages); what it was is {copy}"

    @_alone
    def mark(self, trash_id: str) -> bytes | None:
        """What tells this entry from a later one of the same id; None where there is none."""
        path = posixpath.join(self.folder, trash_id, "meta.json")
        return None if self.fs.stat(path) is None else self.fs.read(path)

    @_alone
    def get(self, trash_id: str) -> tuple[Session, dict[str, bytes], str, str]:
        """(session, original files, reason, the id it had). SessionNotFound."""
        meta = self._meta(trash_id)
        if meta is None:
            raise SessionNotFound(
                f"no session {trash_id!r} in the trash", hint="`sessiond list --deleted` shows what is there"
            )
        entry = posixpath.join(self.folder, trash_id)
        content = self.fs.read(posixpath.join(entry, "session.jsonl"))
        decoded = jsonl.decode(trash_id, {jsonl.main_path(trash_id): content})
        files = {path: self.fs.read(posixpath.join(entry, "files", str(n))) for n, path in enumerate(meta.files)}
        return decoded.session, files, meta.reason, meta.local_id

    @_alone
    def remove(self, trash_id: str, only: bytes | None = None) -> None:
        """Take an entry out for ever. `only`: what `mark` said of it; another entry that took its id since stays."""
        entry = posixpath.join(self.folder, trash_id)
        if self.fs.stat(entry) is None or (only is not None and self.mark(trash_id) != only):
            return
        meta = posixpath.join(entry, "meta.json")
        if self.fs.stat(meta) is not None:
            self.fs.remove(meta)
            self.fs.sync_dir(entry)
        self._clear(entry)
        if self.fs.stat(posixpath.join(entry, "files")) is not None:
            self.fs.remove_dir(posixpath.join(entry, "files"))
        self.fs.remove_dir(entry)
        self.fs.sync_dir(self.folder)

    @_alone
    def keep_bytes(self, name: str, content: bytes) -> str:
        """A copy of bytes that could not be understood, before something of ours replaces them. Answers where."""
        folder = posixpath.join(self.folder, ".damaged")
        self.fs.make_dirs(folder)
        number, path = 1, posixpath.join(folder, name)
        while self.fs.stat(path) is not None:
            number, path = number + 1, posixpath.join(folder, f"{name}.{number}")
        try:
            self.fs.create(path, content)
        except FileExistsError as error:
            raise AlreadyExists(f"{path} is there already") from error
        self.fs.sync_dir(folder)
        return path
