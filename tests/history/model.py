"""What one session does, one request after another: the sequential model that a history is compared with.

`step(state, op)` returns the states that the session may be in after `op`, with the answer that `op` got. It returns none if
that answer is impossible in this state. An op without an answer may have any outcome that the protocol allows. A state also
holds the entry of the session's id in the trash, every change so far (`log`) and at which life of the id each `open` stood.

Two things happen without a request, at a moment of the daemon's choice: a reply whose writer is gone is finished as
`interrupted` (`orphans`), and an outside edit of the file is merged (`edits`). `by_itself` returns those.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tests.history.values import Edit, Op, digest


class Message(NamedTuple):
    id: str
    seq: int
    role: str
    content: str
    status: str = "done"
    metadata: tuple[tuple[str, Any], ...] = ()
    sent: str = ""
    """Its text when it was appended."""
    writer: str = ""


class Change(NamedTuple):
    """`life`: of the session's id, which may be made, deleted and made again. `what` is to be found in notifications."""

    life: int
    seq: int
    kind: str
    what: Any
    by: str


class Kept(NamedTuple):
    """A session's content; also that of its entry in the trash."""

    seq: int = 0
    messages: tuple[Message, ...] = ()
    notes: tuple[tuple[str, int, str], ...] = ()
    values: tuple[tuple[str, Any], ...] = ()
    name: str | None = None
    orphans: frozenset[str] = frozenset()
    start: int = 0
    """Where the log of what it went through begins."""


class State(NamedTuple):
    there: bool = False
    life: int = 0
    session: Kept = Kept()
    trash: Kept | None = None
    log: tuple[Change, ...] = ()
    edits: tuple[int, ...] = ()
    """Numbers of edits that the daemon has not merged yet."""
    opened: tuple[tuple[Op, int], ...] = ()
    """Each open with the life that it saw."""
    ends: tuple[int, ...] = ()
    """Of each earlier daemon: how long the log was when it ended."""

    @property
    def seq(self) -> int:
        return self.session.seq

    def message(self, message_id: str) -> Message | None:
        return next((one for one in self.session.messages if one.id == message_id), None)

    def but(self, **fields: Any) -> State:
        """The same with other fields of the session."""
        return self._replace(session=self.session._replace(**fields))

    def changed(self, kind: str, what: Any, by: str, **fields: Any) -> State:
        """After one more change."""
        seq = self.seq + 1
        log = (*self.log, Change(self.life, seq, kind, what, by))
        return self._replace(log=log, session=self.session._replace(seq=seq, **fields))

    def with_message(self, new: Message) -> tuple[Message, ...]:
        return tuple(new if one.id == new.id else one for one in self.session.messages)


States = Iterable[State]
Test = Callable[[dict[str, Any]], bool]


def step(state: State, op: Op) -> list[State]:
    """The states after `op`; none where its answer contradicts."""
    answer = op.answer
    if answer is not None and answer.kind == "cancelled":
        return [state] if op.cancelled else []
    if not state.there and op.method not in ("session/new", "session/restore", "session/delete"):
        return _refused(state, op, "sessionNotFound")
    return list(METHODS[op.method](state, op))


def by_itself(state: State, edits: list[Edit], seqs: dict[str, set[int]]) -> Iterator[tuple[str, State]]:
    """What the daemon may do now without a request. `seqs`: those that messages were seen with."""
    if not state.there:
        return
    for message_id in sorted(state.session.orphans):
        message = state.message(message_id)
        assert message is not None
        ended = state.with_message(message._replace(status="interrupted", writer=""))
        orphans = state.session.orphans - {message_id}
        yield (
            f"the daemon interrupts {message_id}",
            state.changed("finished", (message_id, "interrupted"), "daemon", messages=ended, orphans=orphans),
        )
    for number in state.edits:
        left = tuple(one for one in state.edits if one != number)
        for merged in _merged(state._replace(edits=left), edits[number], seqs):
            yield f"the daemon merges edit {number}", merged


