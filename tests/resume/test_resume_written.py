"""A copy is there as a whole or not at all: whatever kills the command, fills the disk, or runs at the same time."""

from __future__ import annotations

import errno
import os
import random
import resource
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from places import TARGETS, in_home
from test_copies import session_of

from sessiond.errors import TooLarge, Unavailable
from sessiond.fs import publish as publishing
from sessiond.fs.publish import publish
from sessiond.importers.record import InfoUpdate, MessageRecord, SessionStart
from sessiond.limits import MIB
from sessiond.model.message import Message
from sessiond.resume import make as making
from sessiond.resume.check import CopyDiffers
from sessiond.resume.gemini import GeminiTarget
from sessiond.resume.make import make
from sessiond.resume.selection import selected
from sessiond.resume.target import Written
from tests.shell import ROOT
from tests.suite.explore import tries

ROUNDS = tries(few=5, usual=25)
T = "2026-01-01T00:00:00.000Z"
FILES = [name for name in TARGETS if name not in ("opencode", "llm")]
SAID = [
    Message(id="m1", seq=1, role="user", content="How long?", timestamp=T),
    Message(id="m2", seq=2, role="assistant", content="x" * 3_000_000, timestamp=T),
]


def copy(name: str, home: Path, messages: list[Message] = SAID) -> Any:
    session = session_of(messages)
    return make(in_home(name, home), session, "a-session", selected(session), str(home))


def below(home: Path) -> list[Path]:
    return sorted(one for one in home.rglob("*") if one.is_file())


COPIES = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[2]]
from test_resume_written import copy
name, home = sys.argv[3], Path(sys.argv[1])
copy(name, home)
print("begun", flush=True)
while True:
    copy(name, home)
"""


def sessions(name: str, home: Path) -> list[str]:
    """The files of each session that the tool would find; for llm, its threads."""
    if name == "llm":
        with closing(sqlite3.connect(home / ".config" / "io.datasette.llm" / "logs.db")) as database:
            return [one for (one,) in database.execute("SELECT id FROM threads")]
    return [str(one) for one in below(home) if one.name != ".project_root" and not one.name.endswith(".messages.json")]


def messages_of(name: str, home: Path, session: str) -> list[Any]:
    place = in_home(name, home)
    if name == "llm":
        found = Written(session, str(home / ".config" / "io.datasette.llm" / "logs.db"))
    else:
        found = Written("", session.replace(".json", ".messages.json") if name == "cline" else session)
    return [one.message for one in place.read(found) if isinstance(one, MessageRecord)]


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "opencode"])
def test_a_kill_leaves_whole_copies_and_nothing_else(name: str, tmp_path: Path) -> None:
    """kill -9 at a random moment while copies are made, again and again: every session that the tool would list is whole."""
    rng = random.Random(19)
    command = [sys.executable, "-c", COPIES, str(tmp_path), str(Path(__file__).parent), name]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for _ in range(ROUNDS if name == "claude" else (ROUNDS + 4) // 5):
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0, 0.05))
            process.kill()
        found = sessions(name, tmp_path)
        assert found
        for one in found:
            assert [one["role"] for one in messages_of(name, tmp_path, one) if one["role"] != "tool"] == [
                "user",
                "assistant",
            ]
        assert not [path for path in below(tmp_path) if path.name.startswith(".sessiond-")]
        for path in below(tmp_path):
            if name != "llm":
                path.unlink()


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "opencode"])
def test_four_at_once_are_four(name: str, tmp_path: Path) -> None:
    """In a home where the tool has never run: its folders, and for Gemini CLI the name of the project, are made once."""
    in_home(name, tmp_path)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: copy(name, tmp_path), range(4)))
    assert len({one.written.id for one in made}) == 4
    assert len(sessions(name, tmp_path)) == 4
    assert len([path for path in below(tmp_path) if path.name == ".project_root"]) == (name == "gemini")


def test_a_project_that_another_copy_has_just_named_is_not_named_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for the project's folder and the choice of a name for it."""
    choose = GeminiTarget._free_name

    def late(self: GeminiTarget, *given: Any) -> str:
        monkeypatch.setattr(GeminiTarget, "_free_name", choose)
        copy("gemini", tmp_path)
        return choose(self, *given)

    monkeypatch.setattr(GeminiTarget, "_free_name", late)
    copy("gemini", tmp_path)
    assert len(sessions("gemini", tmp_path)) == 2
    assert len([path for path in below(tmp_path) if path.name == ".project_root"]) == 1


