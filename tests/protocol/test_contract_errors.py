"""docs/protocol.md: errors and limits, as bytes on a real socket, while another client works."""

from __future__ import annotations

import contextlib
import json
import re

import pytest

from tests.home import Home
from tests.protocol.raw import frames, line, lines, request, say, until_end


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


APPEND = '{"jsonrpc":"2.0","id":5,"method":"session/append","params":{"sessionId":"%s","messages":[{"role":"user","content":[%s]}]}}\n'


@pytest.mark.parametrize(
    ("data", "code", "number"),
    [
        (b'{"jsonrpc":"2.0","id":1,\n', -32700, 1),
        (b"{]\n", -32700, None),
        (b'{"a":NaN}\n', -32700, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":{"x":-Infinity}}\n', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":{"x":"\\ud800"}}\n', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":{"\\udc00":1}}\n', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":{"x":"\xff\xfe"}}\n', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":{"x":"\xed\xa0\x80"}}\n', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"metadata":{"x":1e999}}}\n', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":{"x":01}}\n', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":{"x":"\t"}}\n', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":{"x":18446744073709551616}}\n', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":{"x":-9223372036854775809}}\n', -32602, 7),
        (b'{"id":7,"method":"daemon/hello"}\n', -32600, 7),
        (b'{"jsonrpc":"1.0","id":7,"method":"daemon/hello"}\n', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7}\n', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":7}\n', -32600, 7),
        (b'{"jsonrpc":"2.0","id":{},"method":"daemon/hello"}\n', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"daemon/hello"}\n', -32600, None),
        (b'{}\n', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":[]}\n', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"daemon/hello","params":"x"}\n', -32602, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"session/nonsense"}\n', -32601, 7),
    ],
)  # fmt: skip
def test_bad_messages(home, data, code, number):
    """Each is answered with its code, its id where it has one, a kind; and the connection continues."""
    answers = lines(
        say(
            home.connect(),
            b'{"jsonrpc":"2.0","id":0,"method":"daemon/hello"}\n' + data + line(request(99, "daemon/hello")),
        )
    )
    by_id = {answer["id"]: answer for answer in answers}
    assert len(answers) == 3
    assert by_id[number]["error"]["code"] == code
    assert by_id[number]["error"]["data"]["kind"]
    assert "Traceback" not in json.dumps(answers)
    assert "result" in by_id[99]


def test_depth(client, session, home):
    """A message of depth 100 is taken and given back, 101 is parseError."""
    sid = session()
    # object, params, messages, message, content: five levels above
    good, bad = (APPEND % (sid, nested(depth)) for depth in (95, 96))
    assert "result" in lines(say(home.connect(), good.encode()))[0]
    assert lines(say(home.connect(), bad.encode()))[0]["error"]["data"]["kind"] == "parseError"
    content = client.call("session/read", sessionId=sid)["messages"][0]["content"]
    assert json.dumps(content).replace(" ", "") == "[" + nested(95) + "]"


def test_duplicate_keys(home, client, session):
    """Of duplicate keys the last wins."""
    sid = session()
    say(home.connect(), (APPEND % (sid, '{"a":1,"a":2}')).encode())
    assert client.call("session/read", sessionId=sid)["messages"][0]["content"] == [{"a": 2}]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "parseError"),
        (b"Content-Length: x\r\n\r\n{}", "parseError"),
        (b"Content-Length: -5\r\n\r\n{}", "parseError"),
        (b"Content-Type: x\r\n\r\n{}", "parseError"),
        (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "parseError"),
        (b"\x00\x01\x02\x03", "parseError"),
        (b"\x16\x03\x01\x02\x00\x01", "parseError"),
        (b"Content-Length: 67108865\r\n\r\n", "tooLarge"),
        (b"Content-Length: 99999999999999999999\r\n\r\n", "tooLarge"),
        (b"X-Long: " + b"x" * 9000, "tooLarge"),
    ],
)
def test_a_broken_stream(home, client, data, kind):
    """A stream that can no longer be followed gets an error and is closed; other clients do not notice."""
    with home.connect() as sock:
        sock.sendall(data)
        (answer,) = frames(until_end(sock))
    assert answer["id"] is None
    assert answer["error"]["data"]["kind"] == kind
    assert kind != "tooLarge" or answer["error"]["data"]["limit"] in (64 * 1024 * 1024, 8 * 1024)
    assert client.call("daemon/hello")


