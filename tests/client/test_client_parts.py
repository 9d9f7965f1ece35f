"""The parts of the client that do no I/O: what is sent again after a lost connection, and what is reported once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.client.changes import Appended, Change, Reread
from sessiond.client.follower import SessionFollower
from sessiond.client.tape import PIECES_IN_FLIGHT, Tape
from sessiond.client.types import Message, Notice, Opened, SessionInfo
from sessiond.client.wire import IncomingLines

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.text(max_size=4)),
        st.tuples(st.just("respond"), st.integers(0, 5)),
        st.tuples(st.just("lose"), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(STEPS)
def test_a_tape_arrives_once_and_whole(steps: list[tuple[str, Any]]) -> None:
    """However many responses are lost: a daemon that passes over what it has gets the text, never a hole."""
    tape, written, there, connection = Tape("s", "m", 0), "", "", 0
    for kind, what in [*steps, ("lose", 0), ("respond", 1000)]:
        if kind == "write":
            tape.add(what)
            written += what
        elif kind == "lose":  # what was on its way may have arrived
            connection += 1
        tape.over(connection)
        while not tape.full and (params := tape.next()) is not None:
            offset, text = params["offset"], params["text"]
            assert offset <= len(there) and there[offset:].startswith(text[: len(there) - offset])
            there = there[:offset] + text + there[offset + len(text) :]
            tape.sent(object())
        if kind == "respond":
            for _ in range(what):
                if tape.oldest is None:
                    break
                tape.acknowledged()
                while not tape.full and (params := tape.next()) is not None:
                    there = there[: params["offset"]] + params["text"]
                    tape.sent(object())
    assert there == written and tape.oldest is None


def test_a_tape_is_full_in_time() -> None:
    """So that a daemon that does not respond holds the writer, not its memory."""
    tape = Tape("s", "m", 0)
    tape.over(1)
    for _ in range(PIECES_IN_FLIGHT):
        assert not tape.full
        tape.add("x")
        assert tape.next() is not None
        tape.sent(object())
    assert tape.full


def test_a_tape_sends_its_pieces_again_as_they_were() -> None:
    """Together they may be longer than the daemon takes at once."""
    tape = Tape("s", "m", 0)
    for connection in (1, 2):
        tape.over(connection)
        for text in ("one", "two"):
            if connection == 1:
                tape.add(text)
            params = tape.next()
            assert params is not None and params["text"] == text
            tape.sent(object())


def wire_change(seqs: list[int]) -> msgspec.Raw:
    if len(seqs) == 1 and seqs[0] % 2:
        return msgspec.Raw(msgspec.json.encode({"kind": "state", "seq": seqs[0], "values": {}}))
    messages = [{"id": f"m{seq}", "seq": seq, "role": "user", "content": ""} for seq in seqs]
    return msgspec.Raw(msgspec.json.encode({"kind": "appended", "seq": seqs[-1], "messages": messages}))


def said(changes: list[list[int]]) -> Notice:
    return Notice(session_id="s", seq=changes[-1][-1] if changes else 0, changes=[wire_change(one) for one in changes])


def seqs_of(change: Change) -> list[int]:
    return [one.seq for one in change.messages] if isinstance(change, Appended) else [change.seq]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.data())
def test_every_seq_is_given_on_once(sizes: list[int], data: st.DataObject) -> None:
    """Notifications are dropped, doubled and clipped at will; whenever the follower is stale it is opened again."""
    changes, seq = [], 0
    for size in sizes:
        changes.append(list(range(seq + 1, seq + size + 1)))
        seq += size
    follower, given_on = SessionFollower("s", 0), list[int]()
    done = 0
    while done < len(changes) or follower.stale:
        done = min(len(changes), done + data.draw(st.integers(1, 2), label="happens"))
        now = changes[done - 1][-1] if done else 0
        if follower.stale:
            known = follower.known or 0
            assert follower.opening() == {"sessionId": "s", "since": known}
            early = data.draw(st.integers(done, min(len(changes), done + 1)), label="early")
            list(follower.told("session/changed", said(changes[done:early])))
            since = [[one for one in change if one > known] for change in changes[:done]]
            opened = Opened(
                session=SessionInfo(session_id="s", seq=now), changes=[wire_change(one) for one in since if one]
            )
            told = list(follower.opened(opened))
            done, now = early, changes[early - 1][-1] if early else 0
            assert (follower.known, follower.stale) == (now, False)
        else:
            told = []
            for number in data.draw(st.lists(st.integers(0, max(0, done - 1)), max_size=3), label="said"):
                told += list(follower.told("session/changed", said(changes[:done][number : number + 1])))
            if follower.known != now:
                told += list(follower.told("session/resync", Notice(session_id="s", seq=now)))
        given_on += [one for change in told for one in seqs_of(change)]
    assert given_on == list(range(1, seq + 1))


def test_a_long_stretch_that_is_cut_off_begins_again_where_it_was() -> None:
    """The connection ends between two of its pages: the next open is since the last message that was given on."""
    follower = SessionFollower("s", 2)
    page = [Message(id="m5", seq=5, role="user", content="x")]
    opened = Opened(session=SessionInfo(session_id="s", seq=9), messages=page, has_more=True, changes=None)
    assert [one.seq for one in follower.opened(opened)] == [9]
    follower.lost()
    assert follower.stale and follower.opening() == {"sessionId": "s", "since": 5}


def test_a_gap_is_read_and_not_passed_over() -> None:
    """Of seqs 1 to 3 only the third is heard: it is not given on before the others are."""
    follower = SessionFollower("s", 0)
    assert not list(follower.opened(Opened(session=SessionInfo(session_id="s", seq=0), changes=[])))
    assert not list(follower.told("session/changed", said([[3]])))
    assert follower.stale and follower.opening() == {"sessionId": "s", "since": 0}
    everything = [wire_change([seq]) for seq in (1, 2, 3)]
    told = list(follower.opened(Opened(session=SessionInfo(session_id="s", seq=3), changes=everything)))
    assert [one.seq for one in told] == [1, 2, 3] and not follower.stale


@pytest.mark.parametrize("seq", [0, 2, 5, 9])
def test_another_session_with_the_same_id_is_told_from_its_beginning(seq: int) -> None:
    """Whatever its seq is. A seq of the session that was there before it means nothing in it."""
    follower = SessionFollower("s", 5, "2026-01-01T00:00:00.000Z")
    later = SessionInfo(session_id="s", seq=seq, created_at="2026-01-02T00:00:00.000Z")
    assert not list(follower.opened(Opened(session=later, changes=[])))
    assert follower.stale and follower.opening() == {"sessionId": "s", "since": 0}
    messages = [Message(id="m", seq=seq, role="user", content="x")] if seq else []
    (told,) = follower.opened(Opened(session=later, messages=messages, changes=[]))
    assert isinstance(told, Reread) and told.another and (told.since, told.seq) == (0, seq)
    assert told.messages == messages and not follower.stale
    follower.lost()
    assert not list(follower.opened(Opened(session=later, changes=[])))  # once


def test_a_change_that_is_heard_before_the_response_waits_for_it() -> None:
    """It comes with the response in one read: it is given on after what the response tells."""
    follower = SessionFollower("s", 0)
    follower.opening()
    assert not list(follower.told("session/changed", said([[2]])))
    told = list(follower.opened(Opened(session=SessionInfo(session_id="s", seq=1), changes=[wire_change([1])])))
    assert [one.seq for one in told] == [1, 2] and not follower.stale


def test_text_is_not_told_twice() -> None:
    """A daemon that knows an append from the file tells the message as it is now, and then what was added: the client puts it back."""
    now = {"id": "m", "seq": 2, "role": "assistant", "content": "abc", "status": "done"}
    other = {"id": "n", "seq": 1, "role": "user", "content": "xyz"}
    wires = [
        {"kind": "appended", "seq": 2, "messages": [other, now]},
        {"kind": "extended", "seq": 3, "messageId": "m", "text": "b", "offset": 1},
        {"kind": "extended", "seq": 4, "messageId": "m", "text": "c", "offset": 2},
        {"kind": "finished", "seq": 5, "messageId": "m", "status": "done"},
    ]
    changes = [msgspec.Raw(msgspec.json.encode(one)) for one in wires]
    told = list(SessionFollower("s", 0).opened(Opened(session=SessionInfo(session_id="s", seq=5), changes=changes)))
    assert [one.seq for one in told] == [2, 3, 4, 5]
    assert isinstance(told[0], Appended)
    assert [(one.text, one.status) for one in told[0].messages] == [("xyz", None), ("a", "streaming")]


@given(st.lists(st.integers(0, 400), min_size=1, max_size=8), st.data())
def test_lines_are_cut_anywhere(sizes: list[int], data: st.DataObject) -> None:
    """Messages come out whole and in order, however the bytes come in."""
    raw = b"".join(
        msgspec.json.encode({"id": number, "result": "x" * size}) + b"\n" for number, size in enumerate(sizes)
    )
    lines, found = IncomingLines(), []
    while raw:
        size = data.draw(st.integers(1, len(raw)))
        found += lines.feed(raw[:size])
        raw = raw[size:]
    assert [one.id for one in found] == list(range(len(sizes)))


@pytest.mark.parametrize("line", [b"{]\n", b"[1]\n", b'{"id": {}}\n', b"\xff\n"])
def test_what_is_no_message_ends_the_connection(line: bytes) -> None:
    """As any other fault of a connection."""
    with pytest.raises(ConnectionError):
        IncomingLines().feed(line)
