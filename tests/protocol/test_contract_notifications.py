"""docs/protocol.md: notifications from the daemon."""

from __future__ import annotations

import json
import os
import threading

import pytest

from tests.home import Home


def test_every_kind_of_change(client, other, session):
    """The other clients get each change once, with its kind, seq and fields; its author never does."""
    sid = session("m")
    opened = other.call("session/open", sessionId=sid)["session"]
    client.call(
        "session/append",
        sessionId=sid,
        messages=[{"id": "r", "role": "assistant", "content": "a", "status": "streaming"}],
    )
    client.call("session/extend", sessionId=sid, messageId="r", text="b")
    client.call("session/finish", sessionId=sid, messageId="r", metadata={"k": 1})
    client.call("session/update", sessionId=sid, name="n")
    client.call("note/append", sessionId=sid, heading="H", content="c")
    client.call("state/set", sessionId=sid, values={"a": 1, "b": None})
    client.call("state/clear", sessionId=sid)
    client.call("session/truncate", sessionId=sid, afterSeq=1)
    client.call("session/clear", sessionId=sid)
    told = [other.notification("session/changed") for _ in range(9)]
    changes = [change for one in told for change in one["changes"]]
    assert (
        [one["seq"] for one in told]
        == [change["seq"] for change in changes]
        == list(range(opened["seq"] + 1, opened["seq"] + 10))
    )
    kinds = ["appended", "extended", "finished", "updated", "note", "state", "state", "truncated", "cleared"]
    assert [change["kind"] for change in changes] == kinds
    assert changes[0]["messages"][0]["content"] == "a"
    assert (changes[1]["messageId"], changes[1]["text"]) == ("r", "b")
    assert (changes[2]["messageId"], changes[2]["status"]) == ("r", "done")
    assert (changes[3]["session"]["name"], changes[3]["session"]["sessionId"]) == ("n", sid)
    assert changes[5]["values"] == {"a": 1}
    assert changes[6]["values"] == {"a": None}
    assert all(one["sessionId"] == sid and set(one["origin"]) == {"client", "connection"} for one in told)
    client.call("daemon/hello")
    assert not [one for one in client.notifications if one[0] == "session/changed"]


def test_restore_flag(client, session):
    """With restore: true, right after the answer session/restored and then all state as one change that says replay."""
    sid = session("m")
    client.call("state/set", sessionId=sid, values={"panel": {"a": [1]}})
    result = client.call("session/open", sessionId=sid, restore=True)
    assert client.notifications == []
    client.call("daemon/hello")
    (first, restored), (second, changed) = client.notifications[:2]
    assert (first, second) == ("session/restored", "session/changed")
    assert (restored["session"]["sessionId"], restored["messageCount"]) == (sid, 1)
    assert changed["replay"] is True
    assert changed["seq"] == result["session"]["seq"]
    assert changed["changes"][0]["kind"] == "state"
    assert changed["changes"][0]["values"] == {"panel": {"a": [1]}}


def test_an_outside_edit_is_merged_and_told_once(client, other, session, home):
    """A line added and one removed by hand: session/reloaded for those attached, once; what went is in the trash."""
    sid = session("a", "b", "c")
    client.call("session/save", sessionId=sid)
    other.call("session/open", sessionId=sid)
    path = home.path / "data" / "sessions" / f"{sid}.jsonl"
    lines = [line for line in path.read_text().splitlines() if '"content":"b"' not in line]
    path.write_text("\n".join([*lines, '{"role": "user", "content": "by hand"}']) + "\n")
    told = other.notification("session/reloaded")
    assert (told["reason"], told["session"]["sessionId"]) == ("externalEdit", sid)
    messages = client.call("session/open", sessionId=sid)["messages"]
    assert [one["content"] for one in messages] == ["a", "c", "by hand"]
    assert messages[-1]["seq"] > 3
    assert client.call("session/open", sessionId=sid, since=2)["changes"] is None
    other.call("daemon/hello")
    assert [one for one in other.notifications if one[0] == "session/reloaded"] == []
    trash = client.call("session/list", filter={"deleted": True}, limit=1000)["sessions"]
    assert any(one["sessionId"].startswith(f"{sid}.was-") for one in trash)
    assert (
        client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": "d"}])["seq"]
        == told["session"]["seq"] + 1
    )


