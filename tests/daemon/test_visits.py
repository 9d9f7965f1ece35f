"""`session/follow`: what a client wants followed while it stays, and what it is told."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from sessiond.daemon import visits
from sessiond.daemon.visits import Visit
from sessiond.errors import Unavailable
from sessiond.importers import registry
from sessiond.importers.record import SkippedLine
from sessiond.schema.sessions import ImportResult
from sessiond.service.followed_sources import _whose
from sessiond.store.port import FileWarning
from tests.daemon.test_follow import add, turn
from tests.daemon.test_follow_places import profile
from tests.daemon.test_follower import Importing, Started, a_session, place, started, until, user_home  # noqa: F401
from tests.home import Client, Home
from tests.shell import wait_until


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with Home(tmp_path_factory.mktemp("s"), env={"HOME": str(tmp_path_factory.mktemp("home"))}) as made:
        yield made


def follow(client: Client, *places: Path, **params: Any) -> None:
    client.call("session/follow", places=[{"path": str(one)} for one in places], **params)


def told(client: Client) -> list[tuple[str, int]]:
    """The sessions that a client is told of next, and how many messages they have."""
    sessions = client.notification("session/imported")["sessions"]
    return [(one["sessionId"], one["messageCount"]) for one in sessions]


def places(client: Client) -> list[tuple[str, str, bool]]:
    """Tool, path, and whether only clients want it."""
    return [(one["tool"], one["path"], one["asked"]) for one in client.call("daemon/follow")["places"]]


def test_a_client_is_told_of_what_is_written_while_it_stays(home: Home, tmp_path: Path) -> None:
    """What is there comes in first. Others, and files that belong to no tool, are not its business."""
    file, other = profile(tmp_path, "one", "s1"), profile(tmp_path, "two", "s2")
    with closing(home.client()) as client, closing(home.client()) as bystander:
        follow(client, tmp_path / "one")
        assert told(client) == [("claude-code-s1", 1)]
        for text in ("mine\n", "still mine\n"):
            (tmp_path / "one" / "notes.jsonl").write_text(text)
            time.sleep(0.3)
        add(other, turn(2, "s2"))
        add(file, turn(2, "s1"))
        assert told(client) == [("claude-code-s1", 2)]
        assert places(bystander) == [("all", str(tmp_path / "one"), True)]
        assert [one["sessionId"] for one in bystander.call("session/list")["sessions"]] == ["claude-code-s1"]
    with closing(home.client()) as client:
        wait_until(lambda: places(client) == [])
        assert client.call("daemon/follow")["tools"] == []


def test_clients_that_want_the_same_are_all_told(home: Home, tmp_path: Path) -> None:
    """It is read once, beside what is configured too; when one of them leaves, the other stays."""
    file = profile(tmp_path, "one", "s1")
    with closing(home.client()) as client:
        client.call("daemon/follow", tools=[f"claude-code:{tmp_path / 'one'}"])
        with closing(home.client()) as other:
            for one in (client, other):
                one.call("session/follow", places=[{"path": str(tmp_path / "one"), "format": "claude-code"}])
            assert places(client) == [("claude-code", str(tmp_path / "one"), False)]
            add(file, turn(2, "s1"))
            for one in (client, other):
                wait_until(lambda one=one: told(one) == [("claude-code-s1", 2)])
        add(file, turn(3, "s1"))
        assert told(client) == [("claude-code-s1", 3)]
        client.call("daemon/follow", tools=[])
        assert places(client) == [("claude-code", str(tmp_path / "one"), True)]
        add(file, turn(4, "s1"))
        assert told(client) == [("claude-code-s1", 4)]


def test_another_store_and_a_time(home: Home, tmp_path: Path) -> None:
    home.stop()
    (tmp_path / "old").mkdir()
    home.configure(f'[stores.old]\npath = "{tmp_path / "old"}"\nformat = "jsonl"\n')
    home.start()
    profile(tmp_path, "one", "s1")
    file = profile(tmp_path, "one b", "s2")
    with closing(home.client()) as client:
        follow(client, tmp_path / "one b", store="old", since="2026-11-24T00:00:00Z")
        follow(client, tmp_path / "one", store="old")
        assert told(client) == [("old/claude-code-s1", 1)]
        add(file, turn(2, "s2").replace("2026-11-22", "2026-11-25"))
        assert told(client) == [("old/claude-code-s2", 2)]


def test_what_was_deleted_here_stays_deleted(home: Home, tmp_path: Path) -> None:
    file = profile(tmp_path, "one", "s1")
    with closing(home.client()) as client:
        follow(client, tmp_path / "one")
        assert told(client) == [("claude-code-s1", 1)]
        client.call("session/delete", sessionId="claude-code-s1")
        add(file, turn(2, "s1"))
        profile(tmp_path, "one/more", "s2")
        assert told(client) == [("claude-code-s2", 1)]
        assert [one["sessionId"] for one in client.call("session/list")["sessions"]] == ["claude-code-s2"]


def test_whoever_reads_a_file_first_all_who_want_it_are_told(home: Home, tmp_path: Path) -> None:
    """A follower for the configuration, one for a time, one through a link, and a request of somebody else's."""
    file = profile(tmp_path, "one", "s1")
    (tmp_path / "a link").symlink_to(tmp_path / "one")
    with closing(home.client()) as since, closing(home.client()) as linked, closing(home.client()) as other:
        other.call("daemon/follow", tools=[f"claude-code:{tmp_path / 'one'}"])
        follow(since, tmp_path / "one", since="2026-11-01T00:00:00Z")
        follow(linked, tmp_path / "a link")
        for number in range(2, 8):
            add(file, turn(number, "s1"))
            if number % 2:
                other.call("session/import", path=str(tmp_path / "one"))
            for client in (since, linked):
                wait_until(lambda client=client, number=number: ("claude-code-s1", number) in told(client))


