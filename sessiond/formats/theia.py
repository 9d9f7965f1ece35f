"""Theia: `<id>.json`, one state blob: `messages`, the state's keys, `savedAt`. docs/formats/theia.md has the shape and
worked bytes.

A message there is `{role, content}`; ids, seqs, times and everything else are in the sidecar. Every other key of the blob
is a key of the session's state. Values are replaced in place, so that whatever did not change stays as it was. Theia
writes the blob from memory: the sidecar keeps what only the daemon ever had (messages by `weave`'s rules, state by
`_merged_state`), so that an old copy loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from sessiond.errors import InvalidParams
from sessiond.formats import json_text
from sessiond.formats.base import Abilities, Decoded, Files, Problem, Tail, Write
from sessiond.formats.foreign_message import usable_id, usable_rest, usable_status, usable_time
from sessiond.formats.json_text import Edit, Span, Style
from sessiond.formats.names import local_id_of, name_of
from sessiond.formats.sidecar import (
    EPOCH,
    Mark,
    Seen,
    ShownInMain,
    Sidecar,
    Woven,
    build,
    decode_sidecar,
    encode_sidecar,
    key_of,
    merge_info,
    restore_beside,
    sidecar_path,
    still_shown,
    weave,
)
from sessiond.model.changes import Change
from sessiond.model.message import Message
from sessiond.model.session import UPDATABLE, Session
from sessiond.model.values import Json, check_json, same_json

name = "theia"
rewrites_whole = True
abilities = Abilities(state_keys=frozenset({"messages"}))

_SUFFIX = ".json"
_BOM = b"\xef\xbb\xbf"
_RESERVED = ("messages", "savedAt")
_ORDER = ("context", "prData", "plan", "pendingAction", "lastError")
_MAX_PROBLEMS = 100
_OLDER = 8
"""How many earlier values of a state key are recognised."""
_AT_BYTE = re.compile(r"\(byte (\d+)\)")


def matches(names: Sequence[str], head: Callable[[str], bytes]) -> int:
    best = 0
    for one in list(find(names).values())[:20]:
        start = head(one).removeprefix(_BOM).lstrip()
        if not start.startswith(b"{"):
            continue
        if any(f'"{key}"'.encode() in start for key in ("savedAt", "prData", "pendingAction")):
            return 95
        best = max(best, 50 if re.match(rb'\{\s*"messages"\s*:\s*\[', start) else 0)
    return best


def find(names: Iterable[str]) -> dict[str, str]:
    return {
        local_id_of(one[: -len(_SUFFIX)]): one
        for one in names
        if one.endswith(_SUFFIX) and "/" not in one and not one.startswith(".") and len(one) > len(_SUFFIX)
    }


def main_path(local_id: str) -> str:
    return name_of(local_id) + _SUFFIX


def paths(local_id: str) -> list[str]:
    return [main_path(local_id), sidecar_path(local_id)]


def side_files(local_id: str) -> list[str]:
    return [sidecar_path(local_id)]


# Reading


class _Blob(msgspec.Struct):
    """A main file taken apart. `text` has no BOM; spans refer to it."""

    text: bytes
    members: dict[str, Span]
    elements: list[Span]
    """The elements of `messages`."""
    seen: list[Seen | None]
    """What each element shows; None if it is not a message."""
    state: dict[str, Json]
    saved_at: str | None
    problems: list[Problem]

    @property
    def messages(self) -> list[Seen]:
        return [item for item in self.seen if item is not None]

    @property
    def info(self) -> dict[str, Json]:
        """SessionInfo fields that the file shows."""
        return {"updatedAt": self.saved_at} if self.saved_at else {}

    def fallback_time(self) -> str:
        first = next((item.timestamp for item in self.messages if item.timestamp), None)
        return first or self.saved_at or EPOCH


def _parse(path: str, raw: bytes) -> _Blob | Problem:
    text = raw.removeprefix(_BOM)
    if not text.strip():
        return Problem(path, 1, "is empty", fatal=True)
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Problem(path, _line_of_error(text, str(error)), f"is not valid JSON: {error}", fatal=True)
    if not isinstance(value, dict):
        return Problem(path, 1, "is not a JSON object", fatal=True)
    spans = json_text.members(text)
    if not isinstance(value.get("messages", []), list):
        return Problem(path, _line(text, spans["messages"][0]), "has a `messages` value that is not a list", fatal=True)
    elements = json_text.elements(text, spans["messages"][0]) if "messages" in value else []
    blob = _Blob(text, spans, elements, [], {}, usable_time(value.get("savedAt")), [])
    for element, span in zip(value.get("messages", []), elements, strict=True):
        blob.seen.append(_try_seen(element, path, _line(text, span[0]), blob.problems))
    for key, one in value.items():
        if key not in _RESERVED and one is not None:
            try:
                check_json({key: one}, key)
                blob.state[key] = one
            except InvalidParams as error:
                blob.problems.append(Problem(path, _line(text, spans[key][0]), f"cannot be used: {error}"))
    return blob


def _line(text: bytes, position: int) -> int:
    return text.count(b"\n", 0, position) + 1


def _line_of_error(text: bytes, error: str) -> int:
    match = _AT_BYTE.search(error)
    return _line(text, int(match[1]) if match else len(text.rstrip()))


def _try_seen(element: Json, path: str, line: int, problems: list[Problem]) -> Seen | None:
    try:
        return _seen(element)
    except (ValueError, InvalidParams) as error:
        if len(problems) < _MAX_PROBLEMS:
            problems.append(Problem(path, line, f"has a message that cannot be used: {error}"))
        return None


def _seen(element: Json) -> Seen:
    if not isinstance(element, dict):
        raise ValueError("it is not an object")
    role, content = element.get("role"), element.get("content")
    if not isinstance(role, str) or not role:
        raise ValueError("it has no role")
    if not isinstance(content, (str, list)):
        raise ValueError("its content is neither text nor a list of blocks")
    check_json(element, "the message")
    return Seen(
        key=key_of(role, content),
        role=role,
        content=content,
        timestamp=usable_time(element.get("timestamp")),
        id=usable_id(element.get("id")),
        status=usable_status(element.get("status")),
        rest=usable_rest(element),
        near=key_of(role),
    )


def decode(local_id: str, files: Files, floor: int = 0) -> Decoded:
    side, problems = decode_sidecar(sidecar_path(local_id), files.get(sidecar_path(local_id)))
    session = Session(local_id, EPOCH)
    raw = files.get(main_path(local_id))
    if raw is None:
        return Decoded(session, problems)
    blob = _parse(main_path(local_id), raw)
    if isinstance(blob, Problem):
        return Decoded(session, [*problems, blob])
    woven = _weave(blob, side, raw, floor)
    info, rewrite = merge_info(side, blob.info, woven)
    for message in woven.messages:
        session.add_message(message)
    session.created_at = session.updated_at = blob.fallback_time()
    if blob.saved_at is None and woven.messages:
        session.touch(woven.messages[-1].timestamp)
    restore_beside(session, side, {"createdAt": session.created_at, "updatedAt": session.updated_at, **info})
    session.state, restored = _merged_state(blob, side, woven)
    shown = side is not None and blob.saved_at is not None and key_of(blob.saved_at) == side.shown.get("updatedAt")
    session.saved_at = side.saved_at if side and (shown or woven.put_back or restored) else blob.saved_at
    session.seq = max(session.seq, woven.seq if woven.renumbered else 0)
    return Decoded(
        session=session,
        problems=[*problems, *blob.problems],
        through=woven.through,
        renumbered=woven.renumbered or bool(woven.dropped) or _newly_witnessed(blob, woven, side),
        dropped=woven.dropped,
        incomplete=woven.put_back or rewrite or restored,
    )


def _weave(blob: _Blob, side: Sidecar | None, raw: bytes, floor: int) -> Woven:
    fallback = str(side.info.get("createdAt", blob.fallback_time())) if side else blob.fallback_time()
    return weave(blob.messages, side, raw, floor=floor, fallback_time=fallback, rewrites_whole=True)


def _newly_witnessed(blob: _Blob, woven: Woven, side: Sidecar | None) -> bool:
    """Return whether another writer's version shows what only the daemon had before: that must be remembered."""
    if side is None or woven.standing != "outside":
        return False
    ours = {entry.id: entry.key for entry in side.entries if entry.copy is not None}
    return any(ours.get(one, "") == item.key for one, item in zip(woven.ids, blob.messages, strict=True)) or any(
        same_json(blob.state.get(key), side.state.get(key)) for key in _older(side)
    )


