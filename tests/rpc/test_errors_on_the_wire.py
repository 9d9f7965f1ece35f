"""Every error under "Errors" in docs/protocol.md, over a real socket; none of them affects another client."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from rpc_fakes import TOKEN, World, world

from sessiond import errors
from sessiond.limits import Limits
from sessiond.rpc.errors import CODES, MEANINGS, wire_error

HELLO = b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":%s}'


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


NO_JSON = [
    (b"", None),
    (b"hello", None),
    (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello"', 7),
    (b"{'jsonrpc':'2.0'}", None),
    (HELLO % b'{"a":NaN}', 7),
    (HELLO % b"[Infinity,-Infinity]", 7),
    (HELLO % b'"\\ud800"', 7),
    (HELLO % b'{"\\udc00\\ud800":1}', 7),
    (HELLO % b'{"a":"\xff"}', 7),
    (HELLO % b'{"a":"\xed\xa0\x80"}', 7),
    (HELLO % b'{"a":1,}', 7),
    (HELLO % b'{"a":01}', 7),
    (HELLO % b'{"a":"\n"}', 7),
    (HELLO % nested(100), 7),
    (HELLO % nested(5000), 7),
    (nested(200_000), None),
    (b"[" * 200_000, None),
    (b'{"id":"x\xff","jsonrpc":"2.0"}', None),
    (b'{"params":{"id":3,"a":NaN},"id":"late","method":"m","jsonrpc":"2.0"}', "late"),
    (b"\xef\xbb\xbf{}", None),
]


@pytest.mark.parametrize(("message", "request_id"), NO_JSON, ids=range(len(NO_JSON)))
async def test_parse_error(message: bytes, request_id: Any) -> None:
    """What is not JSON is answered -32700, with its id where one can be made out, and the connection continues."""
    async with world() as w:
        client = await w.client()
        client.send(message)
        answer = await client.receive()
        assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32700, "parseError")
        assert answer["id"] == request_id
        assert (await client.call("daemon/hello"))["protocolVersion"] == 1


NO_REQUEST = [
    (b"5", None),
    (b'"text"', None),
    (b"null", None),
    (b"{}", None),
    (b"[]", None),
    (b'{"jsonrpc":"2.0","id":7}', 7),
    (b'{"id":7,"method":"daemon/hello"}', 7),
    (b'{"jsonrpc":"1.0","id":7,"method":"daemon/hello"}', 7),
    (b'{"jsonrpc":2.0,"id":7,"method":"daemon/hello"}', 7),
    (b'{"jsonrpc":"2.0","id":7,"method":5}', 7),
    (b'{"jsonrpc":"2.0","id":7.5,"method":"daemon/hello"}', None),
    (b'{"jsonrpc":"2.0","id":[7],"method":"daemon/hello"}', None),
    (b'{"jsonrpc":"2.0","id":true,"method":"daemon/hello"}', None),
]


@pytest.mark.parametrize(("message", "request_id"), NO_REQUEST, ids=range(len(NO_REQUEST)))
async def test_invalid_request(message: bytes, request_id: Any) -> None:
    """JSON that is not JSON-RPC is answered -32600, with its id where it has one."""
    async with world() as w:
        client = await w.client(lines=message.startswith(b"{"))
        client.send(message)
        answer = await client.receive()
        assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-32600, "invalidRequest")
        assert answer["id"] == request_id
        assert (await client.call("daemon/hello"))["protocolVersion"] == 1


@pytest.mark.parametrize("number", ["18446744073709551616", "-9223372036854775809", "1" * 400, "100000000000000000000"])
async def test_integers_outside_64_bits(number: str) -> None:
    """An integer that does not fit into 64 bits is invalidParams anywhere; digits in a text and floats are not integers."""
    async with world() as w:
        client = await w.client()
        client.send(HELLO % b'{"a":[{"b":%s}]}' % number.encode())
        answer = await client.receive()
        assert (answer["id"], answer["error"]["code"], answer["error"]["data"]["kind"]) == (7, -32602, "invalidParams")
        for fine in (
            f'"{number}"',
            f'"\\"{number}"',
            f'{{"{number}":1}}',
            "0." + "1" * 60,
            "18446744073709551615",
            "1e20",
        ):
            client.send(HELLO % fine.encode())
            error = (await client.receive()).get("error", {})
            assert "64 bits" not in error.get("message", "")


async def test_infinite_float() -> None:
    """A float that is too large is what JSON has no word for: parseError, never rounded to something else."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        client.send(b'{"jsonrpc":"2.0","id":1,"method":"state/set","params":{"sessionId":"s","values":{"a":1e400}}}')
        assert (await client.receive())["error"]["data"]["kind"] == "parseError"
        assert (await client.call("state/get", {"sessionId": "s"}))["values"] == {}


