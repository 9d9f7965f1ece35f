"""rpc/connection.py over a real Unix socket: order, cancelling, back-pressure, ends."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import weakref
from typing import Any

import pytest
from rpc_fakes import TOKEN, World, world

from sessiond.limits import Limits
from sessiond.rpc import jobs
from sessiond.store.port import HubStatus

ODD = {
    "class": 1,
    "_private": 2,
    "tool-name": 3,
    "type_name": "x",
    "": None,
    "nested": {"jsonrpc": "2.0", "id": 1, "method": "exit", "deep": [{"jsonrpc": 5}]},
    "null": None,
    "big": 2**63 - 1,
    "small": -(2**63),
    "unsigned": 2**64 - 1,
    "float": 0.1,
    "line separators": "a\u2028b\u2029c\x85d",
    "nul": "\x00",
    "emoji": "😀",
    "digits": "9" * 400,
    "text": "long " * 200_000,
}


@pytest.mark.parametrize("lines", [False, True])
async def test_odd_payloads(lines: bool) -> None:
    """Whatever JSON a client sends as content, metadata or state comes back the same."""
    async with world() as w:
        client = await w.client(lines=lines, limit=2**24)
        await client.call("session/new", {"sessionId": "s"})
        message = {"role": "user", "content": [ODD, "text"], "metadata": ODD, **ODD}
        await client.call("session/append", {"sessionId": "s", "messages": [message]})
        [kept] = (await client.call("session/read", {"sessionId": "s"}))["messages"]
        assert {key: kept[key] for key in message} == message
        await client.call("state/set", {"sessionId": "s", "values": ODD})
        assert (await client.call("state/get", {"sessionId": "s"}))["values"] == ODD


async def test_two_clients_at_once() -> None:
    """Each client gets its own answers, sees the other's changes, and outlives the other's exit."""
    async with world() as w:
        one, two = await w.client(), await w.client(lines=True)
        await one.call("session/new", {"sessionId": "s"})
        await two.call("session/open", {"sessionId": "s"})
        await one.call("session/append", {"sessionId": "s", "messages": [{"role": "user", "content": "hi"}]})
        assert (await two.notification("session/changed"))["seq"] == 1
        one.notify("exit")
        assert await one.at_end() == b""
        assert (await two.call("session/read", {"sessionId": "s"}))["seq"] == 1
        assert w.service.gone == [1]


async def test_pipelined_requests_keep_their_order() -> None:
    """Requests reach the service in the order in which they were sent, and each answer carries its own id."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        texts = [str(number) for number in range(500)]
        ids = [
            client.request("session/append", {"sessionId": "s", "messages": [{"role": "u", "content": text}]})
            for text in texts
        ]
        answers = [await client.receive() for _ in ids]
        assert [answer["id"] for answer in answers] == ids
        assert [answer["result"]["seq"] for answer in answers] == list(range(1, 501))
        assert [what for name, what in w.service.calls if name == "append"] == texts


async def test_ids_are_echoed() -> None:
    """An id may be an integer, a string or null, and comes back as it was."""
    async with world() as w:
        client = await w.client()
        for request_id in (0, -5, 2**63 - 1, "", 'a"b', "ü", None):
            client.send({"jsonrpc": "2.0", "id": request_id, "method": "daemon/hello"})
            answer = await client.receive()
            assert answer["id"] == request_id
            assert answer["result"]["protocolVersion"] == 1


@pytest.mark.parametrize("params", ["", ',"params":null', ',"params":{}'])
async def test_absent_params(params: str) -> None:
    """Absent params, null and an empty object are the same."""
    async with world() as w:
        client = await w.client()
        client.send(f'{{"jsonrpc":"2.0","id":1,"method":"session/list"{params}}}'.encode())
        assert (await client.receive())["result"] == {"sessions": [], "nextCursor": None}


