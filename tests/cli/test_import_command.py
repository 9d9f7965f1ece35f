"""`sessiond import`, for real: what it shows and asks, how it is stopped, and how it follows the tools."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import sqlite3
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.cli.import_run import progress_text
from sessiond.client import Progress
from tests.shell import DEADLINE_S, Shell

S = "11111111-2222-3333-4444-555555555555"


def record(number: int, session: str = S, text: str = "") -> str:
    role = "user" if number % 2 else "assistant"
    return json.dumps({
        "type": role, "uuid": f"{session[:4]}-{number}", "parentUuid": None, "sessionId": session, "cwd": "/w", "isSidechain": False,
        "timestamp": f"2026-01-11T14:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
        "message": {"role": role, "content": text or f"text {number}"},
    }) + "\n"  # fmt: skip


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Shell]:
    """Somebody whose home folder holds what Claude Code and llm keep there."""
    made = Shell(HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path / ".config"))
    projects = tmp_path / ".claude" / "projects" / "-w"
    projects.mkdir(parents=True)
    (projects / f"{S}.jsonl").write_text("".join(record(n) for n in range(1, 5)))
    yield made
    made.close()


def transcript(shell: Shell) -> Path:
    return Path(shell.env["HOME"]) / ".claude" / "projects" / "-w" / f"{S}.jsonl"


def test_without_a_path_it_shows_what_it_found(user: Shell) -> None:
    """Tool, path, files and size; it imports nothing without consent."""
    place = transcript(user).parent.parent
    found = f"claude-code  {place}  1 file  {transcript(user).stat().st_size} bytes\n"
    asked = user("import")
    assert (asked.code, asked.out) == (2, found)
    assert "--yes" in asked.err
    assert asked.err.count("\n") == 1
    dry = user("import", "--dry-run")
    assert (dry.code, dry.out, dry.err) == (0, f"{found}would import 1 session with 4 messages\n", "")
    assert user("list").out == ""
    done = user("import", "--yes")
    assert (done.code, done.out, done.err) == (0, f"{found}imported 1 session with 4 messages\n", "")
    again = user("import", "--yes", "--json")
    assert again.json == {"sessions": [], "skipped": 1, "warnings": []}
    assert str(place) in again.err
    other = user("import", "--yes", "--format", "codex")
    assert (other.code, other.err) == (0, "")
    assert "name a PATH" in other.out


def test_on_a_terminal_it_asks(user: Shell) -> None:
    """Yes is the default; no brings nothing in."""
    assert "nothing was imported" in answering(user, "n", "import")
    assert user("list").out == ""
    assert "imported 1 session with 4 messages" in answering(user, "", "import")


def answering(shell: Shell, answer: str, *arguments: str) -> str:
    """The output of the command on a terminal when this line is typed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(shell.command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=shell.env)
    os.close(theirs)
    os.write(ours, answer.encode() + b"\n")
    shown = b""
    with contextlib.suppress(OSError):  # Linux ends a terminal with EIO
        while chunk := os.read(ours, 4096):
            shown += chunk
    os.close(ours)
    assert process.wait(DEADLINE_S) == 0
    return shown.decode()


def test_every_skipped_line_is_told_with_its_reason(user: Shell) -> None:
    """File, line and reason on standard error, all of them; several paths are one import."""
    with transcript(user).open("a") as file:
        file.write("{no json\n" * 30 + '{"type": "user", "uuid": "cut o')
    plain = transcript(user).with_name("talk.json")
    plain.write_text('[{"role": "user", "content": "hello"}]')
    done = user("import", str(transcript(user)), str(plain))
    tools = "claude-code: 1 session, 4 messages\nmessages: 1 session, 1 message\n"
    assert done.out == f"imported 2 sessions with 5 messages\n{tools}"
    lines = done.err.splitlines()
    assert len(lines) == 31
    assert [f"{transcript(user)}:{n}: not valid JSON" in line for n, line in enumerate(lines, 5)] == [True] * 31
    as_json = user("import", str(transcript(user)), str(plain), "--since", "2026-01-12", "--dry-run", "--json").json
    assert (as_json["sessions"], as_json["warnings"]) == ([], [])
    assert user("import", "--since", "yesteryear", "--yes").code == 2
    assert user("import", "--follow", "--dry-run", str(plain)).code == 2


