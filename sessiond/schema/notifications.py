"""The notifications that the daemon sends by itself."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from sessiond.schema.types import Activity, Count, Seq, SessionInfo, ShownChange, Wire
from sessiond.store.port import FileWarning, HubStatus


class Origin(Wire):
    """The connection that made a change."""

    client: str
    """`sessiond` where no client asked for the change; `connection` is 0 then."""
    connection: int


class Changed(Wire):
    """Sent to every connection that has the session open, except the one that made the change."""

    session_id: str
    seq: Seq
    changes: list[ShownChange]
    origin: Origin
    replay: bool | UnsetType = UNSET
    """After `session/restored`: not a change, but the whole state again."""


class Restored(Wire):
    """Sent to a connection that opened the session with `restore: true`, right after the response."""

    session: SessionInfo
    message_count: Count


class Saved(Wire):
    """The session file is up to date."""

    session_id: str
    path: str
    bytes: Count
    saved_at: str


class Reloaded(Wire):
    """Another program changed the file, and the change was merged: read the session again.

    `synced`: in a shared store, what was appended here while the hub could not be reached now comes after what others appended
    meanwhile, so seqs moved.
    """

    session: SessionInfo
    reason: Literal["externalEdit", "synced"]


class Deleted(Wire, omit_defaults=True):
    """The session was deleted, or moved."""

    session_id: str
    moved_to: str | None = None
    """Its id now, if somebody moved it to another store."""


class Resync(Wire):
    """Sent to a connection that read too slowly, so that notifications were dropped: read again, from the last seq you have."""

    session_id: str
    seq: Seq


class Asked(Wire):
    """Sent to one connection that opened the session with `answers: true`: somebody who brings no model said this, and waits for
    its answer. What was asked of one that has left is asked of the next one, even before its `session/open` is answered. So after
    a lost connection the same message may be asked for again.
    """

    session_id: str
    message_id: str


class Interrupted(Wire):
    """Sent to the connections that opened the session with `answers: true`: nobody wants the answer any more. Finish what there is
    of it as `interrupted`.
    """

    session_id: str
    message_id: str | None = None
    """The message whose answer it is, where one is known: it may wait while another one is answered."""


class ActivityChanged(Wire):
    """Sent to every connection that has the session open when something else goes on in it."""

    session_id: str
    activity: Activity | None
    """None: nothing goes on any more."""


class ListChanged(Wire):
    """Sent once for each `session/listChanged` with `tell`, when a session was made, changed, archived, deleted or restored after
    its result: read the list again, and ask to be told again. Another such request of the connection takes the place of the first.
    """


class Imported(Wire):
    """Sent to a connection that follows places by `session/follow`: what was imported from there, whoever asked for it, and what could
    not be read. A client that reads slowly is told later, in one notification, with each session once, as it was last.
    """

    sessions: list[SessionInfo]
    warnings: list[FileWarning]


class HubChanged(Wire):
    """Sent to every connection that is initialized when what is known of the hub of a shared store has changed: at once when the
    hub is lost or back, and at most once a second while only `pending` or `problem` change, with the last value in any case.
    The lag alone is not told.
    """

    store: str
    hub: HubStatus


NOTIFICATIONS: dict[str, type[Wire]] = {
    "session/changed": Changed,
    "session/restored": Restored,
    "session/saved": Saved,
    "session/reloaded": Reloaded,
    "session/deleted": Deleted,
    "session/resync": Resync,
    "session/asked": Asked,
    "session/interrupted": Interrupted,
    "session/activityChanged": ActivityChanged,
    "session/imported": Imported,
    "list/changed": ListChanged,
    "store/hubChanged": HubChanged,
}