async def test_absent_and_null_differ_in_update() -> None:
    """session/update passes on exactly the fields that were sent, a null among them."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        await client.call("session/update", {"sessionId": "s", "name": None, "tags": ["a"], "unknown": 1})
        assert w.service.calls[-1] == ("update", {"name": None, "tags": ["a"]})


async def test_cancel() -> None:
    """A cancelled request is answered `cancelled`, and its work stops."""
    async with world() as w:
        client = await w.client()
        request_id = client.request("session/search", {"query": "x"})
        await asyncio.wait_for(w.service.waiting.wait(), 5)
        client.notify("$/cancelRequest", {"id": request_id})
        answer = await client.receive()
        assert (answer["id"], answer["error"]["code"], answer["error"]["data"]["kind"]) == (
            request_id,
            -32800,
            "cancelled",
        )
        assert w.service.calls[-1] == ("search cancelled", None)
        client.notify("$/cancelRequest", {"id": 99})
        client.notify("$/cancelRequest", {"nonsense": 1})
        await client.call("daemon/hello")


async def test_cancel_before_it_began() -> None:
    """A request that is cancelled in the very bytes that bring it is answered too, and never begins."""
    async with world() as w:
        client = await w.client()
        client.raw(
            client.frame({"jsonrpc": "2.0", "id": "a", "method": "session/search", "params": {"query": "x"}})
            + client.frame({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "a"}})
        )
        assert (await client.receive())["error"]["data"]["kind"] == "cancelled"
        assert w.service.calls == []


# Order


def called(w: World) -> list[str]:
    return [name for name, _ in w.service.calls]


async def until(w: World, name: str) -> None:
    async with asyncio.timeout(10):
        while name not in called(w):
            await asyncio.sleep(0)


async def test_what_comes_behind_a_barrier_waits_in_its_order() -> None:
    """An import touches sessions that nobody can tell beforehand: later requests wait, except those that depend on nothing; another
    import among them is a barrier again.
    """
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        w.service.calls.clear()
        first = client.request("session/import", {"path": "/wait"})
        ids = [
            client.request("session/append", {"sessionId": "s", "messages": [{"role": "u", "content": "1"}]}),
            client.request("session/list"),
            client.request("session/import", {"path": "/other"}),
            client.request("session/append", {"sessionId": "s", "messages": [{"role": "u", "content": "2"}]}),
            client.request("session/read", {"sessionId": "s"}),
        ]
        await client.call("daemon/hello")
        assert called(w) == ["import"]
        w.service.gate.set()
        answers = {answer["id"]: answer for answer in [await client.receive() for _ in (first, *ids)]}
        assert answers[ids[-1]]["result"]["seq"] == 2
        assert sorted(answers) == [first, *ids]
        order = [what if name == "append" else name for name, what in w.service.calls]
        assert order[:2] == ["import", "1"]
        assert order.index("import", 1) < order.index("2") < order.index("read")


async def test_other_connections_do_not_wait_for_a_barrier() -> None:
    """The order is that of one connection."""
    async with world() as w:
        client, other = await w.client(), await w.client()
        client.request("session/import", {"path": "/wait"})
        await until(w, "import")
        await other.call("session/new", {"sessionId": "s"})
        assert called(w) == ["import", "new"]
        w.service.gate.set()


async def test_cancel_in_the_backlog() -> None:
    """A request that waits behind a barrier and is cancelled gets an error at once, and never begins; so is a second
    barrier, which then holds nobody up. Those around them are done.
    """
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        w.service.calls.clear()
        barrier = client.request("session/import", {"path": "/wait"})
        append = {"sessionId": "s", "messages": [{"role": "u", "content": "x"}]}
        one, two = client.request("session/append", append), client.request("session/import", {"path": "/never"})
        three, four = client.request("session/list"), client.request("session/append", append)
        for request_id in (one, two, three):
            client.notify("$/cancelRequest", {"id": request_id})
            answer = await client.receive()
            assert (answer["id"], answer["error"]["data"]["kind"]) == (request_id, "cancelled")
        assert called(w) == ["import"]
        w.service.gate.set()
        await client.answer(barrier)
        assert (await client.answer(four))["result"]["seq"] == 1
        assert w.service.calls[1:] == [("append", "x")]


async def test_a_barrier_that_is_cancelled_lets_the_others_go_on() -> None:
    """Whether it has begun or waits for what came before it."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        w.service.calls.clear()
        begun = client.request("session/import", {"path": "/wait"})
        await until(w, "import")
        listed = client.request("session/list")
        client.notify("$/cancelRequest", {"id": begun})
        assert (await client.answer(begun))["error"]["data"]["kind"] == "cancelled"
        await client.answer(listed)
        clear = client.request("session/clear", {"sessionId": "s"})
        waiting = client.request("session/import", {"path": "/never"})
        read = client.request("session/read", {"sessionId": "s"})
        await client.call("daemon/hello")
        client.notify("$/cancelRequest", {"id": waiting})
        assert (await client.answer(waiting))["error"]["data"]["kind"] == "cancelled"
        await client.answer(read)
        w.service.gate.set()
        await client.answer(clear)
        assert called(w) == ["import", "list", "read", "cleared"]


