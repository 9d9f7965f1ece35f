"""Requests of one connection that once overtook or blocked each other. The numbers are those of the list of observed faults;
the others are in `test_seen_wrong_streams`, `test_seen_wrong_elsewhere` and `test_heartbeat`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.order.pipeline import Pipeline, Request, append, ids, kinds, on, streaming, user
from tests.zygote import ForkedHome

LARGE = 4500
"""Messages of a kilobyte: more than 4 MiB."""
TRIES = 10
Again = Callable[..., Pipeline]


@pytest.mark.parametrize(
    ("method", "params", "left"), [("session/truncate", {"afterSeq": 3}, ["m1", "m2", "m3"]), ("session/clear", {}, [])]
)
def test_01_no_append_overtakes_a_cut_of_a_large_session(
    forked: ForkedHome, client: Pipeline, again: Again, method: str, params: dict[str, Any], left: list[str]
) -> None:
    """`truncate` or `clear` and then `append`, sent without waiting to a session of more than 4 MiB that is not loaded: the append
    stays.
    """
    client.call("session/new", sessionId="a", messages=[user(f"m{n}", "x" * 1000) for n in range(1, LARGE + 1)])
    client.call("session/save")
    client = again()
    assert (forked.path / "data" / "sessions" / "a.jsonl").stat().st_size > 4 << 20
    answers = client.burst(on("a", method, **params), append("a", user("after")))
    assert kinds(answers) == ["ok", "ok"]
    assert ids(client.everything("a")) == [*left, "after"]


def spread(client: Pipeline, requests: list[Request]) -> None:
    """Send requests without waiting for their answers, a little apart, so that they meet a load at each of its steps."""
    numbers = []
    for request in requests:
        numbers.append(client.send(*request))
        client.call("daemon/hello")
    answers = client.answers(numbers)
    assert set(kinds(answers)) == {"ok"}


def test_02_appends_to_a_session_that_is_not_loaded_keep_their_order(client: Pipeline, again: Again) -> None:
    """60 appends, sent without waiting to each of 20 sessions that are not loaded, are there in the order in which they came."""
    names = [f"s{number}" for number in range(20)]
    client.burst(*[on(name, "session/new", messages=[streaming("s", "")]) for name in names])
    client.call("session/save")
    client = again(kill=True)
    sent, wrong = [f"m{number}" for number in range(60)], {}
    for name in names:
        spread(client, [append(name, user(one)) for one in sent])
        found = ids(client.everything(name))[1:]
        if found != sent:
            wrong[name] = found
    assert not wrong


def test_02_text_of_a_resumed_stream_keeps_its_order(client: Pipeline, again: Again) -> None:
    """A stream that continues after a kill -9, in 60 parts that are sent without waiting, in each of 20 sessions, reads as
    it was written.
    """
    names = [f"s{number}" for number in range(20)]
    client.burst(*[on(name, "session/new", messages=[streaming("s", "")]) for name in names])
    client = again(kill=True)
    parts, wrong = [f"{number} " for number in range(60)], {}
    for name in names:
        spread(client, [on(name, "session/extend", messageId="s", text=part) for part in parts])
        found = client.everything(name)[0]["content"]
        if found != "".join(parts):
            wrong[name] = found
    assert not wrong


Look = Callable[[Pipeline, str, dict[str, Any]], Any]


def file_of(client: Pipeline, name: str, answer: dict[str, Any]) -> list[str]:
    with open(answer["saved"][0]["path"]) as file:
        return [record["id"] for record in map(json.loads, file) if "role" in record]


def fork_of(client: Pipeline, name: str, answer: dict[str, Any]) -> list[str]:
    return ids(client.everything(answer["session"]["sessionId"]))


def exported(client: Pipeline, name: str, answer: dict[str, Any]) -> list[str]:
    return [record["id"] for record in map(json.loads, answer["content"].splitlines()) if "role" in record]


SEES: dict[str, tuple[Request, Request, Look, Any]] = {
    "append, save": (append("", user("b")), on("", "session/save"), file_of, ["a", "b"]),
    "append, read": (append("", user("b")), on("", "session/read"), lambda c, n, r: ids(r["messages"]), ["a", "b"]),
    "append, open": (append("", user("b")), on("", "session/open"), lambda c, n, r: ids(r["messages"]), ["a", "b"]),
    "append, export": (append("", user("b")), on("", "session/export", format="jsonl"), exported, ["a", "b"]),
    "append, fork": (append("", user("b")), on("", "session/fork"), fork_of, ["a", "b"]),
    "state/set, state/get": (
        on("", "state/set", values={"k": 1}), on("", "state/get"), lambda c, n, r: r["values"], {"k": 1},
    ),
    "note/append, note/list": (
        on("", "note/append", heading="h", content="c", id="n"), on("", "note/list"), lambda c, n, r: ids(r["notes"]), ["n"],
    ),
    "clear, read": (on("", "session/clear"), on("", "session/read"), lambda c, n, r: ids(r["messages"]), []),
    "delete, restore": (on("", "session/delete"), on("", "session/restore"), lambda c, n, r: ids(c.everything(n)), ["a"]),
}  # fmt: skip
"""Two requests, what of the second one's answer is looked at, and what must be there."""


