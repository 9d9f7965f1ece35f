"""The Common Lisp client, in a real SBCL against real daemons: its own suite, and a session shared with another client."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys

import pytest

from sessiond.endpoint import places
from sessiond.reach import reach
from tests.clients.everyone import need_lisp
from tests.clients.tmux import Terminal
from tests.home import ANSWER_S, Client
from tests.once import once
from tests.shell import ROOT, Shell, wait_until

LISP = ROOT / "clients" / "lisp"
WIRE = ROOT / "tests" / "wire"
FAKE = ROOT / "tests" / "clients" / "fake_daemon.py"
SUITE_S = 480
NAMES = re.findall(r"^\(deftest (\S+)", (LISP / "test" / "tests.lisp").read_text(), re.MULTILINE)
NAMES += [f"wire-{path.stem}" for path in sorted(WIRE.glob("*.wire"))]
pytestmark = pytest.mark.timeout(SUITE_S + 60)
_OK = re.compile(r"^((?:not )?ok (\S+?)(?:: .*)?)$", re.MULTILINE)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Where `sessiond` is found, and a place of its own for what is compiled."""
    sbcl = need_lisp()
    folder = tmp_path_factory.mktemp("lisp")
    program = folder / "sessiond"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m sessiond "$@"\n')
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SESSIOND_", "XDG_"))}
    return {
        **kept, "SBCL": sbcl, "SESSIOND": str(program), "SESSIOND_WIRE": str(WIRE), "XDG_CACHE_HOME": str(folder), "LANG": "C.UTF-8",
        "SESSIOND_FAKE": f"{sys.executable} {FAKE}",
    }  # fmt: skip


@pytest.fixture(scope="module")
def suite(environment, tmp_path_factory):
    """Name of a test -> the line that it ended with."""

    def run(folder):
        done = subprocess.run(
            [environment["SBCL"], "--script", LISP / "test" / "run.lisp"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SUITE_S,
            check=False,
        )
        assert _OK.search(done.stdout), done.stdout + done.stderr
        (folder / "said").write_text(done.stdout, "utf-8")

    said = (once(tmp_path_factory, "lisp suite", run) / "said").read_text("utf-8")
    return {name: line for line, name in _OK.findall(said)}


@pytest.mark.parametrize("name", NAMES)
def test_suite(suite, name):
    """The claim of that test in clients/lisp/test."""
    assert suite.get(name) == f"ok {name}"


class Partner:
    """A Lisp that has a session open."""

    def __init__(self, environment: dict[str, str], shell: Shell, session_id: str) -> None:
        self.process = subprocess.Popen(
            [environment["SBCL"], "--script", LISP / "test" / "partner.lisp", session_id],
            env={**environment, "SESSIOND_HOME": str(shell.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def hears(self, line):
        assert self.process.stdout.readline() == line + "\n"

    def says(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def ends_well(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0

    def close(self):
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture
def partner(environment, shell):
    """Starts a Lisp that has a session open."""
    made = []

    def start(session_id: str) -> Partner:
        made.append(Partner(environment, shell, session_id))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def connect(shell):
    """Makes clients of the home's daemon, which is started where none runs."""
    made = []

    def client() -> Client:
        assert shell("list").code == 0
        sock = socket.socket(fileno=reach(places(shell.env), start=False).detach())
        sock.settimeout(ANSWER_S)
        made.append(Client(sock))
        return made[-1]

    yield client
    for one in made:
        one.close()


def test_live_sharing(partner, shell, connect):
    """Lisp and another client hold one conversation, streamed replies included, also over a kill -9."""
    client = connect()
    session_id = client.call("session/new", messages=[{"role": "user", "content": "前から"}])["session"]["sessionId"]
    lisp = partner(session_id)
    lisp.hears("open 前から")
    lisp.hears("draft ")
    lisp.says("hello 😀")
    change = client.notification("session/changed")
    assert change["changes"][0]["messages"][0]["content"] == "hello 😀"
    assert change["origin"]["client"] == "lisp"
    reply = {"id": "r", "role": "assistant", "content": "Once", "status": "streaming"}
    client.call("session/append", sessionId=session_id, messages=[reply])
    client.call("session/extend", sessionId=session_id, messageId="r", text=" 昔々")
    client.call("session/finish", sessionId=session_id, messageId="r")
    for line in ("appended Once", "extended  昔々", "finished done"):
        lisp.hears(line)
    shell.kill()
    client = connect()
    client.call("session/append", sessionId=session_id, messages=[{"role": "user", "content": "after"}])
    lisp.hears("appended after")
    lisp.says("still here")
    lisp.ends_well()
    read = client.call("session/read", sessionId=session_id)["messages"]
    assert [message["content"] for message in read] == ["前から", "hello 😀", "Once 昔々", "after", "still here"]


def test_a_draft_survives_a_killed_lisp(partner, connect):
    """What was typed and not sent is there again after kill -9 of the Lisp."""
    client = connect()
    session_id = client.call("session/new")["session"]["sessionId"]

    def draft():
        return client.call("state/get", sessionId=session_id)["values"].get("draft:lisp")

    lisp = partner(session_id)
    lisp.says("draft: まだ送っていない 🚀")
    wait_until(lambda: draft() == "まだ送っていない 🚀")
    lisp.process.kill()
    lisp.process.wait()
    again = partner(session_id)
    again.hears("open ")
    again.hears("draft まだ送っていない 🚀")
    again.says("draft: ")
    again.ends_well()
    assert draft() is None


def test_lisp_and_the_terminal(partner, shell, connect):
    """Lisp and `sessiond repl` see each other's words as they are said."""
    session_id = connect().call("session/new")["session"]["sessionId"]
    folder = shell.path / "terminal"
    folder.mkdir()
    shell.env["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "clients" / "repl")))
    lisp = partner(session_id)
    terminal = Terminal(shell.command("repl", "--session-id", session_id), shell.env, folder)
    try:
        lisp.hears("open ")
        lisp.hears("draft ")
        terminal.shows(":0]")
        lisp.says("from Lisp 舌")
        terminal.shows("from Lisp 舌")
        terminal.say("from the terminal 端末")
        # The draft of what is typed comes first, and goes as it is said.
        while (line := lisp.process.stdout.readline()) == "state\n":
            pass
        assert line == "appended from the terminal 端末\n"
        lisp.ends_well()
    finally:
        terminal.close()
