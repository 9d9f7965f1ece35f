"""Verifies a backup: every sum, every session, the journal, and that nothing is missing or superfluous. Reads only."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator

import msgspec

from sessiond.backups.copying import SUMS, decode_sums, walk
from sessiond.backups.manifest import DATA, MANIFEST, VERSION, Manifest, StoreCopied, folder_of, ledger_of
from sessiond.errors import SessiondError
from sessiond.formats import registry
from sessiond.fs import FileSystem
from sessiond.journal.recovery import read_journal
from sessiond.limits import MIB
from sessiond.ready import ready
from sessiond.store.files import StoreFiles

_CHUNK_BYTES = 8 * MIB


ready(Manifest)


class Checked(msgspec.Struct, frozen=True):
    """One thing that was checked. `problem` None: it is right."""

    what: str
    problem: str | None = None


def prove(fs: FileSystem, folder: str) -> Iterator[Checked]:
    """Check everything that a backup must hold, in an order in which earlier problems explain later ones."""
    try:
        sums = decode_sums(fs.read(posixpath.join(folder, SUMS)))
        manifest = msgspec.json.decode(fs.read(posixpath.join(folder, MANIFEST)), type=Manifest)
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        yield Checked(folder, f"is not a backup, or only a part of one: {error}")
        return
    if manifest.version > VERSION:
        yield Checked(folder, f"was made by a newer sessiond ({manifest.made_by}): verify it with that version")
        return
    yield Checked(f"backup of {manifest.data_dir}, {manifest.created_at}, by sessiond {manifest.made_by}")
    yield from _files(fs, folder, sums, manifest)
    for store in manifest.stores:
        yield from _store(fs, folder, store)
        if store.shared:
            yield _ledger(folder, store)
    yield from _trash(fs, folder, manifest)
    yield from _journal(fs, folder, manifest)


def _files(fs: FileSystem, folder: str, sums: dict[str, str], manifest: Manifest) -> Iterator[Checked]:
    passed: list[Checked] = []

    def closed(path: str, error: OSError) -> None:
        passed.append(Checked(path, f"cannot be examined: {error.strerror or error}"))

    there = {name for name in walk(fs, folder, passed=closed) if name != SUMS}
    yield from passed
    wrong = len(passed)
    for name in sorted(sums.keys() | there):
        path = posixpath.join(folder, name)
        problem = None
        if name not in there:
            problem = "is missing"
        elif name not in sums:
            problem = "does not belong to this backup: its sum is not recorded"
        else:
            try:
                problem = None if _sum(fs, path) == sums[name] else "is not as it was written: its sum differs"
            except OSError as error:
                problem = f"cannot be read: {error.strerror or error}"
        if problem is not None:
            wrong += 1
            yield Checked(path, problem)
    if len(sums) != manifest.files + 1:
        yield Checked(f"{folder}/{SUMS}", f"names {len(sums)} files where {manifest.files + 1} were written")
    if not wrong:
        yield Checked(f"{len(sums):,} files, each with the sum that it was written with")


def _sum(fs: FileSystem, path: str) -> str:
    digest, offset = hashlib.sha256(), 0
    while part := fs.read(path, offset, _CHUNK_BYTES):
        digest.update(part)
        offset += len(part)
    return digest.hexdigest()


def _store(fs: FileSystem, folder: str, store: StoreCopied) -> Iterator[Checked]:
    """Check every session of a store, read as by the daemon."""
    root = posixpath.join(folder, folder_of(store.name, shared=store.shared))
    extras = posixpath.join(folder, DATA, "extras", store.name)
    try:
        files = StoreFiles(fs, root, registry.get(store.format), extras=extras if fs.stat(extras) is not None else None)
        found = files.find()
    except (KeyError, ImportError, OSError) as error:
        yield Checked(f"store {store.name} ({store.format})", f"cannot be examined: {error}")
        return
    problems = 0
    for local_id, main in found.items():
        problem = _session(files, local_id)
        if problem is not None and local_id not in store.unreadable:
            problems += 1
            yield Checked(files.path(main), problem)
    if len(found) != store.sessions:
        problems += 1
        yield Checked(
            f"store {store.name} ({store.format})", f"{len(found)} sessions where {store.sessions} were copied"
        )
    if not problems:
        damaged = f", {len(store.unreadable)} as damaged as the original" if store.unreadable else ""
        yield Checked(f"store {store.name} ({store.format}): {len(found):,} sessions{damaged}")


def _ledger(folder: str, store: StoreCopied) -> Checked:
    from sessiond.shared.ledger_file import count_waiting  # most users share nothing

    path = posixpath.join(folder, ledger_of(store.name))
    try:
        waiting = count_waiting(path)
    except ValueError as error:
        return Checked(path, str(error))
    if waiting != store.waiting:
        return Checked(path, f"{waiting} changes wait for the hub where {store.waiting} were copied")
    return Checked(f"ledger of {store.name}: {waiting:,} changes wait for the hub")


def _session(files: StoreFiles, local_id: str) -> str | None:
    try:
        fatal = files.format.decode(local_id, files.read(local_id).files).fatal
    except (SessiondError, OSError) as error:
        return str(error)
    return None if fatal is None else fatal.message


def _trash(fs: FileSystem, folder: str, manifest: Manifest) -> Iterator[Checked]:
    root = posixpath.join(folder, DATA, "trash")
    found: dict[str, int] = {}
    for name in walk(fs, root, passed=lambda *_: None):  # already reported
        store, _, rest = name.partition("/")
        if rest.count("/") == 1 and rest.endswith("/meta.json"):
            found[store] = found.get(store, 0) + 1
    if found != manifest.trash:
        yield Checked(root, f"{sum(found.values())} entries where {sum(manifest.trash.values())} were copied")
    else:
        yield Checked(f"trash: {sum(found.values()):,} entries")


def _journal(fs: FileSystem, folder: str, manifest: Manifest) -> Iterator[Checked]:
    path = posixpath.join(folder, DATA, "journal")
    try:
        contents = read_journal(fs, path, 0)
    except (SessiondError, OSError) as error:
        yield Checked(path, str(error))
        return
    known = {warning.path for warning in manifest.warnings}
    problems = [
        Checked(f"{damage.path}, bytes {damage.start} to {damage.end}", damage.reason)
        for damage in contents.damage
        if not any(posixpath.basename(one) == posixpath.basename(damage.path) for one in known)
    ]
    if contents.last_lsn < manifest.lsn:
        problems.append(Checked(path, f"ends with record {contents.last_lsn}, not with {manifest.lsn}"))
    if len(contents.records) != manifest.records:
        problems.append(Checked(path, f"{len(contents.records)} records where {manifest.records} were copied"))
    yield from problems
    if not problems:
        yield Checked(f"journal: {manifest.records:,} records, the last one {manifest.lsn}")
