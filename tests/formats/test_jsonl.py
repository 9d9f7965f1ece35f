"""The native format: what it writes, to the byte, and how it reads lines that another program wrote."""

from __future__ import annotations

import json

import msgspec
import pytest

from sessiond.formats import jsonl
from sessiond.formats.base import Tail
from sessiond.formats.sidecar import Sidecar, append_writes, decode_sidecar, settled_writes, through_of, torn_at
from sessiond.model.changes import (
    Appended,
    Change,
    Cleared,
    Created,
    Extended,
    Finished,
    Noted,
    StateSet,
    Truncated,
    Updated,
)
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from tests.formats.saving import load, save, settle, show, steps, written

CHAT = "chat"
MAIN = "chat.jsonl"
AT = "2026-01-11T14:30:22.000Z"
HEADER = b'{"sessiond":1,"id":"chat","createdAt":"2026-01-11T14:30:22.000Z"}'


def begin(**info: object) -> tuple[Session, list[Change]]:
    created = Created(seq=0, at=AT, info={"createdAt": AT, **info})
    session = Session(CHAT, AT)
    session.apply(created)
    return session, [created]


def said(session: Session, *texts: str, status: str | None = None, **rest: object) -> Appended:
    messages = [
        Message(
            id=f"m{session.seq + n}",
            seq=session.seq + n,
            role="user",
            content=text,
            timestamp=AT,
            status=status,
            rest=dict(rest),
        )
        for n, text in enumerate(texts, 1)
    ]
    change = Appended.of(messages, AT)
    session.apply(change)
    return change


def saved(session: Session, files: dict[str, bytes], *changes: Change) -> dict[str, bytes]:
    for change in changes:
        if not isinstance(change, (Appended, Created)):
            session.apply(change)
    return written(files, steps(jsonl, session, files, changes))


def test_an_append_is_lines_at_the_end() -> None:
    """Header, messages, later names, state and notes: each is one line behind what is there, and nothing before it moves."""
    session, changes = begin(name="first", tags=["a"])
    files = saved(session, {}, *changes, said(session, "日本語", "two", through=3))
    assert files[MAIN].split(b"\n") == [
        b'{"sessiond":1,"id":"chat","createdAt":"2026-01-11T14:30:22.000Z","name":"first","tags":["a"]}',
        '{"id":"m1","seq":1,"role":"user","content":"日本語","timestamp":"2026-01-11T14:30:22.000Z","through":3}'.encode(),
        b'{"id":"m2","seq":2,"role":"user","content":"two","timestamp":"2026-01-11T14:30:22.000Z","through":3}',
        b"",
    ]
    note = Note(thread=None, tick=None, id="n", seq=5, heading="h", content="c", timestamp=AT)
    later = [Updated(seq=3, at=AT, fields={"name": "b"}), StateSet(seq=4, at=AT, values={"plan": [1]}), Noted.of(note)]
    after = saved(session, files, *later)
    assert after[MAIN].startswith(files[MAIN])
    assert [json.loads(line)["change"] for line in after[MAIN].split(b"\n")[3:-1]] == ["updated", "state", "note"]
    assert show(load(jsonl, after, CHAT).session) == show(session)


def test_a_streamed_message_has_a_line_a_save() -> None:
    """However often it grew, a save adds one line for it, the last of which counts; it also has the time of the update."""
    session, changes = begin()
    files = saved(session, {}, *changes, said(session, "He", status="streaming"))
    end = "2026-01-11T14:31:00.000Z"
    files = saved(
        session,
        files,
        *(Extended(seq=2 + n, at=AT, message_id="m1", offset=2 + n, text=char) for n, char in enumerate("llo")),
        Finished(seq=5, at=end, message_id="m1", status="done", metadata={"tokens": 3}),
    )
    lines = [json.loads(line) for line in files[MAIN].split(b"\n")[:-1]]
    assert [line.get("content", line.get("change")) for line in lines[1:]] == ["He", "Hello", "base"]
    assert lines[-1] == {"change": "base", "seq": 5, "updatedAt": end}
    decoded = load(jsonl, files, CHAT)
    assert show(decoded.session) == show(session)
    assert decoded.session.updated_at == end


