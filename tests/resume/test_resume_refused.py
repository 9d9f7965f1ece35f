"""`sessiond resume` where it cannot do its work: each refusal says why, what to do next, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import in_home
from test_copies import session_of
from test_resume_command import MESSAGES, new, written

from sessiond.errors import Unavailable
from sessiond.model.message import Message
from sessiond.resume.make import make
from sessiond.resume.selection import selected
from tests.shell import Shell, wait_until

FILES = ("claude", "codex", "pi", "gemini", "qwen", "cline", "aider")
OPENCODE = """#!{python}
import json, os, sys, time
place = os.path.join(os.environ["HOME"], "opencode")
os.makedirs(place, exist_ok=True)
def path(name): return os.path.join(place, name + ".json")
match sys.argv[1:]:
    case ["models"]: print("fake/fake")
    case ["import", source]:
        document = json.load(open(source))
        name = document["info"]["id"]
        {importing}
        json.dump(document, open(path(name), "w"))
        print("Imported session: " + name)
    case ["export", name]:
        {exporting}
        print(open(path(name)).read())
    case ["session", "delete", name]:
        {deleting}
        if not os.path.exists(path(name)): sys.exit("Error: Session not found: " + name)
        os.unlink(path(name))
"""
"""What opencode does here, with a place for a fault in each of its commands."""


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    path = tmp_path / "a home"
    (path / "bin").mkdir(parents=True)
    (path / "work").mkdir()
    for name in FILES:
        program(path, name, "#!/bin/sh\n")
    return path


@pytest.fixture
def shell(user_home: Path) -> Iterator[Shell]:
    made = Shell(HOME=str(user_home), PATH=f"{user_home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    yield made
    made.close()


def program(home: Path, name: str, text: str) -> None:
    (home / "bin" / name).write_text(text)
    (home / "bin" / name).chmod(0o755)


def opencode(home: Path, *, importing: str = "", exporting: str = "", deleting: str = "") -> None:
    parts = {"importing": importing or "pass", "exporting": exporting or "pass", "deleting": deleting or "pass"}
    text = OPENCODE.replace("{python}", sys.executable)
    for name, part in parts.items():
        text = text.replace("{" + name + "}", part)
    program(home, "opencode", text)


# The folder to work in


def test_a_folder_that_cannot_be_worked_in(shell: Shell, user_home: Path) -> None:
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    (user_home / "dangling").symlink_to(user_home / "nowhere")
    (user_home / "file").write_text("")
    odd = os.fsencode(user_home) + b"/\xff"
    os.mkdir(odd)
    before = written(user_home)
    for cwd, words in [
        ("", "--cwd is empty; name a folder, or leave out --cwd"),
        ("/no/such", "/no/such: no such folder here; --cwd DIR names the folder to work in"),
        (str(user_home / "dangling"), "dangling: no such folder here; --cwd DIR"),
        (str(user_home / "file"), "file is not a folder; --cwd DIR"),
        (os.fsdecode(odd), "the name is not UTF-8, so no tool can note it down; rename it"),
    ]:
        for tool in ("claude", "aider", "sessiond"):
            done = shell("resume", session_id, "--in", tool, "--cwd", cwd)
            assert done.code == 1, (cwd, done)
            assert words in done.err, (cwd, done)
    assert written(user_home) == before


def test_a_folder_that_gemini_would_not_find(shell: Shell, user_home: Path) -> None:
    """It strips the name of a project's folder when it reads it, so every session there is lost, its own too."""
    (user_home / "work ").mkdir()
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work "))
    before = written(user_home)
    refused = shell("resume", session_id, "--in", "gemini")
    assert refused.code == 1
    assert "a folder whose name ends with white space; rename the folder, or name another one with --cwd" in refused.err
    assert written(user_home) == before
    assert shell("resume", session_id, "--in", "claude").code == 0


def test_a_session_whose_folder_is_not_absolute(shell: Shell, user_home: Path) -> None:
    """It is relative to a place that nobody knows, not to the one where the command happens to run."""
    session_id = new(shell, MESSAGES, cwd="work")
    refused = shell("resume", session_id, "--in", "claude", cwd=str(user_home))
    assert refused.code == 1
    assert "the session's folder, work, is not an absolute path; --cwd DIR" in refused.err
    assert shell("resume", session_id, "--in", "claude", "--cwd", "work", cwd=str(user_home)).code == 0


