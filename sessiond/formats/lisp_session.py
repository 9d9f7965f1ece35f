"""What the two Lisp formats share: a session in one property list, with a sidecar.

A format gives a `Schema`: which keys it knows, how their values read, and how a session and a message are shown.
Everything else is the same:

- A value of the file is replaced only where reading it would not give what the session has; every other byte stays.
- What the file cannot show exactly is kept in the sidecar, for as long as the file still shows what it showed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from sessiond.formats.base import Decoded, Files, Problem, Tail, Write
from sessiond.formats.lisp_file import Edit, LispFile, Placed, apply_edits, arrange, column, parse, set_key
from sessiond.formats.sexp import Dialect, Node, line_of, read
from sessiond.formats.sexp_values import Source
from sessiond.formats.sidecar import (
    EPOCH,
    Mark,
    Seen,
    Shown,
    Sidecar,
    Woven,
    build,
    decode_sidecar,
    encode_sidecar,
    key_of,
    merge_info,
    restore_beside,
    sidecar_path,
    weave,
)
from sessiond.model.changes import Change, Noted, StateSet, Updated
from sessiond.model.message import Message
from sessiond.model.session import UPDATABLE, Session
from sessiond.model.values import Json, same_json

Reader: TypeAlias = Callable[[Source, Node], Json]
Values: TypeAlias = dict[str, Json]
"""Key -> what its value reads as."""
_MAX_PROBLEMS = 100
_WIRE = {"createdAt": "created_at", "updatedAt": "updated_at"}


class Schema(Protocol):
    """One Lisp format. Keys are written as in the file (`:role`)."""

    dialect: Dialect
    session_readers: Mapping[str, Reader]
    message_readers: Mapping[str, Reader]
    message_indent: int
    """Column of a message in a file of ours."""

    def main_path(self, local_id: str) -> str: ...

    def info(self, values: Values) -> dict[str, Json]:
        """SessionInfo fields (wire names) that the file shows. Times that are not there are left out."""

    def seen(self, values: Values) -> Seen | str:
        """One message as the file shows it, or why it is none."""

    def show_session(self, session: Session) -> dict[str, str]:
        """Wire name of every field that `info` may answer -> its key and printed value, `":name \\"x\\""`."""

    def show_message(self, message: Message, indent: int) -> dict[str, str] | None:
        """Key -> printed value, or None where the file must not hold the message."""

    def fresh(self, session: Session, messages: Sequence[str]) -> str:
        """A new file."""

    def header_edits(self, file: LispFile, session: Session) -> list[Edit]:
        """What must change before the form when the name does."""

    def remarks(self, local_id: str, file: LispFile) -> str | None:
        """Why the file is none of ours, or of a version that is not known: it is not read then."""

    def inner_id(self, local_id: str) -> str:
        """The id that the file is expected to name."""


class _Read(msgspec.Struct):
    """A main file taken apart, and what its messages say."""

    file: LispFile
    values: Values
    list_node: Node | None
    nodes: list[Node]
    """Elements of `:messages` that are messages, and what each shows."""
    seen: list[Seen]
    known: list[bool]
    """For every element whether it is a message."""
    problems: list[Problem]

    def fallback_time(self, info: Mapping[str, Json]) -> str:
        first = next((item.timestamp for item in self.seen if item.timestamp), None)
        return str(info.get("createdAt") or first or EPOCH)


def read_main(schema: Schema, local_id: str, raw: bytes) -> tuple[_Read | None, list[Problem]]:
    path = schema.main_path(local_id)
    file, problems = parse(path, raw, schema.dialect)
    if file is None:
        return None, problems
    reason = schema.remarks(local_id, file)
    if reason is not None:
        return None, [*problems, Problem(path, line_of(file.source.text, file.form.start), reason, fatal=True)]
    source, top = file.source, file.top
    values = _values(source, top, schema.session_readers)
    list_node = top.get(":messages")
    elements = source.proper_list(list_node)
    if elements is None:
        line = line_of(source.text, list_node.start if list_node else 0)
        return None, [*problems, Problem(path, line, "holds :messages that are no list", fatal=True)]
    found = _Read(file, values, list_node, [], [], [], problems)
    inner = values.get(":id")
    if isinstance(inner, str) and inner != schema.inner_id(local_id):
        line = line_of(source.text, top[":id"].start)
        problems.append(Problem(path, line, f"names another id, {inner!r}; the file's name counts"))
    bad = 0
    for node in elements:
        shown = _seen(schema, source, node)
        found.known.append(isinstance(shown, Seen))
        if isinstance(shown, Seen):
            found.nodes.append(node)
            found.seen.append(shown)
        elif (bad := bad + 1) <= _MAX_PROBLEMS:
            problems.append(Problem(path, line_of(source.text, node.start), shown))
    return found, problems


def _values(source: Source, pairs: Mapping[str, Node], readers: Mapping[str, Reader]) -> Values:
    return {key: reader(source, pairs[key]) for key, reader in readers.items() if key in pairs}


def _seen(schema: Schema, source: Source, node: Node) -> Seen | str:
    if source.proper_list(node) is None or not node.items:
        return "is no message: expected a property list"
    return schema.seen(_values(source, source.plist(node), schema.message_readers))


def decode(schema: Schema, local_id: str, files: Files, floor: int = 0) -> Decoded:
    path = schema.main_path(local_id)
    side, problems = decode_sidecar(sidecar_path(local_id), files.get(sidecar_path(local_id)))
    session = Session(local_id, EPOCH)
    raw = files.get(path)
    if raw is None:
        return Decoded(session, problems)
    main, remarks = read_main(schema, local_id, raw)
    problems += remarks
    if main is None or any(problem.fatal for problem in problems):
        return Decoded(session, problems)
    info = schema.info(main.values)
    woven = _weave(main, info, side, raw, floor)
    merged, rewrite = merge_info(side, info, woven)
    _fill(session, woven, merged, main.fallback_time(info))
    last_message_at = session.updated_at
    restore_beside(session, side, _settled(merged, session))
    if woven.standing == "outside" and "updatedAt" not in info:
        session.touch(last_message_at)
    session.seq = max(session.seq, woven.seq)
    witnessed = woven.standing == "outside" and _newly_witnessed(main, woven, side)
    return Decoded(
        session=session,
        problems=problems,
        through=woven.through,
        renumbered=woven.renumbered or witnessed,
        incomplete=woven.put_back or rewrite,
    )


def _weave(main: _Read, info: Mapping[str, Json], side: Sidecar | None, raw: bytes, floor: int) -> Woven:
    return weave(main.seen, side, raw, floor=floor, fallback_time=main.fallback_time(info), rewrites_whole=True)


def _fill(session: Session, woven: Woven, info: Mapping[str, Json], created: str) -> None:
    for message in woven.messages:
        session.add_message(message)
    session.created_at = session.updated_at = str(info.get("createdAt") or created)
    if woven.messages:
        session.touch(max(message.timestamp for message in woven.messages))


def _settled(info: Mapping[str, Json], session: Session) -> dict[str, Json]:
    """What counts where the file or the sidecar says nothing: the messages' times."""
    return {"createdAt": session.created_at, "updatedAt": session.updated_at, **info}


