"""The use cases: what each request promises, without wire and disk."""

from __future__ import annotations

import asyncio

import pytest

from sessiond.errors import AlreadyExists, Conflict, InvalidParams, ReadOnly, SessionNotFound
from sessiond.limits import Limits
from tests.fakes.index import FakeIndex
from tests.fakes.peer import FakePeer, user
from tests.fakes.wire_service import WireService


async def texts(service, session_id):
    return [m["content"] for m in (await service.read(session_id))["messages"]]


async def test_a_new_session_is_named_after_the_second(service, peer):
    """The daemon's own ids are session-YYYYMMDD-HHMMSS in UTC, with -2, -3 where that second is taken."""
    ids = [(await service.new(peer))["sessionId"] for _ in range(3)]
    assert ids == ["session-20260111-143022", "session-20260111-143022-2", "session-20260111-143022-3"]


@pytest.mark.parametrize("bad", ["", ".hidden", "a/b", "ä", "x" * 129, "-a", "a b", "..", "a\0"])
async def test_a_session_id_by_a_client_obeys_the_rule(service, peer, bad):
    """Anything but letters, digits, dot, dash and underscore is refused, and the field is named."""
    with pytest.raises(InvalidParams) as caught:
        await service.new(peer, session_id=bad)
    assert caught.value.data["field"] == "sessionId"


async def test_an_id_in_use_is_already_there(service, peer):
    await service.new(peer, session_id="a")
    with pytest.raises(AlreadyExists):
        await service.new(peer, session_id="a")


async def test_an_append_is_told_to_the_others_and_not_to_its_author(service, peer, other):
    """Every attached connection but the origin hears of it, with the origin named."""
    await service.new(peer, session_id="a")
    await service.open(other, "a")
    answer = await service.append(peer, "a", [user("hi", id="x")])
    assert answer == {"seq": 1, "messages": [{"id": "x", "seq": 1}]}
    [changed] = other.take("session/changed")
    assert changed["origin"] == {"client": "one", "connection": peer.id}
    assert changed["changes"][0]["kind"] == "appended"
    assert changed["changes"][0]["messages"][0]["content"] == "hi"
    assert peer.take() == []


async def test_a_retry_adds_nothing_and_other_content_is_a_conflict(service, peer):
    """The same id with the same content answers the same seq; with other content it is refused and nothing changes."""
    await service.new(peer, session_id="a")
    first = await service.append(peer, "a", [user("hi", id="x", metadata={"k": 1})])
    assert await service.append(peer, "a", [user("hi", id="x", metadata={"k": 1})]) == first
    assert await service.append(peer, "a", [user("hi", id="x")]) == first
    with pytest.raises(Conflict):
        await service.append(peer, "a", [user("other", id="x"), user("new")])
    assert await texts(service, "a") == ["hi"]


async def test_a_retry_counts_even_where_expected_seq_is_old(service, peer):
    """A client that lost the answer sends the very same request again."""
    await service.new(peer, session_id="a")
    first = await service.append(peer, "a", [user("hi", id="x")], expected_seq=0)
    assert await service.append(peer, "a", [user("hi", id="x")], expected_seq=0) == first


async def test_expected_seq_refuses_and_tells_the_current_one(service, peer):
    await service.new(peer, session_id="a", messages=[user("one")])
    with pytest.raises(Conflict) as caught:
        await service.append(peer, "a", [user("two")], expected_seq=0)
    assert caught.value.data["seq"] == 1
    assert (await service.append(peer, "a", [user("two")], expected_seq=1))["seq"] == 2


async def test_messages_of_one_append_get_consecutive_seqs(service, peer):
    """Also when many clients append at once: batches never interleave."""
    await service.new(peer, session_id="a")
    answers = await asyncio.gather(*(service.append(peer, "a", [user(f"{n}"), user(f"{n}b")]) for n in range(20)))
    for answer in answers:
        first, second = (m["seq"] for m in answer["messages"])
        assert second == first + 1
    assert sorted(m["seq"] for answer in answers for m in answer["messages"]) == list(range(1, 41))


