"""Sessions of every kind for the tests of the Lisp formats."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sessiond.formats.base import Decoded, Files, Write
from sessiond.model.changes import (
    Appended,
    Change,
    Cleared,
    Extended,
    Finished,
    Noted,
    StateSet,
    Truncated,
    Updated,
)
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.model.values import same_json, timestamp

NASTY = [
    "", " ", "\n", "\r\n", "a\r\nb\rc", '"', "\\", '\\"', "\\\\n", "\x1b[31m", "\0", "\x7f\x80\x85", "日本語のテキスト",
    "\u200fעברית العربية\u200e", "👩‍👩‍👧‍👦🏳️‍🌈", "a\u0301", "\ufeff", "\u2028\u2029", "\U0010ffff\ufffe", ";; not a comment", "(:id \"x\")", "))))((",
    "#.(error)", "#|", "|#", "Local Variables:\neval: (error)\nEnd:", "local variables:", "-*- mode: org -*-", "; x", "?", "'a `b ,c", "nil", "t",
    ":null", "\\s", "\\ ", "\\\n", "#+end_src", "* heading", "tail \\",
]  # fmt: skip
text = st.one_of(st.sampled_from(NASTY), st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
words = st.text("abcXYZ-_ .:1", min_size=1, max_size=8)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), text
)
json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text | words, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(text | words, json, max_size=4)
times = st.one_of(
    st.integers(1_600_000_000_000, 1_900_000_000_000), st.integers(-62_135_596_800_000, 253_402_300_799_999)
).map(timestamp)
calls = st.fixed_dictionaries(
    {"id": text, "name": text, "arguments": objects | text}, optional={"extra": json, "index": st.integers(0, 5)}
)
blocks = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": text})
    | st.fixed_dictionaries({"type": words, "data": json})
    | json,
    max_size=3,
)
rests = st.fixed_dictionaries(
    {},
    optional={
        "toolCalls": st.none() | st.lists(calls, max_size=3),
        "toolCallId": st.none() | text,
        "thinking": text,
        "thread": text,
        "tick": st.integers(0, 9),
        "contextSnapshot": json,
        "metadata": st.none() | objects | st.just({"tool-calls": [{"id": "1", "name": "n", "arguments": {}}]}),
        "jsonrpc": json,
        "name": json,
    },
)
roles = st.sampled_from(
    ["user", "assistant", "system", "tool", "System", "USER", "nil", "t", "1", ":user", "a b", "ユーザー", "ß"]
) | text.filter(bool)


@st.composite
def sessions(draw: st.DrawFn, local_id: str = "session-20260111-143022") -> Session:
    session = Session(local_id, draw(times))
    session.updated_at = draw(times)
    session.name, session.model = draw(st.none() | text), draw(st.none() | text)
    session.tags, session.archived = draw(st.lists(text, max_size=2)), draw(st.booleans())
    session.summary, session.cwd = draw(st.none() | text), draw(st.none() | text)
    session.metadata = draw(objects)
    session.parent = draw(st.none() | st.just({"sessionId": "x", "seq": 3}))
    seq = 0
    for number in range(draw(st.integers(0, 6))):
        seq += draw(st.integers(1, 3))
        session.add_message(
            Message(
                id=draw(st.just(f"m{number}") | text.map(lambda one, n=number: f"{n}{one}")),
                seq=seq,
                role=draw(roles),  # type: ignore[misc]
                content=draw(text | blocks),
                timestamp=draw(times),
                rest=draw(rests),
                status=draw(st.sampled_from([None, None, "done", "interrupted", "error"])),
            )
        )
    for number in range(draw(st.integers(0, 2))):
        seq += 1
        session.add_note(
            Note(
                tick=None,
                id=f"n{number}",
                seq=seq,
                heading=draw(text),
                content=draw(text),
                thread=draw(st.none() | text),
                timestamp=draw(times),
            )
        )
    session.state = draw(st.dictionaries(text, json.filter(lambda value: value is not None), max_size=3))
    session.saved_at = draw(st.none() | times)
    session.seq = seq + draw(st.integers(0, 3))
    return session


Operation = tuple[str, Any]
operations: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(roles, text | blocks, rests), min_size=1, max_size=3)),
    st.tuples(st.just("begin"), text),
    st.tuples(st.just("extend"), text),
    st.tuples(st.just("finish"), st.none() | objects),
    st.tuples(
        st.just("update"),
        st.fixed_dictionaries({}, optional={"name": text, "summary": text, "metadata": objects, "model": text}),
    ),
    st.tuples(
        st.just("update"),
        st.fixed_dictionaries({}, optional={"tags": st.lists(text, max_size=2), "archived": st.booleans()}),
    ),
    st.tuples(st.just("state"), st.dictionaries(words, json, max_size=2)),
    st.tuples(st.just("note"), text),
    st.tuples(st.just("truncate"), st.integers(0, 10)),
    st.tuples(st.just("clear"), st.none()),
)


def perform(session: Session, operation: Operation) -> Change | None:
    """Apply one operation as the service would; answers the change, None where there is nothing to do."""
    kind, value = operation
    seq = session.seq + 1
    at = timestamp(1_768_200_000_000 + seq * 10)
    streaming = session.streaming()
    change: Change | None = None
    if kind in ("append", "begin"):
        if kind == "append":
            wires = [{"role": role, "content": content, **rest} for role, content, rest in value]
        else:
            wires = [{"role": "assistant", "content": value, "status": "streaming"}]
        wires = [{"id": f"new-{seq + n}", "seq": seq + n, "timestamp": at, **wire} for n, wire in enumerate(wires)]
        change = Appended(seq=seq + len(wires) - 1, at=at, messages=wires)
    elif kind == "extend" and streaming and value:
        grown = streaming[0].id
        change = Extended(seq=seq, at=at, message_id=grown, offset=session.text_length(grown), text=value)
    elif kind == "finish" and streaming:
        change = Finished(seq=seq, at=at, message_id=streaming[0].id, status="done", metadata=value)
    elif kind == "update" and value:
        change = Updated(seq=seq, at=at, fields=value)
    elif kind == "state" and value:
        change = StateSet(seq=seq, at=at, values=value)
    elif kind == "note":
        note = Note(thread=None, tick=None, id=f"note-{seq}", seq=seq, heading=value, content=value, timestamp=at)
        change = Noted.of(note)
    elif kind == "truncate":
        change = Truncated(seq=seq, at=at, after_seq=value)
    elif kind == "clear":
        change = Cleared(seq=seq, at=at)
    if change is not None:
        session.apply(change)
    return change


def written(files: Files, writes: list[Write]) -> dict[str, bytes]:
    """The files after the writes."""
    after = dict(files)
    for write in writes:
        assert write.how == "replace"
        after[write.path] = write.data
    return after


def save(fmt: Any, session: Session, files: Files | None = None) -> dict[str, bytes]:
    return written(files or {}, fmt.encode(session, files or {}))


def load(fmt: Any, files: Files, local_id: str = "session-20260111-143022", floor: int = 0) -> Decoded:
    decoded: Decoded = fmt.decode(local_id, files, floor)
    assert decoded.fatal is None, decoded.problems
    return decoded


def message(number: int, role: str = "user", content: Any = None, **more: Any) -> Message:
    """Message `number` of a conversation: its seq, and one second after the one before it."""
    status = more.pop("status", None)
    text = f"text {number}" if content is None else content
    at = timestamp(1_768_142_400_000 + number * 1000)
    return Message(id=f"id-{number}", seq=number, role=role, content=text, timestamp=at, status=status, rest=more)


def session_of(*messages: Message, local_id: str = "session-20260111-143022", **fields: Any) -> Session:
    session = Session(local_id, timestamp(1_768_142_400_000))
    session.updated_at = timestamp(1_768_142_500_000)
    for one in messages:
        session.add_message(one)
    session.update(fields)
    return session


def plain(session: Session) -> dict[str, Any]:
    """All that a session says, for a readable difference."""
    keys = (
        "name",
        "model",
        "cwd",
        "tags",
        "archived",
        "summary",
        "parent",
        "metadata",
        "created_at",
        "updated_at",
        "state",
        "seq",
    )
    return {
        **{key: getattr(session, key) for key in keys},
        "messages": [one.wire() for one in session.messages()],
        "notes": [one.wire() for one in session.notes],
    }


def assert_same(a: Session, b: Session, *, but: str = "") -> None:
    """Equal in all but one thing; `a` may have used more seqs."""
    one, other = plain(a), plain(b)
    difference = {key: (one[key], other[key]) for key in one if key != but and not same_json(one[key], other[key])}
    assert not difference, f"differs: {difference}"
    assert a.seq >= b.seq
