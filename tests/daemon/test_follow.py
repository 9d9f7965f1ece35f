"""The daemon follows other tools by itself: real daemons in a home with a blank, tools played by files written as they write."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiond.model.values import timestamp
from tests.importers.opencode_tables import SCHEMA
from tests.importers.test_agents_of_today import gemini
from tests.importers.test_kept_output import OUTPUT, kept, transcript
from tests.importers.test_kept_output import shown as preview
from tests.service.test_follow_equals_import import (  # noqa: F401, a fixture
    CALL,
    GEMINI_HEAD,
    RESULT,
    OpenCodeDb,
    databases_are_closed,
    plain,
)
from tests.shell import Shell, wait_until
from tests.suite.explore import seeds

ON = '[follow]\ntools = ["all"]\n'


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    """A person's home."""
    path = tmp_path / "a home"
    path.mkdir()
    return path


@pytest.fixture
def shell(user_home: Path) -> Iterator[Shell]:
    made = Shell(HOME=str(user_home))
    yield made
    made.close()


def turn(number: int, session: str, text: str | None = None) -> str:
    role = "user" if number % 2 else "assistant"
    return json.dumps({
        "type": role, "uuid": f"{session}-{number}", "parentUuid": f"{session}-{number - 1}" if number > 1 else None,
        "sessionId": session, "cwd": "/w", "version": "2.1", "timestamp": f"2026-11-22T14:{number // 60:02d}:{number % 60:02d}.000Z",
        "message": {"role": role, "content": text or f"text {number}"},
    }) + "\n"  # fmt: skip


def claude(user: Path, session: str) -> Path:
    path = user / ".claude" / "projects" / "-w" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def texts(shell: Shell, session_id: str) -> list[str]:
    done = shell("show", session_id, "--json")
    return [message["content"] for message in done.json["messages"]] if done.code == 0 else []


def wait_for(shell: Shell, session_id: str, wanted: list[str]) -> None:
    try:
        wait_until(lambda: texts(shell, session_id) == wanted)
    except AssertionError:
        raise AssertionError((texts(shell, session_id), wanted, shell("follow", "status").out)) from None


@pytest.mark.parametrize("stopped", [False, True], ids=["followed", "stopped meanwhile"])
def test_a_session_that_is_restored_has_what_its_tool_said_meanwhile(
    shell: Shell, user_home: Path, stopped: bool
) -> None:
    shell.write_config(ON)
    file, other = claude(user_home, "s1"), claude(user_home, "s2")
    add(file, turn(1, "s1"))
    add(other, turn(1, "s2"))
    assert shell("status").code == 0
    for session in ("s1", "s2"):
        wait_for(shell, f"claude-code-{session}", ["text 1"])
    assert shell("rm", "claude-code-s1").code == 0
    for number in (2, 3):
        add(file, turn(number, "s1"))
        add(other, turn(number, "s2"))
        wait_for(shell, "claude-code-s2", [f"text {n}" for n in range(1, number + 1)])
    wait_until(lambda: shell("follow", "status", "--json").json["behind"] == 0)
    if stopped:
        shell.write_config("")
        assert shell("stop").code == 0
    assert shell("restore", "claude-code-s1").code == 0
    if stopped:
        assert shell("stop").code == 0
        shell.write_config(ON)
        assert shell("status").code == 0
    wait_for(shell, "claude-code-s1", ["text 1", "text 2", "text 3"])


def test_a_name_that_is_not_utf_8_costs_nothing(shell: Shell, user_home: Path) -> None:
    """Neither the other files, nor what is known of all of them: what was deleted stays so."""
    shell.write_config(ON)
    odd = Path(os.fsdecode(os.fsencode(claude(user_home, "s2")).replace(b"s2", b"caf\xe9")))
    files = (claude(user_home, "s1"), odd, claude(user_home, "s3"))
    for file in files:
        add(file, turn(1, "s"))

    def listed() -> dict[str, int]:
        done = shell("list", "--json")
        return {one["sessionId"]: one["messageCount"] for one in done.json["sessions"]}

    wait_until(lambda: len(listed()) == 3)
    [named] = listed().keys() - {"claude-code-s1", "claude-code-s3"}
    assert shell("rm", "--permanent", "claude-code-s1").code == 0
    assert shell("stop").code == 0
    for file in files:
        add(file, turn(2, "s"))
    wait_until(lambda: listed() == {named: 2, "claude-code-s3": 2})
    for file in files:
        add(file, turn(3, "s"))
    wait_until(lambda: listed() == {named: 3, "claude-code-s3": 3})