def test_a_stream_that_breaks_keeps_what_was_asked_before(home):
    """Earlier requests are answered before the connection ends."""
    body = json.dumps(request(1, "daemon/hello")).encode()
    with home.connect() as sock:
        sock.sendall(b"Content-Length: %d\r\n\r\n%brubbish\r\n\r\n" % (len(body), body))
        answers = {answer["id"]: answer for answer in frames(until_end(sock))}
    assert answers[1]["result"]["protocolVersion"] == 1
    assert answers[None]["error"]["data"]["kind"] == "parseError"


def test_every_error_names_its_kind_and_field(client, session):
    """error.data has kind; invalidParams a field that is in the message; people get a hint where one helps."""
    sid = session("a")
    for method, params, field in (
        ("session/open", {}, "sessionId"), ("session/open", {"sessionId": 7}, "sessionId"), ("session/open", {"sessionId": sid, "last": -1}, "last"),
        ("session/append", {"sessionId": sid}, "messages"), ("session/append", {"sessionId": sid, "messages": {}}, "messages"),
        ("session/append", {"sessionId": sid, "messages": [7]}, "messages[0]"), ("session/extend", {"sessionId": sid, "messageId": "m1"}, "text"),
        ("session/truncate", {"sessionId": sid}, "afterSeq"), ("session/list", {"sort": "size"}, "sort"), ("session/list", {"filter": {"tags": 1}}, "filter.tags"),
        ("session/export", {"sessionId": sid, "format": "pdf"}, "format"), ("session/export", {"sessionId": sid, "format": "text", "path": "rel"}, "path"),
        ("session/import", {"path": "/nonexistent/x"}, "path"), ("session/import", {"path": "relative"}, "path"), ("session/search", {}, "query"),
        ("session/search", {"query": "(", "mode": "regex"}, "query"), ("session/search", {"query": "x", "mode": "magic"}, "mode"),
        ("daemon/listen", {"kind": "pigeon", "host": None, "port": 0}, "kind"), ("session/open", {"sessionId": sid, "since": 1.5}, "since"),
        ("session/open", {"sessionId": sid, "since": True}, "since"),
    ):  # fmt: skip
        error = client.fails(method, **params)
        assert error["code"] == -32602, (method, params, error)
        assert error["data"]["kind"] == "invalidParams"
        assert error["data"]["field"] == field, (method, params, error)
        assert field.split(".")[-1] in error["message"]