async def test_many_waiting_appends_share_a_commit(service, store, peer):
    """What waits while the disk works is made durable together."""
    await service.new(peer, session_id="a")
    gate = asyncio.Event()
    store.before_commit = gate.wait
    tasks = [asyncio.create_task(service.append(peer, "a", [user(f"{n}")])) for n in range(50)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*tasks)
    assert len(store.commits) <= 3


async def test_nothing_is_published_before_it_is_durable(service, store, peer, other):
    """Neither told to others, nor read, nor answered while the disk works; a failure leaves no trace."""
    await service.new(peer, session_id="a")
    await service.open(other, "a")
    gate = asyncio.Event()

    async def fail():
        await gate.wait()
        raise ReadOnly("the disk is full", reason="ENOSPC")

    store.before_commit = fail
    task = asyncio.create_task(service.append(peer, "a", [user("lost")]))
    reading = asyncio.create_task(texts(service, "a"))
    try:
        await asyncio.sleep(0.01)
        assert other.take() == []
        assert not task.done() and not reading.done(), "it comes after the append"
        assert len(service.open_sessions.at("a").there) == 0
    finally:
        gate.set()
    with pytest.raises(ReadOnly):
        await task
    assert await reading == []
    assert other.take() == []
    assert await texts(service, "a") == []


async def test_a_cancelled_append_that_waits_is_not_written(service, store, peer):
    """A change that has not gone to the disk can be cancelled; one that has is answered."""
    await service.new(peer, session_id="a")
    gate = asyncio.Event()
    store.before_commit = gate.wait
    first = asyncio.create_task(service.append(peer, "a", [user("first")]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = asyncio.create_task(service.append(peer, "a", [user("second")]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    gate.set()
    assert (await first)["seq"] == 1
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await texts(service, "a") == ["first"]


async def test_open_since_gets_every_change_exactly_once_while_others_write(service, peer):
    """Whenever a reader comes in, what it is answered and what it hears afterwards are all changes, each once."""
    await service.new(peer, session_id="a")
    total = 200

    async def write():
        for n in range(total):
            await service.append(peer, "a", [user(f"{n}")])
            if n % 3 == 0:
                await service.update(peer, "a", {"name": f"n{n}"})

    writer = asyncio.create_task(write())
    readers = []
    for n in range(20):
        reader = FakePeer()
        answer = await service.open(reader, "a", since=0)
        readers.append((reader, answer))
        for _ in range(n):
            await asyncio.sleep(0)
    await writer
    final = (await service.read("a"))["seq"]
    for reader, answer in readers:
        seqs = [m["seq"] for c in answer["changes"] for m in c.get("messages", [c])]
        for changed in reader.take("session/changed"):
            seqs += [m["seq"] for c in changed["changes"] for m in c.get("messages", [c])]
        assert seqs == list(range(1, final + 1))


@pytest.mark.parametrize("back", ["loaded", "cut", "restored"])
async def test_so_many_changes_are_kept_as_is_configured(store, clock, peer, back):
    """However the session came into memory. A client that missed more reads it again."""
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=clock, limits=Limits(retained_changes=4))
    await service.start()
    await service.new(peer, session_id="a")
    await service.append(peer, "a", [user("hi"), user("you")])
    if back == "loaded":
        await service.save("a")
        await service.close()
        service = WireService(
            stores={"default": store}, index=FakeIndex(), clock=clock, limits=Limits(retained_changes=4)
        )
        await service.start()
    elif back == "cut":
        await service.truncate(peer, "a", 1)
    else:
        await service.delete("a")
        await service.restore(peer, "a")
    for number in range(6):
        await service.update(peer, "a", {"name": str(number)})
    seq = (await service.open(peer, "a"))["session"]["seq"]
    known = (await service.open(peer, "a", since=seq - 4))["changes"]
    assert [one["fields"]["name"] for one in known] == ["2", "3", "4", "5"]
    assert (await service.open(peer, "a", since=seq - 5))["changes"] is None
    await service.close()


async def test_a_slow_reader_is_told_to_resync_and_then_goes_on(service, peer, other):
    """What it missed was dropped; after the resync everything is contiguous."""
    await service.new(peer, session_id="a")
    await service.open(other, "a")
    other.full = True
    for n in range(5):
        await service.append(peer, "a", [user(f"{n}")])
    other.full = False
    service.drained(other)
    assert other.take("session/resync") == [{"sessionId": "a", "seq": 5}]
    await service.append(peer, "a", [user("next")])
    [changed] = other.take("session/changed")
    assert changed["seq"] == 6


async def test_a_streamed_reply_grows_and_ends(service, peer, other):
    """Extended text is reported as it comes; the message ends with one content, under the seq of its append."""
    await service.new(peer, session_id="a")
    await service.open(other, "a")
    await service.append(peer, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}])
    assert await service.extend(peer, "a", "r", "llo", 2) == 2
    assert await service.extend(peer, "a", "r", "llo", 2) == 2, "a repetition adds nothing"
    assert await service.extend(peer, "a", "r", "llo wörld", 2) == 3, "what goes on from there is added"
    with pytest.raises(Conflict):
        await service.extend(peer, "a", "r", "xxx", 2)
    with pytest.raises(Conflict):
        await service.extend(peer, "a", "r", "gap", 99)
    assert await service.finish(peer, "a", "r", metadata={"tokens": 7}) == 4
    assert await service.finish(peer, "a", "r", metadata={"tokens": 7}) == 4
    [message] = (await service.read("a"))["messages"]
    assert (message["content"], message["seq"], message["status"], message["metadata"]) == (
        "Hello wörld",
        1,
        "done",
        {"tokens": 7},
    )
    kinds = [c["kind"] for changed in other.take("session/changed") for c in changed["changes"]]
    assert kinds == ["appended", "extended", "extended", "finished"]
    again = await service.append(peer, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}])
    assert again["messages"] == [{"id": "r", "seq": 1}]