def test_a_file_that_was_named_and_cannot_come_in_is_a_failure(user: Shell) -> None:
    """Exit code 1 with the reason: nobody's file, a pipe, a database of a schema that nobody knows, noise, another tool's
    file. An empty folder, and a file that brings nothing new, are not failures.
    """
    folder = transcript(user).parent
    plain, pipe, database, noise = (folder / name for name in ("plain.txt", "pipe", "goose.db", "noise.jsonl"))
    plain.write_text("hello\n")
    os.mkfifo(pipe)
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE messages (id TEXT)")
    noise.write_text('{"foo":1}\n')
    empty = folder / "snapshots.jsonl"
    empty.write_text('{"type":"file-history-snapshot","messageId":"m"}\n')
    cases = [
        ([str(plain)], "not a file of any known tool"),
        ([str(pipe)], "not a regular file"),
        ([str(database)], "not a file of any known tool"),
        ([str(database), "--format", "goose"], "a database with an unknown schema"),
        ([str(empty)], "no conversation was found in it"),
        ([str(noise), "--format", "codex"], "contains no records of codex"),
        ([str(noise), "--format", "gemini-cli", "--dry-run"], "contains no records of gemini-cli"),
        ([str(transcript(user)), "--format", "codex"], "is a claude-code file, not a codex file"),
    ]
    for arguments, reason in cases:
        done = user("import", *arguments)
        assert (done.code, "import 0 sessions" in done.out.replace("imported", "import")) == (1, True), arguments
        assert reason in done.err
        assert done.err.count("\n") == 1
    assert user("list", "--all").out == ""
    both = user("import", str(plain), str(transcript(user)))
    assert (both.code, both.out) == (1, "imported 1 session with 4 messages\n")
    (folder / "empty").mkdir()
    for harmless in (transcript(user), folder / "empty", folder):
        assert user("import", str(harmless)).code == 0
    assert user("import", str(transcript(user)), "--since", "2100-01-01").code == 0


def test_files_that_were_not_opened_are_counted(user: Shell) -> None:
    """A file that is old by its time may contain something new: with --since the output says that it was not read."""
    newer = transcript(user).with_name("22222222-2222-3333-4444-555555555555.jsonl")
    newer.write_text(record(1, newer.stem))
    os.utime(newer, (0, 0))
    folder = str(newer.parent)
    told = user("import", folder, "--since", "2026-01-01", "--dry-run")
    assert told.out == "would import 1 session with 4 messages\nskipped 1 file not changed since then\n"
    asked = ("import", folder, folder, "--since", "2026-01-01", "--dry-run", "--json")
    assert user(*asked).json["untouched"] == 2
    assert "untouched" not in user("import", folder, "--dry-run", "--json").json


def test_interrupted_it_leaves_whole_sessions(user: Shell) -> None:
    """Ctrl-C: the daemon stops, says what came in, and every session that is there is complete."""
    folder = transcript(user).parent
    text = "words " * 400
    for number in range(40):
        session = f"{number:08d}-2222-3333-4444-555555555555"
        (folder / f"{session}.jsonl").write_text("".join(record(n, session, text) for n in range(1, 101)))
    user("status")
    process = user.start("import", str(folder), "--json")
    client = user.client()
    deadline = time.monotonic() + DEADLINE_S
    while not client.call("session/list", {"limit": 1})["sessions"]:
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (130, b"")
    assert b"each complete" in err
    found = client.call("session/list", {"limit": 100})["sessions"]
    assert {info["messageCount"] for info in found} <= {4, 100}
    assert len(found) < 41
    names = os.listdir(user.data / "sessions")
    assert not [name for name in names if name.startswith(".") and name != ".sessiond"]
    client.close()
    assert user("import", str(folder)).code == 0
    assert len(user("list", "--all").out.splitlines()) == 41


