"""A session file whose name is not UTF-8, which a file system allows: a session like any other, over every transport."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.home import Home
from tests.shell import wait_until

ODD = b"caf\xe9.jsonl"
ODD_ID = "caf%E9"
SHOWN = "caf\ufffd.jsonl"
TIME = "2026-01-11T14:30:22.000Z"


def line(seq: int, word: str) -> bytes:
    message = {"id": f"m-{seq}", "seq": seq, "role": "user", "content": f"{word} {seq}", "timestamp": TIME}
    return json.dumps(message).encode() + b"\n"


def put(folder: Path, name: bytes, word: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = Path(os.fsdecode(os.path.join(os.fsencode(folder), name)))
    try:
        path.write_bytes(line(1, word))
    except OSError:
        pytest.skip("this file system wants UTF-8 names")
    return path


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    (tmp_path / "home").mkdir()
    one = Home(tmp_path / "home")
    yield one
    one.stop()


def cli(home: Home, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sessiond", *arguments],
        check=False,
        env=home.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_name_that_is_no_text_disturbs_nothing(home: Home) -> None:
    """It is listed, found, opened, appended to and saved next to the others, also after a restart."""
    sessions = home.path / "data" / "sessions"
    put(sessions, b"good.jsonl", "wombat")
    odd = put(sessions, ODD, "wombat")
    for _ in range(2):
        home.start()
        client = home.client()

        def found(client=client) -> set[str]:  # type: ignore[no-untyped-def]
            return {hit["sessionId"] for hit in client.call("session/search", query="wombat")["hits"]}

        wait_until(lambda: found() == {"good", ODD_ID})
        listed = {item["sessionId"]: item["path"] for item in client.call("session/list")["sessions"]}
        assert listed == {"good": str(sessions / "good.jsonl"), ODD_ID: str(sessions / SHOWN)}
        assert "good" in cli(home, "list")
        assert ODD_ID in cli(home, "list")
        assert client.call("session/open", sessionId=ODD_ID)["session"]["path"] == str(sessions / SHOWN)
        client.call("session/append", sessionId=ODD_ID, messages=[{"role": "user", "content": "quokka"}])
        saved = client.call("session/save", sessionId=ODD_ID)["saved"]
        assert [one["path"] for one in saved] == [str(sessions / SHOWN)]
        assert b"quokka" in odd.read_bytes()
        assert client.notification("session/saved")["path"] == str(sessions / SHOWN)
        home.stop()


def test_what_others_write_is_seen_beside_a_name_that_is_no_text(home: Home) -> None:
    """Written by somebody else, a file of such a name is taken in, and so is what is written to another right after it."""
    sessions = home.path / "data" / "sessions"
    good = put(sessions, b"good.jsonl", "wombat")
    odd = put(sessions, ODD, "wombat")
    home.start()
    client = home.client()

    def hits(word: str) -> set[str]:
        return {hit["sessionId"] for hit in client.call("session/search", query=word)["hits"]}

    wait_until(lambda: hits("wombat") == {"good", ODD_ID})
    for number in range(2, 5):
        for path in (odd, good):
            with path.open("ab") as file:
                file.write(line(number, f"numbat{number}"))
        wait_until(lambda number=number: hits(f"numbat{number}") == {"good", ODD_ID})  # type: ignore[misc]
    log = (home.path / "log" / "sessiond.log").read_text()
    assert "Traceback" not in log
    assert log.count("cannot be watched now") <= 1


def test_a_folder_with_a_name_that_is_no_text_is_adopted(home: Home, tmp_path: Path) -> None:
    """Its sessions are listed and found, and a file of such a name that is not a session is told of."""
    folder = tmp_path / "folder"
    put(folder, b"good.jsonl", "wombat")
    put(folder, ODD, "wombat")
    bad = put(folder, b"b\xe4d.jsonl", "wombat")
    bad.write_bytes(b"\x00\x01\x02 no session\n")
    home.start()
    client = home.client()
    told = client.call("store/adopt", path=str(folder), name="ad", format="jsonl")
    assert str(folder / "b\ufffdd.jsonl") in {warning["path"] for warning in told["warnings"]}
    wait_until(lambda: client.call("session/search", query="wombat")["total"] == 2)
    listed = {item["sessionId"] for item in client.call("session/list")["sessions"]}
    assert {"ad/good", f"ad/{ODD_ID}"} <= listed
    error = client.fails("session/open", sessionId="ad/b%E4d")
    assert error["data"]["kind"] == "badFile"
    assert error["data"]["path"] == str(folder / "b\ufffdd.jsonl")
