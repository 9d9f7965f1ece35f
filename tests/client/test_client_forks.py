"""A program that forks: parent and child never share a connection, and the child ends nothing that the parent began."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from sessiond.client import Closed, Sessiond, aconnect, connect
from sessiond.client import forks as forks_module
from tests import inside
from tests.zygote import ForkedHome

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # that is what these tests are about
WITHIN_S = 30


@pytest.fixture
def sessiond(forked: ForkedHome) -> Iterator[Sessiond]:
    with connect(home=str(forked.path), start=False, name="test", timeout_s=WITHIN_S) as client:
        yield client


class Child:
    """A forked child that does `work` and ends. `said`: what that returned, or the name of what it raised."""

    def __init__(self, work: Callable[[], str]) -> None:
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            signal.alarm(WITHIN_S)  # a child that hangs must not outlive the test
            try:
                said = work()
            except BaseException as error:
                said = type(error).__name__
            os.write(writing, said.encode())
            os._exit(0)
        os.close(writing)

    @property
    def said(self) -> str:
        with open(self._reading, "rb") as file:
            said = file.read().decode()
        os.waitpid(self.pid, 0)
        return said


def test_each_side_gets_its_own_answers(sessiond: Sessiond) -> None:
    """Parent and child ask over and over at the same time, and each is told of the session that it asked for."""
    mine, theirs = sessiond.new(name="mine"), sessiond.new(name="theirs")

    def ask() -> str:
        return ",".join({theirs.info().name or "" for _ in range(100)})

    child = Child(ask)
    told = {mine.info().name for _ in range(100)}
    assert (told, child.said) == ({"mine"}, "theirs")


def test_a_child_that_leaves_does_not_end_a_running_reply(sessiond: Sessiond) -> None:
    """Neither the client's block, nor the reply's, normally or by an exception, nor the reply itself."""
    chat = sessiond.new(name="x")

    def leave() -> str:
        with sessiond:
            with reply:
                pass
            with reply:
                raise SystemExit
        return "left"

    connection = inside.connection(sessiond)
    with chat.stream("assistant", "The ") as reply:
        assert Child(leave).said == "SystemExit"
        for use in (lambda: reply.write("no"), reply.flush, reply.finish):
            assert Child(lambda use=use: repr(use())).said == Closed.__name__  # type: ignore[misc]
        assert [one.status for one in chat.messages()] == ["streaming"]
        reply.write("lock")
    assert [(one.text, one.status) for one in chat.messages()] == [("The lock", "done")]
    assert inside.connection(sessiond) is connection


def test_a_child_closes_its_copy_of_the_connection_at_once(sessiond: Sessiond) -> None:
    """Or the daemon would not notice that the parent died. The child need not use the client for that."""
    connection = inside.connection(sessiond)
    assert connection is not None
    descriptor = connection.fileno()
    inode = os.fstat(descriptor).st_ino

    def still_there() -> str:
        try:
            return str(os.fstat(descriptor).st_ino == inode)
        except OSError:
            return "closed"

    assert Child(still_there).said == "closed"
    assert os.fstat(descriptor).st_ino == inode


def test_a_fork_while_another_thread_uses_the_client(sessiond: Sessiond) -> None:
    """The child does not wait for a lock that a thread of the parent holds."""
    chat = sessiond.new(name="x")
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            chat.info()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        with inside.turn(sessiond, WITHIN_S):
            assert Child(lambda: chat.info(timeout_s=5).name or "").said == "x"
        assert {Child(lambda: chat.info(timeout_s=5).name or "").said for _ in range(10)} == {"x"}
    finally:
        over.set()
        thread.join()


def test_both_sides_of_a_fork_go_on_with_the_changes(sessiond: Sessiond) -> None:
    """Each gets every change, and the child's close leaves the parent's iteration as it is."""
    chat = sessiond.new(name="x")
    changes = chat.changes()
    connection = changes._connection

    def follow() -> str:
        with changes:
            first = changes.wait(WITHIN_S)
        return str(first and first.seq)

    child = Child(follow)
    seq = chat.append("user", "one").seq
    assert child.said == str(seq)
    change = changes.wait(WITHIN_S)
    assert change is not None
    assert change.seq == seq
    assert changes._connection is connection
    changes.close()


def test_a_child_that_forks_is_two_processes_away(sessiond: Sessiond) -> None:
    """A child's connection is not its children's either."""
    chat = sessiond.new(name="x")

    def fork_again() -> str:
        mine = chat.info().name
        inner = Child(lambda: chat.info().name or "")
        return f"{mine} {chat.info().name} {inner.said}"

    assert Child(fork_again).said == "x x x"


def test_a_fork_that_python_does_not_hear_of(sessiond: Sessiond, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server written in C may fork without Python's own hooks: the pid gives it away at the first use."""
    chat = sessiond.new(name="x")
    connection = inside.connection(sessiond)
    assert connection is not None
    monkeypatch.setattr(forks_module._here.process, "pid", os.getpid() - 1)
    assert chat.info().name == "x"
    assert inside.connection(sessiond) is not connection
    assert connection.fileno() == -1


def test_a_fork_of_a_program_with_asyncio(forked: ForkedHome) -> None:
    """In the child a new loop uses the client as it is, and the parent's loop notices nothing of that."""

    async def both() -> tuple[str, str | None, list[str]]:
        async with await aconnect(home=str(forked.path), start=False, timeout_s=WITHIN_S) as client:
            chat = await client.new(name="x")
            connection = inside.connection(client)
            async with await chat.stream("assistant", "The ") as reply:

                async def in_child() -> str:
                    async with client, reply:
                        told = (await chat.info()).name
                    try:
                        await reply.write("no")
                    except Closed:
                        return f"{told} Closed"
                    return "written"

                child = Child(lambda: asyncio.run(in_child()))
                mine = (await chat.info()).name
                said = child.said
                await reply.write("lock")
            assert inside.connection(client) is connection
            return said, mine, [f"{one.text} {one.status}" for one in await chat.messages()]

    assert asyncio.run(both()) == ("x Closed", "x", ["The lock done"])


def test_changes_of_a_program_with_asyncio(forked: ForkedHome) -> None:
    """As those of the blocking client."""

    async def both() -> tuple[str, int | None]:
        async with await aconnect(home=str(forked.path), start=False, timeout_s=WITHIN_S) as client:
            chat = await client.new(name="x")
            changes = await chat.changes()

            async def follow() -> str:
                async with changes:
                    first = await changes.wait(WITHIN_S)
                return str(first and first.seq)

            child = Child(lambda: asyncio.run(follow()))
            await chat.append("user", "one")
            said = child.said
            change = await changes.wait(WITHIN_S)
            return said, change and change.seq

    assert asyncio.run(both()) == ("1", 1)