@pytest.mark.parametrize("tool", ["claude", "sessiond"])
def test_a_seq_after_the_end(shell: Shell, user_home: Path, tool: str) -> None:
    """As `sessiond fork` has it; a copy would name a place in its parent that is not there."""
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    before = written(user_home)
    refused = shell("resume", session_id, "--in", tool, "--at", "8")
    assert refused.code == 1
    assert "--at 8: the session ends at seq 7; leave out --at to copy it all" in refused.err
    assert written(user_home) == before
    assert shell("resume", session_id, "--in", tool, "--at", "7").code == 0


def test_the_first_reply_is_being_written(shell: Shell, user_home: Path) -> None:
    """There is nothing before it, so `--at` is not offered; later there is, and the seq is named."""
    with shell.client() as client:
        for messages, said in [
            ([], "wait until it has ended\n"),
            (MESSAGES, "copy what was said before it with --at 7\n"),
        ]:
            session_id = new(shell, messages, cwd=str(user_home / "work"))
            with client.session(session_id).stream("assistant") as reply:
                reply.write("a piece")
                assert shell("resume", session_id, "--in", "claude").err.endswith(said)


# The tools' own folders


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("tool", "variable"),
    [
        ("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME"), ("pi", "PI_CODING_AGENT_DIR"), ("qwen", "QWEN_HOME"),
        ("qwen", "QWEN_RUNTIME_DIR"), ("gemini", "GEMINI_CLI_HOME"),
    ],
)  # fmt: skip
def test_a_relative_folder_of_a_tool(shell: Shell, user_home: Path, tool: str, variable: str) -> None:
    """It is relative to where the tool is started, because the tool takes it so."""
    shell.env[variable] = "its own"
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    copied = shell("resume", session_id, "--in", tool, "--json").json
    assert copied["path"].startswith(str(user_home / "work" / "its own") + os.sep)
    assert Path(copied["path"]).exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("value", ["", "relative"])
def test_a_home_that_does_not_count(shell: Shell, user_home: Path, value: str) -> None:
    """An empty or relative HOME is no home: the one that the system knows is, as for the daemon. Nothing is written to see it."""
    shell.env["HOME"] = value
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    found = shell("resume", session_id, "--in", "claude", "--dry-run", "--json", cwd=str(user_home))
    assert found.code == 0, found
    assert not (user_home / "relative").exists()
    shell.env["CLAUDE_CONFIG_DIR"] = str(user_home / "own")
    assert shell("resume", session_id, "--in", "claude", "--json").json["path"].startswith(str(user_home / "own"))


@pytest.mark.parametrize("tool", FILES[:-1])
@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_else_is_in_the_way(shell: Shell, user_home: Path, tool: str, kind: str) -> None:
    """A file, or a link to nowhere, where the tool's folder should be: it stays, and the message names the place."""
    place = user_home / f".{tool}"
    if kind == "file":
        place.write_text("a file")
    else:
        place.symlink_to(user_home / "nowhere")
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    before = written(user_home)
    refused = shell("resume", session_id, "--in", tool)
    assert refused.code == 1
    assert str(place) in refused.err
    assert "nothing was copied; put that right, then run the command again" in refused.err
    assert written(user_home) == before


def test_a_disk_without_room(shell: Shell, user_home: Path) -> None:
    """The message names the file, and says what to do."""
    session_id = new(shell, [{"role": "user", "content": "x" * 300_000}], cwd=str(user_home / "work"))
    before = written(user_home)
    script = f"ulimit -f 100; exec {sys.executable} -m sessiond resume {session_id} --in claude"
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=shell.env, capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 1, done
    assert ": File too large; nothing was copied; free some space there, then run the command again" in done.stderr
    assert written(user_home) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("tool", FILES)
def test_a_folder_that_may_not_be_written(tool: str) -> None:
    """As another user: root may write anywhere. The message names the folder."""
    said = [Message(id="m", seq=1, role="user", content="How long?", timestamp="2026-01-01T00:00:00.000Z")]
    session = session_of(said)
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        os.chmod(folder, 0o755)
        place = Path(folder) / "work"
        place.mkdir()
        goal = in_home(tool, Path(folder))
        os.seteuid(65534)
        try:
            with pytest.raises(Unavailable, match="Permission denied") as caught:
                make(goal, session, "a-session", selected(session), str(place))
        finally:
            os.seteuid(0)
        assert list(Path(folder).iterdir()) == [place]
    assert folder in caught.value.message
    assert caught.value.hint == "nothing was copied; make that place writable, then run the command again"


