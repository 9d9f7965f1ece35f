"""The findings about session files and the trash, and their repairs, each of which keeps a copy of what it changes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import partial

from sessiond.config import StoreConfig
from sessiond.doctor.finding import Finding
from sessiond.endpoint import Places
from sessiond.errors import BadFile, SessiondError
from sessiond.formats import registry
from sessiond.formats.base import Decoded, Problem
from sessiond.formats.checksum import flipped_bit
from sessiond.formats.sidecar import FOLDER, decode_sidecar, sidecar_path
from sessiond.fs import FileSystem, atomic_write
from sessiond.store.corruption import judge, written_since
from sessiond.store.files import FilesSnapshot, StoreFiles
from sessiond.store.port import OutsideChange
from sessiond.store.trash import Trash, copy_name
from sessiond.words import count

_BACKUP = "restore it from a backup (docs/backup.md)"
_REPAIR = "`sessiond doctor --repair`"


class StoreDoctor:
    """One store, examined while nobody writes to it or while a daemon does."""

    def __init__(self, fs: FileSystem, where: Places, store: StoreConfig) -> None:
        self._fs = fs
        self._store = store
        fs.confine(where.data, "trash")
        self._trash = Trash(fs, posixpath.join(where.data, "trash", store.name))
        extras = posixpath.join(where.data, "extras", store.name)
        self._extras = extras if fs.stat(extras) is not None else None
        self._files: StoreFiles

    def examine(self) -> Iterator[Finding]:
        """Every session file, read as the daemon reads it, and the trash."""
        fs, store = self._fs, self._store
        label = f"store {store.name} ({store.format}) {store.path}"
        if fs.stat(store.path) is None:
            missing = None if store.name == "default" else "the folder does not exist"
            yield Finding(label, missing, "mount it, or remove the store from config.toml" if missing else None)
            return
        try:
            fs.confine(store.path)
            self._files = StoreFiles(fs, store.path, registry.get(store.format), extras=self._extras)
            found = self._files.find()
        except (ImportError, OSError) as error:
            yield Finding(label, str(error), f"check the mode and owner of {store.path}, and the disk")
            return
        problems = [finding for local_id, main in found.items() for finding in self._session(local_id, main)]
        yield from problems
        yield Finding(f"{label}: {count(len(found), 'session')}, {count(len(problems), 'problem')}")
        yield from self._in_trash()

    def _session(self, local_id: str, main: str) -> Iterator[Finding]:
        path = self._files.path(main)
        try:
            snapshot = self._files.read(local_id)
            decoded = self._files.format.decode(local_id, snapshot.files)
        except OutsideChange:
            return  # it is being written right now
        except BadFile as error:
            yield Finding(path, error.message, error.hint)
            return
        except (SessiondError, OSError) as error:
            yield Finding(path, str(error), "check its mode and owner, and the disk")
            return
        if main not in snapshot.files:
            return  # it was removed just now
        sums = list(self._sums(local_id, snapshot, decoded))
        yield from sums
        # If a flipped bit can be turned back, that bit is all that is wrong with the file.
        yield from self._problems(local_id, snapshot, decoded, but="" if not any(one.mend for one in sums) else main)

    # What cannot be understood

    def _problems(self, local_id: str, snapshot: FilesSnapshot, decoded: Decoded, *, but: str) -> Iterator[Finding]:
        side = sidecar_path(local_id)
        main = self._files.format.main_path(local_id)
        lines = [one.line for one in decoded.problems if one.line and self._may_go(one, main)]
        taken: list[str] = []
        told = [one for one in decoded.problems if one.path != but]
        if decoded.fatal is not None:
            told = [decoded.fatal]
        for problem in told:
            where = f"{self._files.path(problem.path)}{'' if problem.line is None else f':{problem.line}'}"
            if problem.path == side and not problem.fatal:
                lost = "it is rebuilt from the session's file as far as possible; notes, tags and state that only it had are lost"
                mend = partial(self._put_aside, side, snapshot.files[side], lost)
                yield Finding(where, problem.message, f"{_REPAIR} puts it aside: {lost}", mend)
            elif problem.fatal:
                yield self._fatal(where, problem, main, snapshot)
            elif self._may_go(problem, main):
                mend = partial(self._take_out, main, snapshot.files[main], lines, taken)
                hint = f"the rest of the file is read; {_REPAIR} removes the line and keeps a copy"
                yield Finding(where, problem.message, hint, mend)
            else:
                yield Finding(
                    where, problem.message, "the rest of the file is read; repair it with the program that wrote it"
                )

    def _fatal(self, where: str, problem: Problem, main: str, snapshot: FilesSnapshot) -> Finding:
        ours = self._store.name == "default" and problem.path == main and not problem.intact
        if not ours:
            return Finding(where, problem.message, f"the file is left untouched; repair it, or {_BACKUP}")
        words = f"its id is free again; {_BACKUP} if you have one"
        mend = partial(self._put_aside, main, snapshot.files[main], words)
        return Finding(where, problem.message, f"{_BACKUP}; {_REPAIR} only puts it aside, so that its id is free", mend)

    def _put_aside(self, relative: str, content: bytes, words: str) -> str:
        copy = self._trash.keep_bytes(copy_name(relative), content)
        path = self._files.path(relative)
        self._fs.remove(path)
        self._fs.sync_dir(posixpath.dirname(path))
        return f"put aside as {copy}; {words}"

    def _may_go(self, problem: Problem, main: str) -> bool:
        """Return whether the line is ours and unreadable while the rest of the file can be read."""
        ours = self._files.format.abilities.says_all and problem.path == main and not problem.fatal
        return ours and problem.line is not None and not problem.intact

    def _take_out(self, main: str, content: bytes, lines: list[int], taken: list[str]) -> str:
        """Remove all bad lines at once, the first time this succeeds; `taken` tells the later calls."""
        if not taken:
            copy = self._trash.keep_bytes(copy_name(main), content)
            kept = [one for number, one in enumerate(content.split(b"\n"), 1) if number not in lines]
            self._replace(main, b"\n".join(kept))
            taken.append(f"removed; the original file is kept as {copy}")
            return taken[0]
        return "removed, together with the other"

    def _replace(self, main: str, content: bytes) -> None:
        path = self._files.path(main)
        stat = self._fs.stat(path)
        mode = 0o600 if stat is None else stat.mode & 0o777
        atomic_write(self._fs, path, content, mode, follow=not main.startswith(FOLDER + "/"))

    # What can be understood and is not what was written

    def _sums(self, local_id: str, snapshot: FilesSnapshot, decoded: Decoded) -> Iterator[Finding]:
        main = self._files.format.main_path(local_id)
        path, content, print_ = self._files.path(main), snapshot.files[main], snapshot.prints[main]
        beside = snapshot.prints.get(sidecar_path(local_id))
        if decoded.unlike is not None and beside is not None:
            problem = judge(main, content, decoded.unlike, print_, beside, len(content))
            if problem is not None:
                bit = flipped_bit(content, decoded.unlike)
                mend = None if bit is None else partial(self._turn_back, main, content, *bit)
                yield Finding(
                    f"{path}{'' if problem.line is None else f':{problem.line}'}", problem.message, None, mend
                )
            return
        side, _ = decode_sidecar("", snapshot.files.get(sidecar_path(local_id)))
        mark = side.mark if side else None
        if mark is None or mark.size != len(content) or mark.fits(content) or written_since(print_, beside):
            return
        yield Finding(
            path,
            "its bytes are not the ones that sessiond last wrote, although nothing has written it since: the disk has damaged it, "
            "or somebody edited it at that very moment",
            f"compare it with a backup, and {_BACKUP}; if the content is right, `touch` the file",
        )

    def _turn_back(self, main: str, content: bytes, offset: int, mask: int) -> str:
        copy = self._trash.keep_bytes(copy_name(main), content)
        mended = bytearray(content)
        mended[offset] ^= mask
        self._replace(main, bytes(mended))
        return (
            f"flipped the bit back: byte {offset} is {mended[offset]:#04x} again; the original file is kept as {copy}"
        )

    # Trash

    def _in_trash(self) -> Iterator[Finding]:
        folder = self._trash.folder
        if (link := self._trash.link()) is not None:
            found = f"{link} is a link, so nothing is deleted or restored"
            yield Finding(f"trash {folder}", found, "remove the link, or replace it by its target")
            return
        try:
            names = sorted(self._fs.list_dir(folder)) if self._fs.stat(folder) is not None else []
        except OSError as error:
            yield Finding(f"trash {folder}", str(error), "check its mode and owner; until then, deletes are refused")
            return
        for name in names:
            if name.startswith("."):
                continue
            meta, session = (posixpath.join(folder, name, one) for one in ("meta.json", "session.jsonl"))
            problem = None
            try:
                if self._trash.info(name) is None and self._fs.stat(session) is not None:
                    problem = f"{meta} is missing"
            except BadFile as error:
                problem = error.message
            if problem is not None:
                hint = f"{_REPAIR} rebuilds it from the session next to it"
                yield Finding(meta, problem, hint, partial(self._trash.describe_anew, name))