def _older(side: Sidecar | None) -> dict[str, list[str]]:
    """For state keys that the daemon changed: digests of what Theia last had and of what saves have shown since."""
    try:
        return msgspec.convert(side.main.get("older", {}) if side else {}, dict[str, list[str]])
    except msgspec.ValidationError:
        return {}


def _merged_state(blob: _Blob, side: Sidecar | None, woven: Woven) -> tuple[dict[str, Json], bool]:
    """The session's state, and whether the blob lacks part of it.

    Theia's own version counts, except for a key that it shows as it was before the daemon changed it: that is an old
    copy. If nothing of the conversation is left, it is not an old copy.
    """
    if side is None:
        return dict(blob.state), False
    beside = {key: side.state[key] for key in _RESERVED if key in side.state}
    if woven.standing == "before" and woven.put_back:
        return dict(side.state), False
    state = {**blob.state, **beside}
    restored = False
    for key, digests in ({} if woven.anew else _older(side)).items():
        if key_of(blob.state.get(key)) in digests:
            restored = True
            state.pop(key, None)
            if key in side.state:
                state[key] = side.state[key]
    return state, restored


# Writing


class _Plan(msgspec.Struct):
    """The new main file, and what a decoder will read from it."""

    text: bytes
    shown: dict[str, ShownInMain]
    witnessed: set[str]
    older: dict[str, list[str]]
    saved_at: str | None