def _merged(state: State, edit: Edit, seqs: dict[str, set[int]]) -> States:
    """A merge may take a seq, and is not in the log: `since` before it returns None."""
    if edit.line is not None:
        seen = {seq for seq in seqs.get(edit.line["id"], set()) if seq > state.seq} or {state.seq + 1}
        for seq in sorted(seen):
            new = _fresh(edit.line, edit.line["id"], seq, "")
            after = state.but(messages=(*state.session.messages, new), seq=seq)
            yield from (after, after.but(seq=seq + 1), after.but(seq=seq + 2))
        return
    rest = tuple(one for one in state.session.messages if one.id != edit.without)
    if len(rest) == len(state.session.messages):
        yield state
    orphans = state.session.orphans - {edit.without or ""}
    yield from (state.but(messages=rest, orphans=orphans, seq=state.seq + more) for more in (0, 1, 2))


def restarted(state: State) -> State:
    """Another daemon: the writers of replies are gone."""
    return _left(state, None)._replace(ends=(*state.ends, len(state.log)))


def _left(state: State, writer: str | None) -> State:
    """A connection (None: every one) writes its replies no more. One that nobody writes at all counts as left."""
    left = {
        one.id for one in state.session.messages if one.status == "streaming" and writer in (None, one.writer)
    } | state.session.orphans
    kept = state.trash and state.trash._replace(orphans=_streaming(state.trash))
    return state.but(orphans=frozenset(left))._replace(trash=kept if writer is None else state.trash)


def _streaming(kept: Kept) -> frozenset[str]:
    return frozenset(one.id for one in kept.messages if one.status == "streaming")


# Answers


def _refused(state: State, op: Op, *kinds: str) -> list[State]:
    """Nothing happens; the answer must be one of these errors. A conflict names the session's seq."""
    answer = op.answer
    if answer is None:
        return [state]
    if answer.error is None or answer.kind not in kinds:
        return []
    if answer.kind == "conflict" and answer.error["data"].get("seq") != state.seq:
        return []
    return [state]


def _done(state: State, op: Op, test: Test = lambda _: True) -> list[State]:
    """`state` is so if the answer is a result that passes."""
    if op.answer is None:
        return [state]
    return [state] if op.answer.result is not None and test(op.answer.result) else []


def _expects(state: State, op: Op) -> bool:
    expected = op.params.get("expectedSeq")
    return expected is None or expected == state.seq


# Messages


def _fresh(sent: dict[str, Any], message_id: str, seq: int, writer: str) -> Message:
    text = digest(sent["content"])
    status = sent.get("status") or "done"
    return Message(message_id, seq, sent["role"], text, status, (), text, writer if status == "streaming" else "")


def _append(state: State, op: Op) -> States:
    fresh: list[Message] = []
    told: list[tuple[str, int]] = []
    for place, sent in enumerate(op.params["messages"]):
        kept = next((one for one in (*fresh, *state.session.messages) if one.id == sent.get("id")), None)
        if kept is None:
            seq = state.seq + len(fresh) + 1
            fresh.append(_fresh(sent, sent.get("id") or _made_id(op, place), seq, op.connection))
            told.append((fresh[-1].id, seq))
        elif (kept.role, kept.sent) != (sent["role"], digest(sent["content"])):
            return _refused(state, op, "conflict")
        else:
            told.append((kept.id, kept.seq))
    if fresh and not _expects(state, op):
        return _refused(state, op, "conflict")
    changes = tuple(Change(state.life, one.seq, "appended", one.id, op.connection) for one in fresh)
    after = state.but(messages=(*state.session.messages, *fresh), seq=state.seq + len(fresh))
    after = after._replace(log=(*state.log, *changes))
    newest = max(seq for _, seq in told)
    return _done(
        after,
        op,
        lambda result: (
            [(one["id"], one["seq"]) for one in result["messages"]] == told and result["seq"] in (newest, after.seq)
        ),
    )


def _made_id(op: Op, place: int) -> str:
    """The daemon's id for a message that came without; unknown where nobody was told."""
    if op.answer is not None and op.answer.result is not None and "messages" in op.answer.result:
        return str(op.answer.result["messages"][place]["id"])
    return "?" + digest(op.params["messages"][place]["content"])


