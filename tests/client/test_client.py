"""The blocking client and a real daemon: what each call does, and what it raises."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond.client import (
    AlreadyExists,
    AnswerLost,
    Appended,
    Change,
    Cleared,
    Closed,
    Conflict,
    DaemonUnreachable,
    Deleted,
    Finished,
    InvalidParams,
    NewMessage,
    Noted,
    Reread,
    Sessiond,
    SessionNotFound,
    StateSet,
    ToolCall,
    Truncated,
    Unauthorized,
    Updated,
    connect,
)
from sessiond.client import lookout as lookout_module
from sessiond.client.failures import NotText
from sessiond.client.follower import SessionFollower
from sessiond.client.types import Notice
from tests.client.proxy import Proxy
from tests.client.served import served_home
from tests.shell import Shell, wait_until
from tests.zygote import ForkedHome, Zygote

WITHIN_S = 30


@pytest.fixture
def forked(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedHome]:
    with served_home(zygote, tmp_path_factory.mktemp("h")) as home:
        yield home


@pytest.fixture
def sessiond(forked: ForkedHome) -> Iterator[Sessiond]:
    with connect(home=str(forked.path), start=False, name="test") as client:
        yield client


def test_the_daemon_is_started_where_none_runs(shell: Shell) -> None:
    """As the commands do it; without `start` the client says that none runs."""
    with pytest.raises(DaemonUnreachable):
        connect(home=str(shell.path), start=False)
    with connect(home=str(shell.path)) as client:
        assert client.status().pid == shell.pid()


def test_a_conversation(sessiond: Sessiond) -> None:
    """Appended, streamed and read back, page by page and from the end."""
    chat = sessiond.new(
        name="Lock order", tags=["work"], metadata={"a": 1}, messages=[NewMessage(role="system", content="Be brief")]
    )
    first = chat.append("user", "Which lock?", thread="main", metadata={"from": "test"})
    with chat.stream("assistant", "The ") as reply:
        for piece in ["journal's", "", ", ", "älways"]:
            reply.write(piece)
        reply.finish(metadata={"tokens": 3}, tool_calls=[ToolCall(id="c", name="look", arguments={"at": 1})])
    told = chat.messages()
    assert [(one.role, one.text) for one in told] == [
        ("system", "Be brief"),
        ("user", "Which lock?"),
        ("assistant", "The journal's, älways"),
    ]
    assert (told[1].id, told[1].seq, told[1].thread, told[1].metadata) == (
        first.id,
        first.seq,
        "main",
        {"from": "test"},
    )
    assert told[2].status == "done" and told[2].metadata == {"tokens": 3}
    assert told[2].tool_calls == [ToolCall(id="c", name="look", arguments={"at": 1})]
    assert chat.messages(last=2) == told[1:] and chat.messages(since=first.seq) == told[2:]
    info = chat.info()
    assert (info.name, info.tags, info.message_count, info.metadata) == ("Lock order", ["work"], 3, {"a": 1})


def test_pages_are_put_together(sessiond: Sessiond) -> None:
    """More messages than a page holds, in order, whole or the newest."""
    chat = sessiond.new(name="long")
    sent = [NewMessage(role="user", content=str(number), id=f"n{number}") for number in range(2500)]
    assert [one.id for one in chat.append_all(sent)] == [one.id for one in sent]
    assert [one.text for one in chat.messages()] == [str(number) for number in range(2500)]
    assert [one.text for one in chat.messages(last=1500)] == [str(number) for number in range(1000, 2500)]


def test_older_messages(sessiond: Sessiond) -> None:
    """`before` is counted in seqs and may be combined with `since`; `last` with `before` goes over pages."""
    chat = sessiond.new()
    chat.append_all([NewMessage(role="user", content=str(number)) for number in range(2_500)])
    seqs = [one.seq for one in chat.messages()]
    assert [one.text for one in chat.messages(last=3, before=seqs[10])] == ["7", "8", "9"]
    assert [one.text for one in chat.messages(last=1_500, before=seqs[1_600])] == [
        str(one) for one in range(100, 1_600)
    ]
    assert [one.text for one in chat.messages(since=seqs[4], before=seqs[7])] == ["5", "6"]
    assert chat.messages(last=5, before=seqs[0]) == []


def test_a_snapshot_and_what_follows(sessiond: Sessiond, forked: ForkedHome) -> None:
    """Everything of one moment; changes go on right after it. A part of the file that is not understood is told."""
    chat = sessiond.new(name="whole")
    chat.append_all([NewMessage(role="user", content=text) for text in ("one", "two", "three")])
    chat.set_state({"draft": "half a"})
    at = chat.open(last=2)
    assert [one.text for one in at.messages] == ["two", "three"]
    assert (at.session.name, at.has_more, at.state, at.warnings) == ("whole", True, {"draft": "half a"}, [])
    chat.append("user", "four")
    with chat.changes(since=at.session.seq) as changes:
        change = changes.wait(10)
    assert isinstance(change, Appended) and [one.text for one in change.messages] == ["four"]
    saved = chat.save()
    assert saved is not None and saved.bytes == Path(saved.path).stat().st_size
    with Path(saved.path).open("a") as file:
        file.write("not JSON\n")
    wait_until(lambda: bool(chat.open().warnings))
    assert chat.open().warnings[0].message == "is not valid JSON"


def test_a_reply_that_is_cut_off_is_kept_as_interrupted(sessiond: Sessiond) -> None:
    """By an exception in the block, which the caller gets as it was."""
    chat = sessiond.new(name="cut off")
    reply = chat.stream("assistant")

    def begin() -> None:
        with reply:
            reply.write("half of ")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        begin()
    (kept,) = chat.messages()
    assert (kept.text, kept.status, reply.status) == ("half of ", "interrupted", "interrupted")


def test_half_a_surrogate_pair_takes_nothing_with_it(sessiond: Sessiond) -> None:
    """The piece is refused, and only that: what is written before and after is kept, however the block ends."""
    chat = sessiond.new(name="half a pair")
    with chat.stream("assistant") as reply:
        reply.write("one ")
        with pytest.raises(NotText):
            reply.write("\ud83d")
        reply.write("two")

    def cut_off() -> None:
        with chat.stream("assistant") as reply:
            reply.write("half of ")
            reply.write("\ud83d")

    with pytest.raises(NotText):
        cut_off()
    assert [(one.text, one.status) for one in chat.messages()] == [("one two", "done"), ("half of ", "interrupted")]


def test_errors_have_types(sessiond: Sessiond) -> None:
    """Each with a kind and a message, and what a program needs to decide."""
    with pytest.raises(SessionNotFound) as missing:
        sessiond.session("nowhere").append("user", "x")
    assert missing.value.kind == "sessionNotFound" and "nowhere" in missing.value.message
    chat = sessiond.new(id="taken", name="x")
    with pytest.raises(AlreadyExists):
        sessiond.new(id="taken")
    chat.append("user", "one", id="m")
    assert chat.append("user", "one", id="m").seq == 1
    with pytest.raises(Conflict) as other:
        chat.append("user", "two", id="m")
    assert other.value.hint and other.value.data["seq"] == 1
    with pytest.raises(Conflict):
        chat.append("user", "two", expected_seq=0)
    with pytest.raises(InvalidParams):
        chat.append("user", "\ud800")
    with pytest.raises(InvalidParams):
        chat.append("user", "x", metadata={"a": object()})
    with pytest.raises(InvalidParams):
        connect("no port")
    assert chat.append("user", "two", expected_seq=1).seq == 2


def test_what_is_known_of_a_session(sessiond: Sessiond) -> None:
    """Info, notes and state; what is not given remains as it is."""
    chat = sessiond.new(name="before", tags=["a"], model="m1")
    info = chat.update(name="after", archived=True, tags=("b", "c"))
    assert (info.name, info.archived, info.tags, info.model) == ("after", True, ["b", "c"], "m1")
    assert chat.update(model=None).model is None
    note = chat.note("Decided", "journal first", thread="t")
    assert chat.note("Decided", "journal first", thread="t", id=note.id) == note
    assert chat.notes() == [] and chat.notes(thread="t") == [note]
    chat.set_state({"draft": "x", "n": 1})
    chat.set_state({"n": None})
    assert chat.state() == {"draft": "x"} == chat.state("draft", "n")


def test_lists_and_searches_go_on_over_pages(sessiond: Sessiond) -> None:
    """120 sessions, more than two pages; filters; hits with their ranges."""
    for number in range(120):
        sessiond.new(id=f"s{number}", name=f"name {number}", tags=["odd"] if number % 2 else [])
    assert {one.session_id for one in sessiond.sessions()} == {f"s{number}" for number in range(120)}
    assert sum(1 for _ in sessiond.sessions(tags=["odd"])) == 60
    for number in range(60):
        sessiond.session(f"s{number}").append("user", "a wombat sleeps")
    wait_until(lambda: sum(1 for _ in sessiond.search("wombat")) == 60)
    page = sessiond.search_page("wombat", limit=25)
    assert (len(page.hits), page.total) == (25, 60)
    again = sessiond.search_page("wombat", limit=25, cursor=page.next_cursor)
    assert not {hit.session_id for hit in page.hits} & {hit.session_id for hit in again.hits}
    (hit,) = sessiond.search("wombat", session_id="s7", role="user")
    assert [hit.snippet[begin:end] for begin, end in hit.ranges] == ["wombat"]


def test_whole_sessions(sessiond: Sessiond, tmp_path: Path) -> None:
    """Fork, truncate, clear, delete and restore, save, export, import."""
    chat = sessiond.new(name="whole")
    seqs = [chat.append("user", text).seq for text in ("one", "two", "three")]
    twin = chat.fork(at_seq=seqs[1], name="twin")
    assert [one.text for one in twin.messages()] == ["one", "two"]
    assert twin.info().parent.session_id == chat.id  # type: ignore[union-attr]
    assert chat.truncate(seqs[0]) == 2
    assert "one" in (chat.export("markdown").content or "")
    there = chat.export("jsonl", str(tmp_path / "out.jsonl"))
    assert there.bytes == (tmp_path / "out.jsonl").stat().st_size
    with pytest.raises(AlreadyExists):
        chat.export("jsonl", str(tmp_path / "out.jsonl"))
    chat.clear()
    assert chat.messages() == []
    twin.save()
    assert not twin.info().dirty
    twin.delete()
    assert twin.id not in {one.session_id for one in sessiond.sessions()}
    assert [one.text for one in sessiond.restore(twin.id).messages()] == ["one", "two"]
    twin.delete(permanent=True)
    with pytest.raises(SessionNotFound):
        twin.messages()
    assert len(sessiond.import_(str(tmp_path / "out.jsonl")).sessions) <= 1
    with sessiond.new(name="let go") as left:
        left.append("user", "x")
    assert left.info().attached == 0


def test_every_kind_of_change_is_told(sessiond: Sessiond) -> None:
    """This client's own changes too, each with its type, in order."""
    chat = sessiond.new(name="watched")
    with chat.changes() as changes:
        chat.append("user", "x")
        chat.stream("assistant").finish("error")
        chat.update(name="other")
        chat.note("h", "n")
        chat.set_state({"a": 1})
        chat.truncate(0)
        chat.clear()
        chat.append("user", "y")
        chat.delete()
        seen = list(changes)
    kinds = [Appended, Appended, Finished, Updated, Noted, StateSet, Truncated, Appended, Deleted]
    assert [type(one) for one in seen if not isinstance(one, Cleared)] == kinds
    assert [one.seq for one in seen[:7]] == list(range(1, 8))
    assert {one.session_id for one in seen} == {chat.id}
    assert seen[0].origin is not None and seen[0].origin.client == "test"
    assert isinstance(seen[3], Updated) and seen[3].session is not None and seen[3].session.name == "other"


