"""`sessiond demo` does what it says, and prints the same on every machine."""

from __future__ import annotations

import io
import json
import re
import subprocess
from pathlib import Path

import pytest

from sessiond.cli import demo, peer
from sessiond.client import requests
from tests.shell import Shell


def test_the_demo_shows_the_main_job(shell: Shell) -> None:
    """Real clients, a real kill, everything there afterwards, and nothing left behind."""
    shell.env["TMPDIR"] = str(shell.path)
    done = shell("demo")
    assert (done.code, done.err) == (0, ""), done
    assert "ok  acknowledged before the kill: all there, each under its seq" in done.out
    assert "ok  sent: 303, there: 303, twice: 0" in done.out
    assert "ok  in the order of seq, each client's own order kept" in done.out
    assert "WRONG" not in done.out
    story, _, steps = done.out.partition("Everything stopped and removed.\n")
    assert story
    assert [line.split("  ")[1] for line in steps.splitlines()[2:-1]] == [
        "sessiond import", "sessiond follow on", "sessiond search WORDS", "sessiond web",
    ]  # fmt: skip
    assert steps.splitlines()[-1].startswith("No model answers in sessiond itself")
    assert list(shell.path.iterdir()) == []


def test_the_demo_prints_the_same_every_time(shell: Shell) -> None:
    """But for the times in the file that it shows, so that documents may hold its output."""
    one, two = (re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", shell("demo").out) for _ in range(2))
    assert one == two


def test_the_recording_shows_what_the_demo_prints(shell: Shell) -> None:
    """The documentation's recording has the same lines, but for the times in the file that it shows."""
    recording = Path(__file__).parents[2] / "docs" / "images" / "demo.cast"
    events = [json.loads(line) for line in recording.read_text().splitlines()][1:]
    shown = "".join(text for _, _, text in events).replace("\r\n", "\n")
    one, two = (re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text) for text in (shown, shell("demo").out))
    assert one == two


def test_18_each_wait_of_the_demo_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that says nothing, a daemon that does not answer, and words that do not arrive end it with a reason."""
    monkeypatch.setattr(demo, "_WAIT_S", 0.1)
    monkeypatch.setattr(peer, "_ANSWER_S", 0.1)
    silent = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert demo._first_line(silent) == ""
    assert silent.stdin is not None
    assert silent.stdout is not None
    one = peer.DemoEditor(silent.stdout, io.BytesIO())  # type: ignore[arg-type]
    with pytest.raises(peer.NothingHeard, match=r"an answer to daemon/hello did not arrive within 0\.1 s"):
        one.ask(requests.hello())
    with pytest.raises(peer.NothingHeard, match="a notification about another client"):
        one.notification()
    silent.communicate()
    one.close()


def test_a_peer_that_hears_nonsense_is_told_that_the_other_side_is_gone() -> None:
    """At once, not after a deadline."""
    said = io.BytesIO(b"Content-Length: 2\r\n\r\n{]")
    one = peer.DemoEditor(said, io.BytesIO())
    with pytest.raises(ConnectionError, match="the daemon is gone"):
        one.ask(requests.hello())
    one.close()
