"""The findings about the index: damage, and sessions that could not be indexed completely. Those are tried again by the daemon
if one runs, and without it otherwise.
"""

from __future__ import annotations

import os
import posixpath
import sqlite3
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from sessiond.client import requests
from sessiond.config import Config
from sessiond.doctor.finding import Ask, Finding
from sessiond.endpoint import Places
from sessiond.errors import SessiondError
from sessiond.formats import registry
from sessiond.fs import FileSystem
from sessiond.model.session import Session
from sessiond.model.values import split_wire_id
from sessiond.store.files import StoreFiles

if TYPE_CHECKING:
    from sessiond.limits import Limits

_MENDED = "it is searchable now"


def index_again(where: Places, ask: Ask) -> list[tuple[Finding, str | None]]:
    """Let the daemon try again what it could not index; return each session with the success, if it was one. Nothing without a daemon."""
    try:
        answer = ask(requests.reindex())
    except (SessiondError, OSError):
        return []  # an older daemon does not know it, and one in trouble is told of by what follows
    found: list[tuple[Finding, str | None]] = []
    for one in answer.value.sessions if answer is not None else ():
        problem = one.problem or "it was not indexed completely"
        hint = f"the rest of it is found; {where.log} says more"
        found.append((_finding(one.session_id, problem, hint), _MENDED if one.problem is None else None))
    return found


def examine_index(fs: FileSystem, where: Places) -> Iterator[Finding]:
    """Yield whether it is damaged, only while no daemon has it open. The index may always be removed: it is rebuilt from the files."""
    path = where.index_file
    if fs.stat(path) is None:
        return
    can_write = os.access(posixpath.dirname(path), os.W_OK | os.X_OK)
    if not can_write and fs.has_name(path + "-wal"):
        yield Finding(f"note: index {path} can only be examined in a folder that can be written to")
        return
    # SQLite shares memory with other readers in a file beside it; where none can be made, it must know that nobody writes.
    how = "mode=ro" if can_write else "immutable=1"
    problem = None
    try:
        connection = sqlite3.connect(f"file:{quote(os.fsencode(path))}?{how}", uri=True)
        try:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
            problem = None if found == ["ok"] else "; ".join(map(str, found))
        finally:
            connection.close()
    except sqlite3.Error as error:
        problem = str(error)
    if problem is None:
        yield Finding(f"index {path}")
        return
    hint = "`sessiond doctor --repair` removes it, and the next daemon rebuilds it from the files; a daemon that notices the damage does so by itself"
    yield Finding(f"index {path}", problem, hint, partial(_remove_index, fs, path) if can_write else None)


def _remove_index(fs: FileSystem, path: str) -> str:
    for suffix in ("", "-wal", "-shm"):
        if fs.has_name(path + suffix):
            fs.remove(path + suffix)
    fs.sync_dir(posixpath.dirname(path))
    return "removed; the next daemon rebuilds it from the session files"


def examine_unfinished(fs: FileSystem, where: Places, config: Config) -> Iterator[Finding]:
    """Sessions of which something cannot be found. The caller makes sure that no daemon has the index open."""
    if fs.stat(where.index_file) is None:
        return
    from sessiond.index import unfinished as index  # all other commands start faster

    try:
        found = index.unfinished(where.index_file)
    except sqlite3.Error:
        return  # damage has a finding of its own
    for wire_id, sizes in found.items():
        session = _read(fs, config, wire_id)
        problem = None if session is None else index.lacking(session.messages(), sizes)
        if session is not None and problem is not None:
            mend = partial(_indexed_now, where.index_file, config.limits, wire_id, session)
            yield _finding(wire_id, problem, "`sessiond doctor --repair` tries it again", mend)


def _finding(wire_id: str, problem: str, hint: str, mend: partial[str | None] | None = None) -> Finding:
    return Finding(f"search index: session {wire_id}", problem, hint, mend)


def _read(fs: FileSystem, config: Config, wire_id: str) -> Session | None:
    """None if it cannot be read, of which the store's findings tell."""
    name, local_id = split_wire_id(wire_id)
    for store in config.stores:
        if store.name == name and store.format in registry.NAMES:
            try:
                fmt = registry.get(store.format)
                decoded = fmt.decode(local_id, StoreFiles(fs, store.path, fmt).read(local_id).files)
            except (SessiondError, ImportError, OSError):
                return None
            return decoded.session if decoded.fatal is None else None
    return None


def _indexed_now(path: str, limits: Limits, wire_id: str, session: Session) -> str | None:
    from sessiond.index import unfinished as index  # all other commands start faster

    return _MENDED if index.put_again(path, limits, wire_id, session) is None else None