def update(session: Session, tail: Tail, files: Files, changes: Sequence[Change]) -> list[Write] | None:
    return None  # the blob is written whole


def encode(session: Session, before: Files) -> list[Write]:
    path, beside = main_path(session.local_id), sidecar_path(session.local_id)
    raw = before.get(path)
    side, problems = decode_sidecar(beside, before.get(beside))
    blob = _parse(path, raw) if raw is not None else None
    if isinstance(blob, Problem) or any(problem.fatal for problem in problems):
        return []  # a file that could not be understood is never overwritten
    plan = _plan(session, blob, side, raw)
    writes = [
        Write(beside, encode_sidecar(_sidecar(session, plan, side, raw)), "replace"),
        Write(path, plan.text, "replace"),
    ]
    return [write for write in writes if before.get(write.path) != write.data]


def adopt_numbering(decoded: Decoded, before: Files) -> list[Write]:
    session = decoded.session
    path, beside = main_path(session.local_id), sidecar_path(session.local_id)
    raw = before.get(path)
    side, _ = decode_sidecar(beside, before.get(beside))
    blob = _parse(path, raw) if raw is not None else None
    if raw is None or blob is None or isinstance(blob, Problem):
        return []
    plan = _plan(session, blob, side, raw)
    plan.text, plan.saved_at = raw, blob.saved_at
    built = _sidecar(session, plan, side, raw)
    cut = still_shown(side, session, set(_weave(blob, side, raw, session.seq).ids))
    entries = sorted([*built.entries, *cut], key=lambda entry: entry.seq)
    mark = Mark.of(raw, decoded.through)
    content = encode_sidecar(
        msgspec.structs.replace(built, entries=entries, through=decoded.through, mark=mark, was=None, cut=[])
    )
    return [] if before.get(beside) == content else [Write(beside, content, "replace")]


def _sidecar(session: Session, plan: _Plan, side: Sidecar | None, raw: bytes | None) -> Sidecar:
    info = {
        **{key: getattr(session, key) for key in UPDATABLE},
        "createdAt": session.created_at,
        "updatedAt": session.updated_at,
    }
    built = build(
        session,
        lambda message: plan.shown.get(message.id),
        before=side,
        main_before=raw,
        main_after=plan.text,
        info=info,
        keep_copies=True,
        witnessed=plan.witnessed,
        shown_info={"updatedAt": plan.saved_at} if plan.saved_at else {},
    )
    return msgspec.structs.replace(built, main={"older": plan.older} if plan.older else {})


def _plan(session: Session, blob: _Blob | None, side: Sidecar | None, raw: bytes | None) -> _Plan:
    if blob is None or raw is None:
        return _fresh(session)
    plan = _Plan(raw, {}, set(), {}, blob.saved_at)
    woven = _weave(blob, side, raw, session.seq)
    style = Style.of(blob.text)
    values = {**_changed_messages(session, blob, woven, plan, style), **_changed_state(session, blob, style)}
    if values:
        plan.saved_at = max(session.updated_at, session.saved_at or "")
        values["savedAt"] = style.value(plan.saved_at, 1)
        bom = raw[: len(raw) - len(blob.text)]
        plan.text = bom + _exchanged(blob, values, style)
    outside = woven.standing in ("outside", "alone")
    if outside:
        for position, (message_id, item) in enumerate(zip(woven.ids, blob.messages, strict=True)):
            shown = plan.shown.get(message_id)
            if shown is not None and shown.key == item.key and position not in woven.stale:
                plan.witnessed.add(message_id)
    plan.older = _older_now(session, blob, side, outside=outside)
    return plan


def _fresh(session: Session) -> _Plan:
    plan = _Plan(b"", {}, set(), {}, max(session.updated_at, session.saved_at or ""))
    listed = []
    for message in session.messages():
        if message.status != "streaming":
            listed.append(element := {"role": message.role, "content": message.text()})
            plan.shown[message.id] = ShownInMain.of(message, _seen(element))
    others = [key for key in session.state if key not in (*_ORDER, *_RESERVED)]
    state = {key: session.state.get(key) for key in (*_ORDER, *others)}
    plan.text = msgspec.json.encode({"messages": listed, **state, "savedAt": plan.saved_at})
    plan.older = {key: [key_of(None)] for key, value in state.items() if value is not None}
    return plan


