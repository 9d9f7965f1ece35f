"""docs/protocol.md: the requests from session/new to session/restore."""

from __future__ import annotations

import json

import pytest


def words(messages) -> list[str]:
    return [message["content"] for message in messages]


# new, open, close


def test_new_is_open_for_its_maker(client, other, sid):
    """The caller has it open and hears of others; a second session of that id is alreadyExists."""
    client.call("session/new", sessionId=sid)
    other.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "hi"}])
    assert client.notification("session/changed")["changes"][0]["messages"][0]["content"] == "hi"
    assert other.fails("session/new", sessionId=sid)["code"] == -31007


def test_new_with_messages_that_are_wrong_makes_nothing(client, sid):
    """After one wrong message, or the same id twice, the session does not exist."""
    for messages in (
        [{"role": "user"}],
        [{"id": "x", "role": "user", "content": "1"}, {"id": "x", "role": "user", "content": "2"}],
    ):
        assert client.fails("session/new", sessionId=sid, messages=messages)["code"] == -32602
    assert client.fails("session/open", sessionId=sid)["data"]["kind"] == "sessionNotFound"
    assert client.call("session/new", sessionId=sid)


def test_new_that_belongs_to_another(client, sid):
    """parent is shown, filtered by and kept in the file, whether that session exists or not, and under one name only."""
    parent = {"sessionId": "agent-of-" + sid, "seq": None}
    told = {**parent, "sessionId": "default/" + parent["sessionId"]}
    assert client.call("session/new", sessionId=sid, name="x", parent=told)["session"]["parent"] == parent
    found = client.call("session/list", filter={"parent": parent["sessionId"]})["sessions"]
    assert [one["sessionId"] for one in found] == [sid]
    (saved,) = client.call("session/save", sessionId=sid)["saved"]
    with open(saved["path"]) as file:
        assert json.loads(file.readline())["parent"] == parent


@pytest.mark.parametrize("odd", ["", "/x", "x/", "p" * 600])
def test_new_that_belongs_to_nothing(client, sid, odd):
    """What cannot be an id is invalidParams, and nothing is made."""
    error = client.fails("session/new", sessionId=sid, parent={"sessionId": odd, "seq": None})
    assert (error["code"], error["data"]["field"]) == (-32602, "parent")
    assert client.fails("session/new", sessionId=sid, parent={"sessionId": "p", "seq": -1})["code"] == -32602
    assert client.call("session/new", sessionId=sid)["session"]["parent"] is None


def test_new_in_no_store(client):
    """A store that is not there is invalidParams and named."""
    error = client.fails("session/new", store="nowhere")
    assert (error["code"], error["data"]["field"]) == (-32602, "store")


def test_open(client, session):
    """The whole answer, with the newest 200 messages by default."""
    sid = session(*[f"w{n}" for n in range(250)])
    result = client.call("session/open", sessionId=sid)
    assert set(result) == {"session", "messages", "notes", "state", "hasMore", "warnings"}
    assert words(result["messages"]) == [f"w{n}" for n in range(50, 250)]
    assert (result["hasMore"], result["notes"], result["state"], result["warnings"]) == (True, [], {}, [])
    assert result["session"]["attached"] == 1


@pytest.mark.parametrize(
    ("last", "expected", "more"),
    [(0, [], True), (2, ["b", "c"], True), (3, ["a", "b", "c"], False), (9, ["a", "b", "c"], False)],
)
def test_open_last(client, session, last, expected, more):
    """`last: N` gives the newest N messages, oldest first."""
    result = client.call("session/open", sessionId=session("a", "b", "c"), last=last)
    assert (words(result["messages"]), result["hasMore"]) == (expected, more)


def test_open_since(client, session):
    """`since: S` gives the messages with a greater seq and every change after S in order."""
    sid = session("a", "b")
    client.call("session/update", sessionId=sid, name="n")
    client.call("state/set", sessionId=sid, values={"k": 1})
    client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "c"}])
    result = client.call("session/open", sessionId=sid, since=1)
    assert words(result["messages"]) == ["b", "c"]
    assert [(change["kind"], change["seq"]) for change in result["changes"]] == [
        ("appended", 2),
        ("updated", 3),
        ("state", 4),
        ("appended", 5),
    ]
    assert words(result["changes"][0]["messages"]) == ["b"]
    at_end = client.call("session/open", sessionId=sid, since=5)
    assert (at_end["messages"], at_end["changes"]) == ([], [])
    assert client.call("session/open", sessionId=sid, since=6)["changes"] is None


