"""What programs use that run for long, or that pass on what the daemon sends: progress, backups, plain results, attempts."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from sessiond.client import (
    AnswerLost,
    DaemonUnreachable,
    InvalidParams,
    NoAnswer,
    Progress,
    Sessiond,
    SessiondError,
    TooLarge,
    aconnect,
    connect,
    requests,
)
from sessiond.client.aio import link as link_module
from tests.client.scripted import Raw, Scripted
from tests.shell import wait_until
from tests.zygote import ForkedHome

INFO = {"sessionId": "s", "seq": 2, "mood": {"is": "blue"}}
COPIED = {"files": 2, "bytes": 5, "lsn": 1}


def told(params: dict[str, Any], token: object = None, **value: Any) -> str:
    """The line of a `$/progress` about a request."""
    params = {"token": token or params["workDoneToken"], "value": value}
    return Raw(json.dumps({"jsonrpc": "2.0", "method": "$/progress", "params": params}))


def test_an_answer_has_what_the_daemon_sent() -> None:
    """Typed, and plain with members that this client does not know; an error is raised as by any call."""
    gone = Exception({"code": -32000, "message": "gone", "data": {"kind": "conflict"}})
    daemon = Scripted(session__fork={"session": INFO, "more": 1}, session__clear=gone)
    with daemon, connect(daemon.address, token="t") as sessiond:
        answer = sessiond.answer(requests.fork("s", None, None))
        assert (answer.value.session.seq, answer.plain) == (2, {"session": INFO, "more": 1})
        with pytest.raises(SessiondError, match="gone"):
            sessiond.answer(requests.clear("s"))


async def test_an_answer_for_asyncio() -> None:
    """The same, awaited."""
    daemon = Scripted(session__fork={"session": INFO, "more": 1})
    with daemon:
        async with await aconnect(daemon.address, token="t") as sessiond:
            answer = await sessiond.answer(requests.fork("s", None, None))
    assert (answer.value.session.seq, answer.plain) == (2, {"session": INFO, "more": 1})


def early_refusal(error: type[Exception] | None) -> AbstractContextManager[None]:
    """The refusal of a piece may be there before its write returns. It is passed over where another error is to come."""
    return suppress(TooLarge) if error is KeyError else nullcontext()


def refusing() -> tuple[Scripted, Callable[[], list[tuple[str, Any]]]]:
    """A daemon that takes the first piece of a reply and refuses those after it, and what was asked of it about the reply."""
    large = Exception({"code": -32000, "message": "large", "data": {"kind": "tooLarge"}})
    daemon = Scripted(
        session__append={"seq": 1, "messages": [{"id": "m", "seq": 1}]},
        session__extend=lambda params: large if params["offset"] else {"seq": 2},
        session__finish={"seq": 3},
    )

    def asked() -> list[tuple[str, Any]]:
        fields = {"session/extend": "text", "session/finish": "status"}
        return [
            (one["method"], one["params"][fields[one["method"]]]) for one in daemon.asked if one["method"] in fields
        ]

    return daemon, asked


REFUSED = [("session/extend", "one"), ("session/extend", "two"), ("session/finish", "interrupted")]


@pytest.mark.parametrize("waited_for", [True, False])
def test_a_piece_that_is_refused_interrupts_the_reply(waited_for: bool) -> None:
    """At once, and with what came before it: whether the block hears of it or its end does, and whether it is raised on or not."""
    daemon, asked = refusing()
    with daemon, connect(daemon.address, token="t", timeout_s=math.inf) as sessiond:
        with pytest.raises(TooLarge, match="large"), sessiond.session("s").stream("assistant") as reply:  # noqa: PT012
            reply.write("one")
            reply.flush()
            reply.write("two")
            for again in (reply.flush, lambda: reply.write("three"), reply.finish) if waited_for else ():
                with pytest.raises(TooLarge, match="large"):
                    again()
        assert reply.status == "interrupted"
    assert asked() == REFUSED


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_not_sent(number: float) -> None:
    """As null, which is what JSON has for it at best, it would delete state. A null that is meant goes."""
    with Scripted(state__set={"seq": 2}) as daemon, connect(daemon.address, token="t") as sessiond:
        session = sessiond.session("s")
        for value in (number, [{"deep": (number,)}]):
            with pytest.raises(InvalidParams, match="cannot be sent as JSON"):
                session.set_state({"w": value})
            with pytest.raises(InvalidParams, match="cannot be sent as JSON"):
                session.append("user", "x", metadata={"w": value})
        session.set_state({"w": None, "v": 1.5})
        assert [one["params"]["values"] for one in daemon.asked[1:]] == [{"w": None, "v": 1.5}]


SMALL = {"capabilities": {"experimental": {"sessiond": {"protocolVersion": 1, "limits": {"messageBytes": 1000}}}}}


def test_a_request_that_is_too_large_is_not_sent() -> None:
    """The daemon would end the connection for it, and it would go over the next one, until the deadline."""
    daemon, asked = refusing()
    daemon.answers["initialize"] = SMALL
    with daemon, connect(daemon.address, token="t", timeout_s=math.inf) as sessiond:
        session = sessiond.session("s")
        with pytest.raises(TooLarge, match="longer than the 1000 bytes") as raised:
            session.append("user", "é" * 500)
        assert raised.value.data["limit"] == 1000
        with pytest.raises(TooLarge), session.stream("assistant") as reply:  # noqa: PT012
            reply.write("one")
            reply.flush()
            reply.write("é" * 500)
        assert reply.status == "interrupted"
    assert asked() == [("session/extend", "one"), ("session/finish", "interrupted")]


async def test_a_request_that_is_too_large_is_not_sent_for_asyncio() -> None:
    """The same, awaited."""
    daemon, asked = refusing()
    daemon.answers["initialize"] = SMALL
    with daemon:
        async with await aconnect(daemon.address, token="t", timeout_s=math.inf) as sessiond:
            session = sessiond.session("s")
            with pytest.raises(TooLarge, match="longer than the 1000 bytes"):
                await session.append("user", "é" * 500)
            with pytest.raises(TooLarge):  # noqa: PT012
                async with await session.stream("assistant") as reply:
                    await reply.write("one")
                    await reply.flush()
                    await reply.write("é" * 500)
            assert reply.status == "interrupted"
    assert asked() == [("session/extend", "one"), ("session/finish", "interrupted")]


@pytest.mark.parametrize("error", [KeyError, TooLarge])
def test_a_block_that_is_left_by_a_piece_that_is_refused(error: type[Exception]) -> None:
    """The caller gets its own exception, or that of the piece."""
    daemon, asked = refusing()

    def talk(sessiond: Sessiond) -> None:
        with sessiond.session("s").stream("assistant") as reply:
            reply.write("one")
            reply.flush()
            with early_refusal(error):
                reply.write("two")
            if error is KeyError:
                raise KeyError
            reply.flush()

    with daemon, connect(daemon.address, token="t", timeout_s=math.inf) as sessiond, pytest.raises(error):
        talk(sessiond)
    assert asked() == REFUSED


@pytest.mark.parametrize("error", [KeyError, TooLarge, None])
async def test_a_piece_that_is_refused_interrupts_the_reply_for_asyncio(error: type[Exception] | None) -> None:
    """The same: left by the caller's exception, by that of the piece, or normally."""
    daemon, asked = refusing()
    with daemon:
        async with await aconnect(daemon.address, token="t", timeout_s=math.inf) as sessiond:

            async def talk() -> None:
                async with await sessiond.session("s").stream("assistant") as reply:
                    await reply.write("one")
                    await reply.flush()
                    with early_refusal(error):
                        await reply.write("two")
                    if error is KeyError:
                        raise KeyError
                    if error is TooLarge:
                        await reply.flush()

            async with asyncio.timeout(30):
                with pytest.raises(error or TooLarge):
                    await talk()
    assert asked() == REFUSED


