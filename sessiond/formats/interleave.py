"""Combines the messages of a main file with those of its sidecar, whoever wrote the main file last.

Rules of `weave`, for messages of the main file (seen) and of the sidecar (entries):

1. A seen message matches the entry with the same id, or else with the same seq, or else, if it has no id of its own,
   the first one left with the same key (a digest of what the main file shows). It takes that entry's id, seq and
   whatever was kept with it. Otherwise it counts as an edit of the entry in the same place with the same `near`.
2. A seen message that matches no entry is new: it keeps its own id, if any, and gets a seq above every known one.
3. An entry that the main file must not hold stays.
4. An entry that is not seen was removed by somebody, unless the main file is an old copy from a system that rewrites from
   memory. In an old copy, some known messages are present, and only messages at the end are missing that no writer but
   the daemon has ever had (`copy`): those are put back. A file that shows no known message was emptied, and a file that
   lacks messages at its end that its own system has had was cut. In both cases nothing is put back, and what only the
   daemon had is `dropped`, for the trash. If a message is seen as an earlier save of ours had it (`older`, or the
   beginning of `copy`), its newest text is put back.
5. A main file that still equals `was` is the version from before a crash, or a restored copy of it. Its messages, even
   those cut since (`cut`), are what they were then, and anything newer is put back. Replaying what the journal may still
   have on top of that gives the later session.
   A `was` that shows no message may equally have been emptied again: there, only the journal and what was kept with
   that version count.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

import msgspec

from sessiond.formats.sidecar_file import Sidecar, SidecarEntry, key_of, through_of
from sessiond.model.message import Message
from sessiond.model.values import Json, derived_id


class Seen(msgspec.Struct):
    """One message as the main file shows it. `id`, `seq` and `timestamp` are None if the file does not have them."""

    key: str
    role: str
    content: str | list[Json]
    timestamp: str | None = None
    id: str | None = None
    seq: int | None = None
    status: str | None = None
    rest: dict[str, Json] = {}
    near: str | None = None


class Woven(msgspec.Struct):
    messages: list[Message]
    """In order of seq."""
    seq: int
    """The highest seq used."""
    through: int
    """Changes up to this seq are in the files."""
    renumbered: bool
    """Some message got a seq or an id that is not in any file yet."""
    put_back: bool
    """The main file lacks messages that must be in it, so it must be rewritten."""
    ids: list[str] = []
    """The id that each seen message got, in order."""
    stale: set[int] = set()
    """Positions of seen messages whose newest text was put back."""
    standing: Standing = "alone"
    anew: bool = False
    """The main file shows no known message: it was emptied, or a new conversation began in it."""
    dropped: list[Message] = []
    """Messages that are gone and that only the sidecar had."""


Standing: TypeAlias = Literal["alone", "current", "before", "outside"]
"""How a main file relates to its sidecar: alone: there is no sidecar; current: the sidecar belongs to this version; before:
the sidecar belongs to the next version; outside: another program wrote the main file."""


def standing_of(side: Sidecar | None, main: bytes) -> Standing:
    if side is None:
        return "alone"
    if side.mark is not None and side.mark.fits(main):
        return "current"
    return "before" if side.was is not None and side.was.fits(main) else "outside"


def weave(
    seen: Sequence[Seen],
    side: Sidecar | None,
    main: bytes,
    *,
    floor: int = 0,
    fallback_time: str,
    rewrites_whole: bool,
    puts_back: bool = False,
) -> Woven:
    """Combine the main file's messages with the sidecar by the rules above. `puts_back`: the part of `rewrites_whole` that
    also applies if a message is written only once it is complete.

    `fallback_time` (RFC 3339): for a message without a time if no earlier message has one. `floor`: seqs up to it are
    taken.
    """
    standing = standing_of(side, main)
    entries = list(side.entries) if side else []
    if side is not None and standing == "before":
        entries = sorted([*entries, *side.cut], key=lambda entry: entry.seq)
    matched = _match(seen, entries, standing, rewrites_whole=rewrites_whole)
    unplaced = sum(item.seq is None for item in seen)
    if standing == "alone":
        seen = _in_gaps(seen)
    filled = sum(item.seq is None for item in seen) < unplaced
    known = [*(item.seq or 0 for item in seen), *(entry.seq for entry in entries)]
    highest = max([floor, side.seq if side else 0, *known])
    woven = Woven([], highest, 0, renumbered=filled, put_back=False, standing=standing)
    used = _take_seen(woven, seen, matched, entries, fallback_time, rewrites_whole=rewrites_whole)
    shown = any(entry.key is not None for entry in entries)
    puts_back = puts_back or rewrites_whole
    emptied = puts_back and standing == "before" and not seen
    woven.anew = shown and (emptied or (standing == "outside" and not _some_still_there(seen, matched, entries)))
    standing_now: Standing = "outside" if emptied else standing
    kept = _kept_unseen(entries, set(matched), standing_now, rewrites_whole=puts_back and not woven.anew)
    if emptied and side is not None and side.was is not None:
        # Entries as old as that version were kept with it and come from an older save: the journal may not have them.
        kept |= {position for position, entry in enumerate(entries) if entry.seq <= side.was.seq}
    for position, entry in enumerate(entries):
        if position in matched or entry.copy is None or entry.id in used:
            continue
        message = Message.from_wire({**entry.copy, "id": entry.id, "seq": entry.seq})
        if position in kept:
            used.add(entry.id)
            woven.messages.append(message)
            woven.put_back = woven.put_back or entry.key is not None
        else:
            woven.dropped.append(message)
    woven.messages.sort(key=lambda message: message.seq)
    woven.through = side.was.seq if standing == "before" and side and side.was else through_of(side, main)
    return woven


def _in_gaps(seen: Sequence[Seen]) -> list[Seen]:
    """Give messages without a seq one between those around them, if it is free: the file was copied or renamed, and they had
    such seqs beside it.
    """
    said = {item.seq for item in seen if item.seq is not None}
    last, end, placed = 0, max(said, default=0), list[Seen]()
    for item in seen:
        free = item.seq is None and last + 1 < end and last + 1 not in said
        last = last + 1 if free else max(last, item.seq or 0)
        placed.append(msgspec.structs.replace(item, seq=last) if free else item)
    return placed


def _take_seen(
    woven: Woven,
    seen: Sequence[Seen],
    matched: Sequence[int | None],
    entries: Sequence[SidecarEntry],
    time: str,
    *,
    rewrites_whole: bool,
) -> set[str]:
    """Put the seen messages into `woven`, each with what its entry knows. Returns the ids now in use."""
    ids = {entry.id for entry in entries} | {item.id for item in seen if item.id}
    used: set[str] = set()
    nth: Counter[str] = Counter()
    for item, position in zip(seen, matched, strict=True):
        entry = entries[position] if position is not None else None
        time = item.timestamp or time
        message_id = entry.id if entry else item.id
        if message_id is None or message_id in used:
            message_id, woven.renumbered = _fresh_id(item, nth, ids), True
        ids.add(message_id)
        used.add(message_id)
        woven.ids.append(message_id)
        copy = entry.copy if entry is not None and item.key != entry.key else None
        if (
            entry is not None
            and copy is not None
            and (woven.standing == "before" or (rewrites_whole and _is_stale(item, entry)))
        ):
            woven.messages.append(Message.from_wire({**copy, "id": entry.id, "seq": entry.seq}))
            woven.put_back = True
            woven.stale.add(len(woven.ids) - 1)
            continue
        seq = entry.seq if entry else item.seq
        if seq is None:
            woven.seq += 1
            seq, woven.renumbered = woven.seq, True
        woven.messages.append(_message(item, entry, message_id, seq, time))
    return used


def _is_stale(item: Seen, entry: SidecarEntry) -> bool:
    """Return whether `item` is what an earlier save of ours showed of a message that has since grown or been finished."""
    if item.key in entry.older:
        return True
    if entry.copy is None or "status" not in entry.copy:
        return False
    text, seen = entry.copy["content"], item.content
    return isinstance(text, str) and isinstance(seen, str) and text != seen and text.startswith(seen)


def _match(
    seen: Sequence[Seen], entries: Sequence[SidecarEntry], standing: Standing, *, rewrites_whole: bool
) -> list[int | None]:
    """The position of the entry of each seen message, each entry at most once: by id first, then by seq, by key in
    order, and by place.
    """
    by_id = {entry.id: position for position, entry in enumerate(entries) if entry.key is not None}
    by_seq = {entry.seq: position for position, entry in enumerate(entries) if entry.key is not None}
    found: list[int | None] = [by_id.pop(item.id, None) if item.id else None for item in seen]
    taken = {position for position in found if position is not None}
    for index, item in enumerate(seen):
        position = by_seq.get(item.seq) if item.seq is not None and found[index] is None else None
        if position is not None and position not in taken:
            found[index] = position
            taken.add(position)
    by_key: dict[str, deque[int]] = defaultdict(deque)
    for position, entry in enumerate(entries):
        if entry.key is not None and position not in taken:
            by_key[entry.key].append(position)
    shown_ids: set[str] = set()
    for index, item in enumerate(seen):
        repeated = item.id in shown_ids
        if item.id is not None:
            shown_ids.add(item.id)
        if found[index] is None and (item.id is None or repeated) and by_key.get(item.key):
            found[index] = by_key[item.key].popleft()
    if any(position is None for position in found) and len(entries) > sum(position is not None for position in found):
        _match_by_place(seen, entries, found, standing, rewrites_whole=rewrites_whole)
    return found


_LOOK_AHEAD = 16
"""Entries tried for one seen message, so that a file with nothing in common does not cost the square of its length."""


def _match_by_place(
    seen: Sequence[Seen],
    entries: Sequence[SidecarEntry],
    found: list[int | None],
    standing: Standing,
    *,
    rewrites_whole: bool,
) -> None:
    """Between neighbours already found, match messages without an id that were edited or are an earlier state of a
    stream.
    """
    taken = {position for position in found if position is not None}
    ours_seen = [position for position in taken if entries[position].copy is not None]
    last_of_ours_seen = max(ours_seen, default=-1)
    ends: list[int] = [len(entries)] * len(seen)
    end = len(entries)
    for index in range(len(seen) - 1, -1, -1):
        ends[index] = end
        position = found[index]
        end = position if position is not None else end
    start = 0
    for index, item in enumerate(seen):
        position = found[index]
        if position is not None:
            start = position + 1
            continue
        if item.id is not None:
            continue
        for candidate in range(start, min(ends[index], start + _LOOK_AHEAD)):
            entry = entries[candidate]
            if candidate in taken or entry.key is None:
                continue
            known_to_others = entry.copy is None or candidate < last_of_ours_seen or standing == "before"
            same_place = item.near is not None and item.near == entry.near
            edited = same_place and (known_to_others or _says_the_same(item, entry))
            stale = (rewrites_whole or standing == "before") and entry.near == item.near and _is_stale(item, entry)
            if edited or stale:
                found[index] = candidate
                taken.add(candidate)
                start = candidate + 1
                break


def _says_the_same(item: Seen, entry: SidecarEntry) -> bool:
    """Return whether `item` has the text of a message of ours that no other program is known to have. With another text it may
    be that program's own message from the same second: it then counts as new, and ours is put back or goes into the trash.
    """
    return entry.copy is not None and Message.from_wire(entry.copy).text() == item.content


def _some_still_there(seen: Sequence[Seen], matched: Sequence[int | None], entries: Sequence[SidecarEntry]) -> bool:
    """Return whether the main file certainly shows one of the entries. An edit matched by its place could equally be the
    beginning of a new conversation.
    """
    for item, position in zip(seen, matched, strict=True):
        if item.seq is not None:  # the file itself says that this message is ours
            return True
        if position is not None:
            entry = entries[position]
            if item.key == entry.key or item.id == entry.id or (item.content and _is_stale(item, entry)):
                return True
    return False


def _kept_unseen(
    entries: Sequence[SidecarEntry], taken: Collection[int | None], standing: Standing, *, rewrites_whole: bool
) -> set[int]:
    """Positions of entries that the main file does not show but that still belong to the session."""
    kept = {position for position, entry in enumerate(entries) if entry.key is None}
    moments = {one: entry.since or entry.seq for one, entry in enumerate(entries) if one not in kept}
    by_save = sorted(moments, key=moments.__getitem__)
    ours = [one for one in by_save if one not in taken and entries[one].copy is not None]
    if standing != "outside":
        return kept | set(ours)
    if not rewrites_whole:
        return kept
    places = {position: place for place, position in enumerate(by_save)}
    end = max((places[one] for one in by_save if one in taken), default=-1) + 1
    was_cut = any(entries[one].copy is None for one in by_save[end:])
    # A writer whose file shows one of our messages had also read the older ones, so it left those out on purpose.
    last = max((moments[one] for one in by_save if one in taken and entries[one].copy is not None), default=-1)
    return kept | {one for one in ours if moments[one] > last and not (was_cut and places[one] >= end)}


def fields_of(item: Seen) -> dict[str, Json]:
    """Wire fields that a main file shows of a message."""
    fields = {"role": item.role, "content": item.content, **item.rest}
    if item.timestamp is not None:
        fields["timestamp"] = item.timestamp
    if item.status is not None:
        fields["status"] = item.status
    return fields


def _message(item: Seen, entry: SidecarEntry | None, message_id: str, seq: int, time: str) -> Message:
    beside = dict(entry.beside) if entry else {}
    if entry is not None and entry.key != item.key:
        # Edited: the exact form of a field (such as blocks whose text the file shows) counts only while what the file
        # shows of it is unchanged.
        there = fields_of(item)
        if not entry.shown:
            beside.pop("content", None)
        for name, digest in entry.shown.items():
            if name not in there or key_of(there[name]) != digest:
                beside.pop(name, None)
    return Message(
        id=message_id,
        seq=seq,
        role=beside.pop("role", item.role),
        content=beside.pop("content", item.content),
        timestamp=beside.pop("timestamp", None) or item.timestamp or time,
        status=beside.pop("status", item.status),
        rest={**item.rest, **beside},
    )


def _fresh_id(item: Seen, nth: Counter[str], taken: set[str]) -> str:
    while True:
        candidate = derived_id((item.role, item.key), nth[item.key])
        nth[item.key] += 1
        if candidate not in taken:
            return candidate