async def test_a_reply_that_comes_back_from_the_trash_is_interrupted(service, peer, other):
    """Its writer may have left meanwhile, and nobody would ever end it; a writer who is still there goes on."""
    await service.new(peer, session_id="a")
    await service.append(peer, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}])
    await service.delete("a")
    await service.restore(other, "a")
    [message] = (await service.read("a"))["messages"]
    assert (message["content"], message["status"]) == ("He", "interrupted")
    await service.extend(peer, "a", "r", "llo", 2)
    await service.finish(peer, "a", "r")
    [message] = (await service.read("a"))["messages"]
    assert (message["content"], message["status"]) == ("Hello", "done")


async def test_a_reply_whose_writer_left_is_interrupted_and_can_be_resumed(service, peer, other):
    """The end of the connection ends its streams; a later `extend` resumes one."""
    await service.new(other, session_id="a")
    await service.open(peer, "a")
    await service.append(peer, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}])
    service.disconnected(peer)
    for _ in range(10):
        await asyncio.sleep(0)
    [message] = (await service.read("a"))["messages"]
    assert message["status"] == "interrupted"
    await service.extend(other, "a", "r", "y")
    [message] = (await service.read("a"))["messages"]
    assert (message["content"], message["status"]) == ("Hey", "streaming")


async def test_update_tells_the_new_info_and_ignores_what_is_so_already(service, peer, other):
    await service.new(peer, session_id="a")
    await service.open(other, "a")
    info = await service.update(peer, "a", {"name": "N", "tags": ["x"]})
    assert (info["name"], info["tags"], info["seq"]) == ("N", ["x"], 1)
    assert (await service.update(peer, "a", {"name": "N"}))["seq"] == 1
    [changed] = other.take("session/changed")
    assert changed["changes"][0]["session"]["name"] == "N"
    assert (await service.update(peer, "a", {"name": None, "tags": None}))["tags"] == []