def reports(params: dict[str, Any]) -> list[Any]:
    first = [
        told(params, kind="begin"),
        told(params, "another's", message="no"),
        told(params, percentage=50, sung="la"),
    ]
    return [COPIED, *first]


class Early(Scripted):
    """Sends what follows a response before it."""

    def _response(self, message: dict[str, Any]) -> str:
        first, *after = super()._response(message).splitlines(keepends=True)
        return "".join([*after, first])


def test_progress_is_told_while_it_lasts() -> None:
    """In order, only of the request itself, and with what this client does not know left out."""
    heard: list[Progress] = []
    daemon = Early(daemon__backup=reports)
    with daemon, connect(daemon.address, token="t") as sessiond:
        assert sessiond.backup("/copy", on_progress=heard.append).files == 2
        assert sessiond.call("daemon/backup", {"path": "/x"}, on_progress=heard.append) == COPIED
    assert heard == [Progress(), Progress(percentage=50)] * 2


def test_a_callback_that_calls_its_own_client_is_told_at_once() -> None:
    """It would wait for itself. One with a client of its own may ask what it likes."""
    daemon = Early(daemon__backup=reports, session__list={"sessions": []})
    with daemon, connect(daemon.address, token="t") as sessiond, connect(daemon.address, token="t") as other:
        with pytest.raises(InvalidParams, match=r"session/list .* in the midst of another"):
            sessiond.backup("/copy", on_progress=lambda _: list(sessiond.sessions()), timeout_s=math.inf)
        assert list(sessiond.sessions()) == []
        assert sessiond.backup("/copy", on_progress=lambda _: list(other.sessions())).files == 2