@pytest.mark.parametrize("change", [Truncated(seq=3, at=AT, after_seq=1), Cleared(seq=3, at=AT)])
def test_only_a_cut_rewrites(change: Change) -> None:
    """After clear or truncate the file is written again: the same header, what is left, and a line that says up to where."""
    session, changes = begin(name="first")
    files = saved(session, {}, *changes, said(session, "one", "two"))
    files = saved(session, files, change)
    lines = files[MAIN].split(b"\n")
    assert lines[0] == b'{"sessiond":1,"id":"chat","createdAt":"2026-01-11T14:30:22.000Z","name":"first"}'
    assert json.loads(lines[-2]) == {"change": "base", "seq": 3, "updatedAt": AT}
    decoded = load(jsonl, files, CHAT)
    assert show(decoded.session) == show(session)
    assert decoded.through == 3


def test_lines_of_others() -> None:
    """A line without seq is a message after all others, with an id that stays; the same words twice are two messages."""
    session, changes = begin()
    files = saved(session, {}, *changes, said(session, "one"))
    line = b'{"role":"user","content":"x","through":7}\n'
    files[MAIN] += line + line + b'{"role":"user","content":"own id","id":"m9","timestamp":1700000001000}\n'
    decoded, files = settle(jsonl, files, CHAT)
    found = decoded.session.messages()
    assert [(one.seq, one.content) for one in found] == [(1, "one"), (2, "x"), (3, "x"), (4, "own id")]
    assert (found[1].rest, found[1].timestamp, found[3].id) == ({"through": 7}, AT, "m9")
    assert found[3].timestamp == "2023-11-14T22:13:21.000Z"
    files = saved(decoded.session, files, said(decoded.session, "more"), Truncated(seq=6, at=AT, after_seq=3))
    files[MAIN] += line
    again, _ = settle(jsonl, files, CHAT)
    assert [(one.seq, one.content) for one in again.session.messages()] == [(1, "one"), (2, "x"), (3, "x"), (7, "x")]
    assert len({one.id for one in again.session.messages()}) == 4


def test_a_file_that_is_not_ours_at_all() -> None:
    """Lines of `{role, content}` alone are a session too; after a cut the file has a header."""
    files = {MAIN: b'{"role":"user","content":"a"}\n{"role":"assistant","content":"b"}'}
    decoded, files = settle(jsonl, files, CHAT)
    assert [(one.seq, one.role, one.content) for one in decoded.session.messages()] == [
        (1, "user", "a"),
        (2, "assistant", "b"),
    ]
    more = saved(decoded.session, files, said(decoded.session, "c"))
    assert more[MAIN].startswith(files[MAIN] + b"\n{")
    assert show(load(jsonl, more, CHAT).session) == show(decoded.session)


def test_a_line_that_cannot_be_read_stays_where_it_stands() -> None:
    """It is a warning with its number, also after a rewrite, and costs nothing else."""
    odd = [
        b"{",
        b"\0\0\0",
        b"[]",
        b'{"change":"what"}',
        b'{"change":"updated","seq":4,"fields":{"tags":"x"}}',
        b'{"change":"note","note":{}}',
    ]
    odd += [
        b'{"role":"user","content":5}',
        b'{"role":"user","content":"\xff"}',
        b'{"change":"state","values":[]}',
        b'{"change":"base","seq":-1}',
    ]
    one = b'{"id":"a","seq":1,"role":"user","content":"1","timestamp":"2026-01-11T14:30:22.000Z"}'
    two = b'{"id":"b","seq":2,"role":"user","content":"2","timestamp":"2026-01-11T14:30:22.000Z"}'
    decoded = load(jsonl, {MAIN: b"\n".join([HEADER, one, *odd, two, b""])}, CHAT)
    assert [one.line for one in decoded.problems] == list(range(3, 3 + len(odd)))
    assert [message.id for message in decoded.session.messages()] == ["a", "b"]
    after = save(jsonl, decoded.session, {MAIN: b"\n".join([HEADER, one, *odd, two, b""])})
    assert after[MAIN].split(b"\n")[: 3 + len(odd)] == [HEADER, one, *odd, two]


