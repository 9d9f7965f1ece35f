"""`sessiond` without arguments in a terminal: it says what is here, offers to import it, and ends. A pipe gets the relay."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.shell import ROOT, Shell

CLAUDE = [
    {"type": "user", "uuid": "u1", "sessionId": "s", "timestamp": "2026-01-11T14:30:22Z", "cwd": "/w", "message": {"role": "user", "content": "Which lock is first?"}},
    {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "sessionId": "s", "timestamp": "2026-01-11T14:30:23Z", "cwd": "/w",
     "message": {"role": "assistant", "content": [{"type": "text", "text": "The journal's."}]}},
]  # fmt: skip


@pytest.fixture
def user() -> Iterator[Shell]:
    """Somebody new: an empty home with a blank in its name."""
    made = Shell()
    made.env["HOME"] = str(made.path / "a home")
    (made.path / "a home").mkdir()
    yield made
    made.close()


def claude(shell: Shell) -> None:
    """A session of Claude Code in the person's home."""
    folder = shell.path / "a home" / ".claude" / "projects" / "-w"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in CLAUDE))


def types(shell: Shell, keys: str) -> tuple[int, str]:
    """Exit code, and what the terminal shows, after `sessiond` and these keys."""
    ours, theirs = pty.openpty()
    env = {**shell.env, "TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(shell.command(), stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd="/")
    os.close(theirs)
    os.write(ours, keys.encode())
    shown = b""
    with contextlib.suppress(OSError):  # Linux ends a terminal with EIO
        while chunk := os.read(ours, 4096):
            shown += chunk
    os.close(ours)
    return process.wait(60), shown.decode().replace("\r\n", "\n")


def test_nothing_is_here_yet(user: Shell) -> None:
    """A first look on an empty machine: what it is, and three commands; no daemon is started, no file made."""
    code, shown = types(user, "")
    assert code == 0
    assert "No history of a known tool was found here" in shown
    for command in ("sessiond web", "sessiond search", "sessiond help"):
        assert command in shown
    assert not user.data.exists()


def test_what_was_found_is_imported_if_wanted(user: Shell) -> None:
    """`y` imports it; the next look says what there is, and asks nothing."""
    claude(user)
    code, shown = types(user, "y\n")
    assert code == 0
    assert "Found on this machine: claude-code: 1 file." in shown
    assert "Imported 1 session with 2 messages." in shown
    assert [one["messageCount"] for one in user("list", "--json").json["sessions"]] == [2]
    code, shown = types(user, "")
    assert code == 0
    assert "has 1 session" in shown
    assert "sessiond follow on" in shown and "bring in what your tools have kept" not in shown
    assert "[y/N]" not in shown


@pytest.mark.parametrize("keys", ["\n", "n\n", "\x04"])
def test_nothing_is_imported_unasked(user: Shell, keys: str) -> None:
    """Return means no, and so does the end of input; the way to do it later is shown or the exit code is that of an interrupt."""
    claude(user)
    code, shown = types(user, keys)
    assert (code == 0 and "Later: sessiond import" in shown) or code == 130
    assert not user.data.exists()


def test_a_stopped_daemon_is_not_started(user: Shell) -> None:
    """Somebody who has used it sees that no daemon runs; looking starts none."""
    assert user("new", "--name", "X").code == 0
    assert user("stop").code == 0
    code, shown = types(user, "")
    assert code == 0
    assert "No daemon is running" in shown
    assert not user.held()


def test_a_broken_configuration_is_no_obstacle(user: Shell) -> None:
    """With a mistake in config.toml the screen still appears."""
    user.write_config("[autosav]\n")
    code, shown = types(user, "")
    assert code == 0
    assert "sessiond help" in shown


def test_an_editor_gets_the_relay(user: Shell) -> None:
    """With a pipe for standard input, or with --stdio, it speaks JSON-RPC and prints nothing else."""
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "daemon/hello"}) + "\n"
    for arguments in ([], ["--stdio"]):
        done = user(*arguments, stdin=hello)
        assert done.json["result"]["protocolVersion"] == 1


def test_the_corpus_of_a_stranger(user: Shell) -> None:
    """Real transcripts, where they are at hand, are found and imported from this screen."""
    corpus = ROOT.parent / "shared" / "corpus" / "claude-code"
    if not corpus.is_dir():
        pytest.skip("no real transcripts beside the project")
    shutil.copytree(corpus, user.path / "a home" / ".claude" / "projects" / "real")
    code, shown = types(user, "y\n")
    assert code == 0
    assert "Imported 4 sessions" in shown