async def test_progress_for_asyncio() -> None:
    """The same, awaited."""
    heard: list[Progress] = []
    daemon = Early(daemon__backup=reports)
    with daemon:
        async with await aconnect(daemon.address, token="t") as sessiond:
            assert (await sessiond.backup("/copy", on_progress=heard.append)).files == 2
    assert heard == [Progress(), Progress(percentage=50)]


def test_progress_of_another_shape_is_an_error_of_ours() -> None:
    """As for results."""
    daemon = Early(daemon__backup=lambda params: [COPIED, told(params, percentage="half")])
    with daemon, connect(daemon.address, token="t") as sessiond, pytest.raises(DaemonUnreachable, match="shape"):
        sessiond.backup("/copy", on_progress=print)


def test_nothing_asks_for_progress_that_nobody_hears() -> None:
    """Without `on_progress` there is no token."""
    daemon = Scripted(session__import={"sessions": [], "skipped": 0, "warnings": []})
    with daemon, connect(daemon.address, token="t") as sessiond:
        sessiond.import_("/x")
    assert daemon.asked[1]["params"] == {"path": "/x"}


def test_backup_and_adopt(forked: ForkedHome, tmp_path: Path) -> None:
    """A copy with what there is, and a folder that becomes a store."""
    folder = tmp_path / "chats"
    folder.mkdir()
    with connect(home=str(forked.path), start=False) as sessiond:
        sessiond.new(name="x").append("user", "kept")
        copied = sessiond.backup(str(tmp_path / "copy"))
        assert copied.files > 0 and (tmp_path / "copy").is_dir() and not copied.warnings
        adopted = sessiond.adopt(str(folder), name="chats", format="jsonl")
        assert (adopted.store.name, adopted.store.format, adopted.sessions) == ("chats", "jsonl", 0)
        assert [store.name for store in sessiond.status().stores] == ["default", "chats"]


