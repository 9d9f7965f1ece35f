"""The file under `.sessiond/` that holds what a session's own file has no place for.

It holds seqs and ids of messages if the format has none, whole messages that the format must not hold, and state, tags
and notes. It belongs to one version of the main file (`mark`). It is written first, so a crash may leave the main file
one version behind (`was`). Another program wrote any other version, and `weave` then restores what belonged to the
messages that are still there.

`sidecar_file` is the file itself, `weave` reads it together with the main file (and lists the rules), and `build` here
makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from sessiond.formats.interleave import Seen, Standing, Woven, fields_of, standing_of, weave
from sessiond.formats.sidecar_file import (
    EPOCH,
    FOLDER,
    Appending,
    Mark,
    Sidecar,
    SidecarEntry,
    append_writes,
    decode_sidecar,
    encode_sidecar,
    key_of,
    settled_writes,
    sidecar_path,
    through_of,
    torn_at,
)
from sessiond.model.message import Message, Note
from sessiond.model.session import UPDATABLE, Session
from sessiond.model.values import Json, same_json

__all__ = [
    "EPOCH",
    "FOLDER",
    "Appending",
    "Mark",
    "Seen",
    "ShownInMain",
    "Sidecar",
    "SidecarEntry",
    "Standing",
    "Woven",
    "append_writes",
    "build",
    "decode_sidecar",
    "encode_sidecar",
    "key_of",
    "merge_info",
    "renumber",
    "restore_beside",
    "settled_writes",
    "sidecar_path",
    "standing_of",
    "still_shown",
    "through_of",
    "torn_at",
    "weave",
]

_INFO_DEFAULTS: dict[str, Json] = {
    "name": None,
    "model": None,
    "tags": [],
    "archived": False,
    "summary": None,
    "metadata": {},
    "cwd": None,
    "parent": None,
}


class ShownInMain(msgspec.Struct, frozen=True):
    """A message as the main file shows it, for `build`."""

    key: str
    beside: dict[str, Json]
    near: str | None = None
    shown: dict[str, str] = {}

    @classmethod
    def of(cls, message: Message, seen: Seen) -> ShownInMain:
        """`seen`: what a decoder reads of the message in the main file. Fields that differ go into `beside`."""
        exact = message.wire()
        there = fields_of(seen)
        beside = {
            name: value
            for name, value in exact.items()
            if name not in ("id", "seq") and not (name in there and same_json(value, there[name]))
        }
        return cls(seen.key, beside, seen.near, {name: key_of(there[name]) for name in beside if name in there})


def merge_info(side: Sidecar | None, now: Mapping[str, Json], woven: Woven) -> tuple[dict[str, Json], bool]:
    """SessionInfo fields of a session whose main file shows `now`, for formats that build with `shown_info`, and whether
    the main file must be rewritten to show them.

    What the file shows counts, with two exceptions where the sidecar's exact value does: the file still shows that
    value, or it is an old copy (`woven` put messages back) that shows the value of an earlier save of ours.
    """
    if side is None:
        return dict(now), False
    merged: dict[str, Json] = {**_INFO_DEFAULTS, **side.info}
    rewrite = False
    for name, value in now.items():
        digest = key_of(value)
        old = woven.standing == "before" or digest in side.older.get(name, [])
        if digest == side.shown.get(name) or (old and woven.put_back):
            rewrite = rewrite or digest != side.shown.get(name)
        elif name == "updatedAt":
            if not old:  # otherwise it is a time of ours, perhaps of a save without any change
                merged[name] = max(value, side.info.get(name, value))
        else:
            merged[name] = value
    return merged, rewrite


def restore_beside(session: Session, side: Sidecar | None, info: Mapping[str, Any] | None = None) -> None:
    """Restore what the sidecar keeps for the session as a whole: info, notes, state. `info`: the result of `merge_info`,
    if it was called.
    """
    if info is not None:
        session.created_at = info.get("createdAt", session.created_at)
        session.updated_at = info.get("updatedAt", session.updated_at)
        session.update(info)
    if side is None:
        return
    info = dict(side.info) if info is None else {}
    session.created_at = info.pop("createdAt", session.created_at)
    session.updated_at = info.pop("updatedAt", session.updated_at)
    session.update(info)
    for note in side.notes:
        session.add_note(Note.from_wire(note))
    session.state.update(side.state)
    session.saved_at = side.saved_at or session.saved_at
    session.seq = max(session.seq, side.seq)


def build(
    session: Session,
    show: Callable[[Message], ShownInMain | tuple[str, Mapping[str, Json]] | None],
    *,
    before: Sidecar | None,
    main_before: bytes | None,
    main_after: bytes,
    info: Mapping[str, Json],
    keep_copies: bool,
    witnessed: Collection[str] | None = None,
    shown_info: Mapping[str, Json] | None = None,
) -> Sidecar:
    """The sidecar for `main_after`.

    - `show(message)` returns what the main file shows of a message: its key and the wire fields to keep in the sidecar,
      or None if the main file must not hold it.
    - `info`: SessionInfo wire fields to keep in the sidecar; those at their default are left out.
    - `keep_copies`: the format's own system rewrites from memory, so messages that it cannot have seen yet are kept
      whole. `witnessed`: ids of those that another program's version showed as they are now (None: all, if there is no
      sidecar yet).
    - `shown_info`: what the main file shows of SessionInfo; `info` is then all of SessionInfo.
    """
    earlier = {entry.id: entry for entry in before.entries} if before else {}
    standing: Standing = "alone" if main_before is None else standing_of(before, main_before)
    # "before": the last save got no further than its sidecar, so what that says about the main file is not yet true.
    outside = main_before is not None and standing in ("alone", "outside")
    entries: list[SidecarEntry] = []
    for message in session.messages():
        answer = show(message)
        if answer is None:
            entries.append(SidecarEntry(id=message.id, seq=message.seq, copy=message.wire()))
            continue
        shown = answer if isinstance(answer, ShownInMain) else ShownInMain(answer[0], dict(answer[1]))
        old = earlier.get(message.id)
        known = old is not None and old.key == shown.key and old.copy is None
        had = known or (before is None and outside if witnessed is None else message.id in witnessed)
        copy = message.wire() if keep_copies and not had else None
        keys = _older(old.older, old.key, shown.key) if old and keep_copies else []
        entry = SidecarEntry(id=message.id, seq=message.seq, key=shown.key, beside=shown.beside, copy=copy, older=keys)
        since = 0 if old is None else old.since if old.key is not None else session.seq
        entries.append(msgspec.structs.replace(entry, near=shown.near, shown=shown.shown, since=since))
    digests = {name: key_of(value) for name, value in (shown_info or {}).items()}
    older = {
        name: kept
        for name, digest in digests.items()
        if before and (kept := _older(before.older.get(name, []), before.shown.get(name), digest))
    }
    was, cut = _earlier(session, before, main_before, standing)
    if main_before == main_after and before is not None and not outside:
        was, cut = before.was, before.cut
    return Sidecar(
        id=session.local_id,
        seq=session.seq,
        through=session.seq,
        mark=Mark.of(main_after, session.seq),
        was=was,
        info={k: v for k, v in info.items() if k not in UPDATABLE or not same_json(v, _INFO_DEFAULTS[k])},
        shown=digests,
        older=older,
        entries=entries,
        cut=cut if was is not None else [],
        notes=[note.wire() for note in session.notes],
        state=dict(session.state),
        saved_at=session.saved_at,
    )


def _earlier(
    session: Session, before: Sidecar | None, main_before: bytes | None, standing: Standing
) -> tuple[Mark | None, list[SidecarEntry]]:
    """`was` and `cut` of the new sidecar: what the main file is until it is rewritten, and how much that version holds."""
    if main_before is None:
        return None, []
    cut = [
        msgspec.structs.replace(one, copy=None, older=[])
        for one in (before.entries if before else ())
        if one.key is not None and session.message(one.id) is None
    ]
    if before is None:
        return Mark.of(main_before, 0), cut
    if standing == "before" and before.was is not None:
        return Mark.of(main_before, before.was.seq), [*before.cut, *cut]
    return Mark.of(main_before, before.through), cut


def _older(older: list[str], last: str | None, now: str) -> list[str]:
    """Digests of earlier saves without the current one, at most `_OLDER`."""
    if last is None or last == now:
        return [one for one in older if one != now]
    return [one for one in older if one not in (last, now)][1 - _OLDER :] + [last]  # noqa: RUF005


_OLDER = 8


def still_shown(side: Sidecar | None, session: Session, ids: Collection[str]) -> list[SidecarEntry]:
    """For `adopt_numbering`: entries of messages that the main file still shows (`ids`) but that a change, so far only in
    the journal, removed from the session. They keep their seqs; otherwise that change would not find them after a crash.
    """
    entries = side.entries if side else []
    return [one for one in entries if one.key is not None and one.id in ids and session.message(one.id) is None]


def renumber(side: Sidecar, before: Sidecar | None, main: bytes) -> Sidecar:
    """For `adopt_numbering`: a sidecar built for a session that was merged with another program's version `main`, without
    the claim that the files contain changes which are only in the journal.
    """
    through = before.through if before else 0
    return msgspec.structs.replace(side, through=through, mark=Mark.of(main, through), was=None, cut=[])