def test_a_file_that_was_first_read_through_a_link(home: Home, tmp_path: Path) -> None:
    """Its session is known by that name: those who want it by another one are told too."""
    file = profile(tmp_path, "one", "s1")
    (tmp_path / "a link").symlink_to(tmp_path / "one")
    with closing(home.client()) as linked, closing(home.client()) as client:
        follow(linked, tmp_path / "a link")
        assert told(linked) == [("claude-code-s1", 1)]
        follow(client, tmp_path / "one", since="2026-11-01T00:00:00Z")
        for number in range(2, 6):
            add(file, turn(number, "s1"))
            for one in (linked, client):
                wait_until(lambda one=one, number=number: ("claude-code-s1", number) in told(one))


def test_a_file_of_our_own_that_was_deleted_here_stays_deleted(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    head = {"sessiond": 1, "id": "ours", "createdAt": "2026-11-22T14:00:00.000Z", "name": "Ours"}
    said = {"role": "user", "content": "hi", "id": "m1", "seq": 1, "timestamp": "2026-11-22T14:00:00.000Z"}
    (folder / "ours.jsonl").write_text(f"{json.dumps(head)}\n{json.dumps(said)}\n")
    with closing(home.client()) as client:
        follow(client, folder)
        assert told(client) == [("ours", 1)]
        client.call("session/delete", sessionId="ours")
        os.utime(folder / "ours.jsonl")
        add(folder / "s1.jsonl", turn(1, "s1"))
        assert told(client) == [("claude-code-s1", 1)]
        assert [one["sessionId"] for one in client.call("session/list")["sessions"]] == ["claude-code-s1"]


def test_a_damaged_line_is_told_and_one_that_is_being_written_is_not(home: Home, tmp_path: Path) -> None:
    file = profile(tmp_path, "one", "s1")
    half = turn(2, "s1")
    add(file, half[:30])
    with closing(home.client()) as client:
        follow(client, tmp_path / "one")
        assert client.notification("session/imported")["warnings"] == []
        add(file, half[30:] + "damage\n")
        heard: list[dict[str, Any]] = []
        while not heard:
            heard += client.notification("session/imported")["warnings"]
        assert [(one["path"], one["line"]) for one in heard] == [(str(file), 3)]


def test_a_file_that_may_not_be_read_is_not_taken_for_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again, while a file of no tool's is not."""
    monkeypatch.setattr(registry, "identify", lambda *_, **__: SkippedLine("/a", None, "cannot be read", failed=True))
    with pytest.raises(Unavailable, match="cannot be read"):
        _whose("/a", named=False)
    monkeypatch.setattr(registry, "identify", lambda *_, **__: None)
    assert _whose("/a", named=False) is None


def test_a_file_that_cannot_be_read_is_told(home: Home, tmp_path: Path) -> None:
    """And once it can be, it is imported."""
    file = profile(tmp_path, "one", "s1")
    with closing(home.client()) as client:
        follow(client, tmp_path / "one")
        assert told(client) == [("claude-code-s1", 1)]
        whole = file.read_bytes()
        file.unlink()
        file.symlink_to(file.name)
        [warning] = client.notification("session/imported")["warnings"]
        assert warning["path"] == str(file)
        file.unlink()
        file.write_bytes(whole + turn(2, "s1").encode())
        wait_until(lambda: told(client) == [("claude-code-s1", 2)])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"places": [{"path": "/nowhere at all"}]}, "does not exist"),
        ({"places": [{"path": "here"}]}, "not an absolute path"),
        ({"places": [{"path": "/", "format": "codx"}]}, "codx"),
        ({"places": [{"path": "/"}], "store": "nowhere"}, "store 'nowhere'"),
        ({"places": [{"path": "/"}], "since": "yesterday"}, "RFC 3339"),
    ],
)
def test_what_cannot_be_followed(home: Home, params: dict[str, Any], words: str) -> None:
    with closing(home.client()) as client:
        assert words in client.fails("session/follow", **params)["message"]
        assert places(client) == []


