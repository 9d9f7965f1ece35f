"""What the daemon sends by itself."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from sessiond.schema.types import Count, Seq, SessionInfo, ShownChange, Wire


class Origin(Wire):
    """Who made a change."""

    client: str
    """`sessiond` where no client asked for the change; `connection` is 0 then."""
    connection: int


class Changed(Wire):
    """To every connection that has the session open, but the one that made the change."""

    session_id: str
    seq: Seq
    changes: list[ShownChange]
    origin: Origin
    replay: bool | UnsetType = UNSET
    """After `session/restored`: no change, but all state once more."""


class Restored(Wire):
    """To a connection that opened with `restore: true`, right after the answer."""

    session: SessionInfo
    message_count: Count


class Saved(Wire):
    """The session file is current."""

    session_id: str
    path: str
    bytes: Count
    saved_at: str


class Reloaded(Wire):
    """The file was changed by somebody else and was merged; read again."""

    session: SessionInfo
    reason: Literal["externalEdit"]


class Deleted(Wire):
    """The session is gone."""

    session_id: str


class Resync(Wire):
    """To a connection that read too slowly: what it missed was dropped. Read again since the last seq that you have."""

    session_id: str
    seq: Seq


NOTIFICATIONS: dict[str, type[Wire]] = {
    "session/changed": Changed,
    "session/restored": Restored,
    "session/saved": Saved,
    "session/reloaded": Reloaded,
    "session/deleted": Deleted,
    "session/resync": Resync,
}