def test_a_message_behind_a_stub_is_read_and_only_the_stub_stays() -> None:
    """Messages on a line with a stub, or with each other, are in the session; the stub is a warning, and stays after a rewrite.
    A message that a cut takes away does not come back with its line.
    """
    one, two, three, four = (
        b'{"id":"%c","seq":%d,"role":"user","content":"{%d","timestamp":"2026-01-11T14:30:22.000Z"}' % (96 + n, n, n)
        for n in range(1, 5)
    )
    stub = b'{"id":"x","seq":9,"role":"us'
    content = b"\n".join([HEADER + one, stub + two, three + four, b""])
    decoded = load(jsonl, {MAIN: content}, CHAT)
    assert [(one.line, one.message) for one in decoded.problems] == [(2, "is not valid JSON")]
    assert [message.id for message in decoded.session.messages()] == ["a", "b", "c", "d"]
    assert decoded.session.created_at == AT
    assert jsonl.head_of(CHAT, content, None) is None
    decoded.session.apply(Truncated(seq=5, at=AT, after_seq=2))
    after = save(jsonl, decoded.session, {MAIN: content})
    assert after[MAIN].split(b"\n")[:4] == [HEADER, one, stub, two]
    assert [message.id for message in load(jsonl, after, CHAT).session.messages()] == ["a", "b"]


@pytest.mark.parametrize("content", [b"\0\0\0\0", b"binary\xff\xfe", b'{"sessiond":2,"id":"chat","createdAt":"x"}\n'])
def test_what_cannot_be_read_at_all_is_a_bad_file(content: bytes) -> None:
    """Not one line of sense, or a newer format: the file is named, and is not taken for an empty session."""
    fatal = jsonl.decode(CHAT, {MAIN: content}).fatal
    assert fatal is not None
    assert (fatal.path, fatal.line) == (MAIN, 1)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xef\xbb\xbf\r\n"])
def test_an_empty_file_is_an_empty_session(content: bytes) -> None:
    """Nothing is not a damage."""
    assert jsonl.decode(CHAT, {MAIN: content}).problems == []


def test_crlf_and_a_bom() -> None:
    """Lines that end with CRLF, after a BOM, are read like any other; a rewrite keeps the BOM."""
    files = {
        MAIN: b"\xef\xbb\xbf"
        + HEADER
        + b'\r\n{"id":"a","seq":1,"role":"user","content":"x","timestamp":"2026-01-11T14:30:22.000Z"}\r\n'
    }
    decoded = load(jsonl, files, CHAT)
    assert (len(decoded.session), decoded.problems) == (1, [])
    assert save(jsonl, decoded.session, files)[MAIN].startswith(b"\xef\xbb\xbf{")


def test_a_file_in_the_wrong_order_costs_no_square_of_its_length() -> None:
    """Fifty thousand messages whose seqs fall are read at once, in order."""
    lines = [
        json.dumps({"id": f"m{n}", "seq": n, "role": "user", "content": "x", "timestamp": timestamp(n)})
        for n in range(50_000, 0, -1)
    ]
    found = load(jsonl, {MAIN: "\n".join(lines).encode()}, CHAT).session.messages()
    assert [found[0].seq, found[-1].seq, len(found)] == [1, 50_000, 50_000]


def test_it_knows_its_folder() -> None:
    """Its header tells it from other JSON Lines; the names of files are the ids."""
    assert jsonl.matches([MAIN], lambda _: HEADER) == 95
    assert jsonl.matches([MAIN], lambda _: b"{}") == 30
    assert jsonl.find([MAIN, ".x.jsonl", ".jsonl", "a/b.jsonl", "ä.jsonl"]) == {CHAT: MAIN, "%C3%A4": "ä.jsonl"}


def test_an_append_that_came_no_further_than_its_sidecar_is_not_believed() -> None:
    """The next append says what the file really holds, so that a crash in the middle of that one loses neither."""
    first = append_writes(
        Sidecar(id="s", seq=3, through=3), "s.jsonl", b"one\n", Tail(exists=True, size=10, end=b"x" * 10), None
    )[0]
    side, _ = decode_sidecar("", first.data)
    assert through_of(side, b"x" * 10) == 0
    again = append_writes(
        Sidecar(id="s", seq=5, through=5), "s.jsonl", b"one\ntwo\n", Tail(exists=True, size=10, end=b"x" * 10), side
    )[0]
    side, _ = decode_sidecar("", again.data)
    assert through_of(side, b"x" * 10) == 0
    assert through_of(side, b"x" * 10 + b"one\ntwo\n") == 5


