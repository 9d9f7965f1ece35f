"""Reads what lists show of sessions: a first pass over all of them, before their messages are read."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sessiond.errors import BadFile
from sessiond.formats.sidecar import sidecar_path
from sessiond.limits import Limits
from sessiond.misfits import Misfits
from sessiond.model.session import SessionInfo
from sessiond.store.files import StoreFiles
from sessiond.store.partial_load import glance_at
from sessiond.store.port import OutsideChange

_failed = Misfits(logging.getLogger(__name__), "was not looked at for lists")


def heads_of(files: StoreFiles, limits: Limits, local_ids: Sequence[str]) -> list[SessionInfo]:
    """The heads of those that can be read. Blocks."""
    found = []
    for local_id in local_ids:
        try:
            info = _head_of(files, limits, local_id)
        except (OSError, BadFile, OutsideChange):  # reading the whole session reports why
            continue
        except Exception as error:  # a bug of ours with one session: the others are listed, and it is when it is read
            _failed.note(files.path(files.format.main_path(local_id)), error)
            continue
        if info is not None:
            found.append(info)
    return found


def _head_of(files: StoreFiles, limits: Limits, local_id: str) -> SessionInfo | None:
    seen = glance_at(files, limits, local_id, None)
    if seen is not None:
        return seen[1].session.info()
    read = files.read(local_id).files
    content = read.get(files.format.main_path(local_id))
    if content is None:
        return None
    header = files.format.abilities.header
    info = header(local_id, content, read.get(sidecar_path(local_id))) if header is not None else None
    if info is not None:
        return info
    decoded = files.format.decode(local_id, read)
    return decoded.session.info() if decoded.fatal is None else None