async def test_what_concerns_many_sessions_waits_for_what_was_asked_before() -> None:
    """A list comes after the changes that were sent before it, and holds nobody up: neither a later change, nor another list, waits for a
    search.
    """
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        w.service.calls.clear()
        clear, listed = client.request("session/clear", {"sessionId": "s"}), client.request("session/list")
        append = client.request("session/append", {"sessionId": "s", "messages": []})
        assert (await client.receive())["id"] == append
        assert called(w) == []
        w.service.gate.set()
        await client.answer(clear)
        await client.answer(listed)
        assert called(w) == ["cleared", "list"]
        w.service.gate.clear()
        search = client.request("session/search", {"query": "x"})
        await client.call("session/list")
        w.service.gate.set()
        await client.answer(search)


async def test_a_cancelled_wait_for_earlier_requests_cancels_none_of_them() -> None:
    """The list is given up; the change that it waited for is done."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        clear, listed = client.request("session/clear", {"sessionId": "s"}), client.request("session/list")
        await asyncio.wait_for(w.service.waiting.wait(), 5)
        client.notify("$/cancelRequest", {"id": listed})
        assert (await client.answer(listed))["error"]["data"]["kind"] == "cancelled"
        w.service.gate.set()
        assert "result" in await client.answer(clear)
        assert "list" not in called(w)


@pytest.mark.parametrize("as_command", [False, True])
async def test_a_restore_waits_for_what_puts_into_the_trash(as_command: bool) -> None:
    """Of the same connection, sent before it, however it was sent; for nothing else."""
    async with world() as w:
        client = await w.client()
        await client.initialize()
        await client.call("session/new", {"sessionId": "s"})
        if as_command:
            clear = client.request(
                "workspace/executeCommand", {"command": "sessiond.session.clear", "arguments": [{"sessionId": "s"}]}
            )
        else:
            clear = client.request("session/clear", {"sessionId": "s"})
        restore = client.request("session/restore", {"sessionId": "s"})
        await until(w, "restore")
        await client.call("session/read", {"sessionId": "s"})
        assert "restored" not in called(w)
        w.service.gate.set()
        await client.answer(clear)
        await client.answer(restore)
        assert called(w)[-2:] == ["cleared", "restored"]


async def test_a_save_of_everything_waits_for_what_was_asked_before() -> None:
    """A save of one session does not: its session keeps the order."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        w.service.calls.clear()
        clear, save = client.request("session/clear", {"sessionId": "s"}), client.request("session/save")
        await client.call("session/save", {"sessionId": "s"})
        assert w.service.calls == [("save", "s")]
        w.service.gate.set()
        await client.answer(clear)
        await client.answer(save)
        assert w.service.calls == [("save", "s"), ("cleared", "s"), ("save", None)]


