"""Where a session's end or its place once met another session of the same name. The numbers are those of the list of observed faults."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.home import ANSWER_S
from tests.order.pipeline import Pipeline, append, ids, kind, kinds, on, user
from tests.zygote import ForkedHome

MIB = 1 << 20


def slow_to_empty(home: ForkedHome, client: Pipeline, name: str) -> None:
    """The trash gets an entry of that id, which takes long to remove."""
    client.call("session/new", sessionId=name, messages=[user("older")])
    client.call("session/delete", sessionId=name)
    entry = home.path / "data" / "trash" / "default" / name
    for number in range(4000):
        (entry / f"more-{number}").touch()


@pytest.mark.parametrize("who", ["the same client", "another client"])
def test_05_a_permanent_delete_strikes_out_no_later_session(
    forked: ForkedHome, connect: Callable[[], Pipeline], again: Callable[..., Pipeline], who: str
) -> None:
    """A session that is made while one of the same id is deleted for ever, and was acknowledged, is there after kill -9."""
    deleter = connect()
    maker = deleter if who == "the same client" else connect()
    slow_to_empty(forked, deleter, "a")
    deleter.call("session/new", sessionId="a", messages=[user("old")])
    deleted = deleter.send("session/delete", {"sessionId": "a", "permanent": True})
    made: dict[str, Any] = {"error": {"data": {"kind": "alreadyExists"}}}
    deadline = time.monotonic() + ANSWER_S
    while kind(made) == "alreadyExists":
        assert time.monotonic() < deadline, "the session that was deleted is still in the way"
        made = maker.answer(maker.send("session/new", {"sessionId": "a", "messages": [user("new")]}))
    assert kind(made) == "ok", made
    assert kind(deleter.answer(deleted)) == "ok"
    client = again(kill=True)
    assert ids(client.everything("a")) == ["new"]


def chats(parent: Path, word: str) -> Path:
    """A folder `chats` with one session, `chat`."""
    folder = parent / "chats"
    folder.mkdir(parents=True)
    (folder / "chat.jsonl").write_text(
        '{"sessiond":1,"id":"chat","createdAt":"2026-01-11T14:30:22.000Z"}\n'
        f'{{"id":"{word}","seq":1,"role":"user","content":"{word}","timestamp":"2026-01-11T14:30:23.000Z"}}\n'
    )
    return folder


@pytest.mark.parametrize("named", [False, True])
def test_06_two_folders_that_are_adopted_at_once_are_two_stores(
    connect: Callable[[], Pipeline], tmp_path: Path, named: bool
) -> None:
    """Two `store/adopt` at once of folders of one name get a name each, and words go where they belong; of two that ask for the same
    name one is refused.
    """
    clients, wrong = [connect(), connect()], []
    for number in range(3):
        folders = [chats(tmp_path / f"{side}{number}", f"{side}{number}") for side in ("left", "right")]
        wanted = {"format": "jsonl", **({"name": f"same{number}"} if named else {})}
        sent = [
            client.send("store/adopt", {"path": str(folder), **wanted})
            for client, folder in zip(clients, folders, strict=True)
        ]
        answers = [client.answer(one) for client, one in zip(clients, sent, strict=True)]
        if named and sorted(kinds(answers)) != ["alreadyExists", "ok"]:
            wrong.append(f"both asked for the name: {answers}")
        if not named and kinds(answers) != ["ok", "ok"]:
            wrong.append(f"refused: {answers}")
        for folder, answer in zip(folders, answers, strict=True):
            if kind(answer) == "ok":
                wrong += misplaced(clients[0], folder, answer["result"]["store"])
    assert not wrong, "\n".join(wrong)


def misplaced(client: Pipeline, folder: Path, store: dict[str, Any]) -> list[str]:
    """What is wrong after a word was said to the one session of a store."""
    word, name = folder.parent.name, f"{store['name']}/chat"
    found = [] if store["path"] == str(folder) else [f"{folder} was answered with {store}"]
    answers = client.one_by_one(append(name, user(f"to {word}")), on(name, "session/save"), on(name, "session/read"))
    if kinds(answers) != ["ok"] * 3:
        return [*found, f"{name}: {answers}"]
    if ids(answers[2]["result"]["messages"]) != [word, f"to {word}"]:
        found.append(f"{name} of {folder} has {ids(answers[2]['result']['messages'])}")
    if f'"to {word}"' not in (folder / "chat.jsonl").read_text():
        found.append(f"what was said to {name} is not in {folder}")
    return found


def test_07_a_move_leaves_the_trash_alone(client: Pipeline, tmp_path: Path) -> None:
    """An older session of the same id is in the trash as before after `session/move`, and can be restored."""
    other = tmp_path / "other"
    other.mkdir()
    client.call("store/adopt", path=str(other), name="other", format="jsonl")
    client.call("session/new", sessionId="a", messages=[user("older")])
    client.call("session/delete", sessionId="a")
    client.call("session/new", sessionId="a", messages=[user("newer")])
    assert client.call("session/move", sessionId="a", store="other")["session"]["sessionId"] == "other/a"
    assert ids(client.everything("other/a")) == ["newer"]
    listed = client.call("session/list", filter={"deleted": True})["sessions"]
    assert [one["sessionId"] for one in listed] == ["a"]
    client.call("session/restore", sessionId="a")
    assert ids(client.everything("a")) == ["older"]


def test_08_a_slow_reader_learns_of_a_deletion(connect: Callable[[], Pipeline]) -> None:
    """A connection that reads nothing while a session that it has open grows by 12 MiB and is then deleted gets an error
    once it reads again.
    """
    slow, writer = connect(), connect()
    for name in ("a", "b"):
        writer.call("session/new", sessionId=name)
        slow.call("session/open", sessionId=name)
    for number in range(12):
        writer.call("session/append", sessionId="a", messages=[user(f"m{number}", "x" * MIB)])
    writer.call("session/append", sessionId="b", messages=[user("last")])
    writer.call("session/delete", sessionId="a")
    for _ in range(2):  # nothing more is read from it before it has read what waits
        slow.call("daemon/hello")
    told = [(method, params["sessionId"]) for method, params in slow.notifications]
    assert ("session/resync", "b") in told, "it did read slowly"
    assert told.count(("session/deleted", "a")) == 1