def _newly_witnessed(main: _Read, woven: Woven, side: Sidecar | None) -> bool:
    """Whether another writer's version shows messages that only the daemon had so far: that must be remembered."""
    ours = {entry.id: entry.key for entry in side.entries if entry.copy is not None} if side else {}
    return any(ours.get(one, "") == item.key for one, item in zip(woven.ids, main.seen, strict=True))


class _Plan(msgspec.Struct):
    """How a session is shown in the main file: the text, and what a decoder will read of it."""

    text: str
    shown: dict[str, Shown]
    """Message id -> what is shown of it; hidden messages are not in it."""
    info: dict[str, Json]
    """SessionInfo fields as the file shows them."""
    witnessed: set[str]


def encode(schema: Schema, session: Session, before: Files) -> list[Write]:
    path, beside = schema.main_path(session.local_id), sidecar_path(session.local_id)
    raw = before.get(path)
    side, problems = decode_sidecar(beside, before.get(beside))
    main = read_main(schema, session.local_id, raw)[0] if raw is not None else None
    if (raw is not None and main is None) or any(problem.fatal for problem in problems):
        return []  # what could not be understood is never written over
    if raw is None or main is None:
        plan = _fresh(schema, session)
        content = plan.text.encode()
    else:
        plan = _change(schema, session, main, side, raw)
        content = main.file.encoded(plan.text)
    new = build(
        session, lambda message: plan.shown.get(message.id), before=side, main_before=raw, main_after=content,
        info=_info(session), keep_copies=True, witnessed=plan.witnessed, shown_info=plan.info,
    )  # fmt: skip
    writes = [Write(beside, encode_sidecar(new), "replace"), Write(path, content, "replace")]
    return [write for write in writes if before.get(write.path) != write.data]