async def test_clear_and_truncate_put_what_goes_into_the_trash(service, store, peer):
    """Under ID.was-SEQ; clear empties messages and summary and keeps the name."""
    await service.new(peer, session_id="a", name="N", messages=[user("1"), user("2"), user("3")])
    cut = await service.truncate(peer, "a", 1)
    assert cut["removed"] == 2
    assert await texts(service, "a") == ["1"]
    assert (await service.truncate(peer, "a", 1))["removed"] == 0
    info = await service.clear(peer, "a")
    assert (info["messageCount"], info["name"], info["seq"]) == (0, "N", 5)
    assert sorted(one.trash_id for one in await store.trash()) == ["a.was-3", "a.was-4"]
    answer = await service.append(peer, "a", [user("again")])
    assert answer["seq"] == 6, "a seq is never used twice"


async def test_fork_says_where_it_came_from(service, peer):
    """The fork holds what was there at that seq, and goes its own way."""
    await service.new(peer, session_id="a", name="N", messages=[user("1"), user("2"), user("3")])
    fork = await service.fork(peer, "a", at_seq=2)
    assert fork["parent"] == {"sessionId": "a", "seq": 2}
    assert await texts(service, fork["sessionId"]) == ["1", "2"]
    await service.append(peer, fork["sessionId"], [user("other way")])
    assert await texts(service, "a") == ["1", "2", "3"]
    with pytest.raises(InvalidParams):
        await service.fork(peer, "a", at_seq=99)


async def test_delete_tells_everyone_and_restore_brings_back(service, peer, other):
    await service.new(peer, session_id="a", messages=[user("1")])
    await service.open(other, "a")
    await service.delete("a")
    assert other.take("session/deleted") == [{"sessionId": "a"}]
    with pytest.raises(SessionNotFound):
        await service.read("a")
    info = await service.restore(peer, "a")
    assert info["messageCount"] == 1
    assert await texts(service, "a") == ["1"]


async def test_notes_are_filtered_by_thread_each_group_to_its_depth(service, peer):
    """Global ones always, a thread's only while it is asked for."""
    await service.new(peer, session_id="a")
    for n in range(3):
        await service.note_append(peer, "a", "Global", f"g{n}")
        await service.note_append(peer, "a", "Rust", f"r{n}", thread="rust")
        await service.note_append(peer, "a", "Lisp", f"l{n}", thread="lisp")

    async def contents(**how):
        return [note["content"] for note in (await service.note_list("a", **how))["notes"]]

    assert await contents() == ["g0", "g1", "g2"]
    assert await contents(thread="rust", last_global=1, last_thread=2) == ["r1", "g2", "r2"]
    assert await contents(thread="rust", last_global=0) == ["r0", "r1", "r2"]


async def test_a_note_is_idempotent_by_id(service, peer):
    await service.new(peer, session_id="a")
    first = await service.note_append(peer, "a", "H", "c", id="n1")
    assert await service.note_append(peer, "a", "H", "c", id="n1") == first
    with pytest.raises(Conflict):
        await service.note_append(peer, "a", "H", "other", id="n1")


async def test_state_is_kept_by_key(service, peer, other):
    """null removes, equal values are not a change, updatedAt stays."""
    before = await service.new(peer, session_id="a")
    await service.open(other, "a")
    assert await service.state_set(peer, "a", {"plan": {"class": None}, "x": 1}) == 1
    assert await service.state_set(peer, "a", {"x": 1}) == 1
    assert await service.state_set(peer, "a", {"x": 1.0}) == 2, "1.0 is not 1"
    assert await service.state_set(peer, "a", {"x": None, "gone": None}) == 3
    assert (await service.state_get("a"))["values"] == {"plan": {"class": None}}
    assert await service.state_clear(peer, "a") == 4
    assert (await service.state_get("a"))["values"] == {}
    assert (await service.update(peer, "a", {}))["updatedAt"] == before["updatedAt"]
    assert [c["changes"][0]["kind"] for c in other.take("session/changed")] == ["state"] * 4


