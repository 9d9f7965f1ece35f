"""The trash of one store: one folder for each entry under `data/trash/<store>/`, never inside an adopted folder.
Synchronous.

An entry holds `meta.json`, the session in the native format (`session.jsonl`, lossless), and under `files/` the original
files byte for byte if there were any, so that a restore brings back even what was not understood.

An entry is created and removed under a dot-name, which no list shows, and counts from the moment that the folder is synced
with its real name in it:

    .T.new    being created. It never counted: nobody was told that it exists.
    .T.old    the entry that a `.new` is about to replace, while neither certainly has the real name.
    .T.gone   being removed. It will never count again.

`clean` settles what a crash left of them. The trash never decides whether a session is alive: its owner does, and calls
`settle` to remove an entry that holds nothing beyond the session.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import posixpath
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from sessiond.errors import AlreadyExists, BadFile, SessionNotFound
from sessiond.formats import jsonl
from sessiond.formats.base import Decoded, Files
from sessiond.formats.names import id_in_trash
from sessiond.formats.sidecar import FOLDER
from sessiond.fs import FileSystem, Linked, atomic_write, is_temporary
from sessiond.misfits import Misfits
from sessiond.model.session import Session, SessionInfo
from sessiond.model.values import epoch_ms, timestamp
from sessiond.ready import ready
from sessiond.store.merge import adds_nothing_to
from sessiond.store.port import Trashed
from sessiond.store.trash_age import Ageing

log = logging.getLogger(__name__)
_stuck = Misfits(log, "could not be removed from the trash")
_NEW, _OLD, _GONE = ".new", ".old", ".gone"
_DAMAGED = ".damaged"


class _Meta(msgspec.Struct):
    trash_id: str
    local_id: str
    """The id that the session had."""
    deleted_at: str
    reason: str
    info: SessionInfo
    files: list[str] = []
    """Relative path of each original, in the order of `files/0`, `files/1`, ..."""
    told: bool = False
    """The session holds everything that is in the originals."""
    lived_ms: int | None = None
    """The trash's own age in ms when this was put there; None: it was put there by an older version."""


P = ParamSpec("P")
T = TypeVar("T")


ready(_Meta)


