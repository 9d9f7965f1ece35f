"""How commands reach the daemon: single connections, and what is said when it goes away."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sessiond.cli import EX_FAILED, EX_UNAVAILABLE, _failed
from sessiond.cli.client import Single, ask_if_running, connect
from sessiond.cli.output import ENDED
from sessiond.client import requests
from sessiond.client.failures import AnswerLost, NotText, error_of
from sessiond.endpoint import Endpoint, Places, places
from sessiond.errors import Conflict, DaemonUnreachable, SessiondError


def say(end: socket.socket, *messages: Any) -> None:
    for message in messages:
        end.sendall(json.dumps(message).encode() + b"\n")


class Pair:
    """A target whose other end is ours."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()

    def dial(self, deadline: float) -> Any:
        return self.ours

    def token(self) -> None:
        return None


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    with made.theirs, made.ours:
        yield made


def single(pair: Pair, timeout_s: float = 10) -> Single:
    return Single(pair, introduced=False, timeout_s=timeout_s)


def test_only_the_answer_to_the_question_is_an_answer(pair: Pair) -> None:
    """Other ids, notifications and requests come in between; a request is refused, since nobody here would answer it."""
    say(
        pair.theirs,
        {"id": 99, "result": "another's"},
        {"method": "session/saved", "params": {"sessionId": "s"}},
        {"id": "d1", "method": "workspace/configuration"},
        {"id": 1, "result": {"pid": 7}},
    )
    with single(pair) as connection:
        assert connection.ask(requests.hello()).value.pid == 7
        asked, refused = (json.loads(line) for line in pair.theirs.recv(1 << 16).splitlines())
        assert asked["method"] == "daemon/hello"
        assert (refused["id"], refused["error"]["code"]) == ("d1", -32601)
        assert next(connection.notifications()).method == "session/saved"


def test_notifications_end_with_the_connection(pair: Pair) -> None:
    """After the last of them, as an error without a number, which nothing takes for standard output's."""
    say(pair.theirs, {"id": 5, "result": "late"}, {"method": "session/deleted"})
    with single(pair) as connection:
        coming = connection.notifications()
        assert next(coming).method == "session/deleted"
        pair.theirs.close()
        with pytest.raises(ConnectionError) as ended:
            next(coming)
    assert (str(ended.value), ended.value.errno) == (ENDED, None)


def test_a_daemon_that_says_nothing(pair: Pair) -> None:
    """It is told apart from one that is gone, with what to do."""
    with (
        single(pair, 0.01) as connection,
        pytest.raises(DaemonUnreachable, match=r"did not answer within 0.01 s; run `sessiond doctor`"),
    ):
        connection.ask(requests.hello())


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (AnswerLost("lost", hint="look"), EX_FAILED, ENDED),
        (DaemonUnreachable("nobody there", hint="h"), EX_UNAVAILABLE, "nobody there; h"),
        (NotText("half a pair"), EX_FAILED, "an argument is not valid UTF-8; check the terminal's encoding"),
        (Conflict("came first", hint="h"), EX_FAILED, "came first; h"),
    ],
)
def test_how_a_failure_is_told(capsys: pytest.CaptureFixture[str], error: SessiondError, code: int, words: str) -> None:
    """One line, and an exit code that says whether there was a daemon."""
    assert _failed(error) == code
    assert capsys.readouterr().err == f"sessiond: {words}\n"


def test_an_argument_that_is_no_text(pair: Pair) -> None:
    """Bytes of a terminal in another encoding are refused before anything is sent."""
    with single(pair) as connection:
        with pytest.raises(NotText):
            connection.ask(requests.update("s", {"name": "caf\udce9"}))
        pair.theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            pair.theirs.recv(1)


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


@contextmanager
def daemon(where: Places, *connections: tuple[str, ...]) -> Iterator[list[list[str]]]:
    """Answers on each connection as many requests as there are words, in order, and ends it at the next. What was asked."""
    asked: list[list[str]] = []
    with socket.socket(socket.AF_UNIX) as listening:
        path = f"{where.run}/{len(os.listdir(where.run))}"
        listening.bind(path)
        listening.listen()

        def serve() -> None:
            for answers in connections:
                end, _ = listening.accept()
                asked.append([])
                with end, end.makefile("rb") as lines:
                    for answer in (*answers, None):
                        line = lines.readline()
                        if not line:
                            break
                        asked[-1].append(json.loads(line)["method"])
                        if answer is not None:
                            say(end, {"id": json.loads(line)["id"], "result": json.loads(answer)})

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with open(where.endpoint_file, "wb") as file:
            file.write(Endpoint(path, 1, 1, "0", "i").encode())
        yield asked
        thread.join(10)


@pytest.fixture
def where(monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    with tempfile.TemporaryDirectory(prefix="sd-") as home:  # short, so that the socket lies in it
        monkeypatch.setenv("SESSIOND_HOME", home)
        found = places()
        for folder in (found.data, found.run):
            os.makedirs(folder, 0o700)
        yield found


WELCOME = '{"capabilities": {"experimental": {"sessiond": {"protocolVersion": 1}}}}'
INFO = '{"session": {"sessionId": "s"}}'


def test_a_question_to_a_daemon_that_is_just_ending_is_asked_again(where: Places) -> None:
    """Once, over another connection."""
    with daemon(where, (), ('{"pid": 7}',)) as asked:
        answer = ask_if_running(where, requests.hello())
    assert answer is not None and answer.value.pid == 7
    assert asked == [["daemon/hello"]] * 2
    with daemon(where, (), ()) as asked, pytest.raises(ConnectionError, match="closed the connection"):
        ask_if_running(where, requests.hello())
    assert asked == [["daemon/hello"]] * 2


def test_what_must_not_be_done_twice_is_asked_once(where: Places) -> None:
    """A daemon that ends before the handshake was never asked; one that ends after it may have done it."""
    with daemon(where, (), (WELCOME,)) as asked, pytest.raises(AnswerLost), connect(start=False) as client:
        client.answer(requests.fork("s", None, None))
    assert asked == [["initialize"], ["initialize", "session/fork"]]
    with daemon(where, (WELCOME,), (WELCOME, INFO)) as asked, connect(start=False) as client:
        assert client.answer(requests.update("s", {"name": "n"})).value.session.session_id == "s"
    assert asked == [["initialize", "session/update"]] * 2
