"""Names that another file has for a session: a list of titles, for example."""

from __future__ import annotations

from sessiond.importers.record import InfoUpdate
from sessiond.model.session import UNTITLED
from sessiond.service.import_tally import ImportTally
from sessiond.service.imported_session import ImportTarget


async def give_name(place: ImportTarget, tally: ImportTally, event: InfoUpdate) -> None:
    """Name the session, if it is here, and nobody has named it or removed its name. BadFile: it cannot be read."""
    name = event.fields.get("name")
    held = await place.held(event.suggested_id) if name else None
    if held is None:
        return
    one = held.one
    try:
        session = held.session
        if (session.name or None) == session.metadata.get(UNTITLED):
            await one.change(lambda draft: draft.update({"name": name}, None, at=session.updated_at))
            await place.save(one)
            if one.wire_id in tally.sessions:
                tally.sessions[one.wire_id] = place.open_sessions.info(one)
    finally:
        held.let_go()