def test_a_message_is_live_in_a_client_within_a_second(shell: Shell, user_home: Path) -> None:
    """The place is there when the daemon starts, or comes later; nobody asked for an import."""
    path = claude(user_home, "s1")
    add(path, turn(1, "s1"))
    shell.write_config(ON)
    with shell.client() as client:
        wait_for(shell, "claude-code-s1", ["text 1"])
        session = client.session("claude-code-s1")
        heard: list[float] = []
        for number in range(2, 8):
            before = time.monotonic()
            add(path, turn(number, "s1"))
            wait_until(lambda number=number: len(session.messages()) == number)
            heard.append(time.monotonic() - before)
            time.sleep(0.1)
    assert sorted(heard)[len(heard) // 2] < 1.0, heard


def test_a_database_that_its_tool_has_open_is_read_once(shell: Shell, user_home: Path) -> None:
    """Reading it touches its log. It has no sessions, or rows that cannot be read, or is not that tool's at all."""
    folder = user_home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "opencode.db")) as db:
        db.executescript(SCHEMA)
        shell.write_config(ON)
        with shell.client() as client:

            def reading() -> float:
                places = client.call("daemon/follow")["places"]
                return sum(float(one["readingSeconds"]) for one in places if one["tool"] == "opencode")

            wait_until(lambda: reading() > 0)
            for change in ("", "CREATE TABLE other (id TEXT)", "ALTER TABLE message DROP COLUMN data"):
                before = reading()
                db.executescript(change)
                wait_until(lambda before=before, change=change: not change or reading() > before)
                time.sleep(0.5)
                rest = reading()
                time.sleep(0.5)
                assert reading() == rest, change


def test_tools_are_named_in_the_configuration(shell: Shell, user_home: Path) -> None:
    """`follow on` and `off` keep what else is in the file; a name that is no tool's changes nothing."""
    add(claude(user_home, "s1"), turn(1, "s1"))
    shell.write_config("# mine\n[limits]\npage_messages = 500  # and this\n")
    assert shell("follow", "status").out == "nothing is followed; begin with: sessiond follow on\n"
    wrong = shell("follow", "on", "claude-cod")
    assert (wrong.code, "did you mean 'claude-code'?" in wrong.err) == (1, True)
    done = shell("follow", "on", "claude-code", "codex")
    assert "~/.claude/projects" in done.out
    text = (shell.path / "config" / "config.toml").read_text()
    assert text == '# mine\n[limits]\npage_messages = 500  # and this\n\n[follow]\ntools = ["claude-code", "codex"]\n'
    wait_for(shell, "claude-code-s1", ["text 1"])
    assert shell("follow", "off", "codex").code == 0
    assert shell("follow", "status", "--json").json["tools"] == ["claude-code"]
    shell("stop")
    add(claude(user_home, "s1"), turn(2, "s1"))
    wait_for(shell, "claude-code-s1", ["text 1", "text 2"])
    assert shell("follow", "off").code == 0
    assert (shell.path / "config" / "config.toml").read_text().endswith("[follow]\ntools = []\n")
    add(claude(user_home, "s1"), turn(3, "s1"))
    time.sleep(0.5)
    assert texts(shell, "claude-code-s1") == ["text 1", "text 2"]


def test_what_was_deleted_here_does_not_come_back(shell: Shell, user_home: Path) -> None:
    """Not when the tool writes on, not at the next start; an import that somebody asks for brings it."""
    path = claude(user_home, "s1")
    add(path, turn(1, "s1"))
    add(claude(user_home, "s2"), turn(1, "s2"))
    shell.write_config(ON)
    wait_for(shell, "claude-code-s1", ["text 1"])
    wait_for(shell, "claude-code-s2", ["text 1"])
    assert shell("rm", "claude-code-s1").code == 0
    add(path, turn(2, "s1"))
    add(claude(user_home, "s2"), turn(2, "s2"))
    wait_for(shell, "claude-code-s2", ["text 1", "text 2"])
    shell("stop")
    add(claude(user_home, "s2"), turn(3, "s2"))
    wait_for(shell, "claude-code-s2", ["text 1", "text 2", "text 3"])
    assert texts(shell, "claude-code-s1") == []
    assert shell("import", str(path)).code == 0
    assert texts(shell, "claude-code-s1") == ["text 1", "text 2"]