async def test_a_batch_takes_its_place_behind_what_came_before() -> None:
    """It begins when the requests before it are done, a barrier and its backlog too."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        w.service.calls.clear()
        append = {"sessionId": "s", "messages": [{"role": "u", "content": "1"}]}
        barrier, one = client.request("session/import", {"path": "/wait"}), client.request("session/append", append)
        client.send([{"jsonrpc": "2.0", "id": "b", "method": "session/read", "params": {"sessionId": "s"}}])
        await until(w, "import")
        for _ in range(20):
            await asyncio.sleep(0)
        assert called(w) == ["import"]
        w.service.gate.set()
        answers = [await client.receive() for _ in range(3)]
        assert [answer["id"] for answer in answers if isinstance(answer, dict)] == [barrier, one]
        assert [answer[0]["result"]["seq"] for answer in answers if isinstance(answer, list)] == [1]


async def test_a_peer_that_goes_leaves_its_backlog_to_be_done() -> None:
    """Changes are still made, even those behind a barrier; reads are dropped. After that the service is told."""
    async with world() as w:
        client, other = await w.client(), await w.client()
        await client.call("session/new", {"sessionId": "s"})
        w.service.calls.clear()
        client.request("session/import", {"path": "/wait"})
        client.request("session/list")
        client.request("session/append", {"sessionId": "s", "messages": [{"role": "u", "content": "1"}]})
        await until(w, "import")
        await client.close()
        await asyncio.wait_for(w.service.left.wait(), 5)
        assert called(w) == ["import", "append"]
        await other.call("daemon/hello")


async def test_half_close() -> None:
    """A peer that closed its sending half gets its answers, then the connection ends."""
    async with world() as w:
        client = await w.client(lines=True)
        client.request("session/search", {"query": "x"})
        client.raw(b'{"jsonrpc":"2.0","id":2,"method":"daemon/hello"}')  # the last line, without its end
        client.writer.write_eof()
        assert (await client.receive())["id"] == 2
        w.service.gate.set()
        assert (await client.receive())["id"] == 1
        assert await client.at_end() == b""


async def test_gone_peer() -> None:
    """When a peer is gone its reads are dropped, its writes are done, and then the service hears of it."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        client.request("session/search", {"query": "x"})
        client.request("session/clear", {"sessionId": "s"})
        await asyncio.wait_for(w.service.waiting.wait(), 5)
        client.notify("exit")
        assert (await client.receive())["error"]["data"]["kind"] == "cancelled"
        assert w.service.gone == []
        w.service.gate.set()
        assert (await client.receive())["result"]["session"]["sessionId"] == "s"
        await asyncio.wait_for(w.service.left.wait(), 5)
        assert ("cleared", "s") in w.service.calls
        assert w.service.gone == [1]


async def test_slow_reader() -> None:
    """A peer that does not read loses notifications and no answers; once it has drained, the service is told, with all that is
    durable by then brought in; others never wait.
    """
    async with world(Limits(outgoing_bytes=64 * 1024)) as w:
        slow, other = await w.client(limit=2**26), await w.client()
        await slow.call("session/new", {"sessionId": "s"})
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        peer = w.service.attached["s"][0]
        text = "x" * 100_000
        sent = 0
        while peer.notify("session/changed", json.dumps({"text": text}).encode()):
            sent += 1
            await other.call("session/list")
            assert sent < 1000
        assert not peer.notify("session/changed", b"{}")
        last = slow.request("daemon/hello")
        await other.call("session/append", {"sessionId": "s", "messages": [{"role": "u", "content": "y"}]})
        assert w.service.drained_peers == []
        brought_in: list[list[int]] = []
        w.server.settle = lambda: brought_in.append(list(w.service.drained_peers))
        slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(sent):
            assert (await slow.receive())["params"]["text"] == text
        assert (await slow.notification("session/resync")) == {"sessionId": "s", "seq": 1}
        assert (await slow.answer(last))["result"]["protocolVersion"] == 1
        assert w.service.drained_peers == [peer.id]
        assert brought_in[0] == []


async def test_a_slow_reader_learns_of_a_hub_when_it_has_caught_up() -> None:
    """It loses what it is told meanwhile, and then gets the last word about each store, whether it lost that or not."""
    async with world(Limits(outgoing_bytes=64 * 1024)) as w:
        slow, plain = await w.client(limit=2**26), await w.client()
        await slow.initialize()
        await slow.call("session/new", {"sessionId": "s"})
        await plain.call("daemon/hello")
        slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
        peer = w.service.attached["s"][0]
        w.server.announce_hub("own", hub_of(7))
        sent = 0
        while peer.notify("session/changed", b'{"text":"%s"}' % (b"x" * 100_000)):
            sent += 1
            assert sent < 1000
        for pending in (1, 2, 3):
            w.server.announce_hub("team", hub_of(pending))
        slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
        told = [await slow.notification("store/hubChanged") for _ in range(3)]
        assert [(one["store"], one["hub"]["pending"]) for one in told] == [("own", 7), ("own", 7), ("team", 3)]
        await plain.call("daemon/hello")
        assert plain.notifications == []