def test_open_since_before_a_cut(client, session):
    """A since from before a clear or truncate tells of it."""
    sid = session("a", "b")
    client.call("session/truncate", sessionId=sid, afterSeq=1)
    changes = client.call("session/open", sessionId=sid, since=2)["changes"]
    assert [change["kind"] for change in changes] == ["truncated"]
    client.call("session/clear", sessionId=sid)
    changes = client.call("session/open", sessionId=sid, since=3)["changes"]
    assert [change["kind"] for change in changes] == ["cleared"]


def test_close_saves(client, session, home):
    """After the last close the file has everything; closing twice is nothing."""
    sid = session("a", "b")
    assert client.call("session/close", sessionId=sid) == {}
    lines = (home.path / "data" / "sessions" / f"{sid}.jsonl").read_text().splitlines()
    assert words(json.loads(line) for line in lines[1:3]) == ["a", "b"]
    assert client.call("session/close", sessionId=sid) == {}
    assert client.call("session/open", sessionId=sid)["session"]["dirty"] is False


# append


def test_append_is_atomic_and_consecutive(client, session):
    """Messages of one append get consecutive seqs; one wrong one and none is there."""
    sid = session()
    answer = client.call(
        "session/append", sessionId=sid, messages=[{"role": "user", "content": str(n)} for n in range(5)]
    )
    assert [one["seq"] for one in answer["messages"]] == [1, 2, 3, 4, 5]
    wrong = [{"role": "user", "content": "ok"}, {"role": "user", "content": 7}]
    error = client.fails("session/append", sessionId=sid, messages=wrong)
    assert (error["code"], error["data"]["field"]) == (-32602, "messages[1].content")
    assert client.call("session/read", sessionId=sid)["seq"] == 5


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({}, "role"), ({"role": "", "content": "x"}, "role"), ({"role": 1, "content": "x"}, "role"), ({"role": "user"}, "content"),
        ({"role": "user", "content": None}, "content"), ({"role": "user", "content": {}}, "content"), ({"role": "user", "content": "x", "id": ""}, "id"),
        ({"role": "user", "content": "x", "id": 7}, "id"), ({"role": "user", "content": "x", "status": "strange"}, "status"),
        ({"role": "user", "content": "x", "timestamp": "yesterday"}, "timestamp"), ({"role": "user", "content": "x", "timestamp": 5}, "timestamp"),
        ({"role": "user", "content": "x", "metadata": []}, "metadata"), ({"role": "user", "content": "x", "tick": "1"}, "tick"),
        ({"role": "user", "content": "x", "toolCalls": [{"id": "a"}]}, "toolCalls[0].name"), ({"role": "user", "content": "x", "toolCalls": {}}, "toolCalls"),
    ],
)  # fmt: skip
def test_wrong_messages_name_the_field(client, session, message, field):
    """invalidParams names the field."""
    error = client.fails("session/append", sessionId=session(), messages=[message])
    assert (error["code"], error["data"]["kind"], error["data"]["field"]) == (
        -32602,
        "invalidParams",
        f"messages[0].{field}",
    )
    assert field.rpartition(".")[2] in error["message"]


def test_append_is_idempotent_by_id(client, session):
    """The same id with the same content answers its seq and adds nothing, also with a stale expectedSeq; other content is conflict."""
    sid = session()
    message = {"id": "x", "role": "user", "content": "one", "metadata": {"a": 1, "b": None}}
    first = client.call("session/append", sessionId=sid, messages=[message], expectedSeq=0)
    assert client.call("session/append", sessionId=sid, messages=[message], expectedSeq=0) == first
    only_sent = {"id": "x", "role": "user", "content": "one"}
    assert client.call("session/append", sessionId=sid, messages=[only_sent]) == first
    mixed = client.call(
        "session/append", sessionId=sid, messages=[message, {"id": "y", "role": "user", "content": "two"}]
    )
    assert mixed["messages"] == [{"id": "x", "seq": 1}, {"id": "y", "seq": 2}]
    for other in (
        {**message, "content": "two"},
        {**message, "role": "system"},
        {**message, "metadata": {"a": 1.0, "b": None}},
    ):
        error = client.fails("session/append", sessionId=sid, messages=[other])
        assert (error["code"], error["data"]["seq"]) == (-31002, 2)
    assert client.call("session/read", sessionId=sid)["seq"] == 2