def _info(session: Session) -> dict[str, Json]:
    fields = {name: getattr(session, name) for name in UPDATABLE}
    return {**fields, "createdAt": session.created_at, "updatedAt": session.updated_at}


def _fresh(schema: Schema, session: Session) -> _Plan:
    plan = _Plan("", {}, {}, set())
    texts = []
    for message in session.messages():
        printed = schema.show_message(message, schema.message_indent)
        if printed is not None:
            plan.shown[message.id] = Shown.of(message, _reread(schema, printed))
            texts.append(_message_text(printed, schema.message_indent))
    plan.text = schema.fresh(session, texts)
    source = Source(plan.text, schema.dialect)
    form = read(plan.text, schema.dialect)
    plan.info = schema.info(_values(source, source.plist(form), schema.session_readers))
    return plan


def _message_text(printed: Mapping[str, str], indent: int) -> str:
    blank = "\n" + " " * (indent + 1)
    return "(" + blank.join(f"{key} {value}" for key, value in printed.items()) + ")"


def _reread(schema: Schema, printed: Mapping[str, str]) -> Seen:
    """What a decoder makes of a message that is printed so."""
    seen = schema.seen({key: _read_value(schema.message_readers[key], text, schema) for key, text in printed.items()})
    assert isinstance(seen, Seen), seen
    return seen


def _read_value(reader: Reader, text: str, schema: Schema) -> Json:
    return reader(Source(text, schema.dialect), read(text, schema.dialect))


def _change(schema: Schema, session: Session, main: _Read, side: Sidecar | None, raw: bytes) -> _Plan:
    """The main file with as little changed as can be."""
    info = schema.info(main.values)
    woven = _weave(main, info, side, raw, session.seq)
    plan = _Plan(main.file.source.text, {}, dict(info), set())
    edits = _message_edits(schema, session, main, woven, plan)
    edits += _info_edits(schema, session, main, side, plan, alone=not edits)
    if not same_json(plan.info.get("name"), info.get("name")):
        edits += schema.header_edits(main.file, session)
    plan.text = apply_edits(main.file.source.text, edits)
    if woven.standing in ("outside", "alone"):
        for position, (message_id, item) in enumerate(zip(woven.ids, main.seen, strict=True)):
            shown = plan.shown.get(message_id)
            if shown is not None and shown.key == item.key and position not in woven.stale:
                plan.witnessed.add(message_id)
    return plan


def _message_edits(schema: Schema, session: Session, main: _Read, woven: Woven, plan: _Plan) -> list[Edit]:
    elements = [index for index, is_message in enumerate(main.known) if is_message]
    positions = {message_id: position for position, message_id in enumerate(woven.ids)}
    decoded = {message.id: message for message in woven.messages}
    wanted: list[Placed] = []
    changed = False
    for message in session.messages():
        position = positions.get(message.id)
        if position is None:
            printed = schema.show_message(message, schema.message_indent)
            if printed is not None:
                plan.shown[message.id] = Shown.of(message, _reread(schema, printed))
                wanted.append(Placed(_message_text(printed, _indent(schema, main))))
                changed = True
            continue
        node, item = main.nodes[position], main.seen[position]
        text = main.file.source.raw(node)
        if position in woven.stale or not _same(decoded[message.id], message):
            printed = schema.show_message(message, _indent(schema, main))
            if printed is None:
                continue
            text, item = _edited_message(schema, main.file.source, node, printed)
            changed = True
        plan.shown[message.id] = Shown.of(message, item)
        wanted.append(Placed(text, elements[position]))
    changed = changed or [one.index for one in wanted] != elements
    if not changed:
        return []
    return [_list_edit(schema, main, wanted)]


def _indent(schema: Schema, main: _Read) -> int:
    return column(main.file.source.text, main.nodes[-1].start) if main.nodes else schema.message_indent


def _list_edit(schema: Schema, main: _Read, wanted: list[Placed]) -> Edit:
    source, node = main.file.source, main.list_node
    if node is None or not node.items:
        blank = "\n" + " " * schema.message_indent
        listed = blank[:-1] + "(" + blank.join(placed.text for placed in wanted) + ")" if wanted else "nil"
        if node is None:
            return set_key(source, main.file.form, ":messages", listed)
        start = node.start
        while wanted and source.text[start - 1 : start] == " ":
            start -= 1
        return (start, node.end, listed)
    return (node.start, node.end, arrange(source, node, main.known, wanted, schema.message_indent))


