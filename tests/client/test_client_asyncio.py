"""The client for asyncio and a real daemon: it does what the blocking one does, and tasks may share it and be cancelled."""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sessiond.client import (
    Appended,
    AsyncReply,
    AsyncSession,
    AsyncSessiond,
    Closed,
    Conflict,
    Deleted,
    Extended,
    Finished,
    NewMessage,
    Reply,
    Session,
    Sessiond,
    SessionNotFound,
    Unauthorized,
    aconnect,
)
from sessiond.client import lookout as lookout_module
from sessiond.client.aio import feed as feed_module
from sessiond.client.aio.feed import AsyncChanges
from sessiond.client.failures import NotText
from sessiond.client.feed import Changes
from tests.client.proxy import Proxy
from tests.client.served import served_home
from tests.shell import Shell
from tests.zygote import ForkedHome, Zygote


@pytest.fixture
def served(zygote: Zygote, tmp_path: Path) -> Iterator[ForkedHome]:
    with served_home(zygote, tmp_path) as home:
        yield home


@pytest.fixture
async def sessiond(served: ForkedHome) -> AsyncIterator[AsyncSessiond]:
    async with await aconnect(home=str(served.path), start=False, name="test") as client:
        yield client


@pytest.mark.parametrize(
    ("blocking", "of_asyncio"),
    [(Sessiond, AsyncSessiond), (Session, AsyncSession), (Reply, AsyncReply), (Changes, AsyncChanges)],
)
def test_both_clients_have_the_same_methods(blocking: type, of_asyncio: type) -> None:
    """With the same parameters; all that waits is a coroutine or an asynchronous iterator."""

    def methods(one: type) -> dict[str, list[tuple[str, object]]]:
        found = {name: it for name, it in vars(one).items() if not name.startswith("_") and inspect.isfunction(it)}
        return {
            name: [(p.name, p.default) for p in inspect.signature(it).parameters.values()] for name, it in found.items()
        }

    theirs = methods(of_asyncio)
    theirs.pop("reached", None)
    assert theirs == methods(blocking)
    for name in theirs:
        it = vars(of_asyncio)[name]
        waits = inspect.iscoroutinefunction(it) or inspect.isasyncgenfunction(it)
        assert waits or (name in ("session", "close") and of_asyncio is not AsyncSession), name


async def test_the_daemon_is_started_where_none_runs(shell: Shell) -> None:
    """As the commands do it."""
    async with await aconnect(home=str(shell.path)) as client:
        assert (await client.status()).pid == shell.pid()


async def test_a_conversation(sessiond: AsyncSessiond) -> None:
    """Appended, streamed, followed and read back."""
    chat = await sessiond.new(
        name="Lock order", tags=["work"], messages=[NewMessage(role="system", content="Be brief")]
    )
    async with await chat.changes(since=0) as changes:
        first = await chat.append("user", "Which lock?")
        async with await chat.stream("assistant", "The ") as reply:
            for piece in ["journal's", "", ", always"]:
                await reply.write(piece)
        await chat.delete()
        seen = [change async for change in changes]
    assert [type(one) for one in seen] == [Appended, Appended, Appended, Extended, Extended, Finished, Deleted]
    assert [one.seq for one in seen[:6]] == [1, 2, 3, 4, 5, 6] and seen[1].messages[0].id == first.id  # type: ignore[union-attr]
    chat = await sessiond.restore(chat.id)
    assert [one.text for one in await chat.messages()] == ["Be brief", "Which lock?", "The journal's, always"]
    newest = await chat.messages(last=1)
    assert [one.text for one in newest] == ["The journal's, always"]
    assert [one.text for one in await chat.messages(last=1, before=newest[0].seq)] == ["Which lock?"]
    at = await chat.open(last=1)
    assert (at.messages, at.has_more, at.session.message_count) == (newest, True, 3)