class Peer:
    """A client. `reads`: whether it takes what it is told."""

    def __init__(self, *, reads: bool = True) -> None:
        self.reads, self.closed = reads, False
        self.heard: list[dict[str, Any]] = []

    def notify(self, method: str, params: bytes) -> bool:
        assert method == "session/imported"
        if self.reads:
            self.heard.append(msgspec.json.decode(params))
        return self.reads

    @property
    def sessions(self) -> list[list[str]]:
        return [[one["sessionId"] for one in told["sessions"]] for told in self.heard]


def visit(peer: Peer, *where: tuple[str | None, str]) -> Visit:
    return Visit(cast("Any", peer), "default", where)


def came(*names: str, path: str = "/p/a.jsonl", tool: str = "codex") -> ImportResult:
    source = {"source": {"tool": tool, "path": path}}
    sessions = [msgspec.structs.replace(a_session(name), metadata=source) for name in names]
    return ImportResult(sessions=sessions, skipped=0, warnings=[])


async def test_a_place_is_watched_until_the_last_who_wants_it_leaves(user_home: Path, started: Started) -> None:  # noqa: F811
    folder = place(user_home)
    follower, importing = await started("codex")
    one, two = visit(Peer(), ("claude-code", str(folder))), visit(Peer(), ("claude-code", str(folder)))
    await follower.add(one)
    await follower.add(two)
    (folder / "a.jsonl").write_text("x")
    await until(lambda: importing.brought == ["a.jsonl"])
    await follower.remove(two)
    (folder / "b.jsonl").write_text("x")
    await until(lambda: importing.brought == ["a.jsonl", "b.jsonl"])
    await follower.remove(one)
    (folder / "c.jsonl").write_text("x")
    await asyncio.sleep(0.3)
    assert importing.brought == ["a.jsonl", "b.jsonl"]
    assert not follower.is_idle
    await follower.follow([])
    assert follower.is_idle


async def test_what_waits_of_a_place_is_not_read_after_the_last_has_left(user_home: Path, started: Started) -> None:  # noqa: F811
    """Neither what is behind nor what failed; what another place has too is."""
    folder = place(user_home, *(f"{number}.jsonl" for number in range(50)))
    (folder / "shared").mkdir()
    (folder / "shared" / "s.jsonl").write_text("x")
    follower, importing = await started("codex")
    importing.fails = 1000
    one = visit(Peer(), (None, str(folder)))
    await follower.add(one)
    await follower.add(visit(Peer(), (None, str(folder / "shared"))))
    await until(lambda: importing.fails < 900)
    await follower.remove(one)
    importing.fails = 0
    importing.brought.clear()
    await until(lambda: importing.brought)
    await asyncio.sleep(0.3)
    assert set(importing.brought) == {"s.jsonl"}
    assert follower.behind == 0


