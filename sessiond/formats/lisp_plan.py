"""Plans how a session is written into its Lisp file, with as few changes as possible.

- A value in the file is replaced only if reading it would not give what the session has; every other byte stays.
- The sidecar keeps what the file cannot show exactly, as long as the file still shows what it showed then.
- If a file would exceed the reader's limits, it shows less of the new messages; the sidecar has them whole.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sessiond.formats.lisp_file import Edit, LispFile, Placed, apply_edits, arrange, column, set_key
from sessiond.formats.lisp_schema import Reader, ReadFile, Schema, values_of
from sessiond.formats.sexp import Node, read
from sessiond.formats.sexp_values import SexpText
from sessiond.formats.sidecar import Seen, ShownInMain, Sidecar, Woven, key_of, weave
from sessiond.limits import MAX_SEXP_NODES
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import Json, same_json

_WIRE = {"createdAt": "created_at", "updatedAt": "updated_at"}
_LARGE = 1000
"""Data longer than this, in characters, is left out of a file that would get too large."""


class RenderedSession(msgspec.Struct):
    """A session as it is shown in the main file: the text, and what a decoder will read from it."""

    text: str
    shown: dict[str, ShownInMain]
    """Message id -> what the file shows of it, without hidden messages."""
    info: dict[str, Json]
    """SessionInfo fields as the file shows them."""
    witnessed: set[str]


def weave_file(main: ReadFile, info: Mapping[str, Json], side: Sidecar | None, raw: bytes, floor: int) -> Woven:
    return weave(main.seen, side, raw, floor=floor, fallback_time=main.fallback_time(info), rewrites_whole=True)


def plan_new(schema: Schema, session: Session, brief: int = 0) -> RenderedSession:
    """The plan for a new file. `brief`: 0 shows everything, 1 leaves out large data, 2 leaves out all messages."""
    plan = RenderedSession("", {}, {}, set())
    texts = []
    for message in session.messages():
        printed = _show(schema, message, schema.message_indent, brief, None)
        if printed is not None:
            plan.shown[message.id] = ShownInMain.of(message, _reread(schema, printed))
            texts.append(_message_text(printed, schema.message_indent))
    plan.text = schema.fresh(session, _show_session(schema, session, brief, None), texts)
    source = SexpText(plan.text, schema.dialect)
    form = read(plan.text, schema.dialect)
    plan.info = schema.info(values_of(source, source.plist(form), schema.session_readers))
    return plan


def check_size(plan: RenderedSession, schema: Schema) -> None:
    """Raise SexpError unless the reader will accept the file. A datum takes at least a character and a blank, so most
    files need no check.
    """
    if len(plan.text) >= 2 * MAX_SEXP_NODES:
        read(plan.text, schema.dialect)


def _show(schema: Schema, message: Message, indent: int, brief: int, file: LispFile | None) -> dict[str, str] | None:
    """`file`: the file that the message goes into, if it exists."""
    printed = schema.show_message(message, indent) if brief < 2 else None
    if printed is not None and file is not None:
        printed = {key: _fitting(file, key, text) for key, text in printed.items()}
    if printed is None or brief == 0:
        return printed
    return {key: "nil" if key in schema.data_keys and len(text) > _LARGE else text for key, text in printed.items()}


def _fitting(file: LispFile, key: str, text: str) -> str:
    """The sidecar has what the file's coding cannot show."""
    fitted = file.fitting(text)
    return fitted if fitted is not None else "unknown" if key == ":role" else "nil"


def _show_session(schema: Schema, session: Session, brief: int, file: LispFile | None) -> dict[str, str]:
    shown = schema.show_session(session)
    keys = {name: pair.partition(" ")[0] for name, pair in shown.items()}
    if file is not None:
        shown = {name: file.fitting(pair) or f"{keys[name]} nil" for name, pair in shown.items()}
    if brief == 0:
        return shown
    return {
        name: f"{keys[name]} nil" if keys[name] in schema.data_keys and len(pair) > _LARGE else pair
        for name, pair in shown.items()
    }


def _message_text(printed: Mapping[str, str], indent: int) -> str:
    blank = "\n" + " " * (indent + 1)
    return "(" + blank.join(f"{key} {value}" for key, value in printed.items()) + ")"


def _reread(schema: Schema, printed: Mapping[str, str]) -> Seen:
    """Return what a decoder reads from a message printed this way."""
    seen = schema.seen({key: _read_value(schema.message_readers[key], text, schema) for key, text in printed.items()})
    assert isinstance(seen, Seen), seen
    return seen