def test_expected_seq(client, session):
    """Another expectedSeq than the session's is conflict with the current seq, and changes nothing."""
    sid = session("a")
    for method, params in (
        ("session/append", {"messages": [{"role": "user", "content": "b"}]}),
        ("session/update", {"name": "n"}),
        ("state/set", {"values": {"k": 1}}),
    ):
        error = client.fails(method, sessionId=sid, expectedSeq=0, **params)
        assert (error["code"], error["data"]["kind"], error["data"]["seq"]) == (-31002, "conflict", 1)
        assert client.call("session/read", sessionId=sid)["seq"] == 1
    assert (
        client.call("session/append", sessionId=sid, expectedSeq=1, messages=[{"role": "user", "content": "b"}])["seq"]
        == 2
    )


def test_empty_append(client, session):
    """An append of nothing changes nothing and answers the current seq."""
    sid = session("a")
    assert client.call("session/append", sessionId=sid, messages=[]) == {"seq": 1, "messages": []}


# streaming


def test_streaming(client, session):
    """Append with status streaming, extend, repeat with offset, finish; the message keeps its seq."""
    sid = session("q")
    client.call(
        "session/append",
        sessionId=sid,
        messages=[{"id": "r", "role": "assistant", "content": "🦊", "status": "streaming"}],
    )
    assert client.call("session/extend", sessionId=sid, messageId="r", text="bc", offset=1) == {"seq": 3}
    assert client.call("session/extend", sessionId=sid, messageId="r", text="bc", offset=1) == {"seq": 3}
    assert client.call("session/extend", sessionId=sid, messageId="r", text="cd", offset=2) == {"seq": 4}
    for text, offset in (("X", 1), ("x", 9)):
        assert client.fails("session/extend", sessionId=sid, messageId="r", text=text, offset=offset)["code"] == -31002
    retry = {"id": "r", "role": "assistant", "content": "🦊", "status": "streaming"}
    assert client.call("session/append", sessionId=sid, messages=[retry])["messages"] == [{"id": "r", "seq": 2}]
    calls = [{"id": "t", "name": "run", "arguments": {}}]
    assert client.call("session/finish", sessionId=sid, messageId="r", metadata={"n": 1}, toolCalls=calls) == {"seq": 5}
    message = client.call("session/read", sessionId=sid)["messages"][-1]
    assert (message["seq"], message["content"], message["status"]) == (2, "🦊bcd", "done")
    assert (message["metadata"], message["toolCalls"]) == ({"n": 1}, calls)
    assert client.fails("session/extend", sessionId=sid, messageId="r", text="x")["code"] == -31002
    assert client.call("session/append", sessionId=sid, messages=[retry])["messages"] == [{"id": "r", "seq": 2}]


def test_extend_as_a_notification(client, other, session):
    """Without an id no answer is sent; others see the text within a second."""
    sid = session("q")
    client.call(
        "session/append",
        sessionId=sid,
        messages=[{"id": "r", "role": "assistant", "content": "a", "status": "streaming"}],
    )
    other.call("session/open", sessionId=sid)
    for n in range(20):
        client.notify("session/extend", {"sessionId": sid, "messageId": "r", "text": str(n % 10)})
    assert client.call("session/finish", sessionId=sid, messageId="r")["seq"] == 23
    assert client.call("session/read", sessionId=sid)["messages"][-1]["content"] == "a" + "0123456789" * 2
    heard = ""
    while True:
        changes = other.notification("session/changed")["changes"]
        heard += "".join(change["text"] for change in changes if change["kind"] == "extended")
        if any(change["kind"] == "finished" for change in changes):
            break
    assert heard == "0123456789" * 2