async def test_restore_flag_repaints_every_panel(service, peer, other):
    """Right after the answer: session/restored, then all state as one change that says replay."""
    await service.new(peer, session_id="a", messages=[user("1")])
    await service.state_set(peer, "a", {"plan": [1]})
    await service.open(other, "a", restore=True)
    await asyncio.sleep(0)
    [(first, restored), (second, changed)] = other.got
    assert (first, second) == ("session/restored", "session/changed")
    assert restored["messageCount"] == 1
    assert changed["changes"] == [{"kind": "state", "seq": 2, "values": {"plan": [1]}, "replay": True}]
    assert changed["seq"] == 2


@pytest.mark.parametrize(
    "how", [{"last": 2}, {"before": 3}, {"since": 3}, {"since": 1, "limit": 2}, {"before": 4, "limit": 1}]
)
async def test_pages_are_oldest_first_and_say_whether_there_is_more(service, peer, how):
    await service.new(peer, session_id="a", messages=[user(str(n)) for n in range(1, 6)])
    page = await service.read("a", **how)
    expected = {"last": (["4", "5"], True), "before": (["1", "2"], False), "since": (["4", "5"], False)}
    if how == {"since": 1, "limit": 2}:
        wanted = (["2", "3"], True)
    elif how == {"before": 4, "limit": 1}:
        wanted = (["3"], True)
    else:
        wanted = expected[next(iter(how))]
    assert ([m["content"] for m in page["messages"]], page["hasMore"]) == wanted


async def test_an_empty_session_is_forgotten_and_a_named_one_is_not(service, clock, peer):
    """Ten minutes after the last connection left."""
    await service.new(peer, session_id="empty")
    await service.new(peer, session_id="named", name="N")
    service.disconnected(peer)
    for _ in range(20):
        await asyncio.sleep(0)
    clock.advance(601)
    for wire_id in ("empty", "named"):
        one = service.open_sessions.peek(wire_id)
        service.open_sessions._timers[one].cancel()
        service.open_sessions._look_again(one)
    for _ in range(20):
        await asyncio.sleep(0)
    with pytest.raises(SessionNotFound):
        await service.read("empty")
    assert (await service.read("named"))["messages"] == []


async def test_any_json_comes_back_the_same(service, peer):
    """Keys that are not identifiers, nested jsonrpc, null, 64-bit integers, U+2028."""
    odd = {
        "class": None, "tool-name": 1, "type_name": "x", "_private": {"jsonrpc": "2.0", "id": 1, "method": "m"},
        "big": 2**63 - 1, "small": -(2**63), "line": "a\u2028b", "deep": [[[[{}]]]], "": [],
    }  # fmt: skip
    await service.new(peer, session_id="a")
    await service.append(peer, "a", [{"role": "user", "content": [odd], "metadata": odd, "unknown": odd, "id": "x"}])
    await service.state_set(peer, "a", {"odd": odd})
    opened = await service.open(peer, "a")
    [message] = opened["messages"]
    assert message["content"] == [odd]
    assert message["metadata"] == odd
    assert message["unknown"] == odd
    assert opened["state"]["odd"] == odd


@pytest.mark.parametrize(
    ("how", "seqs", "more"),
    [
        ({"since": 0, "before": 4}, [1, 2], False),
        ({"since": 0, "before": 4, "limit": 1}, [1], True),
        ({"since": 1, "before": 4, "limit": 1}, [2], False),
        ({"since": 0, "before": 9, "limit": 0}, [], True),
        ({"since": 2, "before": 5, "limit": 0}, [], False),
        ({"since": 7, "before": 3}, [], False),
        ({"since": 0, "limit": 0}, [], True),
    ],
)
async def test_a_page_between_two_seqs(service, peer, how, seqs, more):
    """Only messages between the two count, also for whether there are more; other changes have seqs in between."""
    await service.new(peer, session_id="a", messages=[user("1"), user("2")])
    for n in range(3):
        await service.state_set(peer, "a", {"n": n})
    await service.append(peer, "a", [user("6"), user("7")])
    page = await service.read("a", **how)
    assert ([m["seq"] for m in page["messages"]], page["hasMore"]) == (seqs, more)