def test_rubbish_disturbs_nobody(home, client, session):
    """While others send all kinds of garbage, an append succeeds."""
    sid = session()
    for number in range(20):
        with home.connect() as sock:
            sock.sendall([b"\x00" * 100, b"{" * 5000 + b"\n", b"Content-Length: 10\r\n\r\n{", b'{"id":'][number % 4])
            assert (
                client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "x"}])["seq"]
                == number + 1
            )


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A home whose limits can be reached."""
    config = (
        "[limits]\nmessage_bytes = 200000\nappend_messages = 5\npage_bytes = 50000\nconnections = 6\nfirst_message_s = 3.0\nbatch_requests = 3\n"
        "list_page = 4\npage_messages = 7\nempty_session_s = 0.5\n"
    )
    with Home(tmp_path_factory.mktemp("small"), config) as home:
        yield home


def test_limits_are_shown(small):
    """What the configuration sets is what `status` shows."""
    client = small.client()
    limits = client.call("daemon/status")["limits"]
    client.close()
    assert (limits["messageBytes"], limits["appendMessages"], limits["connections"]) == (200000, 5, 6)


def test_pages_are_cut_by_bytes(small):
    """A page holds what fits, says that there is more, and paging goes on to the end, even over a message larger than a page."""
    client = small.client()
    client.call("session/new", sessionId="big", name="x")
    for number in range(6):
        content = "x" * (60_000 if number == 3 else 6_000)
        client.call("session/append", sessionId="big", messages=[{"role": "user", "content": content}])
    seen, since = [], 0
    while True:
        page = client.call("session/read", sessionId="big", since=since)
        seen += [one["seq"] for one in page["messages"]]
        assert page["messages"]
        if not page["hasMore"]:
            break
        since = seen[-1]
    assert seen == [1, 2, 3, 4, 5, 6]
    opened = client.call("session/open", sessionId="big")
    assert opened["hasMore"]
    assert opened["messages"][-1]["seq"] == 6
    client.close()


def test_too_much_at_once(small):
    """More messages than an append may hold, more requests than a batch, a longer line: tooLarge with the limit."""
    client = small.client()
    client.call("session/new", sessionId="many", name="x")
    error = client.fails("session/append", sessionId="many", messages=[{"role": "user", "content": "x"}] * 6)
    assert (error["code"], error["data"]["limit"]) == (-31006, 5)
    client.close()
    batch = b"[" + b",".join([json.dumps(request(n, "daemon/hello")).encode() for n in range(4)]) + b"]"
    (answer,) = frames(say(small.connect(), b"Content-Length: %d\r\n\r\n%b" % (len(batch), batch)))
    assert (answer["error"]["data"]["kind"], answer["error"]["data"]["limit"]) == ("tooLarge", 3)
    with small.connect() as sock:
        sock.sendall(b'{"x":"' + b"x" * 200_100)
        (answer,) = lines(until_end(sock))
    assert (answer["error"]["code"], answer["error"]["data"]["limit"]) == (-31006, 200000)


def test_silence_is_ended(small):
    """A connection that sends nothing in time gets an error and is closed."""
    with small.connect() as sock:
        answer = until_end(sock)
    assert re.search(rb'"id":null,"error"', answer)


def test_a_connection_too_many(small):
    """It gets tooLarge and is closed; when a client has left there is room again."""
    first = small.client()
    while first.call("daemon/status")["connections"] > 1:
        pass  # until the daemon has noticed who left before
    clients = [first, *(small.client() for _ in range(5))]
    for client in clients:
        client.call("daemon/hello")
    with small.connect() as sock:
        assert b"-31006" in until_end(sock)
    clients.pop().close()
    while True:
        # Turned away before it spoke, it can neither say nor read anything.
        with small.connect() as sock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(line(request(1, "daemon/hello")))
            if b"result" in sock.recv(65536):
                break
    last = clients.pop()
    for client in clients:
        client.close()
    while last.call("daemon/status")["connections"] > 1:
        pass  # until the daemon has noticed: the next test needs the room
    last.close()


def test_an_empty_session_is_forgotten(small):
    """Without messages, notes, state or name it goes after its last connection left; with any of them it stays."""
    client = small.client()
    client.call("session/new", sessionId="blank")
    client.call("session/new", sessionId="named", name="n")
    client.call("session/new", sessionId="stated")
    client.call("state/set", sessionId="stated", values={"a": 1})
    client.call("session/new", sessionId="noted")
    client.call("note/append", sessionId="noted", heading="h", content="c")
    client.close()
    client = small.client()
    while "blank" in [
        one["sessionId"] for one in client.call("session/list", limit=4, filter={"name": None})["sessions"]
    ]:
        pass
    while "sessions" and (
        answer := client.answer(client.send("session/export", {"sessionId": "blank", "format": "text"}))
    ).get("result"):
        pass
    assert answer["error"]["data"]["kind"] == "sessionNotFound"
    for kept in ("named", "stated", "noted"):
        assert client.call("session/open", sessionId=kept)
    client.close()