def test_a_removed_source_takes_nothing_away(shell: Shell, user_home: Path) -> None:
    """Its session says that the file is gone, also if it went while no daemon ran; and no longer, when it is back."""
    path, other = claude(user_home, "s1"), claude(user_home, "s2")
    add(path, turn(1, "s1"))
    add(other, turn(1, "s2"))
    shell.write_config(ON)
    wait_for(shell, "claude-code-s1", ["text 1"])
    wait_for(shell, "claude-code-s2", ["text 1"])

    def gone(name: str) -> bool:
        info = shell("show", f"claude-code-{name}", "--json").json["session"]
        return bool(info["metadata"]["source"].get("gone", False))

    whole = path.read_bytes()
    path.unlink()
    wait_until(lambda: gone("s1"))
    assert texts(shell, "claude-code-s1") == ["text 1"]
    shell("stop")
    other.unlink()
    path.write_bytes(whole)
    wait_until(lambda: gone("s2") and not gone("s1"))
    assert texts(shell, "claude-code-s2") == ["text 1"]


def test_the_log_of_a_database_is_followed(shell: Shell, user_home: Path) -> None:
    """opencode writes into `opencode.db-wal`, part by part."""
    db = OpenCodeDb(user_home / ".local" / "share" / "opencode" / "opencode.db")
    shell.write_config(ON)
    assert shell("follow", "status").code == 0
    for one in db.turn():
        one()
        time.sleep(0.05)
    wanted = ["USETOOL: ls", "I shall look.", "a file\n", "and then?", "That is all."]
    wait_for(shell, "opencode-ses_1", wanted)


def test_a_tool_that_has_moved_is_noticed(shell: Shell, user_home: Path) -> None:
    """Its file is days newer than what is in it; a new message takes that back."""
    path = claude(user_home, "s1")
    add(path, turn(1, "s1").replace("2026-11-22", "2026-01-22"))
    shell.write_config(ON)

    def problem() -> str:
        return " ".join(place["problem"] or "" for place in shell("follow", "status", "--json").json["places"])

    wait_until(lambda: "the newest record is of 2026-01-22, but its files were written on" in problem())
    add(path, turn(2, "s1").replace("2026-11-22T14:00:02.000Z", timestamp(int(time.time() * 1000))))
    wait_until(lambda: not problem())


def test_a_database_that_must_be_copied_is_said(shell: Shell, user_home: Path) -> None:
    """Its log has lost its index: each write costs a copy. That passes when the tool starts again."""
    db = OpenCodeDb(user_home / ".local" / "share" / "opencode" / "opencode.db")
    db.session("ses_1", "Talk")
    for transaction in db.turn():
        transaction()
    index = db.path.with_name("opencode.db-shm")
    away = index.rename(user_home / "away")
    shell.write_config(ON)

    def problem() -> str:
        return " ".join(place["problem"] or "" for place in shell("follow", "status", "--json").json["places"])

    wait_until(lambda: "opencode.db was copied to be read: its log is not complete" in problem())
    away.rename(index)
    db.title("ses_1", "Another")
    wait_until(lambda: "copied" not in problem())


def test_an_output_in_a_file_of_its_own_comes_in_when_it_is_written(shell: Shell, user_home: Path) -> None:
    """After its record: nobody writes that again."""
    path = claude(user_home, "s1")
    file = path.parent / "s1" / "tool-results" / "toolu_1.txt"
    shell.write_config(ON)
    assert shell("follow", "status").code == 0
    transcript(path, str(file))
    session = "claude-code-s1"
    wait_until(lambda: bool(texts(shell, session)) and preview(str(file)) == texts(shell, session)[-1])
    kept(path.parent / "s1")
    wait_until(lambda: texts(shell, session)[-1].endswith(OUTPUT))


# Random histories


class Tools:
    """Three tools that write into a home, one record at a time, as chance will have it."""

    def __init__(self, user: Path, chance: random.Random) -> None:
        self._user = user
        self._chance = chance
        self._claude = 0
        self._gemini = [GEMINI_HEAD]
        answer = gemini("m2", "gemini", "")
        self._gemini_rest: list[dict[str, Any]] = [
            gemini("m1", "user", [{"text": "USETOOL: ls"}]),
            answer,
            {**answer, "toolCalls": [CALL]},
            {**answer, "toolCalls": [{**CALL, "status": "success", "result": RESULT}]},
            gemini("m4", "gemini", "There is"),
            gemini("m4", "gemini", "There is a file."),
        ]
        self._db = OpenCodeDb(user / ".local" / "share" / "opencode" / "opencode.db")
        self._turn = self._db.turn()

    def step(self) -> None:
        steps: list[Callable[[], None]] = [self._write_claude]
        if self._gemini_rest:
            steps.append(self._write_gemini)
        if self._turn:
            steps.append(self._write_opencode)
        self._chance.choice(steps)()

    def end(self) -> None:
        while self._gemini_rest or self._turn:
            self.step()

    def _write_claude(self) -> None:
        self._claude += 1
        path = claude(self._user, f"s{self._claude % 3}")
        record = turn(self._claude, path.stem)
        cut = self._chance.randrange(len(record))
        add(path, record[:cut])  # a reader may see half of it
        add(path, record[cut:])

    def _write_gemini(self) -> None:
        path = self._user / ".gemini" / "tmp" / "p" / "chats" / "session-g1.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            add(path, json.dumps(GEMINI_HEAD) + "\n")
        add(path, json.dumps(self._gemini_rest.pop(0)) + "\n")

    def _write_opencode(self) -> None:
        self._turn.pop(0)()