def test_an_edit_of_the_file_is_read_again(sessiond: Sessiond, forked: ForkedHome) -> None:
    """A line is added by hand: the message comes once, and the rest as a stretch or as an append."""
    chat = sessiond.new(id="edited", name="edited")
    chat.append("user", "mine")
    chat.save()
    with chat.changes() as changes, open(forked.path / "data" / "sessions" / "edited.jsonl", "a") as file:
        file.write('{"role": "user", "content": "by hand"}\n')
        file.flush()
        change = changes.wait(30)
        assert isinstance(change, Appended | Reread)
        assert [one.text for one in change.messages] == ["by hand"]
        chat.append("user", "and after")
        after = changes.wait(30)
        assert isinstance(after, Appended) and after.messages[0].text == "and after"


def test_changes_of_all_sessions(sessiond: Sessiond) -> None:
    """Of existing and new ones: appended messages come once, earlier ones do not."""
    old = sessiond.new(id="old", name="old")
    old.append("user", "before")
    wait_until(lambda: any(one.message_count for one in sessiond.sessions()))
    with sessiond.changes(look_s=0.05) as changes:
        old.append("user", "one")
        new = sessiond.new(id="new", name="new")
        new.append("user", "two")
        told = []
        while len(told) < 2:
            change = changes.wait(30)
            assert change is not None
            if isinstance(change, Appended):
                told += [(change.session_id, one.text) for one in change.messages]
        old.append("user", "three")
        change = changes.wait(30)
        assert isinstance(change, Appended) and change.messages[0].text == "three"
    assert sorted(told) == [("new", "two"), ("old", "one")]