async def test_a_client_that_leaves_at_once_spoils_nothing_for_the_next(
    user_home: Path,  # noqa: F811
    started: Started,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its place was about to be watched: the next one finds what is there all the same."""
    folder = place(user_home, "a.jsonl")
    follower, importing = await started("codex")
    watch, watching = follower._watch, asyncio.Event()

    async def slow(one: Any) -> None:
        await watch(one)
        watching.set()
        await asyncio.sleep(0.1)

    monkeypatch.setattr(follower, "_watch", slow)
    first = asyncio.create_task(follower.add(visit(Peer(), (None, str(folder)))))
    await watching.wait()
    first.cancel()
    await follower.add(visit(Peer(), (None, str(folder))))
    await until(lambda: importing.brought == ["a.jsonl"])


async def test_hidden_files_are_followed_as_they_are_imported(user_home: Path, started: Started) -> None:  # noqa: F811
    """Aider's history is one, and many tools keep theirs in hidden folders. A file that is named may be called anything."""
    folder = place(user_home)
    (folder / ".there").mkdir()
    (folder / "named").write_text("x")
    follower, importing = await started("codex")
    await follower.add(visit(Peer(), (None, str(folder)), (None, str(folder / "named"))))
    await until(lambda: importing.brought == ["named"])
    for path in (folder / ".aider.chat.history.md", folder / ".there" / "a.jsonl", folder / ".new" / "b.jsonl"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
        await until(partial(importing.brought.__contains__, path.name))
    (folder / "named").write_text("x and more")
    await until(lambda: importing.brought.count("named") == 2)


async def test_a_hidden_file_is_followed_from_the_first_moment(user_home: Path, started: Started) -> None:  # noqa: F811
    """It is looked at now and then. What is written before the first look is seen."""
    path = place(user_home) / ".aider.chat.history.md"
    path.write_text("x")
    follower, importing = await started("codex")
    await follower.add(visit(Peer(), (None, str(path))))
    await until(lambda: importing.brought)
    path.write_text("x and more")
    await until(lambda: len(importing.brought) == 2)


async def test_whatever_fails_is_told(user_home: Path, started: Started) -> None:  # noqa: F811
    folder = place(user_home, "a.jsonl")
    follower, importing = await started("codex")
    importing.fails = 1
    peer, other = Peer(), Peer()
    await follower.add(visit(peer, (None, str(folder))))
    await follower.add(visit(other, (None, str(folder / "nothing of it"))))
    await until(lambda: len(importing.brought) == 2)
    [told] = peer.heard
    assert told["warnings"] == [{"path": str(folder / "a.jsonl"), "line": None, "message": "the disk is full"}]
    assert other.heard == []


async def test_a_place_that_cannot_be_listed_is_told(user_home: Path, started: Started) -> None:  # noqa: F811
    folder = place(user_home, "a.jsonl")
    follower, importing = await started("codex")
    importing.lost = 1
    peer = Peer()
    await follower.add(visit(peer, (None, str(folder))))
    await until(lambda: importing.brought)
    assert "Too many open files" in peer.heard[0]["warnings"][0]["message"]


async def test_tools_that_change_leave_what_goes_on_alone(user_home: Path, started: Started) -> None:  # noqa: F811
    """What is still followed is not read again."""
    place(user_home, "a.jsonl")
    follower, importing = await started("claude-code")
    await until(lambda: follower.status()[0].sessions)
    await follower.follow(["claude-code", "codex"])
    assert follower.status()[0].sessions == 1
    assert importing.brought == ["a.jsonl"]


def hears(one: Visit, store: str, path: str, result: ImportResult, **links: str) -> None:
    """`links`: a path without its first slash -> where it leads."""
    one.hear(store, path, result, {f"/{name}": real for name, real in links.items()})


async def test_a_client_is_told_only_of_its_own_places() -> None:
    """Of its store, its folders and its tools, whoever imported it and through whatever link."""
    peer = Peer()
    one = visit(peer, ("codex", "/p/"), (None, "/q/b.jsonl"), ("jsonl", "/ours"))
    one._aliases = (("codex", "/real"),)
    hears(one, "other", "/p", came("another store"))
    hears(one, "default", "/p", came("another tool", tool="claude-code"))
    hears(one, "default", "/pp", came("another folder", path="/pp/a.jsonl"))
    hears(one, "default", "/p/a.jsonl", came("a"))
    hears(one, "default", "/", came("b", path="/q/b.jsonl", tool="pi"))
    hears(one, "default", "/real/a.jsonl", came("c", path="/real/a.jsonl"))
    hears(one, "default", "/link", came("d", path="/link"), link="/p/d.jsonl")
    hears(one, "default", "/ours/e.jsonl", came("e", path="/long/gone.jsonl"))
    one.warn(FileWarning("/pp/a.jsonl", None, "broken"))
    assert peer.sessions == [["a"], ["b"], ["c"], ["d"], ["e"]]


async def test_who_reads_slowly_is_told_everything_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "_AGAIN_S", 0.01)
    peer = Peer(reads=False)
    one = visit(peer, (None, "/p"))
    hears(one, "default", "/p", came("a", "b"))
    hears(one, "default", "/p", came("a"))
    for _ in range(2):
        one.warn(FileWarning("/p/a", None, "broken"))
    peer.reads = True
    await until(lambda: peer.heard)
    assert peer.sessions == [["b", "a"]]
    assert len(peer.heard[0]["warnings"]) == 1
    hears(one, "default", "/p", came("c"))
    assert peer.sessions[1:] == [["c"]]