def hub_of(pending: int) -> HubStatus:
    return HubStatus("offline", "2026-01-11T14:30:22.000Z", pending, 0, "no route to host")


async def test_requests_in_flight_are_bounded() -> None:
    """Beyond the limit nothing more is read until some are answered, and then all of it is done."""
    async with world(Limits(in_flight_requests=64)) as w:
        client = await w.client()
        for _ in range(10):
            client.request("session/search", {"query": "x"})
        await asyncio.wait_for(w.service.waiting.wait(), 5)
        other = await w.client()
        for _ in range(20):
            await other.call("daemon/hello")
        assert [name for name, _ in w.service.calls] == ["search"] * 2  # each weighs 32
        w.service.gate.set()
        assert [(await client.receive())["id"] for _ in range(10)] == list(range(1, 11))


async def test_batches() -> None:
    """A batch is done in its order and answered as one array; notifications and answers in it have no answer."""
    async with world() as w:
        client = await w.client()
        client.send(
            [
                {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"sessionId": "s"}},
                {
                    "jsonrpc": "2.0",
                    "method": "session/extend",
                    "params": {"sessionId": "s", "messageId": "m", "text": "t"},
                },
                {"jsonrpc": "2.0", "id": 2, "method": "session/append", "params": {"sessionId": "s", "messages": []}},
                {"jsonrpc": "2.0", "id": 9, "result": {}},
                {"jsonrpc": "2.0", "id": "x", "method": "no/such"},
                5,
            ]
        )
        after = client.request("daemon/hello")
        answers = await client.receive()
        assert [answer["id"] for answer in answers] == [1, 2, "x", None]
        assert [answer.get("error", {}).get("code") for answer in answers] == [None, None, -32601, -32600]
        assert (await client.receive())["id"] == after
        client.send([{"jsonrpc": "2.0", "method": "$/whatever"}])
        await client.call("daemon/hello")
        client.send([])
        assert (await client.receive())["error"]["code"] == -32600
        client.send([{"jsonrpc": "2.0", "id": 1, "method": "daemon/hello"}] * 1001)
        assert (await client.receive())["error"]["data"]["kind"] == "tooLarge"


async def test_answers_are_bounded() -> None:
    """An answer over the limit becomes an error; in a batch the requests that still fit are answered."""
    async with world(Limits(message_bytes=100_000)) as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        for _ in range(2):
            message = {"role": "u", "content": "x" * 30_000}
            await client.call("session/append", {"sessionId": "s", "messages": [message]})
        read = {"jsonrpc": "2.0", "id": 1, "method": "session/read", "params": {"sessionId": "s"}}
        client.send([read, read])
        first, second = await client.receive()
        assert first["result"]["seq"] == 2
        assert second["error"]["data"] == {"kind": "tooLarge", "limit": 100_000}
        for _ in range(2):
            await client.call("session/append", {"sessionId": "s", "messages": [message]})
        error = await client.fail("session/read", {"sessionId": "s"})
        assert (error["code"], error["data"]["limit"]) == (-31006, 100_000)


async def test_restored_follows_the_answer() -> None:
    """What the service sends after an open comes after its answer."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        request_id = client.request("session/open", {"sessionId": "s", "restore": True})
        assert (await client.receive())["id"] == request_id
        assert (await client.receive())["method"] == "session/restored"


async def test_progress() -> None:
    """An import with a token begins, reports and ends; cancelling its progress cancels it."""
    async with world() as w:
        client = await w.client()
        await client.call("session/import", {"path": "/x", "workDoneToken": "t"})
        kinds = [n["params"]["value"]["kind"] for n in client.notifications if n["params"]["token"] == "t"]
        assert kinds == ["begin", "report", "end"]
        client.notifications.clear()
        request_id = client.request("session/import", {"path": "/wait", "workDoneToken": 7})
        await client.notification("$/progress")
        client.notify("window/workDoneProgress/cancel", {"token": 7})
        assert (await client.answer(request_id))["error"]["data"]["kind"] == "cancelled"


async def test_extend_as_notification() -> None:
    """session/extend needs no answer; what goes wrong with it is logged to its client alone."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        client.notify("session/extend", {"sessionId": "s", "messageId": "m", "text": "a"})
        client.notify("session/extend", {"sessionId": "none", "messageId": "m", "text": "b"})
        told = await client.notification("window/logMessage")
        assert told["type"] == 1
        assert "sessionNotFound" in told["message"]
        assert [what for name, what in w.service.calls if name == "extend"] == ["a", "b"]


