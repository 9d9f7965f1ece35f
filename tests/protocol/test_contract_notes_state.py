"""docs/protocol.md: note/* and state/*."""

from __future__ import annotations


def test_notes_by_thread_and_depth(client, session):
    """Without thread the global ones; with it also that thread's; each group cut to its own depth."""
    sid = session()
    for number, thread in enumerate([None, "a", None, "b", "a", None, "a"]):
        client.call("note/append", sessionId=sid, heading="H", content=str(number), thread=thread)

    def listed(**params) -> list[str]:
        return [note["content"] for note in client.call("note/list", sessionId=sid, **params)["notes"]]

    assert listed() == ["0", "2", "5"]
    assert listed(thread="a") == ["0", "1", "2", "4", "5", "6"]
    assert listed(thread="a", lastGlobal=1, lastThread=2) == ["4", "5", "6"]
    assert listed(lastGlobal=0) == []
    assert listed(thread="a", lastGlobal=0) == ["1", "4", "6"]
    assert listed(thread="none") == ["0", "2", "5"]
    assert listed(lastGlobal=99) == ["0", "2", "5"]
    assert client.fails("note/list", sessionId=sid, lastGlobal=-1)["code"] == -32602


def test_notes_are_idempotent(client, session):
    """The same id and content answers the same note; other content is conflict."""
    sid = session()
    note = {"heading": "H", "content": "c", "thread": "t", "tick": 3, "id": "n"}
    first = client.call("note/append", sessionId=sid, **note)
    assert client.call("note/append", sessionId=sid, **note) == first
    assert client.fails("note/append", sessionId=sid, **{**note, "content": "d"})["code"] == -31002
    assert client.fails("note/append", sessionId=sid, **{**note, "tick": 4})["code"] == -31002
    assert client.call("note/list", sessionId=sid, thread="t")["notes"] == [first["note"]]


def test_wrong_notes(client, session):
    """A note needs a heading and a content of the right type."""
    sid = session()
    for wrong in (
        {"content": "c"},
        {"heading": "H"},
        {"heading": 1, "content": "c"},
        {"heading": "H", "content": "c", "tick": "1"},
    ):
        assert client.fails("note/append", sessionId=sid, **wrong)["code"] == -32602
    assert client.call("note/list", sessionId=sid)["notes"] == []


def test_state(client, other, session):
    """null removes a key; equal values are not a change; keys picks; updatedAt stays; the others hear of it."""
    sid = session("m")
    info = other.call("session/open", sessionId=sid)["session"]
    assert client.call("state/set", sessionId=sid, values={"a": 1, "b": {"x": None}})["seq"] == 2
    assert client.call("state/set", sessionId=sid, values={"a": 1, "none": None})["seq"] == 2
    assert client.call("state/set", sessionId=sid, values={"a": 1.0})["seq"] == 3
    assert client.call("state/set", sessionId=sid, values={"a": None})["seq"] == 4
    got = client.call("state/get", sessionId=sid)
    assert got["values"] == {"b": {"x": None}}
    assert got["savedAt"]
    assert client.call("state/get", sessionId=sid, keys=["b", "zz"])["values"] == {"b": {"x": None}}
    assert client.call("state/get", sessionId=sid, keys=[])["values"] == {}
    assert client.call("session/open", sessionId=sid)["session"]["updatedAt"] == info["updatedAt"]
    assert other.notification("session/changed")["changes"] == [
        {"kind": "state", "seq": 2, "values": {"a": 1, "b": {"x": None}}}
    ]
    assert client.call("state/clear", sessionId=sid)["seq"] == 5
    assert client.call("state/clear", sessionId=sid)["seq"] == 5
    assert client.call("state/get", sessionId=sid)["values"] == {}


def test_state_is_durable(tmp_path):
    """What was answered is there after kill -9, removals too."""
    from tests.home import Home

    with Home(tmp_path) as home:
        client = home.client()
        client.call("session/new", sessionId="a")
        client.call("state/set", sessionId="a", values={"a": 1, "b": 2})
        client.call("session/save", sessionId="a")
        client.call("state/set", sessionId="a", values={"a": None, "c": [3]})
        home.kill()
        home.start()
        assert home.client().call("state/get", sessionId="a")["values"] == {"b": 2, "c": [3]}


def test_wrong_state(client, session):
    """values is an object, keys a list of strings."""
    sid = session()
    for wrong in ({}, {"values": []}, {"values": None}, {"values": {"a": 1}, "expectedSeq": "1"}):
        assert client.fails("state/set", sessionId=sid, **wrong)["code"] == -32602
    assert client.fails("state/get", sessionId=sid, keys="a")["code"] == -32602