def test_a_writer_that_leaves_is_interrupted_and_may_be_resumed(home, client, session):
    """Its message is finished as interrupted; extend resumes it."""
    sid = session("q")
    writer = home.client()
    writer.call(
        "session/append",
        sessionId=sid,
        messages=[{"id": "r", "role": "assistant", "content": "a", "status": "streaming"}],
    )
    client.call("session/read", sessionId=sid)
    writer.close()
    while True:
        change = client.notification("session/changed")["changes"][0]
        if change["kind"] == "finished":
            break
    assert (change["messageId"], change["status"]) == ("r", "interrupted")
    client.call("session/extend", sessionId=sid, messageId="r", text="b")
    client.call("session/finish", sessionId=sid, messageId="r", status="error")
    message = client.call("session/read", sessionId=sid)["messages"][-1]
    assert (message["content"], message["status"]) == ("ab", "error")


def test_extend_what_cannot_be_extended(client, session):
    """An unknown message or one of blocks is invalidParams, a finished one conflict."""
    sid = session("done")
    client.call(
        "session/append",
        sessionId=sid,
        messages=[{"id": "blocks", "role": "assistant", "content": [], "status": "streaming"}],
    )
    assert client.fails("session/extend", sessionId=sid, messageId="none", text="x")["code"] == -32602
    assert client.fails("session/extend", sessionId=sid, messageId="blocks", text="x")["code"] == -32602
    assert client.fails("session/extend", sessionId=sid, messageId="m1", text="x")["code"] == -31002
    assert client.fails("session/finish", sessionId=sid, messageId="none")["code"] == -32602
    assert client.call("session/finish", sessionId=sid, messageId="blocks")["seq"] == 3
    assert client.fails("session/finish", sessionId=sid, messageId="blocks", status="strange")["code"] == -32602


# read


def test_read_pages(client, session):
    """before goes backwards, since forwards; always oldest first; every message is on one page."""
    sid = session(*[f"w{n}" for n in range(10)])
    page = client.call("session/read", sessionId=sid, last=3)
    assert (words(page["messages"]), page["hasMore"], page["seq"]) == (["w7", "w8", "w9"], True, 10)
    back, before = [], 11
    while True:
        page = client.call("session/read", sessionId=sid, before=before, limit=4)
        back = words(page["messages"]) + back
        if not page["hasMore"]:
            break
        before = page["messages"][0]["seq"]
    forth, since = [], 0
    while True:
        page = client.call("session/read", sessionId=sid, since=since, limit=4)
        forth += words(page["messages"])
        if not page["hasMore"]:
            break
        since = page["messages"][-1]["seq"]
    assert back == forth == [f"w{n}" for n in range(10)]
    assert client.call("session/read", sessionId=sid, since=10)["messages"] == []
    assert client.call("session/read", sessionId=sid, before=1)["messages"] == []


def test_read_does_not_attach(client, other, session):
    """A client that only reads gets no notifications."""
    sid = session("a")
    other.call("session/read", sessionId=sid)
    client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "b"}])
    other.call("daemon/hello")
    assert other.notifications == []


def test_a_limit_over_the_maximum_is_cut(client, session):
    """Neither read nor list refuses a large limit."""
    sid = session("a")
    assert len(client.call("session/read", sessionId=sid, limit=10**9)["messages"]) == 1
    assert client.call("session/list", limit=10**9)["sessions"]
    assert client.fails("session/list", limit=-1)["code"] == -32602


# update, clear, truncate, fork


def test_update(client, session):
    """Each field changes alone; null empties; equal values are not a change; updatedAt moves."""
    sid = session("a")
    fields = {
        "name": "n",
        "model": "m",
        "tags": ["t"],
        "archived": True,
        "summary": "s",
        "metadata": {"k": None},
        "cwd": "/x",
    }
    for seq, (key, value) in enumerate(fields.items(), 2):
        info = client.call("session/update", sessionId=sid, **{key: value})["session"]
        assert (info[key], info["seq"]) == (value, seq)
    assert client.call("session/update", sessionId=sid, **fields)["session"]["seq"] == 8
    emptied = client.call("session/update", sessionId=sid, name=None, model=None, summary=None, cwd=None)["session"]
    assert [emptied[key] for key in ("name", "model", "summary", "cwd")] == [None] * 4
    for wrong in (
        {"name": 1},
        {"tags": "x"},
        {"tags": [1]},
        {"archived": "yes"},
        {"metadata": []},
        {"name": "x" * 1001},
    ):
        error = client.fails("session/update", sessionId=sid, **wrong)
        assert error["code"] == -32602
        assert error["data"]["field"].startswith(next(iter(wrong)))