async def test_daemon_methods() -> None:
    """daemon/* reach the daemon, and what a connection listens on ends with it."""
    async with world() as w:
        client, other = await w.client(), await w.client()
        assert (await client.call("daemon/listen", {"kind": "tcp", "port": 5}))["port"] == 5
        assert w.daemon.listeners == ["tcp"]
        await client.close()
        while w.daemon.listeners:
            await other.call("daemon/hello")
        assert await other.call("daemon/stop") == {}
        assert w.daemon.stopped
        assert await other.call("daemon/status") == {"version": "0"}


async def test_stopping_server_answers_first() -> None:
    """When the daemon stops, what is in flight is answered before the connections are closed."""
    async with world() as w:
        client = await w.client()
        client.request("session/search", {"query": "x"})
        await asyncio.wait_for(w.service.waiting.wait(), 5)
        closing = asyncio.create_task(w.server.close(5))
        idle = await w.client()
        w.service.gate.set()
        assert (await client.receive())["result"]["total"] == 0
        assert await client.at_end() == b""
        await idle.close()
        await closing


async def test_stopping_server_does_not_wait_for_ever() -> None:
    """A request that does not end is cut off after the time given."""
    async with world() as w:
        client = await w.client()
        client.request("session/search", {"query": "x"})
        await asyncio.wait_for(w.service.waiting.wait(), 5)
        await w.server.close(0.01)
        assert w.server.connections == 0
        assert await client.at_end() == b""


