"""Writes a whole new session at once: for a fork, an import, a move or a restore. It is there as given, or not at all:
nobody was told of it yet, so it is not merged with anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sessiond.errors import AlreadyExists, Unavailable
from sessiond.formats.base import Format, Write
from sessiond.formats.sidecar import EPOCH, decode_sidecar, restore_beside, sidecar_path
from sessiond.limits import Limits
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.store.context import Run
from sessiond.store.files import ATTEMPTS, UNSEEN, Print, StoreFiles
from sessiond.store.port import OutsideChange


async def make(session: Session, fmt: Format, files: StoreFiles, run: Run, limits: Limits) -> dict[str, Print]:
    """Durable when this returns the versions of its files.

    AlreadyExists if another program created a file of its name meanwhile, Unavailable if others keep writing the files,
    OSError: then nothing of it is left, except notes that a folder shares among its sessions.
    """
    snapshot = session.snapshot()
    for _ in range(ATTEMPTS):
        try:
            return await run(_write, snapshot, fmt, files, limits.glanced_file_bytes)
        except (OutsideChange, FileNotFoundError):  # the latter: removed between a check and a read
            await asyncio.sleep(limits.settle_s)
    raise Unavailable(
        f"{files.path(fmt.main_path(session.local_id))} cannot be created: another program keeps writing its files",
        hint="nothing of it was kept; stop the program that writes there, then try again",
    )


def left_beside(files: StoreFiles, local_id: str) -> Session | None:
    """Return what the sidecar still has of an earlier session whose own file was removed while no daemon ran. None: nothing."""
    if files.print_of(files.format.main_path(local_id)) is not None:
        return None
    side, _ = decode_sidecar("", files.read(local_id).files.get(sidecar_path(local_id)))
    if side is None:
        return None
    session = Session(local_id, side.info.get("createdAt", EPOCH))
    restore_beside(session, side)
    for entry in sorted(side.entries, key=lambda one: one.seq):
        if entry.copy is not None:
            session.add_message(Message.from_wire({**entry.copy, "id": entry.id, "seq": entry.seq}))
    return session if len(session) else None


def _write(session: Session, fmt: Format, files: StoreFiles, glanced_from: int) -> dict[str, Print]:
    local_id = session.local_id
    main = fmt.main_path(local_id)
    files.clear_leftovers(local_id)
    before = files.read(local_id)
    if main in before.files:
        raise AlreadyExists(f"{files.path(main)} already exists", hint="another program has just created it")
    writes: Sequence[Write] = fmt.encode(session, before.files)
    partial = fmt.abilities.partial_load
    if partial is not None and not session.streaming() and sum(len(one.data) for one in writes) >= glanced_from:
        writes = partial.remember(writes, session, glanced_from)
    written = files.make(local_id, writes, before.prints)
    # What others wrote into a shared file is not in the session yet: it is merged when the files are next compared.
    shared = {path: UNSEEN for path in files.shared_files() if path in before.prints}
    return before.prints | written | shared
