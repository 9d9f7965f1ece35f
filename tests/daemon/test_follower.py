"""When a follower reads what: hints, files that are behind, places that come and go, and files that cannot be imported."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from sessiond.daemon import follow
from sessiond.daemon.follow import Follower
from sessiond.daemon.following import Following
from sessiond.errors import ReadOnly
from sessiond.importers import registry
from sessiond.importers.record import SkippedLine
from sessiond.schema.sessions import ImportResult
from sessiond.schema.types import SessionInfo


def a_session(session_id: str) -> SessionInfo:
    """Without anything but its id."""
    return SessionInfo(
        session_id=session_id, name=None, created_at="", updated_at="", model=None, message_count=0, seq=0, store="default",
        format="jsonl", path="", cwd=None, tags=[], archived=False, summary=None, parent=None, metadata={}, attached=0, dirty=False,
    )  # fmt: skip


class Importing:
    """Remembers what it is asked to import. `fails`: how often it refuses, with `error`. `lost`: how often it does not know
    what there is. A file called `large` takes for ever, one called `bad` is refused always.
    """

    def __init__(self) -> None:
        self.brought: list[str] = []
        self.removed: list[str] = []
        self.fails = 0
        self.error: Exception = ReadOnly("the disk is full")
        self.lost = 0
        self.changed: list[str] = []
        """Files that were changed in place."""

    async def bring(self, path: str, tool: str | None, *, named: bool = False) -> ImportResult:
        name = os.path.basename(path)
        self.brought.append(name)
        if self.fails:
            self.fails -= 1
            raise self.error
        if name.startswith("bad"):
            raise KeyError("a bug")
        if name.startswith("large"):
            await asyncio.sleep(3600)
        return ImportResult(sessions=[a_session(f"{tool}-{name}")], skipped=0, warnings=[])

    def doubt(self, path: str, tool: str | None) -> str | None:
        return None

    def goes_on(self, path: str) -> bool:
        return os.path.basename(path).startswith("known")

    def read_to(self, path: str) -> int | None:
        return None if os.path.basename(path).startswith("database") else 1

    async def compare(self, seconds: float, covers: object) -> list[str]:
        changed, self.changed = self.changed, []
        return changed

    async def behind(self, paths: Sequence[str]) -> list[str]:
        return list(paths)

    async def gone(self, paths: Sequence[str]) -> None:
        self.removed += [os.path.basename(path) for path in paths]

    async def known(self) -> list[str]:
        if self.lost:
            self.lost -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return []

    def now(self) -> str:
        return "2026-11-22T10:00:00.000Z"


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(follow, "_RETRY_S", 0.05)
    monkeypatch.setattr(follow, "_LOOK_S", 0.2)
    monkeypatch.setattr(follow, "_POLL_S", 0.1)
    return tmp_path


Started = Callable[..., Awaitable[tuple[Follower, Importing]]]


@pytest.fixture
async def started(user_home: Path) -> Any:
    made: list[Follower] = []

    async def start(*tools: str, lost: int = 0) -> tuple[Follower, Importing]:
        importing = Importing()
        importing.lost = lost
        follower = Follower(importing, tools or ("claude-code",), {})
        made.append(follower)
        await follower.start()
        return follower, importing

    yield start
    for follower in made:
        await follower.close()


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within 10 s")


def place(home: Path, *names: str) -> Path:
    path = home / ".claude" / "projects" / "-w"
    path.mkdir(parents=True, exist_ok=True)
    for name in names:
        (path / name).write_text("x")
    return path


async def test_a_follower_that_cannot_begin_does_not_keep_the_daemon_from_closing(
    user_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class NoStore:
        stores: ClassVar[dict[str, Any]] = {}

    where = cast("Any", None)
    config = cast("Any", SimpleNamespace(follow_tools=("codex",)))
    following = Following(where, where, config, cast("Any", NoStore()), asyncio.Lock())
    following.begin()
    await until(lambda: "no tool is followed" in caplog.text)
    await following.close()


async def test_a_follower_ends_although_its_readers_were_just_woken(
    user_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_RETRY_S", 60)
    place(user_home, "a.jsonl")
    importing = Importing()
    importing.fails = 1
    follower = Follower(importing, ["claude-code"], {})
    await follower.start()
    await until(lambda: any(one.problem for one in follower.status()))  # its readers wait until the file is tried again
    await follower._wake()
    async with asyncio.timeout(10):
        await follower.close()


async def test_a_file_that_cannot_be_imported_is_tried_again(user_home: Path, started: Started) -> None:
    """Although nobody writes it; meanwhile the status says why."""
    place(user_home, "a.jsonl")
    follower, importing = await started()
    await until(lambda: importing.brought == ["a.jsonl"])
    importing.fails = 3
    place(user_home, "b.jsonl")
    await until(lambda: any(one.problem for one in follower.status()))
    await until(lambda: importing.brought.count("b.jsonl") == 4)
    await until(lambda: follower.status()[0].problem is None)
    assert follower.status()[0].sessions == 2
    assert follower.behind == 0


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), KeyError("a bug")])
async def test_whatever_fails_a_file_is_tried_again(user_home: Path, started: Started, error: Exception) -> None:
    """Also where nobody foresaw it: the file counts as behind, and the status says why, until it comes."""
    place(user_home, "a.jsonl")
    follower, importing = await started()
    await until(lambda: importing.brought == ["a.jsonl"])
    importing.fails, importing.error = 2, error
    place(user_home, "b.jsonl")
    await until(lambda: type(error).__name__ in (follower.status()[0].problem or ""))
    assert follower.behind == 1
    await until(lambda: importing.brought.count("b.jsonl") == 3)
    await until(lambda: (follower.behind, follower.status()[0].problem) == (0, None))


async def test_a_file_that_fails_is_told_although_others_come(user_home: Path, started: Started) -> None:
    """Its problem is not hidden by a file that was read after it; several are counted."""
    folder = place(user_home, "a.jsonl", "bad1.jsonl")
    follower, importing = await started()
    await until(lambda: importing.brought.count("bad1.jsonl") > 1)
    place(user_home, "b.jsonl")
    await until(lambda: "b.jsonl" in importing.brought)
    assert follower.status()[0].problem == f"{folder}/bad1.jsonl: KeyError: 'a bug'"
    place(user_home, "bad2.jsonl")
    await until(lambda: (follower.status()[0].problem or "").endswith(" (and 1 more)"))
    (folder / "bad1.jsonl").unlink()
    (folder / "bad2.jsonl").unlink()
    await until(lambda: follower.status()[0].problem is None)


async def test_what_is_left_to_the_other_reader_has_not_passed(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file that failed stays failed until it was read."""
    monkeypatch.setattr(follow, "_LARGE", 0)
    folder = place(user_home, "large.jsonl")
    follower, importing = await started()
    await until(lambda: importing.brought == ["large.jsonl"])
    (folder / "large.jsonl").write_text("{}{}")
    [followed] = follower._places.values()
    assert await follower._take(str(folder / "large.jsonl"), followed, small=True, told=False) is False