INTERRUPTED = """
import sys
from sessiond.client import connect
with connect({home!r}, token="t") as sessiond:
    try:
        sessiond.backup("/copy", on_progress=lambda told: print(told.message, flush=True))
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


def test_ctrl_c_waits_until_the_daemon_has_stopped() -> None:
    """The daemon is asked to stop, and KeyboardInterrupt comes with its response, not before."""
    asked = []

    class Slow(Scripted):
        def _response(self, message: dict[str, Any]) -> str:
            asked.append(message)
            if message["method"] == "daemon/backup":
                self.number, self.params = message["id"], message["params"]
                return told(message["params"], message="copying") + "\n"
            if message["method"] == "$/cancelRequest":
                assert message["params"] == {"id": self.number}
                error = {"code": -32800, "message": "stopped", "data": {"kind": "cancelled"}}
                response = {"jsonrpc": "2.0", "id": self.number, "error": error}
                return f"{told(self.params, message='stopping')}\n{json.dumps(response)}\n"
            return super()._response(message)

    with Slow() as daemon:
        program = INTERRUPTED.format(home=daemon.address)
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"copying\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (out, err, process.returncode) == (b"stopping\nstopped\n", b"", 0)
    assert [one["method"] for one in asked] == ["initialize", "daemon/backup", "$/cancelRequest"]


async def test_a_cancelled_task_stops_what_it_waits_for() -> None:
    """The daemon is told; a request without progress is left alone."""
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Slow(Scripted):
        def _response(self, message: dict[str, Any]) -> str:
            if message["method"] in ("daemon/backup", "session/clear"):
                loop.call_soon_threadsafe(begun.set)
                return ""
            return "" if "id" not in message else super()._response(message)

    with Slow() as daemon:
        async with await aconnect(daemon.address, token="t") as sessiond:
            for work in (sessiond.backup("/copy", on_progress=print), sessiond.session("s").clear()):
                begun.clear()
                task = asyncio.create_task(work)  # type: ignore[arg-type]
                await begun.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        await asyncio.to_thread(wait_until, lambda: len(daemon.asked) == 4)
    cancelled = [one["params"] for one in daemon.asked if one["method"] == "$/cancelRequest"]
    assert cancelled == [{"id": daemon.asked[1]["id"]}]


class Dying(Scripted):
    """Ends each connection at the first request that is not `initialize`; with `at_once`, even at that."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once
        super().__init__()

    def _response(self, message: dict[str, Any]) -> str:
        if self.at_once or message["method"] != "initialize":
            raise ConnectionResetError
        return super()._response(message)

    def _serve(self, connection: Any) -> None:
        with connection:
            super()._serve(connection)


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_request_that_kills_the_daemon_is_given_up(attempts: int) -> None:
    """After as many connections as the caller allows, also where it could be repeated for ever."""
    with (
        Dying(at_once=False) as daemon,
        connect(daemon.address, token="t", attempts=attempts, timeout_s=math.inf) as it,
    ):
        with pytest.raises(AnswerLost):
            list(it.sessions())
        assert [one["method"] for one in daemon.asked] == ["initialize", "session/list"] * attempts


async def test_attempts_for_asyncio() -> None:
    """The same, awaited."""
    with Dying(at_once=False) as daemon:
        async with await aconnect(daemon.address, token="t", attempts=2, timeout_s=math.inf) as sessiond:
            with pytest.raises(AnswerLost):
                await sessiond.status()
    assert [one["method"] for one in daemon.asked] == ["initialize", "daemon/status"] * 2


def test_a_connection_that_never_gets_anywhere_is_given_up() -> None:
    """The attempts count from the first word on."""
    with Dying(at_once=True) as daemon:
        with pytest.raises(AnswerLost):
            connect(daemon.address, token="t", attempts=2, timeout_s=math.inf)
        assert [one["method"] for one in daemon.asked] == ["initialize"] * 2