def test_a_tool_that_cannot_be_started(shell: Shell, user_home: Path) -> None:
    """The copy is made by then, so the message says how to go on with it."""
    program(user_home, "claude", "no program\n\0")
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    done = shell("resume", session_id, "--in", "claude", "--run")
    assert done.code == 1
    (copied,) = (user_home / ".claude").rglob("*.jsonl")
    assert "claude cannot be started: Exec format error; the copy is there; in " in done.err
    assert f"start it with: claude --resume {copied.stem}\n" in done.err


# llm's database


def database(home: Path) -> Path:
    program(home, "llm", "#!/bin/sh\n")
    in_home("llm", home)
    return home / ".config" / "io.datasette.llm" / "logs.db"


def test_an_llm_whose_database_cannot_be_used(shell: Shell, user_home: Path) -> None:
    """None, one that is damaged, one of an older llm, one that somebody else holds."""
    path = database(user_home)
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))

    def refused(words: str) -> None:
        done = shell("resume", session_id, "--in", "llm")
        assert done.code == 1, done
        assert words in done.err, done
        assert "Traceback" not in done.err, done

    assert shell("resume", session_id, "--in", "llm").code == 0
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    refused("cannot be written: database is locked; nothing was copied; close llm if it is at work")
    holder.execute("ROLLBACK")
    holder.close()
    path.write_bytes(b"no database " * 1000)
    refused("cannot be written: file is not a database; nothing was copied")
    path.unlink()
    refused("llm has no database yet; send it a prompt first, which makes one")
    sqlite3.connect(path).execute("CREATE TABLE conversations (id TEXT)").connection.close()
    refused("is of an llm before 0.32; install llm 0.32 or later")


# opencode's import


def test_an_import_that_fails_halfway(shell: Shell, user_home: Path) -> None:
    """What it left is taken away; the message is short, although opencode repeats the whole message in it."""
    opencode(
        user_home,
        importing='json.dump({}, open(path(name), "w")); sys.exit("Error: no room\\nparams: " + "x" * 10_000)',
    )
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    done = shell("resume", session_id, "--in", "opencode")
    assert done.code == 1
    assert "opencode import failed: Error: no room; params: xxx" in done.err
    assert "see whether `opencode session list` works in that folder" in done.err
    assert len(done.err) < 500
    assert list((user_home / "opencode").iterdir()) == []


def test_an_import_that_fails_and_cannot_be_taken_away(shell: Shell, user_home: Path) -> None:
    """Then the message names what may be left."""
    opencode(user_home, importing='sys.exit("Error: no room")', deleting='sys.exit("Error: no room either")')
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    done = shell("resume", session_id, "--in", "opencode")
    assert done.code == 1
    assert "a part of the copy may be left: delete the session ses_" in done.err


@pytest.mark.parametrize("removed", [True, False])
def test_a_copy_that_cannot_be_read_back(shell: Shell, user_home: Path, removed: bool) -> None:
    """It is taken away; where that fails too, the message says that it is there."""
    opencode(
        user_home,
        exporting='sys.exit("Error: no reading")',
        deleting="" if removed else 'sys.exit("Error: no deleting")',
    )
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    done = shell("resume", session_id, "--in", "opencode")
    assert done.code == 1
    assert "opencode export failed: Error: no reading" in done.err
    left = list((user_home / "opencode").iterdir())
    assert len(left) == (0 if removed else 1)
    if not removed:
        assert "the copy could not be removed: opencode session failed: Error: no deleting" in done.err
        assert f"delete the session {left[0].stem} in opencode before you go on" in done.err


def test_a_kill_during_an_import_leaves_no_words_behind(shell: Shell, user_home: Path, tmp_path: Path) -> None:
    """What opencode reads has no name, so it is gone with the command; opencode itself goes on, and the copy is whole."""
    opencode(user_home, importing='open(os.path.join(place, "reads"), "w"); time.sleep(1)')
    shell.env["TMPDIR"] = str(tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    session_id = new(shell, MESSAGES, cwd=str(user_home / "work"))
    process = shell.start("resume", session_id, "--in", "opencode")
    wait_until((user_home / "opencode" / "reads").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list((tmp_path / "tmp").iterdir()) == []

    def whole() -> Any:
        found = [one for one in (user_home / "opencode").glob("*.json") if one.stat().st_size]
        return found and json.loads(found[0].read_text())

    wait_until(whole)
    assert len(whole()["messages"]) == 5