def test_an_edit_found_on_open_is_told_once(client, other, session, home):
    """A client that opens right after an edit gets the new content, and the others hear of it once."""
    sid = session("a")
    client.call("session/save", sessionId=sid)
    path = home.path / "data" / "sessions" / f"{sid}.jsonl"
    with path.open("a") as file:
        file.write('{"role": "user", "content": "by hand"}\n')
    assert [one["content"] for one in other.call("session/open", sessionId=sid)["messages"]] == ["a", "by hand"]
    with path.open("a") as file:
        file.write('{"role": "user", "content": "again"}\n')
    counts = [client.notification("session/reloaded")["session"]["messageCount"]]
    while counts[-1] < 3:
        counts.append(client.notification("session/reloaded")["session"]["messageCount"])
    assert counts == [2, 3]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ({"sessionId": "p", "seq": 3}, {"sessionId": "p", "seq": 3}),
        ({"sessionId": "p"}, {"sessionId": "p", "seq": None}),
        ({}, None),
        ({"sessionId": 5, "seq": 1}, None),
        ({"sessionId": "p", "seq": -1}, None),
        ({"sessionId": "p", "seq": "x"}, None),
    ],
)
def test_an_odd_parent_in_a_file_harms_nobody(client, session, home, written, shown):
    """A file may have anything there: the session is listed and opened, and its parent is shown if it is valid."""
    sid = session("a")
    client.call("session/save", sessionId=sid)
    path = home.path / "data" / "sessions" / f"{sid}.jsonl"
    header, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(json.dumps({**json.loads(header), "parent": written}).encode() + b"\n" + rest)
    assert client.call("session/open", sessionId=sid)["session"]["parent"] == shown
    assert {one["sessionId"]: one["parent"] for one in client.call("session/list")["sessions"]}[sid] == shown


def test_a_deleted_file_is_told(client, session, home):
    """The file is removed: session/deleted, and the known content is in the trash."""
    sid = session("a")
    client.call("session/save", sessionId=sid)
    os.unlink(home.path / "data" / "sessions" / f"{sid}.jsonl")
    assert client.notification("session/deleted") == {"sessionId": sid}
    assert client.fails("session/open", sessionId=sid)["code"] == -31001
    assert client.call("session/restore", sessionId=sid)["session"]["messageCount"] == 1


def test_touching_a_file_is_nothing(client, session, home):
    """The same content with another mtime is not a change."""
    sid = session("a")
    client.call("session/save", sessionId=sid)
    path = home.path / "data" / "sessions" / f"{sid}.jsonl"
    os.utime(path)
    path.write_bytes(path.read_bytes())
    assert client.call("session/open", sessionId=sid)["session"]["seq"] == 1
    assert [one for one in client.notifications if one[0] == "session/reloaded"] == []


def test_a_slow_reader_resyncs(tmp_path):
    """A peer that does not read loses changes and is told so when it reads again; after that seq everything is contiguous."""
    with Home(tmp_path, "[limits]\noutgoing_bytes = 65536\n") as home:
        writer, slow = home.client(), home.client()
        writer.call("session/new", sessionId="a")
        slow.call("session/open", sessionId="a")
        for _ in range(100):
            writer.call("session/append", sessionId="a", messages=[{"role": "user", "content": "x" * 20_000}])
        number = slow.send("daemon/hello")
        slow.answer(number)
        seqs = [params["seq"] for method, params in slow.notifications if method == "session/changed"]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) < 100
        resync = slow.notification("session/resync")
        assert (resync["sessionId"], resync["seq"]) == ("a", 100)
        for number in range(3):
            writer.call("session/append", sessionId="a", messages=[{"role": "user", "content": str(number)}])
        assert [slow.notification("session/changed")["seq"] for _ in range(3)] == [101, 102, 103]
        missed = slow.call("session/open", sessionId="a", since=seqs[-1])
        assert [change["seq"] for change in missed["changes"]] == list(range(seqs[-1] + 1, 104))


@pytest.mark.parametrize("how", ["since", "new connection"])
def test_open_while_others_write(home, sid, how):
    """A client that opens with `since` while three others write gets every change exactly once: in the answer, or after it."""
    home.client().call("session/new", sessionId=sid, name="x")
    stop = threading.Event()

    def write(number: int) -> None:
        client = home.client()
        count = 0
        while not stop.is_set():
            client.call(
                "session/append", sessionId=sid, messages=[{"id": f"{number}-{count}", "role": "user", "content": "x"}]
            )
            count += 1

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        reader, known, seen = home.client(), 0, []
        rounds = 0
        while rounds < 25 or len(seen) < 150:
            rounds += 1
            result = reader.call("session/open", sessionId=sid, since=known)
            seqs = [change["seq"] for change in result["changes"]]
            assert result["session"]["seq"] == (seqs[-1] if seqs else known)
            reader.call("daemon/hello")
            if how == "since":
                reader.call("session/close", sessionId=sid)
            seqs += [params["seq"] for method, params in reader.notifications if method == "session/changed"]
            if how != "since":
                reader.close()
                reader = home.client()
            reader.notifications.clear()
            seen += seqs
            known = seen[-1] if seen else known
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert seen == list(range(1, len(seen) + 1))


def test_notifications_hold_no_raw_newline(client, other, session):
    """In lines mode a notification is one line, whatever is in the content."""
    sid = session("m")
    other.call("session/open", sessionId=sid)
    text = "a\nb\u2028c\r\n\x0b\x0c\x85"
    client.call("session/append", sessionId=sid, messages=[{"role": "user", "content": text}])
    assert other.notification("session/changed")["changes"][0]["messages"][0]["content"] == text