async def test_depth_counts_structure_only() -> None:
    """Brackets in a text are not nesting, many of them next to each other neither, and 100 levels are allowed."""
    async with world() as w:
        client = await w.client()
        await client.call("session/new", {"sessionId": "s"})
        for value in ("[" * 500, '\\"[{' * 200, [[]] * 500, json.loads(nested(95))):
            await client.call("state/set", {"sessionId": "s", "values": {"a": value}})
            assert (await client.call("state/get", {"sessionId": "s"}))["values"] == {"a": value}


async def test_duplicate_keys() -> None:
    """Of duplicate keys the last wins."""
    async with world() as w:
        client = await w.client()
        client.send(
            b'{"jsonrpc":"2.0","id":1,"id":2,"method":"x","method":"session/new","params":{"sessionId":"a"},'
            b'"params":{"sessionId":"b","sessionId":"c","metadata":{"k":1,"k":2}}}'
        )
        answer = await client.receive()
        assert (answer["id"], answer["result"]["session"]["sessionId"]) == (2, "c")
        assert w.service.calls[0][1]["metadata"] == {"k": 2}


async def test_method_not_found() -> None:
    """An unknown request is answered -32601, an unknown notification is ignored."""
    async with world() as w:
        client = await w.client()
        client.notify("no/such")
        client.notify("$/no/such")
        for method in ("no/such", "session/none", "$/unknown", ""):
            error = await client.fail(method)
            assert (error["code"], error["data"]["kind"]) == (-32601, "methodNotFound")


WRONG_PARAMS: list[tuple[str, Any, str]] = [
    ("session/append", {"messages": []}, "sessionId: required, but missing"),
    ("session/append", {"sessionId": "s"}, "messages: required, but missing"),
    ("session/append", {"sessionId": 5, "messages": []}, "sessionId: expected str, got int"),
    ("session/append", {"sessionId": "s", "messages": [{}, "x"]}, "messages[1]: expected object, got str"),
    ("session/append", [], "params: expected object, got array"),
    (
        "session/append",
        {"sessionId": "s", "messages": [], "expectedSeq": True},
        "expectedSeq: expected int | null, got bool",
    ),
    ("session/read", {"sessionId": "s", "last": -1}, "last: expected int >= 0"),
    ("session/read", {"sessionId": "s", "limit": 0}, "limit: expected int >= 1"),
    ("session/list", {"sort": "size"}, "sort: expected one of 'updatedAt', '-updatedAt'"),
    ("session/list", {"filter": {"tags": [1]}}, "filter.tags[0]: expected str, got int"),
    ("session/export", {"sessionId": "s", "format": "docx"}, "format: expected one of 'jsonl'"),
    ("session/update", {"sessionId": "s", "tags": None}, "tags: expected array, got null"),
    ("daemon/listen", {"kind": "tcp", "port": 70000}, "port: expected int <= 65535"),
    ("session/new", 5, "params: expected object, got int"),
]


@pytest.mark.parametrize(("method", "params", "message"), WRONG_PARAMS)
async def test_invalid_params(method: str, params: Any, message: str) -> None:
    """Wrong params are answered -32602 and name the field, in the message and in data.field."""
    async with world() as w:
        client = await w.client()
        client.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        error = (await client.receive())["error"]
        assert (error["code"], error["data"]["kind"]) == (-32602, "invalidParams")
        assert error["message"].startswith(message)
        assert error["data"]["field"] == message.partition(":")[0]


async def test_errors_of_the_service() -> None:
    """An error of the service arrives with its code, kind, hint and data."""
    async with world() as w:
        client = await w.client()
        assert await client.fail("session/open", {"sessionId": "none"}) == {
            "code": -31001,
            "message": "there is no session 'none'",
            "data": {"kind": "sessionNotFound", "hint": "session/list shows what there is", "sessionId": "none"},
        }
        await client.call("session/new", {"sessionId": "s"})
        error = await client.fail("session/append", {"sessionId": "s", "messages": [], "expectedSeq": 5})
        assert (error["code"], error["data"]) == (-31002, {"kind": "conflict", "seq": 0})


async def test_unexpected_errors(caplog: pytest.LogCaptureFixture) -> None:
    """A mistake of ours is internalError: its traceback is in the log and never on the wire."""
    async with world() as w:
        client = await w.client()
        with caplog.at_level(logging.ERROR):
            for method in ("session/delete", "session/fork"):
                error = await client.fail(method, {"sessionId": "s"})
                assert (error["code"], error["data"]["kind"]) == (-32603, "internalError")
                assert "secret" not in json.dumps(error)
                assert "Traceback" not in json.dumps(error)
        assert "a secret that no client should see" in caplog.text
        await client.call("daemon/hello")