def shown(shell: Shell) -> dict[str, Any]:
    """Each session as its exports show it."""
    found = {}
    for info in shell("list", "--json").json["sessions"]:
        exported = shell("export", info["sessionId"], "--format", "json").out
        found[info["sessionId"]] = plain(json.loads(exported))
    return found


def settled(shell: Shell) -> bool:
    status = shell("follow", "status", "--json").json
    return status["behind"] == 0 and len(status["places"]) == 3


def test_two_who_follow_something_at_once_both_get_it(shell: Shell) -> None:
    """Each adds to what is followed when its turn comes."""
    tools = ["claude-code", "codex", "pi", "gemini-cli"]
    shell("status")
    for _ in range(3):
        both = [shell.start("follow", "on", tool) for tool in tools]
        assert [one.wait(60) for one in both] == [0] * len(tools)
        assert sorted(shell("follow", "status", "--json").json["tools"]) == sorted(tools)
        both = [shell.start("follow", "off", tool) for tool in tools[1:]]
        assert [one.wait(60) for one in both] == [0] * len(both)
        assert shell("follow", "status", "--json").json["tools"] == tools[:1]


def test_what_cannot_be_followed_no_more(shell: Shell) -> None:
    """A tool that is not followed, and one of all."""
    assert shell("follow", "on", "codex").code == 0
    refused = shell("follow", "off", "pi")
    assert refused.code != 0
    assert "'pi' is not followed" in refused.err and "codex" in refused.err
    assert shell("follow", "on").code == 0
    refused = shell("follow", "off", "pi")
    assert refused.code != 0
    assert "all tools are" in refused.err
    assert shell("follow", "status", "--json").json["tools"] == ["all"]
    with shell.client() as client:
        assert client.follow(["codex"], add=["pi"], remove=["codex"]).tools == ["pi"]


@pytest.mark.parametrize("seed", seeds(few=1, usual=3))
def test_random_histories_equal_one_import(shell: Shell, user_home: Path, tmp_path: Path, seed: int) -> None:
    """Tools write at random, the daemon is killed with -9 and stopped at random; in the end it has what one import brings."""
    chance = random.Random(seed)
    shell.write_config(ON)
    tools = Tools(user_home, chance)
    shell("follow", "status")
    for _ in range(60):
        tools.step()
        match chance.randrange(14):
            case 0 if shell.held():
                shell.kill()
            case 1:
                shell("stop")
            case 2:
                shell("follow", "status")
            case _:
                time.sleep(chance.random() * 0.1)
    tools.end()
    wait_until(lambda: settled(shell))
    once = Shell(HOME=str(user_home))
    try:
        for place in (".claude", ".gemini", ".local/share/opencode/opencode.db"):
            assert once("import", str(user_home / place)).code == 0
        expected = shown(once)
        wait_until(lambda: shown(shell) == expected)
    except AssertionError:
        shutil.copytree(user_home, tmp_path / "failed", dirs_exist_ok=True)
        found = shown(shell)
        assert found == expected
        raise
    finally:
        once.close()


def test_a_source_of_many_files_is_followed(shell: Shell, user_home: Path) -> None:
    """OpenHands writes a file for each event; the session is imported by the first file of its folder."""
    folder = user_home / ".openhands" / "conversations" / "c1"
    (folder / "events").mkdir(parents=True)

    def event(number: int, source: str, text: str) -> None:
        message = {"role": source, "content": [{"type": "text", "text": text}]}
        record = {
            "kind": "MessageEvent", "id": f"e{number}", "source": {"assistant": "agent"}.get(source, source),
            "timestamp": f"2026-11-22T10:00:0{number}", "llm_message": message,
        }  # fmt: skip
        (folder / "events" / f"event-{number:05d}-e{number}.json").write_text(json.dumps(record))

    state = {"id": "c1", "agent": {"llm": {"model": "fake"}}, "workspace": {"working_dir": "/w"}}
    (folder / "base_state.json").write_text(json.dumps(state))
    event(0, "user", "first")
    shell.write_config(ON)
    wait_for(shell, "openhands-c1", ["first"])
    event(1, "assistant", "second")
    wait_for(shell, "openhands-c1", ["first", "second"])
