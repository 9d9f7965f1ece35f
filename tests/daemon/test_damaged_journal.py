"""A disk damages the journal of a killed daemon, anywhere and in any way: acknowledged changes are there, or their loss is reported."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from sessiond.journal.record import SEGMENT_HEADER_BYTES, SegmentHeader, decode_record, decode_segment_header
from tests.home import Client, Home
from tests.shell import Shell
from tests.suite.explore import seeds
from tests.zygote import ForkedHome, Zygote

LIVES = seeds(few=4, usual=24)
SESSIONS = 8
CONFIG = """\
[autosave]
interval_s = 0
idle_s = 0
[limits]
segment_bytes = 6000
reserve_bytes = 4096
"""
"""Nothing is saved but by the journal."""


class Words:
    """What was acknowledged: session -> message id -> text."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.acked: dict[str, dict[str, str]] = {}

    def say(self, client: Client) -> None:
        for number in range(SESSIONS):
            client.call("session/new", sessionId=f"s{number}", name=f"name {number}")
        for number in range(self._rng.randint(20, 60)):
            session, text = f"s{self._rng.randrange(SESSIONS)}", "w" * self._rng.choice((3, 40, 900))
            message = {"id": f"m{number}", "role": "user", "content": f"{number} {text}"}
            client.call("session/append", sessionId=session, messages=[message])
            self.acked.setdefault(session, {})[f"m{number}"] = message["content"]

    def missing(self, client: Client) -> list[str]:
        gone = []
        for session, messages in self.acked.items():
            answer = client.answer(client.send("session/read", {"sessionId": session, "last": 1000}))
            there = {one["id"]: one["content"] for one in answer.get("result", {"messages": []})["messages"]}
            gone += [f"{session}/{one}" for one, text in messages.items() if there.get(one) != text]
        return gone


def records(path: Path) -> list[tuple[int, int]]:
    """Where each record begins and ends."""
    data, found, offset = path.read_bytes(), [], SEGMENT_HEADER_BYTES
    header = decode_segment_header(data)
    assert isinstance(header, SegmentHeader)
    while not isinstance(decoded := decode_record(data, offset, header.seed), str):
        found.append((offset, decoded[1]))
        offset = decoded[1]
    return found


def damage(journal: Path, rng: random.Random) -> str:
    """Something happens to one record, or to a header, or to a whole segment."""
    segments = [path for path in sorted(journal.glob("*.journal")) if records(path)]
    if rng.random() < 0.1:
        path = rng.choice(segments)
        path.unlink()
        return f"{path.name} removed"
    # The last record is where a crash and damage look alike.
    path = segments[-1] if rng.random() < 0.5 else rng.choice(segments)
    places = [(0, SEGMENT_HEADER_BYTES), *records(path)]
    start, end = places[-1] if rng.random() < 0.4 else rng.choice(places)
    data = bytearray(path.read_bytes())
    what = rng.choice(("flip", "zero", "cut"))
    if what == "flip":
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(start, end)] ^= 1 << rng.randrange(8)
    elif what == "zero":
        first = rng.randrange(start, end)
        last = rng.choice((rng.randrange(first, end) + 1, end, len(data)))
        data[first:last] = bytes(last - first)
    else:
        del data[rng.choice((start, rng.randrange(start, end))) :]
    path.write_bytes(data)
    return f"{what} in bytes {start} to {end} of {path.name}"


@pytest.mark.parametrize("seed", LIVES)
def test_6_a_damaged_record_is_said_till_somebody_knows(seed: int, zygote: Zygote, tmp_path: Path) -> None:
    """Nothing that was acknowledged is missing, or `status.damage` says so: after a second kill, too, and until it is acknowledged."""
    rng = random.Random(f"damage {seed}")
    home = ForkedHome(zygote, tmp_path, CONFIG)
    home.start()
    words = Words(rng)
    words.say(home.client())
    home.kill()
    home.forget_clients()
    what = damage(tmp_path / "data" / "journal", rng)
    home.start()
    client = home.client()
    missing, told = words.missing(client), client.call("daemon/status")["damage"]
    assert told or not missing, f"{what}: {missing} is missing, and nobody says so"
    home.kill()
    home.forget_clients()
    home.start()
    client = home.client()
    assert client.call("daemon/status")["damage"] == told
    assert words.missing(client) == missing
    assert client.call("daemon/acknowledge") == {"acknowledged": len(told)}
    assert client.call("daemon/status")["damage"] == []
    home.kill()
    home.forget_clients()
    home.start()
    assert home.client().call("daemon/status")["damage"] == [], what
    home.stop()