def _same(a: Message, b: Message) -> bool:
    return same_json({**a.wire(), "seq": 0}, {**b.wire(), "seq": 0})


def _edited_message(schema: Schema, source: Source, node: Node, printed: Mapping[str, str]) -> tuple[str, Seen]:
    """A message's source with those values replaced that would not read as they should, and what it shows then."""
    values = _values(source, source.plist(node), schema.message_readers)
    edits = []
    gone = {key: "nil" for key in values if key not in printed}
    for key, text in {**printed, **gone}.items():
        value = _read_value(schema.message_readers[key], text, schema)
        if not same_json(values.get(key), value):
            edits.append(set_key(source, node, key, text))
            values[key] = value
    seen = schema.seen(values)
    assert isinstance(seen, Seen), seen
    return apply_edits(source.text, edits, node.start, node.end), seen


def _info_edits(
    schema: Schema, session: Session, main: _Read, side: Sidecar | None, plan: _Plan, *, alone: bool
) -> list[Edit]:
    """Edits of the fields that the file shows. `alone`: nothing else changes; then a later `updatedAt` is no reason to
    write the file.
    """
    printed = schema.show_session(session)
    defaults = {"createdAt": main.fallback_time(plan.info)}
    edits: list[Edit] = []
    for name, pair in sorted(printed.items(), key=lambda one: one[0] == "updatedAt"):
        key, _, text = pair.partition(" ")
        exact = getattr(session, _WIRE.get(name, name))
        shown = plan.info.get(name, defaults.get(name))
        stands = (
            side is not None
            and name in plan.info
            and key_of(shown) == side.shown.get(name)
            and same_json(exact, side.info.get(name))
        )
        if same_json(shown, exact) or stands:
            continue
        if name == "updatedAt" and alone and not edits and (shown is None or exact >= shown):
            continue
        value = _read_value(schema.session_readers[key], text, schema)
        if same_json(main.values.get(key), value):
            continue
        edits.append(set_key(main.file.source, main.file.form, key, text))
        plan.info = {**plan.info, **{k: v for k, v in schema.info({**main.values, key: value}).items() if k == name}}
    return edits


def update(schema: Schema, session: Session, tail: Tail, files: Files, changes: Sequence[Change]) -> list[Write] | None:
    """Only what the sidecar alone holds can be saved without the main file."""
    path = sidecar_path(session.local_id)
    side, problems = decode_sidecar(path, files.get(path))
    if side is None or problems or side.mark is None or not tail.exists or side.mark.size != tail.size or not changes:
        return None
    shown = schema.show_session(session)
    info, state = dict(side.info), dict(side.state)
    notes = {note["id"]: note for note in side.notes}
    saved_at = side.saved_at
    for change in changes:
        match change:
            case Updated(fields=fields) if not fields.keys() & shown.keys():
                info |= fields
            case Noted(note=note):
                notes[note["id"]] = note
            case StateSet(values=values):
                state = {key: value for key, value in {**state, **values}.items() if value is not None}
                saved_at = change.at
                continue
            case _:
                return None
        info["updatedAt"] = max(change.at, info.get("updatedAt", change.at))
    seq = changes[-1].seq
    new = msgspec.structs.replace(
        side, seq=max(side.seq, seq), through=seq, mark=msgspec.structs.replace(side.mark, seq=seq), was=None, cut=[],
        info=info, notes=list(notes.values()), state=state, saved_at=saved_at,
    )  # fmt: skip
    return [Write(path, encode_sidecar(new), "replace")]


def adopt_numbering(schema: Schema, decoded: Decoded, before: Files) -> list[Write]:
    session = decoded.session
    path, beside = schema.main_path(session.local_id), sidecar_path(session.local_id)
    raw = before.get(path)
    side, _ = decode_sidecar(beside, before.get(beside))
    main = read_main(schema, session.local_id, raw)[0] if raw is not None else None
    if raw is None or main is None:
        return []
    plan = _change(schema, session, main, side, raw)
    built = build(
        session, lambda message: plan.shown.get(message.id), before=side, main_before=raw, main_after=raw,
        info=_info(session), keep_copies=True, witnessed=plan.witnessed, shown_info=schema.info(main.values),
    )  # fmt: skip
    new = msgspec.structs.replace(built, through=decoded.through, mark=Mark.of(raw, decoded.through), was=None, cut=[])
    content = encode_sidecar(new)
    return [] if before.get(beside) == content else [Write(beside, content, "replace")]
