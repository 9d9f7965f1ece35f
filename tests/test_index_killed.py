"""kill -9 while the index is filled, by an import or from unknown files: afterwards everything is found again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sessiond.formats import jsonl
from sessiond.model.message import Message
from sessiond.model.session import Session
from tests.home import Client, Home

SESSIONS, MESSAGES = 30, 120
TEXT = "filler words that make it longer, getUserName and src/app/main.py " * 12
DEADLINE_S = 60


def transcript(number: int) -> bytes:
    name = f"{number:08x}-0000-4000-8000-000000000000"
    lines: list[dict[str, Any]] = [
        {
            "type": ("user", "assistant")[seq % 2], "uuid": f"{number}-{seq}", "parentUuid": f"{number}-{seq - 1}" if seq else None,
            "sessionId": name, "cwd": "/srv", "timestamp": f"2025-10-01T00:{seq // 60:02d}:{seq % 60:02d}.000Z",
            "message": {"role": ("user", "assistant")[seq % 2], "content": f"zebra {TEXT} number{number}x{seq}"},
        }
        for seq in range(MESSAGES)
    ]  # fmt: skip
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def write_transcripts(folder: Path) -> None:
    folder.mkdir()
    for number in range(SESSIONS):
        (folder / f"{number:08x}-0000-4000-8000-000000000000.jsonl").write_bytes(transcript(number))


def write_sessions(folder: Path) -> None:
    """As the default store has them."""
    for number in range(SESSIONS):
        session = Session(f"s{number}", "2025-10-01T00:00:00.000Z")
        for seq in range(1, MESSAGES + 1):
            text = f"zebra {TEXT} number{number}x{seq}"
            session.add_message(
                Message(id=f"m{seq}", seq=seq, role="user", content=text, timestamp="2025-10-01T00:00:00.000Z")
            )
            session.seq = seq
        for write in jsonl.encode(session, {}):
            path = folder / write.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(write.data)


def complete(client: Client) -> int:
    """How many messages are found, once a search says that nothing is missing."""
    deadline = time.monotonic() + DEADLINE_S
    while (found := client.call("session/search", query="zebra", limit=1)).get("incomplete"):
        assert time.monotonic() < deadline
    return found["total"]


def counted(client: Client) -> int:
    """What the sessions themselves say that they hold."""
    while (page := client.call("session/list", limit=1000)).get("incomplete"):
        pass
    return sum(info["messageCount"] for info in page["sessions"])


def children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


@pytest.mark.parametrize("after", [1, SESSIONS // 2, SESSIONS - 1])
def test_killed_while_an_import_runs(tmp_path: Path, after: int) -> None:
    """Only whole sessions are there, everything in them is found, and the import can be repeated."""
    write_transcripts(tmp_path / "transcripts")
    (tmp_path / "home").mkdir()
    home = Home(tmp_path / "home")
    with home:
        importing, client = home.client(), home.client()
        importing.send("session/import", {"path": str(tmp_path / "transcripts")})
        deadline = time.monotonic() + DEADLINE_S
        while len(client.call("session/list", limit=1000)["sessions"]) < after:
            assert time.monotonic() < deadline
        home.kill()
        home.start()
        client = home.client()
        found = complete(client)
        assert found == counted(client)
        assert found % MESSAGES == 0
        assert found >= after * MESSAGES
        client.call("session/import", path=str(tmp_path / "transcripts"))
        assert complete(client) == counted(client) == SESSIONS * MESSAGES
        assert client.call("session/search", query=f"number3x{MESSAGES - 1}")["total"] == 1


@pytest.mark.parametrize("rounds", [3])
def test_killed_while_sessions_are_met_for_the_first_time(tmp_path: Path, rounds: int) -> None:
    """Killed again and again before the index is whole, the next daemon continues; its processes die with it."""
    write_sessions(tmp_path / "data" / "sessions")
    home = Home(tmp_path)
    with home:
        for _ in range(rounds):
            assert home.process is not None
            home.client().call("session/search", query="zebra", limit=1)
            started = children(home.process.pid)
            home.kill()
            for pid in started:
                gone(pid)
            home.start()
        client = home.client()
        assert complete(client) == SESSIONS * MESSAGES
        hits = client.call("session/search", query="number7x5")["hits"]
        assert [(hit["sessionId"], hit["seq"]) for hit in hits] == [("s7", 5)]


def gone(pid: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        assert time.monotonic() < deadline, pid


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_cache_disk(tmp_path: Path) -> None:
    """With no room for the index a search says that it is incomplete, appends and reads continue; with room again all is found."""
    cache = tmp_path / "cache"
    cache.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(cache)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        with Home(tmp_path) as home:
            client = home.client()
            client.call("session/new", sessionId="s", messages=[{"role": "user", "content": "zebra first"}])
            assert client.call("session/search", query="zebra")["total"] == 1
            (cache / "ballast").write_bytes(bytes(1_000_000))
            seq = 1
            while client.call("daemon/status")["index"]["state"] != "failing":
                text = "zebra " + " ".join(os.urandom(3).hex() for _ in range(3000))
                seq = client.call("session/append", sessionId="s", messages=[{"role": "user", "content": text}])["seq"]
                assert seq < 500
            assert client.call("session/search", query="zebra")["incomplete"]
            assert "full" in client.call("daemon/status")["index"]["problem"]
            for command in ("status", "doctor"):
                said = subprocess.run(
                    [sys.executable, "-m", "sessiond", command],
                    env=home.env,
                    capture_output=True,
                    text=True,
                    check=False,
                ).stdout
                assert "the index cannot be written (" in said, said
            for _ in range(3):
                client.call("session/append", sessionId="s", messages=[{"role": "user", "content": "zebra last"}])
            read = client.call("session/read", sessionId="s", last=1)
            assert read["messages"][0]["content"] == "zebra last"
            subprocess.run(["mount", "-o", "remount,size=64m", str(cache)], check=True)
            assert complete(client) == seq + 3
            assert client.call("daemon/status")["index"]["state"] == "ready"
    finally:
        subprocess.run(["umount", "-l", str(cache)], check=True)
