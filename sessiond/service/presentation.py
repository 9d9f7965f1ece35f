"""The part of a session that is shown, small enough for a response.

Nothing that a client wrote is ever too large (`size_limits.py`). Other content may be: an edited file, an adopted folder, an
import, data of an older sessiond. Then what does not fit is left out, and the response says so: `cut` in the info of a
session and in a message, a warning for notes and state. `session/export` has everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sessiond.limits import KIB, Limits
from sessiond.model.message import Message, Note
from sessiond.model.session import SessionInfo as SessionHead
from sessiond.model.values import Json, without_records
from sessiond.model.wire import encode
from sessiond.ready import ready
from sessiond.schema.daemon import StoreStatus
from sessiond.schema.sessions import OpenResult
from sessiond.schema.types import Parent, SessionInfo, ShownChange, ShownMessage
from sessiond.service.size_limits import json_bytes, largest_message, message_bytes, most_shown, reserve
from sessiond.store.port import FileWarning, Store

_HEAVY: tuple[tuple[str, Json], ...] = (
    ("metadata", {}),
    ("summary", None),
    ("tags", []),
    ("name", None),
    ("model", None),
    ("cwd", None),
    ("parent", None),
)
"""The fields of an info that may be large, and what is shown in their place."""
_TEXTS = ("name", "summary", "model", "cwd")
_SHORT_CHARS = 2000
_NAMED = 20
"""How many keys a warning names."""

ready(Parent)


def shown_info(
    head: SessionHead, *, store: str, format: str, path: str, attached: int = 0, dirty: bool = False
) -> SessionInfo:
    """`head`, whose id is the one on the wire, with its path and what only the daemon knows."""
    return SessionInfo(
        session_id=head.session_id,
        name=head.name,
        created_at=head.created_at,
        updated_at=head.updated_at,
        model=head.model,
        message_count=head.message_count,
        seq=head.seq,
        store=store,
        format=format,
        path=path,
        cwd=head.cwd,
        tags=head.tags,
        archived=head.archived,
        summary=head.summary,
        parent=_parent(head.parent),
        metadata=without_records(head.metadata),
        attached=attached,
        dirty=dirty,
    )


def store_status(store: Store, sessions: int) -> StoreStatus:
    return StoreStatus(
        name=store.name,
        path=store.path,
        format=store.format,
        sessions=sessions,
        problem=store.problem,
        hub=store.hub_status() if store.shared else msgspec.UNSET,
    )


def _parent(found: Mapping[str, Json] | None) -> Parent | None:
    """None also if an edited file has something else there; an export has it unchanged."""
    try:
        return None if found is None else msgspec.convert({"seq": None, **found}, Parent)
    except msgspec.ValidationError:
        return None


def info(shown: SessionInfo, most: int) -> SessionInfo:
    """An info of at most about `most` bytes."""
    if not (shown.metadata or shown.tags) and all(len(getattr(shown, key) or "") < _SHORT_CHARS for key in _TEXTS):
        return shown
    size = json_bytes(shown)
    cut = []
    for key, instead in _HEAVY:
        if size <= most:
            break
        saved = json_bytes(getattr(shown, key)) - json_bytes(instead)
        if saved > KIB // 8:
            cut.append(key)
            shown = msgspec.structs.replace(shown, **{key: instead})
            size -= saved
    return msgspec.structs.replace(shown, cut=cut) if cut else shown


def message(one: Message, most: int) -> ShownMessage:
    """Return the message as on the wire, with its text cut and the rest left out if it has more than `most` bytes."""
    if message_bytes(one) <= most or (size := json_bytes(one.wire())) <= most:
        return one.wire()
    content = one.content[: max(most // 8, 1)] if isinstance(one.content, str) else []
    kept: dict[str, Json] = {key: one.wire()[key] for key in ("id", "seq", "role", "timestamp")}
    if one.status is not None:
        kept["status"] = one.status
    return {**kept, "role": one.role[:_SHORT_CHARS], "content": content, "cut": size}


def messages(found: Iterable[Message], limits: Limits) -> list[ShownMessage]:
    return [message(one, largest_message(limits)) for one in found]


class OpeningHead:
    """Everything that accompanies the messages when a session is opened."""

    def __init__(
        self,
        session: SessionInfo,
        notes: Sequence[Note],
        state: Mapping[str, Json],
        warnings: list[FileWarning],
        limits: Limits,
    ) -> None:
        most = most_shown(limits)
        self.session = session
        self.warnings = _first(warnings, reserve(limits) // 4)
        self._path = session.path
        self.bytes = json_bytes(session) + json_bytes(self.warnings)
        self.state = self._fitting_state(state, most)
        self.notes = self._fitting_notes(notes, most)
        self.left = limits.message_bytes - self.bytes - min(KIB, limits.message_bytes // 16)

    def opened(self, wires: list[ShownMessage], more: bool, *, newest: bool) -> OpenResult:
        """The result of `session/open` without `changes`. Contains the newest or the oldest messages that still fit, perhaps
        none: `session/read` returns them.
        """
        taken = self._take(wires, newest)
        return OpenResult(
            session=self.session,
            messages=taken,
            notes=self.notes,
            state=self.state,
            has_more=more or len(taken) < len(wires),
            warnings=self.warnings,
        )

    def _take(self, wires: list[ShownMessage], newest: bool) -> list[ShownMessage]:
        fit = 0
        for wire in reversed(wires) if newest else wires:
            size = json_bytes(wire) + 1
            if size > self.left:
                break
            self.left -= size
            fit += 1
        return wires[len(wires) - fit :] if newest else wires[:fit]

    def _fitting_state(self, state: Mapping[str, Json], most: int) -> dict[str, Json]:
        """All of it, or as much as fits, the smallest values first."""
        size = json_bytes(state)
        if self.bytes + size <= most:
            self.bytes += size
            return dict(state)
        kept: dict[str, Json] = {}
        sizes = {key: len(encode(key)) + json_bytes(value) + 2 for key, value in state.items()}
        for key in sorted(sizes, key=lambda one: sizes[one]):
            if self.bytes + sizes[key] > most:
                break
            kept[key] = state[key]
            self.bytes += sizes[key]
        left = [key[:100] for key in state if key not in kept]
        named = ", ".join(left[:_NAMED]) + (", ..." if len(left) > _NAMED else "")
        self._warn(f"{len(left)} values of the state are too large to be shown: {named}")
        return kept

    def _fitting_notes(self, notes: Sequence[Note], most: int) -> list[Note]:
        """All of them, or the newest that fit."""
        size = json_bytes(notes)
        if self.bytes + size <= most:
            self.bytes += size
            return list(notes)
        kept: list[Note] = []
        for note in reversed(notes):
            size = json_bytes(note) + 1
            if self.bytes + size > most:
                break
            kept.append(note)
            self.bytes += size
        self._warn(f"{len(notes) - len(kept)} notes, the oldest, are too large to be shown")
        return kept[::-1]

    def _warn(self, what: str) -> None:
        self.warnings = [*self.warnings, FileWarning(self._path, None, f"{what}; session/export has all")]


def _first(warnings: list[FileWarning], most: int) -> list[FileWarning]:
    """Return as many warnings as fit, and a last one that counts the rest."""
    if json_bytes(warnings) <= most:
        return warnings
    kept: list[FileWarning] = []
    size = 0
    for warning in warnings:
        size += json_bytes(warning) + 1
        if size > most and kept:
            break
        kept.append(FileWarning(warning.path, warning.line, warning.message[:_SHORT_CHARS]))
    return [*kept, FileWarning(warnings[0].path, None, f"and {len(warnings) - len(kept)} more warnings")]


def changes(wires: list[ShownChange], most: int) -> list[ShownChange] | None:
    """None, which means "no longer known", if they do not fit into what is left of a response."""
    size = 0
    for wire in wires:
        size += json_bytes(wire) + 1
        if size > most:
            return None
    return wires


def by_bytes(wires: Sequence[object], most: int) -> int:
    """Return how many of them a page has; at least one, so that paging always advances."""
    size = 0
    for count, wire in enumerate(wires):
        size += json_bytes(wire) + 1
        if size > most and count:
            return count
    return len(wires)
