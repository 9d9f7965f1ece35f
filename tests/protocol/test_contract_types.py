"""docs/protocol.md: types. What a client sends comes back unchanged, and what the daemon adds has the documented shape."""

from __future__ import annotations

import re

import pytest

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
INFO = {
    "sessionId", "name", "createdAt", "updatedAt", "model", "messageCount", "seq", "store", "format", "path", "cwd", "tags",
    "archived", "summary", "parent", "metadata", "attached", "dirty",
}  # fmt: skip
ODD = {
    "class": 1, "tool-name": "x", "type_name": None, "": "empty key", "jsonrpc": {"jsonrpc": "2.0", "id": 1, "method": "session/delete"},
    "null": None, "min": -(2**63), "max": 2**63 - 1, "unsigned": 2**64 - 1, "big": [9007199254740993, 0, -1], "nul\x00": "\x00\x1f\x7f",
    "separators": "\u2028\u2029\x85\r\n", "astral": "🦊\U0010ffff", "combining": "e\u0301", "bidi": "\u202e", "bom": "\ufeff", "nonchar": "\uffff\ufdd0",
    "floats": [0.1, 1e308, 5e-324, -0.5, 1.0], "deep": [[[[{"a": [{}]}]]]], "empty": {"list": [], "dict": {}, "text": ""}, "bools": [True, False],
    "constructor": {"__proto__": {"x": 1}}, "snake_case": 1, "camelCase": 2, "ключ": "値",
}  # fmt: skip


def same(a, b) -> bool:
    """Equal, and of the same JSON types: 1 is not 1.0 and not true."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def test_session_info(client, sid, home):
    """A SessionInfo has exactly the fields of the contract; a new session's are empty."""
    info = client.call("session/new", sessionId=sid)["session"]
    assert set(info) == INFO
    assert TIME.fullmatch(info["createdAt"])
    assert info["createdAt"] == info["updatedAt"]
    expected = {
        "sessionId": sid, "name": None, "model": None, "messageCount": 0, "seq": 0, "store": "default", "format": "jsonl", "cwd": None, "tags": [],
        "archived": False, "summary": None, "parent": None, "metadata": {}, "attached": 1, "dirty": True,
        "path": str(home.path / "data" / "sessions" / f"{sid}.jsonl"),
    }  # fmt: skip
    assert {key: info[key] for key in expected} == expected


def test_all_that_new_takes(client, sid):
    """session/new keeps name, model, cwd, tags, metadata and messages."""
    fields = {"name": "Näme", "model": "m-1", "cwd": "/tmp/x", "tags": ["b", "a"], "metadata": ODD}
    info = client.call("session/new", sessionId=sid, messages=[{"role": "user", "content": "x"}], **fields)["session"]
    assert all(same(info[key], value) for key, value in fields.items())
    assert (info["messageCount"], info["seq"]) == (1, 1)


def test_ids_of_the_daemon(client):
    """Without a sessionId it is session-YYYYMMDD-HHMMSS in UTC, with -2, -3, ... where that second is taken."""
    ids = [client.call("session/new")["session"]["sessionId"] for _ in range(8)]
    assert len(set(ids)) == 8
    assert all(re.fullmatch(r"session-\d{8}-\d{6}(-[2-9]\d*)?", one) for one in ids)
    assert any(re.search(r"-\d{6}-2$", one) for one in ids)


@pytest.mark.parametrize("good", ["a", "0", "A.b_c-d", "x" * 128, "con", "a..b"])
def test_good_ids(client, good):
    """A letter or digit, then up to 127 of letters, digits, `.`, `_`, `-`."""
    assert client.call("session/new", sessionId=good)["session"]["sessionId"] == good


@pytest.mark.parametrize(
    "bad", ["", ".a", "-a", "_a", "a/b", "../a", "a b", "ü", "x" * 129, "a\n", "a\x00", "a%2F", "default/a"]
)
def test_bad_ids(client, bad):
    """Any other is invalidParams."""
    error = client.fails("session/new", sessionId=bad)
    assert (error["code"], error["data"]["kind"]) == (-32602, "invalidParams")


@pytest.mark.parametrize(
    "method", ["session/open", "session/read", "session/save", "session/delete", "session/fork", "state/get"]
)
@pytest.mark.parametrize(
    "wrong", ["nobody", "nowhere/nobody", "../../etc/passwd", "default/nobody", "", "a/b/c", "\x00", "x" * 5000]
)
def test_no_such_session(client, method, wrong):
    """An id without a session is sessionNotFound, whatever it looks like."""
    assert client.fails(method, sessionId=wrong)["data"]["kind"] == "sessionNotFound"