def _extend(state: State, op: Op) -> States:
    message = state.message(op.params["messageId"])
    if message is None:
        return _refused(state, op, "invalidParams")
    text, offset = op.params["text"], op.params.get("offset")
    if offset is not None and offset != len(message.content):
        there = message.content[offset : offset + len(text)]
        if offset > len(message.content) or not text.startswith(there):
            return _refused(state, op, "conflict")
        text = text[len(there) :]
        if not text:
            return _done(state, op, lambda result: result["seq"] <= state.seq)
    if message.status not in ("streaming", "interrupted"):
        return _refused(state, op, "conflict")
    grown = message._replace(content=message.content + text, status="streaming", writer=op.connection)
    orphans = state.session.orphans - {message.id}
    what = (message.id, text)
    after = state.changed("extended", what, op.connection, messages=state.with_message(grown), orphans=orphans)
    return _done(after, op, lambda result: result["seq"] == after.seq)


def _finish(state: State, op: Op) -> States:
    message = state.message(op.params["messageId"])
    if message is None:
        return _refused(state, op, "invalidParams")
    status, more = op.params.get("status") or "done", op.params.get("metadata") or {}
    has = dict(message.metadata)
    if message.status not in ("streaming", "interrupted"):
        if message.status == status and all(key in has and has[key] == value for key, value in more.items()):
            return _done(state, op, lambda result: result["seq"] <= state.seq)
        return _refused(state, op, "conflict")
    metadata = tuple(sorted({**has, **more}.items()))
    ended = message._replace(status=status, metadata=metadata, writer="")
    orphans = state.session.orphans - {message.id}
    after = state.changed(
        "finished", (message.id, status), op.connection, messages=state.with_message(ended), orphans=orphans
    )
    return _done(after, op, lambda result: result["seq"] == after.seq)


# The rest of what changes a session


def _update(state: State, op: Op) -> States:
    if not _expects(state, op):
        return _refused(state, op, "conflict")
    name = op.params["name"]
    if name == state.session.name:
        return _done(state, op, lambda result: result["session"]["seq"] >= state.seq)
    after = state.changed("updated", name, op.connection, name=name)
    return _done(after, op, lambda result: result["session"]["seq"] >= after.seq)


def _note(state: State, op: Op) -> States:
    note_id, text = op.params.get("id"), op.params["content"]
    kept = next((one for one in state.session.notes if one[0] == note_id), None)
    if kept is not None:
        if kept[2] != text:
            return _refused(state, op, "conflict")
        return _done(state, op, lambda result: result["note"]["seq"] == kept[1])
    told = op.answer.result["note"] if op.answer is not None and op.answer.result is not None else {}
    note = (note_id or told.get("id") or "?" + text, state.seq + 1, text)
    after = state.changed("note", text, op.connection, notes=(*state.session.notes, note))
    return _done(after, op, lambda result: (result["note"]["seq"], result["note"]["content"]) == (after.seq, text))


def _set_state(state: State, op: Op) -> States:
    has = dict(state.session.values)
    values = dict.fromkeys(has) if op.method == "state/clear" else op.params["values"]
    new = {key: value for key, value in values.items() if has.get(key) != value}
    if not _expects(state, op):
        return _refused(state, op, "conflict")
    if not new:
        return _done(state, op, lambda result: result["seq"] == state.seq)
    kept = tuple(sorted((key, value) for key, value in {**has, **new}.items() if value is not None))
    after = state.changed("state", tuple(sorted(new.items())), op.connection, values=kept)
    return _done(after, op, lambda result: result["seq"] == after.seq)


def _cut(state: State, op: Op, kind: str, rest: tuple[Message, ...], test: Test) -> States:
    if len(rest) == len(state.session.messages):
        return _done(state, op, test)
    left = {one.id for one in rest}
    after = state.changed(kind, None, op.connection, messages=rest, orphans=state.session.orphans & left)
    return _done(after, op, lambda result: test(result) and result["session"]["seq"] >= after.seq)


def _truncate(state: State, op: Op) -> States:
    rest = tuple(one for one in state.session.messages if one.seq <= op.params["afterSeq"])
    removed = len(state.session.messages) - len(rest)
    return _cut(state, op, "truncated", rest, lambda result: result["removed"] == removed)


def _clear(state: State, op: Op) -> States:
    return _cut(state, op, "cleared", (), lambda result: result["session"]["seq"] >= state.seq)


# Being there, or not