async def expect_end(w: World, data: bytes, code: int, kind: str, *, tcp: bool = False) -> dict[str, Any]:
    """Send bytes that end a stream; another client works before and after."""
    other = await w.client()
    await other.call("daemon/hello")
    client = await (w.tcp_client() if tcp else w.client())
    client.raw(data)
    answer = await client.receive()
    assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (code, kind)
    assert await client.at_end() == b""
    await other.call("daemon/hello")
    error: dict[str, Any] = answer["error"]
    return error


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n", b"Content-Length: ten\r\n\r\n", b"\x16\x03\x01\x00", b"[]\n"])
async def test_broken_header(data: bytes) -> None:
    """A stream that can no longer be followed is answered parseError and closed."""
    async with world() as w:
        await expect_end(w, data + b"x" * 100_000, -32700, "parseError")


async def test_too_large() -> None:
    """A header, a length or a line over its limit is answered tooLarge with the limit, and closed."""
    async with world(Limits(message_bytes=10_000)) as w:
        error = await expect_end(w, b"Content-Length: 10001\r\n\r\n" + b"x" * 300_000, -31006, "tooLarge")
        assert error["data"]["limit"] == 10_000
        error = await expect_end(w, b"Content-Length: 99999999999999\r\n\r\n", -31006, "tooLarge")
        assert error["data"]["limit"] == 10_000
        error = await expect_end(w, b"X-Long: " + b"x" * 9000, -31006, "tooLarge")
        assert error["data"]["limit"] == 8192
        client = await w.client(lines=True)
        client.raw(b'{"a":"' + b"x" * 20_000)
        assert (await client.receive())["error"]["data"] == {"kind": "tooLarge", "limit": 10_000}
        assert await client.at_end() == b""


async def test_a_broken_stream_keeps_its_answers() -> None:
    """What was asked before the stream broke is answered before it is closed."""
    async with world() as w:
        client = await w.client()
        client.raw(
            client.frame({"jsonrpc": "2.0", "id": 1, "method": "session/search", "params": {"query": "x"}}) + b"\x00"
        )
        assert (await client.receive())["error"]["data"]["kind"] == "parseError"
        w.service.gate.set()
        assert (await client.receive())["id"] == 1
        assert await client.at_end() == b""


UNAUTHORIZED = [
    {"jsonrpc": "2.0", "id": 1, "method": "daemon/hello"},
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}},
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"initializationOptions": {"token": TOKEN + "x"}}},
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"initializationOptions": {"token": 5}}},
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"initializationOptions": {"token": ""}}},
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": []},
    {"jsonrpc": "2.0", "method": "initialize", "params": {"initializationOptions": {"token": TOKEN}}},
    [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"initializationOptions": {"token": TOKEN}}}],
    "hello",
]


CASES = [(message, False) for message in UNAUTHORIZED] + [(m, True) for m in UNAUTHORIZED if isinstance(m, dict)]


@pytest.mark.parametrize(("message", "lines"), CASES, ids=range(len(CASES)))
async def test_unauthorized(message: Any, lines: bool) -> None:
    """Over TCP anything but `initialize` with the token is answered unauthorized and closed, and does nothing."""
    async with world() as w:
        client = await w.tcp_client(lines=lines)
        client.raw(client.frame(message) + client.frame({"jsonrpc": "2.0", "id": 2, "method": "daemon/stop"}))
        answer = await client.receive()
        assert (answer["error"]["code"], answer["error"]["data"]["kind"]) == (-31004, "unauthorized")
        assert answer["id"] == (message.get("id") if isinstance(message, dict) else None)
        assert await client.at_end() == b""
        assert not w.daemon.stopped


async def test_small_limit_before_the_token() -> None:
    """Before authentication a message may have 64 KiB, after it what others may have."""
    async with world() as w:
        error = await expect_end(w, b"Content-Length: 65537\r\n\r\n", -31006, "tooLarge", tcp=True)
        assert error["data"]["limit"] == 65536


async def test_bad_input_disturbs_nobody() -> None:
    """While one client sends all kinds of garbage, another one's requests are all answered."""
    async with world() as w:
        good = await w.client()
        await good.call("session/new", {"sessionId": "s"})
        for message, _ in NO_JSON + NO_REQUEST:
            bad = await w.client()
            bad.send(message)
            bad.raw(b"\x00\xff" * 10)
            await good.call("session/append", {"sessionId": "s", "messages": [{"role": "user", "content": "x"}]})
            await asyncio.wait_for(bad.reader.read(), 10)
        assert (await good.call("session/read", {"sessionId": "s"}))["seq"] == len(NO_JSON + NO_REQUEST)


def test_every_kind_has_a_code() -> None:
    """Every error of the tree has a code on the wire, and every code a meaning for the reference."""
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, errors.SessiondError) and error is not errors.SessiondError:
            told = wire_error(error("what happened"))
            assert told.code == CODES[told.data["kind"]] != CODES["internalError"]
    assert MEANINGS.keys() == CODES.keys()
    assert len(set(CODES.values())) == len(CODES)