def test_message(client, session):
    """A message gets id, seq and timestamp; a time that was sent is brought to UTC with milliseconds."""
    sid = session()
    sent = [
        {"role": "user", "content": "a"},
        {"role": "narrator", "content": [{"type": "text", "text": "b"}, ODD], "timestamp": "2026-01-11T15:30:22+01:00"},
        {"role": "assistant", "content": "", "timestamp": "2026-01-11T14:30:22.123456Z", "id": "mine"},
    ]
    answer = client.call("session/append", sessionId=sid, messages=sent)
    first, second, third = client.call("session/read", sessionId=sid)["messages"]
    assert answer == {"seq": 3, "messages": [{"id": m["id"], "seq": m["seq"]} for m in (first, second, third)]}
    assert set(first) == {"id", "seq", "role", "content", "timestamp"}
    assert TIME.fullmatch(first["timestamp"])
    assert second["timestamp"] == "2026-01-11T14:30:22.000Z"
    assert same(second["content"], sent[1]["content"])
    assert third["timestamp"] == "2026-01-11T14:30:22.123Z"
    assert (third["id"], third["content"]) == ("mine", "")


def test_everything_a_message_may_hold(client, session):
    """Known and unknown fields come back unchanged, at any depth."""
    sid = session()
    message = {
        "id": "m", "role": "assistant", "content": "x", "toolCalls": [{"id": "t1", "name": "run", "arguments": {"a": ODD}}, {"id": "t2", "name": "b", "arguments": "{"}],
        "thinking": "hm", "thread": "side", "tick": 3, "contextSnapshot": ODD, "metadata": ODD, "status": "error", "x-own": ODD, "seqs": [1], "jsonrpc": "1.0",
    }  # fmt: skip
    result = {"id": "r", "role": "tool", "content": [], "toolCallId": "t1"}
    client.call("session/append", sessionId=sid, messages=[message, result])
    kept, tool = client.call("session/read", sessionId=sid)["messages"]
    assert same({key: kept[key] for key in message}, message)
    assert same({key: tool[key] for key in result}, result)


@pytest.mark.parametrize("ending", ["kill", "restart"])
def test_odd_json_survives(tmp_path, ending):
    """Odd content, metadata, state, notes and names are the same after kill -9, and after a save and a restart."""
    from tests.home import Home

    with Home(tmp_path) as home:
        client = home.client()
        client.call("session/new", sessionId="a", name="\u2028🦊", metadata=ODD)
        text = "\u2028 \x00 🦊 " * 150_000
        messages = [
            {"id": "m", "role": "user", "content": [ODD], "metadata": ODD, "x": ODD},
            {"id": "big", "role": "user", "content": text},
        ]
        client.call("session/append", sessionId="a", messages=messages)
        client.call("state/set", sessionId="a", values={key: value for key, value in ODD.items() if value is not None})
        client.call(
            "note/append", sessionId="a", heading="H\u2028", content="\u2028\n* c 🦊", thread="t", tick=2**40, id="n"
        )
        before = [client.call("session/read", sessionId="a"), client.call("note/list", sessionId="a", thread="t")]
        before.append(client.call("state/get", sessionId="a"))
        if ending == "kill":
            home.kill()
        else:
            client.call("session/save", sessionId="a")
            home.stop()
        home.start()
        client = home.client()
        after = [client.call("session/read", sessionId="a"), client.call("note/list", sessionId="a", thread="t")]
        after.append(client.call("state/get", sessionId="a"))
        assert same(after, before)
        info = client.call("session/open", sessionId="a")["session"]
        assert info["name"] == "\u2028🦊"
        assert same(info["metadata"], ODD)
        assert same(before[0]["messages"][0]["content"], [ODD])
        assert before[0]["messages"][1]["content"] == text
        assert same(before[2]["values"], {key: value for key, value in ODD.items() if value is not None})


def test_note(client, session):
    """A Note has exactly the fields of the contract."""
    sid = session()
    note = client.call("note/append", sessionId=sid, heading="H", content="c")["note"]
    assert set(note) == {"id", "seq", "heading", "content", "thread", "tick", "timestamp"}
    assert (note["heading"], note["content"], note["thread"], note["tick"], note["seq"]) == ("H", "c", None, None, 1)
    assert TIME.fullmatch(note["timestamp"])