def test_clear(client, other, session, home):
    """Messages and summary go, the id, name, state and notes stay, seq continues; what was there is in the trash."""
    sid = session("a", "b", name="n")
    client.call("session/update", sessionId=sid, summary="s")
    client.call("state/set", sessionId=sid, values={"k": 1})
    client.call("note/append", sessionId=sid, heading="H", content="c")
    other.call("session/open", sessionId=sid)
    info = client.call("session/clear", sessionId=sid)["session"]
    assert (info["sessionId"], info["messageCount"], info["summary"], info["name"], info["seq"]) == (
        sid,
        0,
        None,
        "n",
        6,
    )
    assert other.notification("session/changed")["changes"] == [{"kind": "cleared", "seq": 6}]
    opened = client.call("session/open", sessionId=sid)
    assert (opened["messages"], opened["state"], len(opened["notes"])) == ([], {"k": 1}, 1)
    back = client.call("session/restore", sessionId=f"{sid}.was-5")["session"]
    assert (back["messageCount"], back["parent"]) == (2, {"sessionId": sid, "seq": 5})
    assert (
        client.call("session/append", sessionId=sid, messages=[{"id": "m1", "role": "user", "content": "new"}])["seq"]
        == 7
    )


def test_truncate(client, other, session):
    """Messages above afterSeq go; the answer counts them; nothing to remove is not a change."""
    sid = session("a", "b", "c")
    other.call("session/open", sessionId=sid)
    result = client.call("session/truncate", sessionId=sid, afterSeq=1)
    assert (result["removed"], result["session"]["messageCount"], result["session"]["seq"]) == (2, 1, 4)
    change = other.notification("session/changed")["changes"][0]
    assert (change["kind"], change["seq"]) == ("truncated", 4)
    again = client.call("session/truncate", sessionId=sid, afterSeq=1)
    assert (again["removed"], again["session"]["seq"]) == (0, 4)
    assert (
        client.call("session/append", sessionId=sid, messages=[{"id": "m2", "role": "user", "content": "other"}])["seq"]
        == 5
    )
    restored = client.call("session/restore", sessionId=f"{sid}.was-3")["session"]
    assert (restored["messageCount"], restored["parent"]["sessionId"]) == (3, sid)


def test_truncate_while_a_reply_streams(client, session):
    """A streamed message that was cut away can not be extended any more; the session continues."""
    sid = session("q")
    client.call(
        "session/append",
        sessionId=sid,
        messages=[{"id": "r", "role": "assistant", "content": "a", "status": "streaming"}],
    )
    assert client.call("session/truncate", sessionId=sid, afterSeq=1)["removed"] == 1
    assert client.fails("session/extend", sessionId=sid, messageId="r", text="x")["code"] == -32602
    assert client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "b"}])["seq"] == 4


def test_fork(client, session):
    """A fork holds what was there at that seq, says where it came from, and goes its own way."""
    sid = session("a", "b", "c", name="n")
    fork = client.call("session/fork", sessionId=sid, atSeq=2, name="f")["session"]
    assert (fork["parent"], fork["messageCount"], fork["name"]) == ({"sessionId": sid, "seq": 2}, 2, "f")
    whole = client.call("session/fork", sessionId=sid)["session"]
    assert (whole["parent"], whole["messageCount"]) == ({"sessionId": sid, "seq": 3}, 3)
    client.call("session/append", sessionId=fork["sessionId"], messages=[{"role": "user", "content": "d"}])
    assert words(client.call("session/read", sessionId=sid)["messages"]) == ["a", "b", "c"]
    assert words(client.call("session/read", sessionId=fork["sessionId"])["messages"]) == ["a", "b", "d"]
    assert client.fails("session/fork", sessionId=sid, atSeq=99)["code"] == -32602


# delete, restore, save