async def test_a_file_that_keeps_failing_is_tried_less_often(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is written: then it is tried at once, and not less often than before, however often that is."""
    monkeypatch.setattr(follow, "_RETRY_S", 3000.0)
    monkeypatch.setattr(follow, "_LONGEST_RETRY_S", 5000.0)
    folder = place(user_home, "bad.jsonl")
    follower, importing = await started()
    for times in range(1, 6):
        await until(lambda times=times: importing.brought.count("bad.jsonl") == times)
        await until(lambda: follower._hinted)
        [waiting] = follower._hinted.values()
        pause = waiting.due - asyncio.get_running_loop().time()
        assert (2900 < pause <= 3000) if times < 5 else (4900 < pause <= 5000)
        assert follower.status()[0].problem is not None
        if times == 4:
            follower._again[str(folder / "bad.jsonl")] = 0.0  # the pause is over
        (folder / "bad.jsonl").write_text("x" * times)


async def test_a_place_that_cannot_be_searched_is_searched_again(user_home: Path, started: Started) -> None:
    """What was written while nobody watched comes, although there was no file descriptor when the follower began."""
    place(user_home, "a.jsonl")
    follower, importing = await started(lost=2)
    await until(lambda: "Too many open files" in (follower.status()[0].problem or ""))
    await until(lambda: importing.brought == ["a.jsonl"])
    await until(lambda: follower.status()[0].problem is None)


async def test_a_folder_that_cannot_be_listed_is_listed_again(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files were there before the follower began, so that no hint tells of them."""
    place(user_home, "a.jsonl")
    real, left = follow.registry.candidates, [1, 1]

    def candidates(path: str) -> Any:
        if left:
            left.pop()
            return iter([SkippedLine(path, None, "cannot be listed: Too many open files", failed=True)])
        return real(path)

    monkeypatch.setattr(follow.registry, "candidates", candidates)
    _, importing = await started()
    await until(lambda: importing.brought == ["a.jsonl"])


async def test_the_newest_comes_first(user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "_READERS", 1)
    folder = place(user_home, "old.jsonl", "older.jsonl", "new.jsonl", "notes.py")
    for age, name in ((200, "old.jsonl"), (300, "older.jsonl"), (100, "new.jsonl")):
        os.utime(folder / name, (1_790_000_000 - age, 1_790_000_000 - age))
    _, importing = await started()
    await until(lambda: len(importing.brought) == 3)
    assert importing.brought == ["new.jsonl", "old.jsonl", "older.jsonl"]


async def test_what_is_written_now_does_not_wait_for_large_files(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_READERS", 1)
    folder = place(user_home, "old.jsonl")
    follower, importing = await started()
    await until(lambda: importing.brought)
    for name in ("large1.jsonl", "large2.jsonl"):
        (folder / name).write_text("x" * (follow._LARGE + 1))
        await until(lambda: any(one.startswith("large") for one in importing.brought))
    await asyncio.sleep(0.3)
    place(user_home, "now.jsonl")
    await until(lambda: "now.jsonl" in importing.brought)
    assert follower.behind == 2


async def test_a_large_file_that_is_read_on_does_not_wait(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_READERS", 1)
    folder = place(user_home, "old.jsonl")
    _, importing = await started()
    await until(lambda: importing.brought)
    (folder / "large.jsonl").write_text("x" * (follow._LARGE + 1))
    await until(lambda: "large.jsonl" in importing.brought)
    (folder / "known.jsonl").write_text("x" * (follow._LARGE + 1))
    await until(lambda: "known.jsonl" in importing.brought)


async def test_a_file_that_is_only_touched_is_not_read(user_home: Path, started: Started) -> None:
    """Reading a database closes its log, as one who has written to it does; the system tells of both."""
    folder = place(user_home)
    (folder / "one.jsonl").write_text("{}")
    _, importing = await started()
    await until(lambda: importing.brought == ["one.jsonl"])
    for _ in range(3):
        os.close(os.open(folder / "one.jsonl", os.O_RDWR))
        await asyncio.sleep(0.2)
    assert importing.brought == ["one.jsonl"]
    (folder / "one.jsonl").write_text("{}{}")
    await until(lambda: importing.brought == ["one.jsonl"] * 2)


async def test_a_file_that_failed_and_is_only_touched_waits(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read again when it would have been, or as soon as it is written."""
    monkeypatch.setattr(follow, "_RETRY_S", 1.0)
    folder = place(user_home)
    (folder / "one.jsonl").write_text("{}")
    follower, importing = await started()
    importing.fails = 2
    await until(lambda: importing.fails == 1)
    for _ in range(2):
        os.close(os.open(folder / "one.jsonl", os.O_RDWR))
        await asyncio.sleep(0.2)
    assert importing.fails == 1
    assert "the disk is full" in str(follower.status()[0].problem)
    await until(lambda: importing.fails == 0)
    (folder / "one.jsonl").write_text("{}{}")
    await until(lambda: importing.brought == ["one.jsonl"] * 3)


async def test_a_file_that_was_both_changed_in_place_and_touched_is_read(user_home: Path, started: Started) -> None:
    folder = place(user_home)
    (folder / "one.jsonl").write_text("{}")
    follower, importing = await started()
    await until(lambda: importing.brought == ["one.jsonl"])
    path = str(folder / "one.jsonl")
    [followed] = follower._places.values()
    follower._rested[path] = asyncio.get_running_loop().time() + 3600
    follower._note(followed, [path], told=False)
    follower._note(followed, [path])
    await until(lambda: importing.brought == ["one.jsonl"] * 2)


async def test_a_file_that_was_changed_in_place_is_read(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_POLL_S", 0.05)
    folder = place(user_home, "old.jsonl")
    _, importing = await started()
    await until(lambda: importing.brought == ["old.jsonl"])
    importing.changed = [str(folder / "old.jsonl")]
    await until(lambda: importing.brought == ["old.jsonl"] * 2)


async def test_a_place_comes_later_and_goes(user_home: Path, started: Started) -> None:
    """It is found within a look; a removed file is told; a place that goes is forgotten and found again."""
    follower, importing = await started()
    assert follower.status() == []
    folder = place(user_home, "a.jsonl")
    await until(lambda: importing.brought == ["a.jsonl"])
    (folder / "a.jsonl").unlink()
    await until(lambda: importing.removed == ["a.jsonl"])
    shutil.rmtree(user_home / ".claude")
    await until(lambda: follower.status() == [])
    place(user_home, "b.jsonl")
    await until(lambda: "b.jsonl" in importing.brought)


async def test_a_folder_that_cannot_be_watched_is_compared(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and then, and the status says why; what was read in between does not hide it."""

    async def full(*_: object, **_more: bool) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(follow.Hints, "open", full)
    monkeypatch.setattr(follow, "_COMPARE_S", 0.05)
    place(user_home, "a.jsonl")
    follower, importing = await started()
    await until(lambda: "a.jsonl" in importing.brought)
    place(user_home, "b.jsonl")
    await until(lambda: "b.jsonl" in importing.brought)
    assert "inotify watch limit reached" in (follower.status()[0].problem or "")


async def test_a_folder_is_watched_as_soon_as_it_can_be(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There were no file descriptors when it was found; then its problem is over."""
    real, left = follow.Hints.open, [1, 1]

    async def later(self: Any, *args: Any, **more: bool) -> None:
        if left:
            left.pop()
            raise OSError(errno.EMFILE, "Too many open files")
        await real(self, *args, **more)

    monkeypatch.setattr(follow.Hints, "open", later)
    monkeypatch.setattr(follow, "_COMPARE_S", 0.05)
    place(user_home, "a.jsonl")
    follower, _ = await started()
    assert follower.status()[0].problem == "cannot be watched: [Errno 24] Too many open files"
    await until(lambda: follower.status()[0].problem is None)


async def test_only_the_tools_that_are_named(user_home: Path, started: Started) -> None:
    place(user_home, "a.jsonl")
    (user_home / ".aider.chat.history.md").write_text("x")
    follower, importing = await started("aider")
    await until(lambda: importing.brought == [".aider.chat.history.md"])
    (user_home / ".aider.chat.history.md").write_text("x y")
    await until(lambda: len(importing.brought) == 2)
    assert [one.tool for one in follower.status()] == ["aider"]
    both, importing = await started("all")
    await until(lambda: sorted(importing.brought) == [".aider.chat.history.md", "a.jsonl"])
    assert len(both.status()) == 2


async def test_what_is_written_behind_a_link_to_a_folder(user_home: Path, started: Started) -> None:
    """As an import reads it: a link that is there at the start or comes later, and links in what it leads to; a loop ends, and
    what a link that was removed led to is no longer read.
    """
    real, late = user_home / "dotfiles" / "real", user_home / "dotfiles" / "late"
    for folder in (real, late / "inner"):
        folder.mkdir(parents=True)
    (real / "a.jsonl").write_text("x")
    projects = user_home / ".claude" / "projects"
    projects.mkdir(parents=True)
    (projects / "linked").symlink_to(real)
    (real / "up").symlink_to(projects)
    _, importing = await started()
    await until(lambda: importing.brought == ["a.jsonl"])
    (real / "b.jsonl").write_text("x")
    await until(lambda: importing.brought == ["a.jsonl", "b.jsonl"])
    (projects / "later").symlink_to(late)
    (late / "inner" / "c.jsonl").write_text("x")
    await until(lambda: "c.jsonl" in importing.brought)
    (late / "inner" / "d.jsonl").write_text("x")
    await until(lambda: "d.jsonl" in importing.brought)
    (projects / "linked").unlink()
    place(user_home, "e.jsonl")
    await until(lambda: "e.jsonl" in importing.brought)
    (real / "f.jsonl").write_text("x")
    place(user_home, "g.jsonl")
    await until(lambda: "g.jsonl" in importing.brought)
    assert "f.jsonl" not in importing.brought


async def test_what_is_written_behind_a_link_to_a_file(user_home: Path, started: Started) -> None:
    """The system tells nothing of it, so it is looked at every second; also if the link came later."""
    for name in ("a", "b"):
        (user_home / f"real-{name}").write_text("x")
    folder = place(user_home)
    (folder / "a.jsonl").symlink_to(user_home / "real-a")
    _, importing = await started()
    await until(lambda: importing.brought == ["a.jsonl"])
    (folder / "b.jsonl").symlink_to(user_home / "real-b")
    await until(lambda: "b.jsonl" in importing.brought)
    await asyncio.sleep(0.3)  # both were looked at once
    for name in ("a", "b"):
        before = importing.brought.count(f"{name}.jsonl")
        (user_home / f"real-{name}").write_text("more")
        await until(lambda name=name, before=before: importing.brought.count(f"{name}.jsonl") > before)


@pytest.mark.parametrize("listed", ["{0}/work,{0}/home", "{0}/work"])
def test_several_profiles_are_named_with_commas(tmp_path: Path, listed: str) -> None:
    env = {"CLAUDE_CONFIG_DIR": listed.format(tmp_path)}
    for name in ("work", "home"):
        (tmp_path / name / "projects").mkdir(parents=True)
    found = [one.path for one in registry.known_places("/nobody", env) if one.tool == "claude-code"]
    assert found == [f"{one}/projects" for one in listed.format(tmp_path).split(",")]


def test_a_file_that_cannot_be_looked_at_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of its place are read; it is tried last, and reading it says why. One that is gone is left out."""
    for name in ("a", "b", "c", "d"):
        (tmp_path / f"{name}.jsonl").write_text("x")
    real = os.stat

    def stat(path: Any, *more: Any, **named: Any) -> Any:
        if str(path).endswith("b.jsonl"):
            raise OSError(errno.EIO, "Input/output error")
        if str(path).endswith("d.jsonl"):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return real(path, *more, **named)

    monkeypatch.setattr(os, "stat", stat)
    found = [os.path.basename(path) for path in follow._newest_first(str(tmp_path))]
    assert (sorted(found[:2]), found[2:]) == (["a.jsonl", "c.jsonl"], ["b.jsonl"])


async def test_the_status_says_how_far_behind_a_place_is(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In files, in bytes that were not read yet, and in seconds; and how long reading has taken."""
    folder = place(user_home, "a.jsonl")
    follower, importing = await started()
    await until(lambda: importing.brought and follower.behind == 0)
    (idle,) = await follower.measured()
    assert (idle.waiting, idle.waiting_bytes, idle.waiting_seconds) == (0, 0, 0.0)
    monkeypatch.setattr(follow, "_RETRY_S", 60.0)
    importing.fails = 2
    (folder / "b.jsonl").write_text("x" * 100)
    (folder / "database.jsonl").write_text("x" * 100)
    await until(lambda: importing.fails == 0 and follower.status()[0].waiting == 2)
    (behind,) = await follower.measured()
    assert (behind.waiting, behind.waiting_bytes) == (2, 99)
    await asyncio.sleep(0.01)
    assert follower.status()[0].waiting_seconds > behind.waiting_seconds > 0

    async def slow(path: str, tool: str, *, named: bool) -> ImportResult:
        await asyncio.sleep(0.05)
        return ImportResult(sessions=[], skipped=0, warnings=[])

    monkeypatch.setattr(importing, "bring", slow)
    place(user_home, "c.jsonl")
    await until(lambda: follower.status()[0].reading_seconds >= 0.05 and follower.status()[0].waiting == 2)


async def test_a_place_that_does_not_answer_has_a_status(
    user_home: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How much is to be read there is not known. However often that is asked, one thread waits for the place."""
    monkeypatch.setattr(follow, "_STATUS_S", 0.01)
    place(user_home, "large.jsonl")
    follower, importing = await started()
    await until(lambda: importing.brought)
    answered, calls = threading.Event(), Counter[str]()

    def hangs(read: object) -> int:
        calls["begun"] += 1
        answered.wait(10)
        calls["ended"] += 1
        return 1

    monkeypatch.setattr(follow, "_beyond", hangs)
    (one,) = await follower.measured()
    await follower.measured()
    assert (one.waiting, one.waiting_bytes) == (1, None)
    assert calls == {"begun": 1}
    answered.set()
    await until(lambda: calls["ended"])
    monkeypatch.setattr(follow, "_STATUS_S", 10.0)

    def refuses(read: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(follow, "_beyond", refuses)
    await until(lambda: all(one.measuring is None or one.measuring.done() for one in follower._places.values()))
    assert [one.waiting_bytes for one in await follower.measured()] == [None]