def test_6_a_kill_alone_is_no_damage(zygote: Zygote, tmp_path: Path) -> None:
    """Whatever is cut off behind the last acknowledged record, or is there half, may be so after any crash."""
    home = ForkedHome(zygote, tmp_path, CONFIG)
    rng = random.Random("torn")
    home.start()
    words = Words(rng)
    words.say(home.client())
    for tail in (b"", b"\xffREC half a record", bytes(5000)):
        home.kill()
        home.forget_clients()
        last = max((tmp_path / "data" / "journal").glob("*.journal"))
        last.write_bytes(last.read_bytes() + tail)
        home.start()
        client = home.client()
        assert words.missing(client) == []
        assert client.call("daemon/status")["damage"] == []
        client.call("session/append", sessionId="s0", messages=[{"role": "user", "content": "on it goes"}])
    home.stop()


@pytest.fixture
def damaged(shell: Shell) -> Shell:
    """The disk has turned one bit of the last words that a killed daemon had acknowledged."""
    shell.write_config("[autosave]\ninterval_s = 0\nidle_s = 0\n")
    shell("new", "--id", "x", "--name", "X")
    with shell.client() as client:
        client.call("session/open", {"sessionId": "x"})
        client.call("session/append", {"sessionId": "x", "messages": [{"role": "user", "content": "the last words"}]})
        shell.kill()
    segment = max((shell.data / "journal").glob("*.journal"))
    segment.write_bytes(segment.read_bytes().replace(b"the last words", b"the lost words"))
    return shell


def lost(shell: Shell, *more: str) -> list[dict[str, Any]]:
    done = shell("doctor", "--json", *more)
    found = [one for one in done.json["findings"] if one["problem"]]
    assert done.code == (1 if found else 0)
    return found


@pytest.mark.parametrize("running", [True, False])
def test_6_the_doctor_is_not_content_till_it_is_acknowledged(damaged: Shell, running: bool) -> None:
    """With a daemon and without one it exits 1 and names the copy under `journal/damaged/`; `--acknowledge` ends that for good."""
    assert lost(damaged), "before any daemon has mended it"
    assert damaged("list").code == 0
    if not running:
        assert damaged("stop").code == 0
    [one] = lost(damaged)
    copy = re.search(rf"{damaged.data}/journal/damaged/\S+", one["problem"])
    assert copy is not None and b"the lost words" in Path(copy[0]).read_bytes()
    assert "1 record lost" in one["problem"]
    assert "--acknowledge" in one["hint"]
    assert "PROBLEM  journal damage" in damaged("doctor").out
    assert lost(damaged, "--acknowledge") == []
    assert lost(damaged) == []
    damaged("stop")
    assert lost(damaged) == []
    damaged("list")
    assert lost(damaged) == []
    assert Path(copy[0]).exists()


def test_6_it_can_be_acknowledged_before_any_daemon_has_seen_it(damaged: Shell) -> None:
    """After that it is not reported to anyone."""
    assert lost(damaged, "--acknowledge") == []
    damaged("list")
    assert lost(damaged) == []


def test_6_every_client_is_told_once(damaged: Shell) -> None:
    """Scripts after their first answer, whatever it is, editors after `initialize`; and nobody once it is acknowledged."""
    damaged("list")
    home = Home(damaged.path)
    for first in ("daemon/hello", "initialize", "session/read"):
        client = Client(home.connect())
        client.answer(client.send(first, {"sessionId": "nowhere"}))
        client.call("session/list")
        client.call("daemon/status")
        [(method, params)] = client.notifications
        assert method == "window/logMessage"
        assert params["type"] == 1
        assert str(damaged.data / "journal" / "damaged") in params["message"]
        client.close()
    client = Client(home.connect())
    client.call("daemon/acknowledge")
    client.close()
    client = Client(home.connect())
    client.call("daemon/hello")
    client.call("session/list")
    assert client.notifications == []
    client.close()


def test_6_an_unreadable_note_is_told_as_damage(damaged: Shell) -> None:
    """The note of the loss is damaged too: it is still reported that something is lost."""
    damaged("list")
    damaged("stop")
    [note] = (damaged.data / "journal" / "damaged").glob("*.json")
    assert json.loads(note.read_bytes())["records"] == 1
    note.write_bytes(b"{")
    [one] = lost(damaged)
    assert "cannot be read" in one["problem"]
    assert lost(damaged, "--acknowledge") == []