@contextmanager
def slow(times: float) -> Iterator[tuple[Scripted, threading.Event]]:
    """A daemon that responds to `session/fork` when the event is set, the first times that it is asked."""
    release, asked = threading.Event(), 0

    def fork(params: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        assert asked > times or release.wait(30)
        return {"session": {**INFO, "sessionId": params["sessionId"]}}

    try:
        with Scripted(session__fork=fork) as daemon:
            yield daemon, release
    finally:
        release.set()


async def test_a_deadline_ends_only_its_own_request() -> None:
    """The other task gets its response over the same connection, and the one that came too late goes to nobody."""
    with slow(math.inf) as (daemon, release):
        async with await aconnect(daemon.address, token="t") as sessiond:
            other = asyncio.create_task(sessiond.session("a").fork())
            await asyncio.to_thread(wait_until, lambda: len(daemon.asked) == 2)
            with pytest.raises(NoAnswer):
                await sessiond.session("b").fork(timeout_s=0.0)
            release.set()
            assert ((await other).id, (await sessiond.session("c").fork()).id) == ("a", "c")
    assert [one["method"] for one in daemon.asked].count("initialize") == 1


async def test_a_connection_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing at all is heard over it: the next call makes another one."""
    monkeypatch.setattr(link_module, "_HANGS_S", 0.05)
    with slow(1) as (daemon, _):
        async with await aconnect(daemon.address, token="t") as sessiond:
            for _ in range(2):  # a part of the first one's time may have passed before the last word was heard
                with suppress(NoAnswer):
                    await sessiond.session("a").fork(timeout_s=0.1)
            assert (await sessiond.session("b").fork()).id == "b"
    assert [one["method"] for one in daemon.asked].count("initialize") == 2


def test_without_a_limit_a_call_waits(forked: ForkedHome) -> None:
    """For a daemon that is stopped for a while, where any number would have been too small or too large."""
    assert forked.process is not None
    with connect(home=str(forked.path), start=False, timeout_s=math.inf) as sessiond:
        os.kill(forked.process.pid, signal.SIGSTOP)
        waking = threading.Timer(0.3, os.kill, (forked.process.pid, signal.SIGCONT))
        waking.start()
        assert sessiond.status().pid == forked.process.pid
        waking.join()


def test_without_a_limit_a_daemon_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the time that a daemon may take to start."""
    monkeypatch.setattr("sessiond.client.dialing.PATIENCE_S", 0.1)
    with pytest.raises(DaemonUnreachable):
        connect("127.0.0.1:1", token="t", timeout_s=math.inf)
    with pytest.raises(DaemonUnreachable):
        connect(home=str(tmp_path), start=False, timeout_s=math.inf)


def test_an_error_without_an_id_is_the_answer() -> None:
    """So says JSON-RPC of a request that could not be read."""

    class Deaf(Scripted):
        def _response(self, message: dict[str, Any]) -> str:
            if message["method"] == "session/list":
                return '{"id": null, "error": {"code": -32700, "message": "not JSON"}}\n'
            return super()._response(message)

    with (
        Deaf() as daemon,
        connect(daemon.address, token="t") as sessiond,
        pytest.raises(SessiondError, match="not JSON"),
    ):
        list(sessiond.sessions())


def _stale(params: dict[str, Any]) -> Any:
    """Two pages of two hits. The second one is refused once: the daemon was started again."""
    return Exception(
        {
            "code": -32602,
            "message": "cursor: it has expired",
            "data": {"kind": "invalidParams", "field": "cursor"},
        }
    )


def _searched() -> Callable[[dict[str, Any]], Any]:
    hits = [{"sessionId": "s", "messageId": f"m{number}", "snippet": "word"} for number in range(4)]
    pages = [(hits[:2], "1"), _stale({}), ([hits[1], hits[0]], "2"), (hits[2:], None)]
    asked: list[str | None] = []

    def search(params: dict[str, Any]) -> Any:
        asked.append(params.get("cursor"))
        assert asked == [None, "1", None, "2"][: len(asked)]
        page = pages[len(asked) - 1]
        return page if isinstance(page, Exception) else {"hits": page[0], "nextCursor": page[1], "total": 4}

    return search


def test_a_search_goes_on_with_another_daemon() -> None:
    """The first page is asked for again, and nothing is given twice."""
    with Scripted(session__search=_searched()) as daemon, connect(daemon.address, token="t") as sessiond:
        assert [hit.message_id for hit in sessiond.search("word")] == ["m0", "m1", "m2", "m3"]


async def test_a_search_goes_on_with_another_daemon_for_asyncio() -> None:
    with Scripted(session__search=_searched()) as daemon:
        async with await aconnect(daemon.address, token="t") as sessiond:
            assert [hit.message_id async for hit in sessiond.search("word")] == ["m0", "m1", "m2", "m3"]


def test_a_search_that_is_refused_is_not_asked_again() -> None:
    with Scripted(session__search=_stale) as daemon, connect(daemon.address, token="t") as sessiond:
        with pytest.raises(InvalidParams):
            list(sessiond.search("word"))
        assert [one["method"] for one in daemon.asked].count("session/search") == 1
