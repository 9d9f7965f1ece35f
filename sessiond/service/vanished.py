"""A session that its source no longer has: it stays, and says so, until the source has it again."""

from __future__ import annotations

from sessiond.model.session import Session
from sessiond.model.values import JsonObject
from sessiond.service.imported_session import GONE, ImportTarget
from sessiond.service.planning import Draft


async def vanish(place: ImportTarget, local_id: str, path: str) -> None:
    """Note that the file is there and the session is not. What the source said becomes what it once said, so a follower looks
    at the session again when it is back. SessiondError.
    """
    before = await place.ledger.digest(place.store.name, local_id, path)
    if not await place.has(local_id) or (before is not None and before.has_vanished):
        return  # it was noted before
    await mark_session(place, local_id, path, True)
    if before is not None:
        await place.ledger.keep(place.store.name, local_id, path, before.vanished())


async def mark_session(place: ImportTarget, local_id: str, path: str, gone: bool | None) -> None:
    one = place.open_sessions.of(place.store, local_id)

    def plan(draft: Draft) -> None:
        metadata = _with_mark(draft.session, path, gone)
        if metadata is not None:
            draft.update({"metadata": metadata}, None, at=draft.session.updated_at)

    with one.in_use():
        await one.change(plan)


def _with_mark(session: Session, path: str, gone: bool | None) -> JsonObject | None:
    source = session.metadata.get("source")
    if not isinstance(source, dict) or source.get("path") != path or source.get(GONE) is gone:
        return None
    rest = {key: value for key, value in source.items() if key != GONE}
    return {**session.metadata, "source": {**rest, GONE: True} if gone else rest}