def _alone(method: Callable[Concatenate[Trash, P], T]) -> Callable[Concatenate[Trash, P], T]:
    @wraps(method)
    def call(self: Trash, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._one_by_one:
            return method(self, *args, **kwargs)

    return call


def copy_name(path: str) -> str:
    """The name under which `keep_bytes` copies a file of a store or of the trash."""
    return path.replace("/", "%2F")


class Trash:
    def __init__(self, fs: FileSystem, folder: str) -> None:
        self.fs = fs
        self.folder = folder
        self._one_by_one = threading.RLock()
        """Calls come from several threads, and an entry has several files."""
        self._ageing = Ageing(fs, folder)

    # Creating

    @_alone
    def put(
        self,
        trash_id: str,
        session: Session,
        files: Files,
        *,
        at: str,
        reason: str,
        told: bool = False,
        own: bytes | None = None,
    ) -> None:
        """Create an entry, durable when this returns. An older one of the same id that holds more is renamed to
        `ID.was-SEQ`; one that does not is removed. `told`: the session holds everything that is in `files`. `own`: what
        `mark` returned for an entry that was made from these files before they grew.
        """
        fresh = self._temporary(_NEW)
        lived = self._ageing.now(epoch_ms(at), self._eldest)
        meta = _Meta(trash_id, session.local_id, at, reason, session.info(trash_id), list(files), told, lived)
        try:
            self._write(fresh, meta, session, files)
            older = self._make_way(trash_id, session, files, own)
        except OSError:
            with contextlib.suppress(OSError):  # the first error is raised; `clean` removes the rest
                self._take_apart(fresh)
            raise
        entry = self._path(trash_id)
        try:
            self.fs.replace(fresh, entry)
        except OSError:
            if older is not None:
                with contextlib.suppress(OSError):  # as above
                    self.fs.replace(older, entry)
            raise
        # The entry counts from here on: everything in it is synced.
        self.fs.sync_dir(self.folder)
        if older is not None:
            with contextlib.suppress(OSError):  # as above
                self._end(older)

    def _write(self, fresh: str, meta: _Meta, session: Session, files: Files) -> None:
        originals = posixpath.join(fresh, "files")
        self.fs.make_dirs(originals if files else fresh)
        for number, content in enumerate(files.values()):
            self.fs.create(posixpath.join(originals, str(number)), content)
        if files:
            self.fs.sync_dir(originals)
        self.fs.create(posixpath.join(fresh, "session.jsonl"), jsonl.encode(session, {})[0].data)
        self.fs.create(posixpath.join(fresh, "meta.json"), msgspec.json.encode(meta))
        self.fs.sync_dir(fresh)

    def _make_way(self, trash_id: str, session: Session, files: Files, own: bytes | None) -> str | None:
        """Rename an older entry of the id. Returns its new path if it is to be removed."""
        entry = self._path(trash_id)
        if not self.fs.has_name(entry):
            return None
        if self._adds_nothing_to(trash_id, session, files, own):
            older = self._temporary(_OLD)
            self.fs.replace(entry, older)
            return older
        try:
            meta = self._meta(trash_id)
            seq = meta.info.seq if meta else 0
        except BadFile:
            seq = 0  # it cannot be read, and is kept nevertheless
        base = id_in_trash(trash_id, seq)
        name, number = base, 2
        while self.fs.has_name(self._path(name)):
            name, number = f"{base}-{number}", number + 1
        self.fs.replace(entry, self._path(name))
        self.fs.sync_dir(self.folder)
        return None

    def _adds_nothing_to(self, trash_id: str, session: Session, files: Files, own: bytes | None = None) -> bool:
        """Return whether everything in an entry is in `session` and its `files`: then it is left from a delete that did not finish."""
        try:
            meta = self._meta(trash_id)
            if meta is None or meta.reason != "deleted":
                return False
            earlier, originals = self._content(trash_id, meta)
        except (BadFile, FileNotFoundError):
            return False
        whole = earlier.fatal is None and not earlier.problems
        held = (
            meta.told
            or own == self.mark(trash_id)
            or all(
                files.get(path, b"").startswith(content)
                for path, content in originals.items()
                if not path.startswith(FOLDER)
            )
        )
        return whole and held and adds_nothing_to(earlier.session, session)

    # Removing

    def _path(self, trash_id: str) -> str:
        return posixpath.join(self.folder, trash_id)

    def _temporary(self, kind: str) -> str:
        return self._path(f".{secrets.token_hex(6)}{kind}")

    def _end(self, entry: str) -> None:
        """Remove an entry: it no longer counts, and nothing of it is left."""
        gone = self._temporary(_GONE)
        self.fs.replace(entry, gone)
        self.fs.sync_dir(self.folder)
        self._take_apart(gone)

    def _take_apart(self, entry: str) -> None:
        for folder in (posixpath.join(entry, "files"), entry):
            if self.fs.is_link(folder):  # its target is not ours
                self.fs.remove(folder)
            elif self.fs.has_name(folder):
                for name in self.fs.list_dir(folder):
                    self.fs.remove(posixpath.join(folder, name))
                self.fs.remove_dir(folder)
        self.fs.sync_dir(self.folder)

    @_alone
    def clean(self) -> None:
        """Finish what a crash or a disk failure left half created or half removed. OSError."""
        if self.fs.stat(self.folder) is None:
            return
        names = [
            name for name in self.fs.list_dir(self.folder) if name[0] == "." and name.endswith((_NEW, _OLD, _GONE))
        ]
        if names:
            self.fs.sync_dir(self.folder)  # the replacement of an `.old` certainly has its name
        for name in sorted(names):
            meta = self._meta(name) if name.endswith(_OLD) else None
            if meta is not None and not self.fs.has_name(self._path(meta.trash_id)):
                self.fs.replace(self._path(name), self._path(meta.trash_id))
                self.fs.sync_dir(self.folder)
            else:
                self._take_apart(self._path(name))
        for name in filter(is_temporary, self.fs.list_dir(self.folder)):
            self.fs.remove(self._path(name))

    # Reading

    def link(self) -> str | None:
        """Return the folder that is a link, so that nothing can be removed from the trash; None if none is."""
        folders = (posixpath.dirname(self.folder), self.folder)
        return next(filter(self.fs.is_link, folders), None)

    def names(self) -> list[str]:
        """Ids of all entries, readable or not. OSError."""
        if self.fs.stat(self.folder) is None:
            return []
        return sorted(name for name in self.fs.list_dir(self.folder) if not name.startswith("."))

    def _meta(self, trash_id: str) -> _Meta | None:
        path = posixpath.join(self._path(trash_id), "meta.json")
        if self.fs.stat(path) is None:
            return None
        try:
            return msgspec.json.decode(self.fs.read(path), type=_Meta)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadFile(
                f"{path} cannot be read: {error}",
                hint="the deleted session is next to it, in session.jsonl",
                path=path,
                line=None,
            ) from error

    def _readable(self) -> Iterator[tuple[str, _Meta]]:
        for name in self.names():
            try:
                meta = self._meta(name)
            except BadFile as error:
                log.warning("%s", error.message)  # skips one entry, not the whole trash
                continue
            if meta is not None:
                yield name, meta

    def _eldest(self) -> int:
        """At least what was counted when the newest entry was added, in milliseconds."""
        return max((meta.lived_ms or 0 for _, meta in self._readable()), default=0)

    @_alone
    def list(self) -> list[Trashed]:
        return [
            Trashed(name, meta.deleted_at, msgspec.structs.replace(meta.info, session_id=name), meta.reason)
            for name, meta in self._readable()
        ]

    @_alone
    def expire(self, now_ms: int, after_ms: int) -> Sequence[str]:
        """Remove entries for ever that have been there for that much counted time (`trash_age`). Returns their ids;
        unreadable entries remain. To be called at least once a day.
        """
        entries = list(self._readable())
        if not entries:
            return []
        lived = self._ageing.look(now_ms, self._eldest)
        longest = timestamp(now_ms - after_ms)
        old = []
        for name, meta in entries:
            if lived - (meta.lived_ms or 0) < after_ms:
                continue
            # An entry of an older version does not say how much had been counted before it was added.
            if meta.lived_ms is not None or meta.deleted_at <= longest:
                old.append(name)
        gone = []
        for trash_id in old:
            with _stuck.apart(self._path(trash_id)):  # one that never goes must not keep the others for ever
                self.remove(trash_id)
                gone.append(trash_id)
        return gone

    @_alone
    def holds(self, trash_id: str) -> bool:
        """Return whether there is an entry, readable or not."""
        return self.fs.has_name(self._path(trash_id))

    @_alone
    def info(self, trash_id: str) -> Trashed | None:
        """One entry; None if it does not exist. BadFile."""
        meta = self._meta(trash_id)
        return None if meta is None else Trashed(trash_id, meta.deleted_at, meta.info, meta.reason)

    @_alone
    def part_of(self, trash_id: str) -> str | None:
        """Return the id that the session of an entry had, if it is another one. BadFile."""
        meta = self._meta(trash_id)
        return None if meta is None or meta.local_id == trash_id else meta.local_id

    @_alone
    def describe_anew(self, trash_id: str) -> str | None:
        """Recreate the unreadable `meta.json` of an entry from the session next to it, and keep a copy of the old one.
        Returns what was done, for people; None if the session cannot be read either.
        """
        entry = self._path(trash_id)
        content = self.fs.read(posixpath.join(entry, "session.jsonl"))
        decoded = jsonl.decode(trash_id, {jsonl.main_path(trash_id): content})
        if decoded.fatal is not None:
            return None
        path = posixpath.join(entry, "meta.json")
        there = self.fs.has_name(path)
        copy = self.keep_bytes(copy_name(f"{trash_id}/meta.json"), self.fs.read(path)) if there else None
        session = decoded.session
        # The originals' names are lost with it; the session itself is complete.
        info, lived = session.info(trash_id), self._ageing.now(epoch_ms(session.updated_at), self._eldest)
        meta = _Meta(trash_id, trash_id, session.updated_at, "deleted", info, lived_ms=lived)
        atomic_write(self.fs, path, msgspec.json.encode(meta), follow=False)
        told = f"recreated from the session next to it ({len(session)} messages)"
        return told if copy is None else f"{told}; the old file is in {copy}"

    @_alone
    def mark(self, trash_id: str) -> bytes | None:
        """A value that differs between this entry and a later one of the same id; None if there is no entry."""
        path = posixpath.join(self._path(trash_id), "meta.json")
        return None if self.fs.stat(path) is None else self.fs.read(path)

    @_alone
    def get(self, trash_id: str) -> tuple[Session, dict[str, bytes], str, str]:
        """(session, original files, reason, the id it had). SessionNotFound. Linked: the entry could not be removed afterwards."""
        if (link := self.link()) is not None:
            raise Linked(errno.ELOOP, "it is a link, and nothing is read through it", link)
        meta = self._meta(trash_id)
        if meta is None:
            raise SessionNotFound(
                f"no session {trash_id!r} in the trash", hint="`sessiond list --deleted` shows what is there"
            )
        decoded, files = self._content(trash_id, meta)
        decoded.session.forget_changes()
        return decoded.session, files, meta.reason, meta.local_id

    def _content(self, trash_id: str, meta: _Meta) -> tuple[Decoded, dict[str, bytes]]:
        entry = self._path(trash_id)
        content = self.fs.read(posixpath.join(entry, "session.jsonl"))
        decoded = jsonl.decode(trash_id, {jsonl.main_path(trash_id): content})
        return decoded, {
            path: self.fs.read(posixpath.join(entry, "files", str(n))) for n, path in enumerate(meta.files)
        }

    @_alone
    def remove(self, trash_id: str, only: bytes | None = None) -> None:
        """Remove an entry for ever. `only`: what `mark` returned for it; another entry that took its id since remains."""
        entry = self._path(trash_id)
        if self.fs.has_name(entry) and (only is None or self.mark(trash_id) == only):
            self._end(entry)

    @_alone
    def holds_no_more(self, session: Session, files: Files) -> bool:
        """Return whether an entry of the session's id holds nothing that the session lacks: a delete did not finish."""
        return self.fs.has_name(self._path(session.local_id)) and self._adds_nothing_to(
            session.local_id, session, files
        )

    @_alone
    def settle(self, session: Session, files: Files) -> None:
        """Remove an entry of the session's id that holds nothing beyond the session. The owner calls this when the files are durable."""
        if self.holds_no_more(session, files):
            self.remove(session.local_id)

    @_alone
    def erase(self, local_id: str, main: str) -> set[str]:
        """Remove for ever everything of sessions of an id: entries, earlier states, and copies of the file `main` and of
        theirs that could not be understood. Returns the ids that the entries had as sessions. OSError: another attempt can
        remove what is left.
        """
        earlier = id_in_trash(local_id, 0)[:-1]
        found = {}
        for name in self.names():
            try:
                meta = self._meta(name)
            except BadFile:
                meta = None
            was = local_id if meta is None else meta.local_id
            if name == local_id or (was == local_id and (meta is not None or name.startswith(earlier))):
                found[name] = was
        for name in found:
            self.remove(name)
        self._erase_copies([main, *(f"{name}/meta.json" for name in found)])
        self.clean()
        return set(found.values())

    def _erase_copies(self, paths: Sequence[str]) -> None:
        """Remove the copies that `keep_bytes` made."""
        folder = posixpath.join(self.folder, _DAMAGED)
        names = self.fs.list_dir(folder) if self.fs.stat(folder) is not None else []
        for path in paths:
            stem = copy_name(path)
            mine = [name for name in names if name == stem or re.fullmatch(re.escape(stem) + r"\.[0-9]+", name)]
            for name in mine:
                self.fs.remove(posixpath.join(folder, name))
        if names:
            self.fs.sync_dir(folder)

    @_alone
    def keep_bytes(self, name: str, content: bytes) -> str:
        """Keep a copy of bytes that could not be understood, before something of ours replaces them. Returns its path."""
        folder = posixpath.join(self.folder, _DAMAGED)
        self.fs.make_dirs(folder)
        number, path = 1, posixpath.join(folder, name)
        while self.fs.stat(path) is not None:
            number, path = number + 1, posixpath.join(folder, f"{name}.{number}")
        try:
            self.fs.create(path, content)
        except FileExistsError as error:
            raise AlreadyExists(f"{path} already exists") from error
        self.fs.sync_dir(folder)
        return path