def test_over_tcp_with_a_token(sessiond: Sessiond) -> None:
    """The token itself or its file; without a good one Unauthorized."""
    where = sessiond.call("daemon/listen", {"kind": "tcp"})
    address, token_file = f"{where['host']}:{where['port']}", where["tokenFile"]
    with connect(f"tcp://{address}", token_file=token_file) as far:
        assert far.new(id="far", name="far").append("user", "x").seq == 1
    token = Path(token_file).read_text().strip()
    with connect(address, token=token) as far:
        assert far.session("far").messages()[0].text == "x"
    with pytest.raises(Unauthorized):
        connect(address, token="wrong")
    with pytest.raises(DaemonUnreachable):
        connect(address, token_file="/nowhere")


def test_nobody_at_a_port(tmp_path: Path) -> None:
    """A client that must not start a daemon fails at its deadline."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(DaemonUnreachable):
        connect(f"127.0.0.1:{port}", timeout_s=0.2)


def test_what_must_not_be_repeated_is_not(sessiond: Sessiond, forked: ForkedHome) -> None:
    """The connection ends after `session/clear` was sent: AnswerLost, and the next call goes over a new connection."""
    with Proxy(forked.socket_path) as proxy, connect(proxy.address, token="") as far:
        chat = far.new(name="x")
        proxy.tear()
        with pytest.raises(AnswerLost):
            chat.clear()
        assert chat.info().name == "x"
        proxy.cut()
        assert chat.append("user", "again").seq >= 1
        assert proxy.made >= 3


def test_a_session_is_made_once(forked: ForkedHome) -> None:
    """Half of the response gets through: the client asks again, and finds the session that it made."""
    with Proxy(forked.socket_path) as proxy, connect(proxy.address, token="") as far:
        for number in range(5):
            lost = threading.Thread(target=proxy.tear)
            lost.start()
            chat = far.new(name=f"n{number}")
            lost.join()
            assert chat.info().name == f"n{number}"
        names = [one.name for one in far.sessions()]
        assert sorted(names) == [f"n{number}" for number in range(5)]  # type: ignore[type-var]


def test_closing_wakes_whoever_waits(forked: ForkedHome) -> None:
    """Another thread iterates over changes: it ends. Calls afterwards raise Closed."""
    client = connect(home=str(forked.path), start=False)
    chat = client.new(name="x")
    one, everything = chat.changes(), client.changes()
    ended: list[int] = []
    threads = [threading.Thread(target=lambda feed=feed: ended.append(len(list(feed)))) for feed in (one, everything)]
    for thread in threads:
        thread.start()
    client.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    with pytest.raises(Closed):
        chat.append("user", "x")
    with pytest.raises(Closed):
        chat.changes()


def test_threads_share_a_client(sessiond: Sessiond) -> None:
    """Eight threads append over one client: all of it is there, each thread's in its order."""
    chat = sessiond.new(name="shared")

    def say(number: int) -> None:
        for turn in range(20):
            chat.append("user", f"{number} {turn}")

    threads = [threading.Thread(target=say, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    texts = [one.text for one in chat.messages()]
    for number in range(8):
        assert [text for text in texts if text.startswith(f"{number} ")] == [f"{number} {turn}" for turn in range(20)]


@pytest.mark.parametrize("where", ["before it is known", "after it is known"])
def test_an_interrupt_takes_no_change_with_it(sessiond: Sessiond, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Ctrl-C while a change is being taken: the next `next()` gives that change, once, and then what follows."""
    told = SessionFollower.told

    def interrupted(self: SessionFollower, method: str, notice: Notice) -> Iterator[Change]:
        monkeypatch.undo()
        if where == "after it is known":
            next(told(self, method, notice))
        raise KeyboardInterrupt
        yield

    chat = sessiond.new(name="x")
    chat.append("user", "zero")
    with chat.changes(since=0) as changes:
        assert next(changes).seq == 1
        monkeypatch.setattr(SessionFollower, "told", interrupted)
        chat.append("user", "one")
        with pytest.raises(KeyboardInterrupt):
            next(changes)
        chat.append("user", "two")
        assert [next(changes).seq, next(changes).seq] == [2, 3]


def test_a_killed_daemon_is_started_again(shell: Shell) -> None:
    """By the next call, even in the middle of a reply; a feed continues, and gets each change once."""
    with connect(home=str(shell.path)) as client:
        chat = client.new(name="x")
        changes = chat.changes()
        shell.kill()
        assert chat.append("user", "one").seq == 1
        with chat.stream("assistant") as reply:
            reply.write("before, ")
            reply.flush()
            shell.kill()
            reply.write("after")
        assert [(one.text, one.status) for one in chat.messages()] == [("one", None), ("before, after", "done")]
        seen = [next(changes)]
        while not (isinstance(seen[-1], Finished) and seen[-1].status == "done"):
            seen.append(next(changes))
        assert [one.seq for one in seen] == list(range(1, len(seen) + 1))


def test_changes_of_all_sessions_go_on(forked: ForkedHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill -9, and after a session was closed because nothing happened in it: nothing is missed, nothing comes twice."""
    monkeypatch.setattr(lookout_module, "QUIET_S", 0.0)
    with connect(home=str(forked.path), start=False) as client, client.changes(look_s=0.05) as changes:
        chat = client.new(id="x", name="x")
        seqs = []
        for number in range(6):
            if number == 3:
                forked.kill()
                forked.start()
                wait_until(lambda: connects(forked))
            chat.append("user", str(number))
            change = changes.wait(30)
            assert isinstance(change, Appended)
            seqs.append(change.seq)
        wait_until(lambda: changes.wait(0.1) is None and chat.info().attached <= 1)
    assert seqs == [1, 2, 3, 4, 5, 6]


def connects(served: ForkedHome) -> bool:
    try:
        connect(home=str(served.path), start=False).close()
    except DaemonUnreachable:
        return False
    return True


@pytest.mark.parametrize("count", [1, 9])
def test_an_id_that_is_used_again_while_nobody_listened(forked: ForkedHome, sessiond: Sessiond, count: int) -> None:
    """The new session is told from its beginning, whether it has more changes than the old one or fewer, and then goes on."""
    chat = sessiond.new(id="daily")
    for number in range(5):
        chat.append("user", f"old {number}")
    with chat.changes() as changes, connect(home=str(forked.path), start=False) as other:
        changes._lost()
        other.session("daily").delete(permanent=True)
        again = other.new(id="daily")
        for number in range(count):
            again.append("user", f"new {number}")
        told = changes.wait(WITHIN_S)
        assert isinstance(told, Reread) and told.another
        assert [one.text for one in told.messages] == [f"new {number}" for number in range(count)]
        again.append("user", "newest")
        assert isinstance(changes.wait(WITHIN_S), Appended)


def test_changes_of_all_sessions_in_the_order_of_arrival(sessiond: Sessiond, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those with old dates, where many sessions are newer than they: an append, a new session, and one made again."""
    monkeypatch.setattr(lookout_module, "LIST_LIMIT", 2)
    old = "2001-01-01T00:00:00.000Z"
    first = sessiond.new(id="first", messages=[NewMessage(role="user", content="x", timestamp=old)])
    for _ in range(5):
        sessiond.new(messages=[NewMessage(role="user", content="x")])
    with sessiond.changes(look_s=0.01) as changes:
        first.append("user", "y", timestamp=old)
        change = changes.wait(WITHIN_S)
        assert isinstance(change, Appended) and (change.session_id, change.seq) == ("first", 2)
        made = sessiond.new(messages=[NewMessage(role="user", content="z", timestamp=old)])
        change = changes.wait(WITHIN_S)
        assert isinstance(change, Appended) and (change.session_id, change.seq) == (made.id, 1)