def _new(state: State, op: Op) -> States:
    if state.there:
        return _refused(state, op, "alreadyExists")
    life = state.life + 1
    messages = tuple(_fresh(sent, sent["id"], n, op.connection) for n, sent in enumerate(op.params["messages"], 1))
    log = (*state.log, *(Change(life, one.seq, "appended", one.id, op.connection) for one in messages))
    session = Kept(len(messages), messages, (), (), op.params.get("name"), frozenset(), len(state.log))
    after = state._replace(there=True, life=life, session=session, log=log, opened=(*state.opened, (op, life)))
    return _done(after, op, lambda result: result["session"]["seq"] >= len(messages))


def _delete(state: State, op: Op) -> States:
    gone = state._replace(there=False, session=Kept(), edits=())
    if not op.params.get("permanent"):
        if not state.there:
            return _refused(state, op, "sessionNotFound")
        return _done(gone._replace(trash=state.session), op)
    if not state.there:
        return _done(state._replace(trash=None), op) if state.trash else _refused(state, op, "sessionNotFound")
    return [*_done(gone._replace(trash=None), op), *(_done(gone, op) if state.trash else [])]


def _restore(state: State, op: Op) -> States:
    kinds = [kind for kind, so in (("alreadyExists", state.there), ("sessionNotFound", state.trash is None)) if so]
    if kinds:
        return _refused(state, op, *kinds)
    kept = state.trash
    assert kept is not None
    # Whether a reply that streamed in goes on streaming is the daemon's choice, and so is a seq for coming back.
    back = state._replace(there=True, life=state.life + 1, trash=None)
    found = []
    for more in (0, 1):
        after = back._replace(session=kept._replace(seq=kept.seq + more, orphans=_streaming(kept)))
        found += _done(after, op, lambda result, after=after: result["session"]["seq"] >= after.seq)
    return found


def _close(state: State, op: Op) -> States:
    return _done(_left(state, op.connection), op)


# Looking


def shows(messages: Iterable[Message], told: list[dict[str, Any]]) -> bool:
    """Whether `told` are these messages, in this order."""
    mine = list(messages)
    return len(mine) == len(told) and all(_same(a, b) for a, b in zip(mine, told, strict=True))


def _same(mine: Message, told: dict[str, Any]) -> bool:
    same = (mine.seq, mine.role, mine.content, mine.status) == (
        told.get("seq"), told["role"], digest(told["content"]), told.get("status") or "done",
    )  # fmt: skip
    return same and (mine.id == told["id"] or mine.id.startswith("?")) and _has(told, dict(mine.metadata))


def _has(told: dict[str, Any], metadata: dict[str, Any]) -> bool:
    return not metadata or told.get("metadata") == metadata


def holds(messages: Iterable[Message], lines: list[dict[str, Any]]) -> bool:
    """Whether a session file holds these messages. Another program's line has no seq."""
    mine = sorted(messages, key=lambda one: one.content)
    told = sorted(lines, key=lambda one: digest(one["content"]))
    return len(mine) == len(told) and all(
        _same(a, {**b, "seq": b.get("seq") or a.seq}) for a, b in zip(mine, told, strict=True)
    )


def _page(kept: Kept, params: dict[str, Any], usual: int = 200) -> tuple[list[Message], bool]:
    """The messages of a page, and whether there are more."""
    since, before = params.get("since"), params.get("before")
    count = next((n for n in (params.get("limit"), params.get("last")) if n is not None), usual)
    found = [one for one in kept.messages if before is None or one.seq < before]
    if since is None:
        return found[max(0, len(found) - count) :], len(found) > count
    found = [one for one in found if one.seq > since]
    return found[:count], len(found) > count


def _read(state: State, op: Op) -> States:
    messages, more = _page(state.session, op.params)

    def test(result: dict[str, Any]) -> bool:
        return (result["seq"], result["hasMore"]) == (state.seq, more) and shows(messages, result["messages"])

    return _done(state, op, test)


def _open(state: State, op: Op) -> States:
    if state.edits:  # an open compares the file with what is known of it
        return []
    since = op.params.get("since")
    messages, more = _page(state.session, op.params, 1000 if since is not None else 200)

    def test(result: dict[str, Any]) -> bool:
        info = result["session"]
        return (
            (info["seq"], info["messageCount"]) == (state.seq, len(state.session.messages))
            and (info["name"], result["hasMore"]) == (state.session.name, more)
            and shows(messages, result["messages"])
            and _notes(state, result)
            and result["state"] == dict(state.session.values)
            and (since is None or _tells_all(state, since, result["changes"]))
        )

    return _done(state._replace(opened=(*state.opened, (op, state.life))), op, test)


