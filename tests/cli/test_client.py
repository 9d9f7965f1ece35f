"""The commands' small client, against a daemon that sends odd things."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.cli.client import Client
from sessiond.client.failures import error_of
from sessiond.errors import Conflict, DaemonUnreachable, InvalidParams, SessiondError

Ends = tuple[Client, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with theirs, Client(ours, timeout_s=10) as client:
        yield client, theirs


def say(end: socket.socket, *messages: Any) -> None:
    for message in messages:
        end.sendall(json.dumps(message).encode() + b"\n")


def heard(end: socket.socket) -> list[Any]:
    return [json.loads(line) for line in end.recv(1 << 16).splitlines()]


def test_only_the_answer_to_the_question_is_an_answer(ends: Ends) -> None:
    """Other ids, lists, notifications and requests come in between; a request is refused, since nobody here would answer it."""
    client, end = ends
    say(
        end,
        [1, 2],
        {"id": 99, "result": "another's"},
        {"method": "session/saved", "params": {"n": 1}},
        {"id": "d1", "method": "workspace/configuration"},
        {"id": 1, "result": "mine"},
    )
    assert client.call("daemon/hello") == "mine"
    asked, refused = heard(end)
    assert asked["method"] == "daemon/hello"
    assert (refused["id"], refused["error"]["code"]) == ("d1", -32601)
    assert next(client.notifications()) == ("session/saved", {"n": 1})


def test_notifications_go_to_whoever_asked_for_them(ends: Ends) -> None:
    """Those before the answer, in order; later ones wait, and answers that nobody waits for are ignored."""
    client, end = ends
    told: list[tuple[str, Any]] = []
    say(end, {"method": "$/progress", "params": {"n": 1}}, {"id": 1, "result": None})
    client.call("daemon/backup", notified=lambda method, params: told.append((method, params)))
    assert told == [("$/progress", {"n": 1})]
    say(end, {"id": 5, "result": "late"}, {"method": "session/deleted"})
    coming = client.notifications()
    assert next(coming) == ("session/deleted", {})
    end.close()
    with pytest.raises(ConnectionError):
        next(coming)


def test_an_error_without_an_id_is_the_answer(ends: Ends) -> None:
    """So says JSON-RPC of a request that could not be read."""
    client, end = ends
    say(end, {"id": None, "error": {"code": -32700, "message": "no JSON"}})
    with pytest.raises(SessiondError, match="no JSON"):
        client.call("daemon/hello")


def test_a_daemon_that_says_nothing(ends: Ends) -> None:
    """The error differs from that of a daemon that is gone, and says what to do."""
    client, _ = ends
    client._socket.settimeout(0.01)
    with pytest.raises(DaemonUnreachable, match="sessiond doctor"):
        client.call("daemon/hello")


def test_an_argument_that_is_no_text(ends: Ends) -> None:
    """Bytes of a terminal in another encoding are refused before anything is sent."""
    client, end = ends
    with pytest.raises(InvalidParams, match="UTF-8"):
        client.call("session/new", {"name": "caf\udce9"})
    end.setblocking(False)
    with pytest.raises(BlockingIOError):
        end.recv(1)


@pytest.mark.parametrize(
    ("wire", "kind", "message"),
    [
        ({"message": "m", "data": {"kind": "conflict", "seq": 5, "hint": "h"}}, Conflict, "m"),
        ({"message": "m", "data": {"kind": "brandNew"}}, SessiondError, "m"),
        ({"message": "m", "data": "text"}, SessiondError, "m"),
        ({"code": -1}, SessiondError, "the request failed"),
        ("odd", SessiondError, "odd"),
    ],
)
def test_an_error_of_any_shape_is_an_exception(wire: Any, kind: type[SessiondError], message: str) -> None:
    """Of the kind that the daemon raised where that is known here; a kind of a newer daemon is kept as a word."""
    error = error_of(wire)
    assert (type(error), error.message) == (kind, message)
    if kind is Conflict:
        assert (error.data["seq"], error.hint) == (5, "h")
    if "brandNew" in str(wire):
        assert error.data["kind"] == "brandNew"


@pytest.mark.parametrize(
    ("method", "words", "again"),
    [("session/list", 0, True), ("session/append", 0, False), ("session/list", 1, False)],
)
def test_a_question_to_a_daemon_that_is_just_ending_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, words: int, again: bool
) -> None:
    """Once, on a new connection, and only what changes nothing, as long as nothing was heard on the connection."""
    path = str(tmp_path / "s")
    asked: list[str] = []

    def reach(*_: object, **__: object) -> socket.socket:
        found = socket.socket(socket.AF_UNIX)
        found.connect(path)
        return found

    def serve(listening: socket.socket) -> None:
        for answers in (words, 9)[: 1 + again]:
            end, _ = listening.accept()
            with end, end.makefile("rb") as lines:
                for number, line in enumerate(lines):
                    asked.append(json.loads(line)["method"])
                    if number >= answers:
                        break
                    say(end, {"id": json.loads(line)["id"], "result": "heard"})

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        monkeypatch.setattr("sessiond.cli.client.reach", reach)
        with Client.connect(timeout_s=10) as client:
            for _ in range(words):
                assert client.call("daemon/hello") == "heard"
            if again:
                assert client.call(method) == "heard"
            else:
                with pytest.raises(ConnectionResetError):
                    client.call(method)
    assert asked == ["daemon/hello"] * words + [method] * (1 + again)