@pytest.mark.parametrize("name", TARGETS)
def test_a_copy_says_where_it_came_from(name: str, tmp_path: Path) -> None:
    """Read by its importer, it has the session as its parent, with the seq up to which it was copied."""
    place, session = in_home(name, tmp_path), session_of(SAID)
    for at, seq in ((None, 2), (1, 1)):
        made = make(place, session, "a-session", selected(session, at=at), str(tmp_path), at=at)
        assert made.written is not None
        found: dict[str, Any] = {}
        for event in place.read(made.written):
            found |= event.info if isinstance(event, SessionStart) else {}
            found |= event.fields if isinstance(event, InfoUpdate) else {}
        assert found["parent"] == {"sessionId": "a-session", "seq": seq}


@pytest.mark.parametrize("name", FILES)
def test_a_full_disk_leaves_nothing(name: str, tmp_path: Path) -> None:
    """No file may be larger than 100 kB here: the write ends short, and then fails."""
    home = tmp_path / "home"
    home.mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(Unavailable, match="too large"):
            copy(name, home)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("nth", [1, 2], ids=["the file", "its folder"])
@pytest.mark.parametrize("named", [False, True], ids=["without a name", "by a link"])
def test_a_failing_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool, nth: int) -> None:
    """The file's own sync fails, or that of its folder, after which it has its name already."""
    if named:
        monkeypatch.delattr(os, "O_TMPFILE")
    synced: list[int] = []

    def fails(fd: int) -> None:
        synced.append(fd)
        if len(synced) == nth:
            raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(publishing.os, "fsync", fails)
    with pytest.raises(OSError, match="input/output"):
        publish(str(tmp_path / "copy.jsonl"), b"words")
    assert below(tmp_path) == []


@pytest.mark.parametrize("named", [False, True], ids=["without a name", "by a link"])
def test_a_file_gets_its_name_when_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    if named:
        monkeypatch.delattr(os, "O_TMPFILE")
    there: list[bool] = []
    sync = os.fsync

    def watched(fd: int) -> None:
        there.append((tmp_path / "copy.jsonl").exists())
        sync(fd)

    monkeypatch.setattr(publishing.os, "fsync", watched)
    publish(str(tmp_path / "copy.jsonl"), b"words")
    assert there == [False, True]


@pytest.mark.parametrize("named", [False, True], ids=["without a name", "by a link"])
def test_an_existing_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool) -> None:
    """Also where the kernel knows no files without a name."""
    if named:
        monkeypatch.delattr(os, "O_TMPFILE")
    path = tmp_path / "copy.jsonl"
    publish(str(path), b"words")
    with pytest.raises(FileExistsError):
        publish(str(path), b"other words")
    assert path.read_bytes() == b"words"
    assert below(tmp_path) == [path]


@pytest.mark.parametrize("name", TARGETS)
def test_a_copy_that_reads_back_differently_is_removed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differs(*_: Any) -> None:
        raise CopyDiffers("it differs")

    monkeypatch.setattr(making, "compare", differs)
    place = in_home(name, tmp_path)
    before = {path: path.read_bytes() for path in below(tmp_path)}
    session = session_of(SAID)
    with pytest.raises(CopyDiffers):
        make(place, session, "a-session", selected(session), str(tmp_path))
    assert [path for path in below(tmp_path) if path.name != "logs.db"] == [
        path for path in before if path.name != "logs.db"
    ]
    assert [one for one in tmp_path.rglob("*") if one.is_dir() and not any(one.iterdir())] == []


def test_a_copy_has_at_most_so_many_bytes(tmp_path: Path) -> None:
    words = "y" * (22 * MIB)
    said = [Message(id=f"m{n}", seq=n + 1, role="user", content=words, timestamp=T) for n in range(3)]
    with pytest.raises(TooLarge, match="at most 64 MiB") as caught:
        copy("claude", tmp_path, said)
    assert caught.value.hint == "--last N or --no-tools makes it smaller"
    assert list(tmp_path.iterdir()) == []