def test_delete_and_restore(client, other, session, home):
    """Into the trash and back, byte for byte; those attached are told; restore of an id in use is alreadyExists."""
    sid = session("a", "b")
    client.call("session/save", sessionId=sid)
    path = home.path / "data" / "sessions" / f"{sid}.jsonl"
    before = path.read_bytes()
    other.call("session/open", sessionId=sid)
    assert client.call("session/delete", sessionId=sid) == {}
    assert other.notification("session/deleted") == {"sessionId": sid}
    assert not path.exists()
    for method in ("session/open", "session/append", "session/delete"):
        extra = {"messages": []} if method == "session/append" else {}
        assert client.fails(method, sessionId=sid, **extra)["code"] == -31001
    assert sid in [
        one["sessionId"] for one in client.call("session/list", filter={"deleted": True}, limit=1000)["sessions"]
    ]
    assert client.call("session/restore", sessionId=sid)["session"]["messageCount"] == 2
    assert path.read_bytes() == before
    assert client.fails("session/restore", sessionId=sid)["data"]["kind"] in ("alreadyExists", "sessionNotFound")
    client.call("session/delete", sessionId=sid)
    client.call("session/new", sessionId=sid, name="second")
    assert client.fails("session/restore", sessionId=sid)["code"] == -31007


def test_delete_for_ever(client, session, home):
    """permanent leaves no byte of it in any file of the daemon."""
    sid = session("zebrafish-secret")
    client.call("session/save", sessionId=sid)
    client.call("session/delete", sessionId=sid, permanent=True)
    assert client.fails("session/restore", sessionId=sid)["code"] == -31001
    assert client.call("session/search", query="zebrafish")["hits"] == []
    holding = [
        str(path) for path in (home.path / "data").rglob("*") if path.is_file() and b"zebrafish" in path.read_bytes()
    ]
    assert holding == []


def test_delete_from_the_trash_for_ever(client, session):
    """A session that is already in the trash can also be deleted for ever."""
    sid = session("a")
    client.call("session/delete", sessionId=sid)
    assert client.call("session/delete", sessionId=sid, permanent=True) == {}
    assert client.fails("session/restore", sessionId=sid)["code"] == -31001


def test_save(client, other, session, home):
    """The file is current when answered; bytes is its size; those attached are told."""
    sid = session("a")
    other.call("session/open", sessionId=sid)
    [saved] = client.call("session/save", sessionId=sid)["saved"]
    assert saved == {
        "sessionId": sid,
        "path": str(home.path / "data" / "sessions" / f"{sid}.jsonl"),
        "bytes": saved["bytes"],
    }
    told = other.notification("session/saved")
    assert {key: told[key] for key in saved} == saved
    assert set(told) == {"sessionId", "path", "bytes", "savedAt"}
    content = (home.path / "data" / "sessions" / f"{sid}.jsonl").read_bytes()
    assert len(content) == saved["bytes"]
    assert b'"content":"a"' in content
    assert client.call("session/open", sessionId=sid)["session"]["dirty"] is False


def test_save_everything(client, other, sid):
    """Without an id every session that is behind is saved, open or not."""
    ids = [f"{sid}-{n}" for n in range(3)]
    for one in ids:
        other.call("session/new", sessionId=one, name="x")
    saved = [one["sessionId"] for one in client.call("session/save")["saved"]]
    assert set(ids) <= set(saved)
    assert client.call("session/save")["saved"] == []
    assert not any(client.call("session/open", sessionId=one)["session"]["dirty"] for one in ids)


def test_seq_is_never_used_twice(client, session):
    """Every change of a session takes the next seq; after clear and truncate too."""
    sid = session()
    seqs = [
        client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "a"}])["seq"],
        client.call("session/update", sessionId=sid, name="x")["session"]["seq"],
        client.call("state/set", sessionId=sid, values={"a": 1})["seq"],
        client.call("note/append", sessionId=sid, heading="h", content="c")["note"]["seq"],
        client.call("session/truncate", sessionId=sid, afterSeq=0)["session"]["seq"],
        client.call("state/clear", sessionId=sid)["seq"],
        client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "a"}])["seq"],
        client.call("session/clear", sessionId=sid)["session"]["seq"],
    ]
    assert seqs == list(range(1, 9))