async def test_stopping_server_does_not_wait_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is such a request answered: a client whose connection ends asks again."""
    monkeypatch.setattr(jobs, "OPEN_ENDED", {"session/search"})
    async with world() as w:
        client = await w.client()
        client.request("session/search", {"query": "x"})
        await asyncio.wait_for(w.service.waiting.wait(), 5)
        await asyncio.wait_for(w.server.close(60), 10)
        assert await client.at_end() == b""


async def test_nothing_keeps_a_connection_alive() -> None:
    """After its end a connection is freed, whatever it did."""
    seen: list[Any] = []
    async with world() as w:
        connect = w.server.connect

        def remember(channel: Any) -> Any:
            connection = connect(channel)
            seen.extend((weakref.ref(connection), weakref.ref(channel)))
            return connection

        w.server.connect = remember  # type: ignore[method-assign]
        for number in range(5):
            client = await w.client()
            await client.initialize(clientInfo={"name": "x"})
            await client.call("session/new", {"sessionId": f"s{number}"})
            await client.call("workspace/symbol", {"query": "x"})
            client.notify(
                "textDocument/didOpen",
                {"textDocument": {"uri": "file:///x", "languageId": "", "version": 1, "text": ""}},
            )
            await client.call("textDocument/documentSymbol", {"textDocument": {"uri": "file:///x"}})
            client.request("session/search", {"query": "x"})
            await client.close()
        while len(w.service.gone) < 5:
            await asyncio.sleep(0.001)
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()
        assert [ref() for ref in seen] == [None] * 10


async def test_connection_limit() -> None:
    """One connection too many gets a clear error and is closed; when one has left there is room."""
    async with world(Limits(connections=2)) as w:
        one, two = await w.client(), await w.client()
        await one.call("daemon/hello")
        await two.call("daemon/hello")
        late = await w.client()
        answer = await late.receive()
        assert (answer["id"], answer["error"]["code"], answer["error"]["data"]["limit"]) == (None, -31006, 2)
        assert await late.at_end() == b""
        await two.close()
        while w.server.connections > 1:
            await one.call("daemon/hello")
        again = await w.client()
        await again.call("daemon/hello")


async def test_strangers_lock_nobody_out() -> None:
    """Connections that have not shown a token give up their place to one that needs none, the oldest first."""
    async with world(Limits(connections=2)) as w:
        known = await w.client()
        await known.call("daemon/hello")
        stranger = await w.tcp_client()
        while w.server.connections < 2:
            await known.call("daemon/hello")
        second = await w.tcp_client()
        assert (await second.receive())["error"]["data"]["kind"] == "tooLarge"
        newcomer = await w.client()
        await newcomer.call("daemon/hello")
        assert (await stranger.receive())["error"]["data"]["kind"] == "unauthorized"
        assert await stranger.at_end() == b""


async def test_each_of_a_burst_takes_the_place_of_another_stranger() -> None:
    """A peer that does not need a token takes the place of one stranger, even if several come at the same moment; the limit holds."""
    async with world(Limits(connections=4)) as w:
        strangers = [await w.tcp_client() for _ in range(4)]
        while w.server.connections < 4:
            await asyncio.sleep(0)
        burst = []
        for _ in range(3):  # nothing is accepted meanwhile
            burst.append(socket.socket(socket.AF_UNIX))
            burst[-1].connect(w.path)
        for stranger in strangers[:3]:
            assert (await stranger.receive())["error"]["data"]["kind"] == "unauthorized"
            assert await stranger.at_end() == b""
        while sum(not one.is_stranger for one in w.server._connections) < 3:
            await asyncio.sleep(0)
        assert w.server.connections == 4
        for sock in burst:
            sock.close()


async def test_silent_peer() -> None:
    """A peer that sends nothing in time gets an error and is closed; one that sent something remains."""
    async with world(Limits(first_message_s=0.05)) as w:
        talker, silent, slow = await w.client(), await w.client(), await w.tcp_client()
        await talker.call("daemon/hello")
        slow.raw(b"Content-Length: 100\r\n\r\n{")
        assert (await silent.receive())["error"]["data"]["kind"] == "invalidRequest"
        assert await silent.at_end() == b""
        assert (await slow.receive())["error"]["data"]["kind"] == "unauthorized"
        await talker.call("daemon/hello")


async def test_notifications_of_one_turn_keep_their_order_with_answers() -> None:
    """What is sent to a peer in one turn of the loop arrives in the order of sending."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        peer = w.service.attached["s"][0]
        for number in range(50):
            peer.notify("n", b"%d" % number)
        got = [(await client.receive())["params"] for _ in range(50)]
        assert got == list(range(50))


def test_nc_one_liner() -> None:
    """A plain socket, one line, the sending half closed: the answer comes back and then the end."""

    async def scenario() -> bytes:
        async with world() as w:

            def dial() -> bytes:
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.settimeout(10)
                    sock.connect(w.path)
                    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}\n')
                    sock.shutdown(socket.SHUT_WR)
                    return b"".join(iter(lambda: sock.recv(4096), b""))

            return await asyncio.to_thread(dial)

    assert asyncio.run(scenario()) == b'{"jsonrpc":"2.0","id":1,"result":{"sessions":[],"nextCursor":null}}\n'


async def test_tcp_lifecycle() -> None:
    """Over TCP `initialize` with the token opens everything else."""
    async with world() as w:
        client = await w.tcp_client()
        result = await client.initialize(initializationOptions={"token": TOKEN})
        assert result["capabilities"]["experimental"]["sessiond"]["protocolVersion"] == 1
        await client.call("session/new", {"sessionId": "s", "metadata": {"x": "y" * 100_000}})


async def test_what_everybody_is_told_comes_to_those_who_have_spoken() -> None:
    """Before a connection's first byte nobody knows how its messages are framed: what was sent to it could not be read."""
    async with world() as w:
        known, silent = await w.client(), await w.client()
        await known.call("daemon/hello")
        w.server.announce(1, "the disk is full")
        assert (await known.notification("window/logMessage"))["message"] == "the disk is full"
        await silent.call("daemon/hello")
        assert not silent.notifications