@pytest.mark.parametrize("pair", SEES)
def test_03_a_request_sees_what_the_one_before_it_did(client: Pipeline, pair: str) -> None:
    """Two requests in one write to a loaded session: the second one's answer shows what the first one did, every time."""
    (first, earlier), (second, later), look, expected = SEES[pair]
    wrong = []
    for number in range(TRIES):
        name = f"s{number}"
        client.call("session/new", sessionId=name, messages=[user("a")])
        answers = client.burst((first, {**earlier, "sessionId": name}), (second, {**later, "sessionId": name}))
        found = look(client, name, answers[1]["result"]) if kinds(answers) == ["ok", "ok"] else answers
        if found != expected:
            wrong.append(found)
    assert not wrong


def test_03_a_new_session_is_found_whatever_is_deleted_around_it(client: Pipeline) -> None:
    """`session/new` and `session/delete` of one id in turns, in one write: each is done, as one by one."""
    wrong = []
    for number in range(TRIES):
        name = f"s{number}"
        turns = [on(name, "session/new", messages=[user(str(number))]), on(name, "session/delete")] * 5
        found = kinds(client.burst(*turns, on(name, "session/new"), append(name, user("b")), on(name, "session/read")))
        if set(found) != {"ok"}:
            wrong.append(found)
    assert not wrong


def test_04_an_id_that_the_daemon_makes_is_never_refused(client: Pipeline) -> None:
    """Twenty `session/new {}` in one write make twenty sessions; six forks in one write make six."""
    answers = client.burst(*[("session/new", {"messages": [user("a")]})] * 20)
    assert kinds(answers) == ["ok"] * 20
    made = [answer["result"]["session"]["sessionId"] for answer in answers]
    forks = client.burst(*[on(made[0], "session/fork")] * 6)
    assert kinds(forks) == ["ok"] * 6
    made += [answer["result"]["session"]["sessionId"] for answer in forks]
    assert len(set(made)) == 26
    for name in made:
        assert ids(client.everything(name)) == ["a"]


def test_04_clients_that_make_sessions_at_once_get_one_each(connect: Callable[[], Pipeline]) -> None:
    """Eight connections that send five `session/new {}` and five forks each, all at once, get eighty sessions."""
    clients = [connect() for _ in range(8)]
    clients[0].call("session/new", sessionId="a", messages=[user("a")])
    sent = [client.send_all(*[("session/new", {}), on("a", "session/fork")] * 5) for client in clients]
    answers = [answer for client, numbers in zip(clients, sent, strict=True) for answer in client.answers(numbers)]
    assert kinds(answers) == ["ok"] * 80
    assert len({answer["result"]["session"]["sessionId"] for answer in answers}) == 80


def test_15_four_requests_at_once_do_what_they_do_one_by_one(client: Pipeline) -> None:
    """`append`, `delete`, `restore`, `append` in one write: all are done, and both messages are there."""
    wrong = []
    for number in range(TRIES):
        name = f"s{number}"
        client.call("session/new", sessionId=name, messages=[user("a")])
        answers = client.burst(
            append(name, user("b")), on(name, "session/delete"), on(name, "session/restore"), append(name, user("c"))
        )
        found = ids(client.everything(name)) if kinds(answers) == ["ok"] * 4 else kinds(answers)
        if found != ["a", "b", "c"]:
            wrong.append(found)
    assert not wrong