async def test_the_rest_of_a_session(sessiond: AsyncSessiond, tmp_path: Path) -> None:
    """Info, notes, state, fork, truncate, export and import, lists and searches."""
    chat = await sessiond.new(name="before")
    assert (await chat.update(name="after", tags=["b"])).name == "after"
    note = await chat.note("Decided", "journal first")
    assert await chat.notes() == [note]
    assert await chat.set_state({"draft": "x"}) == (await chat.info()).seq
    assert await chat.state() == {"draft": "x"}
    await chat.append_all([NewMessage(role="user", content=text) for text in ("a wombat", "two")])
    twin = await chat.fork(name="twin")
    assert await twin.truncate((await twin.messages())[0].seq) == 1
    assert "a wombat" in ((await twin.export("markdown")).content or "")
    assert (await twin.clear()).message_count == 0
    assert {one.session_id for one in await sessiond.save()} <= {chat.id, twin.id}
    saved = await chat.save()
    assert saved is not None and saved.path == (await chat.info()).path
    assert {one.name async for one in sessiond.sessions()} == {"after", "twin"}
    hits = [hit async for hit in sessiond.search("wombat", session_id=chat.id)]
    while not hits:
        hits = [hit async for hit in sessiond.search("wombat", session_id=chat.id)]
    assert hits[0].snippet == "a wombat"
    assert (await sessiond.search_page("wombat", limit=1)).total == 1
    with pytest.raises(SessionNotFound):
        await sessiond.session("nowhere").info()
    with pytest.raises(Conflict):
        await chat.append("user", "x", expected_seq=0)
    assert (await sessiond.call("daemon/hello"))["protocolVersion"] == 1
    assert (await sessiond.import_(str(tmp_path / "data" / "sessions"), dry_run=True)).sessions == []


async def test_over_tcp_with_a_token(sessiond: AsyncSessiond) -> None:
    """Without a good one Unauthorized."""
    where = await sessiond.call("daemon/listen", {"kind": "tcp"})
    address = f"{where['host']}:{where['port']}"
    async with await aconnect(address, token_file=where["tokenFile"]) as far:
        assert (await (await far.new(name="far")).append("user", "x")).seq == 1
    with pytest.raises(Unauthorized):
        await aconnect(address, token="wrong")


async def test_tasks_share_a_client(served: ForkedHome) -> None:
    """Eight tasks append while connections are cut: all of it is there once, each task's in its order."""
    with Proxy(served.socket_path) as proxy:
        async with await aconnect(proxy.address, token="") as sessiond:
            chat = await sessiond.new(name="shared")

            async def say(number: int) -> None:
                for turn in range(20):
                    await chat.append("user", f"{number} {turn}")

            async def cut() -> None:
                for _ in range(10):
                    await asyncio.sleep(0.01)
                    proxy.cut()

            await asyncio.gather(cut(), *(say(number) for number in range(8)))
            texts = [one.text for one in await chat.messages()]
    for number in range(8):
        assert [text for text in texts if text.startswith(f"{number} ")] == [f"{number} {turn}" for turn in range(20)]
    assert proxy.made > 1


async def test_a_cancelled_reply_is_kept_as_interrupted(sessiond: AsyncSessiond) -> None:
    """And the client continues: a cancelled call takes nothing with it."""
    chat = await sessiond.new(name="cancelled")
    written = asyncio.Event()

    async def talk() -> None:
        async with await chat.stream("assistant") as reply:
            await reply.write("half of ")
            written.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(talk())
    await written.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (kept,) = await chat.messages()
    assert (kept.text, kept.status) == ("half of ", "interrupted")
    cancelled = asyncio.create_task(chat.append("user", "maybe", id="m1"))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert (await chat.append("user", "maybe", id="m1")).id == "m1"
    assert [one.text for one in await chat.messages()] == ["half of ", "maybe"]


async def test_a_reply_that_is_cancelled_while_it_flushes_is_kept_as_interrupted(sessiond: AsyncSessiond) -> None:
    """Also the piece that was on its way."""
    chat = await sessiond.new(name="cancelled")
    flushing = asyncio.Event()

    async def talk() -> None:
        async with await chat.stream("assistant") as reply:
            await reply.write("half of ")
            flushing.set()
            await reply.flush()

    task = asyncio.create_task(talk())
    await flushing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(one.text, one.status) for one in await chat.messages()] == [("half of ", "interrupted")]


async def test_a_reply_that_is_cancelled_while_it_begins_is_interrupted(sessiond: AsyncSessiond) -> None:
    """The daemon may have it already, and nobody gets the reply that would end it. In order: the next request finds it ended."""
    chat = await sessiond.new(name="cancelled")
    task = asyncio.create_task(chat.stream("assistant", "begun"))
    await asyncio.sleep(0)  # it is sent, and not answered
    assert task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(one.text, one.status) for one in await chat.messages()] == [("begun", "interrupted")]