def _read_value(reader: Reader, text: str, schema: Schema) -> Json:
    return reader(SexpText(text, schema.dialect), read(text, schema.dialect))


def plan_change(
    schema: Schema, session: Session, main: ReadFile, side: Sidecar | None, raw: bytes, brief: int = 0
) -> RenderedSession:
    """The main file with as few changes as possible. `brief` as in `plan_new`, for new messages and values."""
    info = schema.info(main.values)
    woven = weave_file(main, info, side, raw, session.seq)
    plan = RenderedSession(main.file.source.text, {}, dict(info), set())
    edits = _message_edits(schema, session, main, woven, plan, brief)
    edits += _info_edits(schema, session, main, side, plan, brief, alone=not edits)
    if not same_json(plan.info.get("name"), info.get("name")):
        edits += schema.header_edits(main.file, session)
    plan.text = apply_edits(main.file.source.text, edits)
    if woven.standing in ("outside", "alone"):
        for position, (message_id, item) in enumerate(zip(woven.ids, main.seen, strict=True)):
            shown = plan.shown.get(message_id)
            if shown is not None and shown.key == item.key and position not in woven.stale:
                plan.witnessed.add(message_id)
    return plan


def _message_edits(
    schema: Schema, session: Session, main: ReadFile, woven: Woven, plan: RenderedSession, brief: int
) -> list[Edit]:
    elements = [index for index, is_message in enumerate(main.known) if is_message]
    positions = {message_id: position for position, message_id in enumerate(woven.ids)}
    decoded = {message.id: message for message in woven.messages}
    wanted: list[Placed] = []
    changed = False
    for message in session.messages():
        position = positions.get(message.id)
        if position is None:
            printed = _show(schema, message, _indent(schema, main), brief, main.file)
            if printed is not None:
                plan.shown[message.id] = ShownInMain.of(message, _reread(schema, printed))
                wanted.append(Placed(_message_text(printed, _indent(schema, main))))
                changed = True
            continue
        node, item = main.nodes[position], main.seen[position]
        text = main.file.source.raw(node)
        if position in woven.stale or not _same(decoded[message.id], message):
            printed = _show(schema, message, _indent(schema, main), brief, main.file)
            if printed is None:
                continue
            text, item = _edited_message(schema, main.file.source, node, printed)
            changed = True
        plan.shown[message.id] = ShownInMain.of(message, item)
        wanted.append(Placed(text, elements[position]))
    changed = changed or [one.index for one in wanted] != elements
    if not changed:
        return []
    return [_list_edit(schema, main, wanted)]


def _indent(schema: Schema, main: ReadFile) -> int:
    return column(main.file.source.text, main.nodes[-1].start) if main.nodes else schema.message_indent


def _list_edit(schema: Schema, main: ReadFile, wanted: list[Placed]) -> Edit:
    source, node = main.file.source, main.list_node
    if node is None or not (node.items or _holds_a_comment(source, node)):
        blank = "\n" + " " * schema.message_indent
        listed = blank[:-1] + "(" + blank.join(placed.text for placed in wanted) + ")" if wanted else "nil"
        if node is None:
            return set_key(source, main.file.form, ":messages", listed)
        start = node.start
        while wanted and source.text[start - 1 : start] == " ":
            start -= 1
        return (start, node.end, listed)
    return (node.start, node.end, arrange(source, node, main.known, wanted, schema.message_indent))


def _holds_a_comment(source: SexpText, node: Node) -> bool:
    """Return whether there is something between the parentheses of an empty list, which is not written as `nil` then."""
    raw = source.raw(node)
    return raw.startswith("(") and bool(raw[1:-1].strip())


def _same(a: Message, b: Message) -> bool:
    return same_json({**a.wire(), "seq": 0}, {**b.wire(), "seq": 0})


def _edited_message(schema: Schema, source: SexpText, node: Node, printed: Mapping[str, str]) -> tuple[str, Seen]:
    """A message's source with every value replaced that would read wrongly, and what it then shows."""
    values = values_of(source, source.plist(node), schema.message_readers)
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
    schema: Schema,
    session: Session,
    main: ReadFile,
    side: Sidecar | None,
    plan: RenderedSession,
    brief: int,
    *,
    alone: bool,
) -> list[Edit]:
    """Edits of the fields that the file shows. `alone`: nothing else changes, so a later `updatedAt` alone does not
    write the file.
    """
    printed = _show_session(schema, session, brief, main.file)
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
