"""Nothing waits longer than it was told, whatever the daemon does. What hangs fails by the time limit of the tests."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sessiond.client import Appended, DaemonUnreachable, NoAnswer, Sessiond, aconnect, connect
from sessiond.client import feed as feed_module
from tests.zygote import ForkedHome

SOON_S = 0.3


def client(home: ForkedHome, timeout_s: float = SOON_S) -> Sessiond:
    return connect(home=str(home.path), start=False, timeout_s=timeout_s)


@contextmanager
def stopped(home: ForkedHome) -> Iterator[None]:
    """SIGSTOP meanwhile: it holds its connections, and lets new ones in, and says nothing."""
    assert home.process is not None
    os.kill(home.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(home.process.pid, signal.SIGCONT)


def test_a_stopped_daemon_does_not_hold_a_call(forked: ForkedHome) -> None:
    """NoAnswer, again and again; what was sent is there once when the daemon continues and the caller repeats it by its id."""
    with client(forked) as sessiond:
        chat = sessiond.new(name="x")
        with stopped(forked):
            for _ in range(2):
                with pytest.raises(NoAnswer):
                    chat.append("user", "once", id="m1")
            with pytest.raises(DaemonUnreachable):
                connect(home=str(forked.path), start=False, timeout_s=SOON_S)
        assert chat.append("user", "once", id="m1", timeout_s=30).seq == 1
        assert [one.text for one in chat.messages(timeout_s=30)] == ["once"]


def test_a_stopped_daemon_does_not_hold_a_block(forked: ForkedHome) -> None:
    """A reply that is left normally raises NoAnswer; one that is cut off raises what cut it off; the client closes."""
    with client(forked) as sessiond:
        chat = sessiond.new(name="x")
        left, cut = chat.stream("assistant"), chat.stream("assistant")
        changes = chat.changes()

        def leave() -> None:
            with left:
                left.write("x")

        def cut_off() -> None:
            with cut:
                raise KeyError("mine")

        def close() -> None:
            with changes, client(forked):
                pass

        with stopped(forked):
            with pytest.raises(NoAnswer):
                leave()
            with pytest.raises(KeyError):
                cut_off()
            with pytest.raises(DaemonUnreachable):
                close()
            sessiond.close()


def test_a_silent_daemon_is_noticed_by_who_follows(forked: ForkedHome, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a silence it is asked; NoAnswer, and the next try continues where it was."""
    monkeypatch.setattr(feed_module, "SILENCE_S", SOON_S)
    with client(forked) as sessiond, client(forked, 30) as other:
        chat = sessiond.new(name="x")
        changes = chat.changes()
        assert changes.wait(2 * SOON_S) is None
        with stopped(forked), pytest.raises(NoAnswer):
            next(changes)
        other.session(chat.id).append("user", "later")
        change = changes.wait(30)
        while change is None:
            change = changes.wait(30)
        assert isinstance(change, Appended) and change.messages[0].text == "later"


def test_a_killed_daemon_does_not_hold_a_call(forked: ForkedHome) -> None:
    """Where none may be started: DaemonUnreachable at once or at the deadline, from calls, replies and changes."""
    with client(forked) as sessiond:
        chat = sessiond.new(name="x")
        changes, reply = chat.changes(), chat.stream("assistant")
        assert isinstance(next(changes), Appended)
        forked.kill()
        for call in (lambda: chat.append("user", "x"), lambda: next(changes), chat.changes, reply.finish):
            with pytest.raises(DaemonUnreachable):
                call()


def test_a_call_of_another_thread_is_not_waited_for_too_long(forked: ForkedHome) -> None:
    """One thread waits for a stopped daemon; the other gives up by its own deadline."""
    with client(forked, 30) as sessiond:
        chat = sessiond.new(name="x")
        with stopped(forked):
            patient = threading.Thread(target=lambda: chat.append("user", "x"))
            patient.start()
            with pytest.raises(NoAnswer):
                chat.append("user", "y", timeout_s=SOON_S)
        patient.join(60)
        assert not patient.is_alive()
        assert "x" in [one.text for one in chat.messages()]


async def test_asyncio_has_deadlines_too(forked: ForkedHome) -> None:
    """Calls, replies, changes and leaving the blocks, with a stopped daemon and with a killed one."""
    async with await aconnect(home=str(forked.path), start=False, timeout_s=SOON_S) as sessiond:
        chat = await sessiond.new(name="x")
        changes = await chat.changes()
        reply = await chat.stream("assistant")
        with stopped(forked):
            with pytest.raises(NoAnswer):
                await chat.append("user", "once", id="m1")
            with pytest.raises(NoAnswer):
                await reply.finish()
            with pytest.raises(DaemonUnreachable):
                await aconnect(home=str(forked.path), start=False, timeout_s=SOON_S)
            with pytest.raises(NoAnswer):
                await chat.changes()
        assert (await chat.append("user", "once", id="m1", timeout_s=30)).id == "m1"
        forked.kill()
        with pytest.raises(DaemonUnreachable):
            await chat.append("user", "x")
        with pytest.raises(DaemonUnreachable):
            [change async for change in changes]