async def test_a_reply_that_is_cancelled_while_it_ends_has_ended(sessiond: AsyncSessiond) -> None:
    """Done or interrupted, as the daemon saw it, with everything that was written. A second cancellation changes nothing."""
    chat = await sessiond.new(name="cancelled")
    ending = asyncio.Event()

    async def talk() -> None:
        async with await chat.stream("assistant") as reply:
            await reply.write("all of it")
            ending.set()

    for times in (1, 2):
        ending.clear()
        task = asyncio.create_task(talk())
        await ending.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(10):
        while {"streaming"} & {one.status for one in await chat.messages()}:
            await asyncio.sleep(0.01)
    assert {one.text for one in await chat.messages()} == {"all of it"}


async def test_half_a_surrogate_pair_takes_nothing_with_it(sessiond: AsyncSessiond) -> None:
    """As for the blocking client."""
    chat = await sessiond.new(name="half a pair")

    async def cut_off() -> None:
        async with await chat.stream("assistant") as reply:
            await reply.write("half of ")
            await reply.write("\ud83d")

    with pytest.raises(NotText):
        await cut_off()
    assert [(one.text, one.status) for one in await chat.messages()] == [("half of ", "interrupted")]


async def test_closing_wakes_whoever_waits(served: ForkedHome) -> None:
    """Another task iterates over changes, of one session and of all: it ends. Calls afterwards raise Closed."""
    client = await aconnect(home=str(served.path), start=False)
    chat = await client.new(name="x")

    async def follow(changes: AsyncChanges) -> int:
        return len([change async for change in changes])

    tasks = [
        asyncio.create_task(follow(changes)) for changes in (await chat.changes(), await client.changes(look_s=0.05))
    ]
    await asyncio.sleep(0)
    client.close()
    assert await asyncio.wait_for(asyncio.gather(*tasks), 30) == [0, 0]
    with pytest.raises(Closed):
        await chat.append("user", "x")
    with pytest.raises(Closed):
        await chat.changes()


async def test_changes_that_nobody_has_any_more_end(served: ForkedHome) -> None:
    """Left by `break`, their connection is closed without a word, and so is that of a client that nobody has."""
    said: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: said.append(what))
    async with await aconnect(home=str(served.path), start=False) as sessiond:
        chat = await sessiond.new(messages=[NewMessage(role="user", content="x")])
        before = (await sessiond.status()).connections
        for _ in range(3):
            async for change in await chat.changes(since=0):
                assert isinstance(change, Appended)
                break
            await (await aconnect(home=str(served.path), start=False)).status()
        async with asyncio.timeout(10):
            while (await sessiond.status()).connections > before:
                await asyncio.sleep(0.01)
    gc.collect()
    assert said == []


async def test_changes_of_all_sessions(sessiond: AsyncSessiond) -> None:
    """Of those that were there and of new ones, each once."""
    old = await sessiond.new(id="old", name="old")
    async with await sessiond.changes(look_s=0.05) as changes:
        await old.append("user", "one")
        await (await sessiond.new(id="new", name="new")).append("user", "two")
        told: list[tuple[str, str]] = []
        while len(told) < 2:
            change = await changes.wait(30)
            assert change is not None
            if isinstance(change, Appended):
                told += [(change.session_id, one.text) for one in change.messages]
    assert sorted(told) == [("new", "two"), ("old", "one")]


async def test_a_consumer_that_does_not_take_changes_costs_no_memory(
    sessiond: AsyncSessiond, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a bound changes are dropped, and read since the last one that was taken once there is room: none is missed."""
    monkeypatch.setattr(feed_module, "READY_CHANGES", 5)
    chat = await sessiond.new(name="x")
    async with await chat.changes() as changes:
        for number in range(50):
            await chat.append("user", str(number))
        seqs = [(await changes.__anext__()).seq for _ in range(50)]
    assert seqs == list(range(1, 51))


async def test_changes_of_all_sessions_go_on(sessiond: AsyncSessiond, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a session was closed because nothing happened in it: nothing is missed, nothing comes twice."""
    monkeypatch.setattr(lookout_module, "QUIET_S", 0.0)
    async with await sessiond.changes(look_s=0.05) as changes:
        chat = await sessiond.new(id="x", name="x")
        seqs = []
        for number in range(4):
            await chat.append("user", str(number))
            change = await changes.wait(30)
            assert isinstance(change, Appended)
            seqs.append(change.seq)
            while await changes.wait(0.1) or (await chat.info()).attached > 1:
                pass
    assert seqs == [1, 2, 3, 4]
