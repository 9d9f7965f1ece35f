"""The part of what the service tells of a session that concerns windows."""

from __future__ import annotations

import msgspec

from sessiond.schema.notifications import ActivityChanged
from sessiond.schema.types import ShownChange


class Told(msgspec.Struct, rename="camel"):
    """`session/changed`."""

    seq: int
    changes: list[ShownChange]


changed = msgspec.json.Decoder(Told).decode
activity_changed = msgspec.json.Decoder(ActivityChanged).decode