def _tells_all(state: State, since: int, changes: list[dict[str, Any]] | None) -> bool:
    """`changes` are all after `since`, or null."""
    if changes is None:
        return True
    mine = [(one.seq, one.kind, one.what) for one in state.log[state.session.start :] if one.seq > since]
    told = [one for change in changes for one in flat(change)]
    whole = [seq for seq, _, _ in told] == list(range(since + 1, state.seq + 1))
    return whole and len(mine) == len(told) and all(alike(a, b) for a, b in zip(mine, told, strict=True))


def flat(change: dict[str, Any]) -> list[tuple[int, str, Any]]:
    """A change of the wire as the log has it: one entry for every seq."""
    kind, seq = change["kind"], change["seq"]
    match kind:
        case "appended":
            return [(one["seq"], kind, one["id"]) for one in change["messages"]]
        case "extended":
            return [(seq, kind, (change["messageId"], change["text"]))]
        case "finished":
            return [(seq, kind, (change["messageId"], change.get("status")))]
        case "updated":
            return [(seq, kind, change.get("fields", {}).get("name"))]
        case "note":
            return [(seq, kind, change["note"]["content"])]
        case "state":
            return [(seq, kind, tuple(sorted(change["values"].items())))]
    return [(seq, kind, None)]


def alike(mine: tuple[int, str, Any], told: tuple[int, str, Any]) -> bool:
    """`mine` may lack what nobody told the client."""
    return mine == told or (mine[:2] == told[:2] and mine[1] == "appended" and str(mine[2]).startswith("?"))


def _notes(state: State, result: dict[str, Any]) -> bool:
    told = [(one["seq"], one["content"]) for one in result["notes"]]
    return told == [(seq, text) for _, seq, text in state.session.notes]


def _list_notes(state: State, op: Op) -> States:
    return _done(state, op, lambda result: _notes(state, result))


def _get_state(state: State, op: Op) -> States:
    return _done(state, op, lambda result: result["values"] == dict(state.session.values))


def _save(state: State, op: Op) -> States:
    return _done(state, op, lambda result: len(result["saved"]) == 1)


def _export(state: State, op: Op) -> States:
    return _done(state, op, lambda result: shows(state.session.messages, in_lines(result["content"])))


def in_lines(content: str) -> list[dict[str, Any]]:
    """The messages of a session in JSON Lines: of several lines of one id the last counts, the order is that of the seqs."""
    records = [json.loads(line) for line in content.split("\n") if line]
    found = {one["id"]: one for one in records if "role" in one}
    return sorted(found.values(), key=lambda one: int(one.get("seq") or 0))


def _fork(state: State, op: Op) -> States:
    at = op.params.get("atSeq")
    if at is not None and at > state.seq:
        return _refused(state, op, "invalidParams")
    seq = state.seq if at is None else at
    copied = [one for one in state.session.messages if one.seq <= seq]
    copied = [one._replace(status="interrupted") if one.status == "streaming" else one for one in copied]

    def test(result: dict[str, Any]) -> bool:
        info = result["session"]
        same = (info["parent"]["seq"], info["messageCount"]) == (seq, len(copied))
        return same and (op.copy is None or shows(copied, op.copy))

    return _done(state, op, test)


METHODS: dict[str, Callable[[State, Op], States]] = {
    "session/new": _new,
    "session/append": _append,
    "session/extend": _extend,
    "session/finish": _finish,
    "session/update": _update,
    "session/truncate": _truncate,
    "session/clear": _clear,
    "session/delete": _delete,
    "session/restore": _restore,
    "session/close": _close,
    "session/read": _read,
    "session/open": _open,
    "session/save": _save,
    "session/export": _export,
    "session/fork": _fork,
    "note/append": _note,
    "note/list": _list_notes,
    "state/set": _set_state,
    "state/get": _get_state,
    "state/clear": _set_state,
}
LOOKS = {"session/read", "session/open", "session/save", "session/export", "session/fork", "note/list", "state/get"}
"""They change nothing."""