def _older_now(session: Session, blob: _Blob, side: Sidecar | None, *, outside: bool) -> dict[str, list[str]]:
    """`_older` for the next sidecar. `outside`: another program wrote the blob."""
    older = _older(side)
    found: dict[str, list[str]] = {}
    for key in sorted(blob.state.keys() | session.state.keys() | older.keys()):
        there, now = key_of(blob.state.get(key)), key_of(session.state.get(key))
        kept = older.get(key, [])
        if outside and there not in kept:
            kept = []  # either Theia's own value, or ours, which Theia must then have had
        kept = [one for one in [*(one for one in kept if one != there), there] if one != now]
        if key not in _RESERVED and kept:
            found[key] = [*kept[:1], *kept[1:][-_OLDER:]]
    return found


def _exchanged(blob: _Blob, values: dict[str, bytes], style: Style) -> bytes:
    """The blob with new values for some keys. Keys that it does not have yet go to its end."""
    edits: list[Edit] = [(*blob.members[key], text) for key, text in values.items() if key in blob.members]
    new = [style.member(key, text, 1) for key, text in values.items() if key not in blob.members]
    return json_text.apply(blob.text, [*edits, json_text.insert(blob.text, blob.members, new)] if new else edits)


def _changed_messages(session: Session, blob: _Blob, woven: Woven, plan: _Plan, style: Style) -> dict[str, bytes]:
    """The new list, if it changes: each element keeps its text, and a non-message stays after the message it followed."""
    indexes = [index for index, item in enumerate(blob.seen) if item is not None]
    positions = {message_id: position for position, message_id in enumerate(woven.ids) if message_id}
    decoded = {message.id: message for message in woven.messages}
    wanted: list[tuple[int | None, bytes]] = []
    for message in session.messages():
        position = positions.get(message.id)
        if message.status == "streaming" and position is None:
            continue  # for Theia, a reply that is still growing is not a message yet
        if position is None:
            element = {"role": message.role, "content": message.text()}
            item, text = _seen(element), style.value(element, 2)
            wanted.append((None, text))
        else:
            start, end = blob.elements[indexes[position]]
            item, text = blob.messages[position], blob.text[start:end]
            if position in woven.stale or not same_json(
                {**decoded[message.id].wire(), "seq": message.seq}, message.wire()
            ):
                item, text = _edited(message, item, text, style)
            wanted.append((indexes[position], text))
        plan.shown[message.id] = ShownInMain.of(message, item)
    texts = _arranged(wanted, [blob.text[start:end] for start, end in blob.elements], blob.seen)
    if texts == [blob.text[start:end] for start, end in blob.elements]:
        return {}
    return {"messages": style.array(texts, 1)}


def _arranged(
    wanted: Sequence[tuple[int | None, bytes]], elements: Sequence[bytes], seen: Sequence[Seen | None]
) -> list[bytes]:
    """`wanted`: messages with their old index. A non-message stays after the last remaining message before it, or at the
    start.
    """
    staying = {index for index, _ in wanted if index is not None}
    follows: dict[int, list[bytes]] = {}
    last = -1
    for index, item in enumerate(seen):
        if index in staying:
            last = index
        elif item is None:
            follows.setdefault(last, []).append(elements[index])
    texts = list(follows.get(-1, []))
    for index_or_none, text in wanted:
        texts.append(text)
        texts += follows.get(index_or_none, []) if index_or_none is not None else []
    return texts


def _edited(message: Message, item: Seen, text: bytes, style: Style) -> tuple[Seen, bytes]:
    """The object of a message that changed, with only the values replaced that are different now."""
    value = msgspec.json.decode(text)
    found = json_text.members(text)
    wanted: dict[str, Json] = {key: one for key, one in message.rest.items() if key in value}
    wanted["role"] = message.role
    if not same_json(message.content, value.get("content")):
        wanted["content"] = message.content if isinstance(value.get("content"), list) else message.text()
    if item.status is not None and message.status != item.status:
        wanted["status"] = message.status or "done"
    edits: list[Edit] = []
    for key, one in wanted.items():
        if not same_json(value.get(key), one):
            edits.append((*found[key], style.value(one, 3)))
            value[key] = one
    if not edits:
        return item, text
    return _seen(value), json_text.apply(text, edits)


def _changed_state(session: Session, blob: _Blob, style: Style) -> dict[str, bytes]:
    """Changed state values. A removed key becomes null, which Theia's reader understands."""
    now: dict[str, Json] = {**dict.fromkeys(blob.state), **session.state}
    return {
        key: style.value(value, 1)
        for key, value in now.items()
        if key not in _RESERVED and not same_json(blob.state.get(key), value)
    }