def test_a_rewrite_settles_the_append_before_it() -> None:
    """Else a crash after it would have the new content taken for an append that was cut short."""
    old = b"x" * 10 + b"one\n"
    first = append_writes(
        Sidecar(id="s", seq=3, through=3), "s.jsonl", b"one\n", Tail(exists=True, size=10, end=b"x" * 10), None
    )[0]
    side, _ = decode_sidecar("", first.data)
    new = b"x" * 10 + b"on"
    assert torn_at(side, new) == 10, "by itself it looks like that"
    [settled] = settled_writes(side, old)
    side, _ = decode_sidecar("", settled.data)
    assert torn_at(side, new) is None
    assert through_of(side, old) == 3


def test_a_long_append_is_known_by_its_bytes_too() -> None:
    """The kept copy is deflated; a true prefix of it is cut, and anything else belongs to another program."""
    data = b'{"role": "user", "content": "a line"}\n' * 2000
    tail = Tail(exists=True, size=10, end=b"x" * 10)
    first = append_writes(Sidecar(id="s", seq=3, through=3), "s.jsonl", data, tail, None)[0]
    side, _ = decode_sidecar("", first.data)
    before = b"x" * 10
    assert len(first.data) < len(data) / 10
    assert torn_at(side, before + data[:5000]) == 10
    assert torn_at(side, before + data[:5000] + b"\0" * 4096) == 10
    assert torn_at(side, before + b"\0" * 502 + data[502:]) == 10, "a block that a power failure kept from the disk"
    assert torn_at(side, before + data[:502] + b"\0" * 512 + data[1014:5000]) == 10
    assert torn_at(side, before + b"\0" * 502 + b"theirs\n") is None
    assert torn_at(side, before + data) is None
    assert torn_at(side, before + data[:5000] + b"theirs\n") is None
    assert torn_at(side, before + b"theirs\n") is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"change":"note","seq":1}', "cannot be used: it has no 'note'"),
        (b'{"change":"note","seq":1,"note":5}', "cannot be used: Expected `object`"),
        (b'{"change":"state","seq":1,"at":7,"values":{}}', "cannot be used: its `at` is not a valid time"),
        (b'{"change":"state","seq":-1,"values":{}}', "cannot be used: its seq is not a whole number"),
        (b'{"change":', "is not valid JSON"),
    ],
)
def test_the_reason_names_what_is_wrong_with_a_line(line: bytes, reason: str) -> None:
    """A missing key, a value of the wrong type and broken JSON are different faults."""
    problems = jsonl.decode(CHAT, {MAIN: HEADER + b"\n" + line + b"\n"}).problems
    assert [(one.line, one.message[: len(reason)]) for one in problems] == [(2, reason)]


def test_a_sidecar_does_not_keep_the_bytes_of_a_long_append() -> None:
    """A third step removes them after the append. What is known of the file stays, and nothing is cut from then on."""
    line = b'{"role": "user", "content": "a line"}\n'
    for times, count in ((10, 2), (4000, 3)):
        data, tail = line * times, Tail(exists=True, size=10, end=b"x" * 10)
        writes = append_writes(Sidecar(id="s", seq=3, through=3), "s.jsonl", data, tail, None, summed=True)
        assert [one.how for one in writes] == ["replace", "append", "replace"][:count]
        first, last = (decode_sidecar("", writes[place].data)[0] for place in (0, count - 1 if count > 2 else 0))
        assert first is not None and last is not None and first.append is not None
        assert torn_at(first, b"x" * 10 + data[:50]) == 10
        assert torn_at(last, b"x" * 10 + data[:50]) == (None if count > 2 else 10)
        assert through_of(last, b"x" * 10 + data) == 3
        if count > 2:
            assert last == msgspec.structs.replace(first, append=msgspec.structs.replace(first.append, packed=None))
            assert len(writes[-1].data) < 1000