async def test_a_session_that_nobody_opened_is_there(service):
    """One that the daemon makes by itself has no reader."""
    info = await service.new(None, session_id="a", messages=[user("1")])
    assert info["attached"] == 0
    assert await texts(service, "a") == ["1"]


async def test_a_retry_of_a_streamed_append_after_the_session_was_read_anew(service, store, peer):
    """With what was sent first the message is the same, however much it has grown since; with other text it is not."""
    streamed = {"id": "r", "role": "assistant", "content": "He", "status": "streaming"}
    await service.new(peer, session_id="a")
    await service.append(peer, "a", [streamed])
    await service.extend(peer, "a", "r", "llo")
    session = store.sessions["a"].snapshot()
    session._streams = {}  # as one that was read from its file
    store.edit("a", session)
    while service.open_sessions.peek("a").session is not session:
        await asyncio.sleep(0)
    assert (await service.append(peer, "a", [streamed]))["messages"] == [{"id": "r", "seq": 1}]
    with pytest.raises(Conflict):
        await service.append(peer, "a", [{**streamed, "content": "Ho"}])


async def test_pieces_that_come_with_their_message(service, store, peer):
    """A message and its first pieces may share a batch: an overlap is added once, no text at all is not a change."""
    await service.new(peer, session_id="a")
    gate = asyncio.Event()
    store.before_commit = gate.wait
    held = asyncio.create_task(service.state_set(peer, "a", {"x": 1}))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    requests = [
        service.append(peer, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}]),
        service.extend(peer, "a", "r", "ello", 1),
        service.extend(peer, "a", "r", "", 5),
        service.extend(peer, "a", "r", "zz", 1),
    ]
    tasks = [asyncio.create_task(one) for one in requests]
    await asyncio.sleep(0)
    gate.set()
    await held
    *_, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(refused, Conflict) and refused.data["length"] == 5
    [message] = (await service.read("a"))["messages"]
    assert (message["content"], (await service.read("a"))["seq"]) == ("Hello", 3)


async def test_a_reply_is_finished_once(service, peer):
    """Saying the same again is not a change; saying that it ended otherwise is a conflict."""
    await service.new(peer, session_id="a")
    await service.append(peer, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}])
    assert await service.finish(peer, "a", "r", status="interrupted") == 2
    assert await service.finish(peer, "a", "r", status="interrupted") == 2
    assert await service.finish(peer, "a", "r", status="error") == 3
    assert await service.finish(peer, "a", "r", status="error") == 3
    with pytest.raises(Conflict):
        await service.finish(peer, "a", "r", status="done")


async def test_both_ends_of_a_reply_in_one_batch(service, store, peer):
    """Two that finish it at once: the second is told what the first made of it."""
    await service.new(peer, session_id="a")
    await service.append(peer, "a", [{"id": "r", "role": "assistant", "content": "He", "status": "streaming"}])
    ends = [service.finish(peer, "a", "r", status=status) for status in ("done", "done", "error")]
    first, second, third = await asyncio.gather(*ends, return_exceptions=True)
    assert (first, second) == (2, 2)
    assert isinstance(third, Conflict)


async def test_one_of_those_that_answer_is_asked(service, peer, other):
    """The one that came last, as long as it has the session open; all of them hear that the answer is not wanted."""
    last = FakePeer()
    await service.new(peer, session_id="a")
    assert not service.ask("a", "m1")
    for one in (other, last):
        await service.open(one, "a", answers=True)
    assert service.ask("a", "m1")
    assert (last.take("session/asked"), other.take("session/asked")) == ([{"sessionId": "a", "messageId": "m1"}], [])
    assert service.interrupt("a", "m1")
    assert [one.take() for one in (peer, other, last)] == [[], *[[{"sessionId": "a", "messageId": "m1"}]] * 2]
    await service.open(last, "a")
    assert service.ask("a", "m2")
    assert (last.take(), other.take("session/asked")) == ([], [{"sessionId": "a", "messageId": "m2"}])
    other.closed = True
    assert not service.ask("a", "m3")
    assert not service.interrupt("a", "m3")