class Following:
    """`sessiond import --follow --json` while it runs."""

    def __init__(self, shell: Shell, *arguments: str) -> None:
        self.process: subprocess.Popen[Any] = shell.start("import", "--follow", "--json", *arguments)
        assert self.process.stdout is not None

    def document(self) -> dict[str, Any]:
        """The next line that it prints."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def end(self) -> bytes:
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == 130
        return bytes(err)


def test_following_takes_in_what_is_typed(user: Shell) -> None:
    """A new record, a new file and a record that is written in two halves are readable and searchable; no half line is
    called damage."""
    following = Following(user, "--yes")
    assert [info["messageCount"] for info in following.document()["sessions"]] == [4]
    client = user.client()
    with transcript(user).open("a") as file:
        file.write(record(5, text="a needle"))
    [info] = following.document()["sessions"]
    hits = client.call("session/search", {"query": "needle"})["hits"]
    assert [hit["sessionId"] for hit in hits] == [info["sessionId"]] == [f"claude-code-{S}"]
    other = transcript(user).with_name("22222222-2222-3333-4444-555555555555.jsonl")
    second = record(2, other.stem)
    other.write_text(record(1, other.stem, "in a new file") + second[:40])
    assert [info["messageCount"] for info in following.document()["sessions"]] == [1]
    with other.open("a") as file:
        file.write(second[40:] + record(3, other.stem))
    assert following.document()["sessions"][0]["messageCount"] == 3
    client.close()
    assert b"warning" not in following.end()


def test_following_goes_on_with_the_next_daemon(user: Shell) -> None:
    """What was written while no daemon ran comes with the next thing that is written."""
    following = Following(user, str(transcript(user)))
    following.document()
    user("stop")
    with transcript(user).open("a") as file:
        file.write(record(5))
    assert following.document()["sessions"][0]["messageCount"] == 5
    following.end()


def test_what_was_deleted_here_is_not_brought_back_by_following(user: Shell) -> None:
    """Not even by the next daemon, which finds out what was written meanwhile."""
    following = Following(user, "--yes")
    following.document()
    assert user("rm", f"claude-code-{S}").code == 0
    user("stop")
    with transcript(user).open("a") as file:
        file.write(record(5))
    other = transcript(user).with_name("22222222-2222-3333-4444-555555555555.jsonl")
    other.write_text(record(1, other.stem, "in a new file"))
    assert [info["sessionId"] for info in following.document()["sessions"]] == [f"claude-code-{other.stem}"]
    following.end()
    assert [one["sessionId"] for one in user("list", "--json").json["sessions"]] == [f"claude-code-{other.stem}"]


def test_progress_says_files_sessions_messages_and_speed() -> None:
    """The words next to the bar."""
    progress = Progress(files=12, total_files=4000, sessions=1, messages=1200, bytes=30_000_000, total_bytes=1)
    assert progress_text(progress, 1.5) == "12/4,000 files  1 session  1,200 messages  20.0 MB/s"


def test_an_export_as_a_zip_file(shell: Shell, tmp_path: Path) -> None:
    """It comes in once, whatever happens to be beside it, and leaves nothing behind; a second time nothing is new."""
    nodes = {"a": {"id": "a", "parent": None, "children": [], "message": {
        "id": "a", "author": {"role": "user"}, "create_time": 1.7e9, "content": {"content_type": "text", "parts": ["quokka"]}}}}  # fmt: skip
    chat = {"title": "T", "create_time": 1.7e9, "update_time": 1.7e9, "mapping": nodes, "conversation_id": "c1"}
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("conversations-000.json", json.dumps([chat]))
        file.writestr("file-1.png", b"\x89PNG")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    shell.env["TMPDIR"] = str(temporary)
    assert shell("import", str(tmp_path)).out == "imported 1 session with 1 message\n"
    assert shell("import", str(path)).code == 0
    assert len(shell("list").out.splitlines()) == 1
    assert shell("search", "-l", "quokka").out != ""
    assert list(temporary.iterdir()) == []
    (tmp_path / "other.zip").write_bytes(b"PK\x03\x04 and nothing else")
    done = shell("import", str(tmp_path / "other.zip"))
    assert done.code == 1
    assert "damaged ZIP file" in done.err
