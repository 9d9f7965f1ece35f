"""A session of another tool that was moved to another store goes on following its source there, and is not made again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.service.grown_session import Grown
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.peer import FakePeer
from tests.fakes.wire_service import WireService
from tests.service.test_intake import record, transcript, wire_id
from tests.store.conftest import House


class Two:
    """A service with two stores, which follows into the first one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._houses: list[House] = []
        self.service: WireService

    async def start(self) -> Two:
        self._houses = [House(RealFileSystem(), str(self._path / name), name=name) for name in ("default", "work")]
        stores = {house.name: (await house.open()).store for house in self._houses}
        ledger = str(self._path / "imports.db")
        self.service = WireService(
            stores=stores, index=FakeIndex(), clock=ManualClock(), limits=Limits(), ledger_path=ledger
        )
        await self.service.start()
        await self.service.catalog.ready.wait()
        return self

    async def restart(self) -> None:
        await self.close()
        await self.start()

    async def close(self) -> None:
        await self.service.close()
        for house in self._houses:
            house.journal.close()

    async def follow(self, path: Path) -> None:
        following = await self.service.transfer.followed(self.service.stores["default"])
        await following.bring(str(path), "claude-code")

    async def here(self) -> dict[str, list[str]]:
        found = [info["sessionId"] for info in (await self.service.list())["sessions"]]
        return {one: [m["content"] for m in (await self.service.read(one))["messages"]] for one in found}


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    made = await Two(tmp_path).start()
    yield made
    await made.close()


def grow(path: Path, number: int) -> None:
    with path.open("a") as file:
        file.write(record(number))


@pytest.mark.parametrize("restart", [False, True])
async def test_a_moved_session_is_followed_where_it_is(two: Two, tmp_path: Path, restart: bool) -> None:
    path = transcript(tmp_path / "p", range(1, 3))
    await two.follow(path)
    await two.service.move(FakePeer(), wire_id(path), "work")
    moved = f"work/{wire_id(path)}"
    grow(path, 3)
    if restart:
        await two.restart()
    await two.follow(path)
    grow(path, 4)
    await two.follow(path)
    assert await two.here() == {moved: ["text 1", "text 2", "text 3", "text 4"]}
    grow(path, 5)
    for _ in range(2):
        await two.service.import_(None, str(path))
        assert await two.here() == {moved: [f"text {n}" for n in range(1, 6)]}


async def test_a_moved_session_may_come_back_or_be_removed(two: Two, tmp_path: Path) -> None:
    path = transcript(tmp_path / "p", range(1, 3))
    await two.follow(path)
    moved = f"work/{wire_id(path)}"
    await two.service.move(FakePeer(), wire_id(path), "work")
    await two.service.move(FakePeer(), moved, "default")
    grow(path, 3)
    await two.follow(path)
    assert await two.here() == {wire_id(path): ["text 1", "text 2", "text 3"]}
    await two.service.move(FakePeer(), wire_id(path), "work")
    await two.service.delete(moved, permanent=True)
    grow(path, 4)
    await two.follow(path)
    assert await two.here() == {}
    await two.service.import_(None, str(path))
    assert await two.here() == {wire_id(path): ["text 1", "text 2", "text 3", "text 4"]}


async def test_what_is_removed_of_a_moved_session_stays_away(two: Two, tmp_path: Path) -> None:
    path = transcript(tmp_path / "p", range(1, 4))
    await two.follow(path)
    await two.service.truncate(FakePeer(), wire_id(path), 2)
    await two.service.move(FakePeer(), wire_id(path), "work")
    moved = f"work/{wire_id(path)}"
    await two.service.truncate(FakePeer(), moved, 1)
    await two.restart()
    grow(path, 4)
    await two.follow(path)
    assert await two.here() == {moved: ["text 1", "text 4"]}


async def test_a_moved_session_says_that_its_source_is_gone(two: Two, tmp_path: Path) -> None:
    path = transcript(tmp_path / "p", range(1, 3))
    await two.follow(path)
    await two.service.move(FakePeer(), wire_id(path), "work")
    path.unlink()
    following = await two.service.transfer.followed(two.service.stores["default"])
    await following.gone([str(path)])
    [info] = (await two.service.list())["sessions"]
    assert info["metadata"]["source"]["gone"] is True


async def test_a_session_that_is_moved_while_it_is_read(
    two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = transcript(tmp_path / "p", range(1, 3))
    await two.follow(path)
    finish = Grown.finish

    async def after_move(self: Grown, mark: str | None) -> object:
        monkeypatch.setattr(Grown, "finish", finish)
        await two.service.move(FakePeer(), wire_id(path), "work")
        return await finish(self, mark)

    monkeypatch.setattr(Grown, "finish", after_move)
    grow(path, 3)
    await two.restart()  # so that it is read whole
    await two.follow(path)
    assert await two.here() == {f"work/{wire_id(path)}": ["text 1", "text 2", "text 3"]}


async def test_a_moved_subagent_keeps_its_parent(two: Two, tmp_path: Path) -> None:
    """Its parent is still where it was imported to."""
    path = transcript(tmp_path / "p", range(1, 3))
    agent = tmp_path / "p" / "agent-x.jsonl"
    agent.write_text(record(7, isSidechain=True))
    await two.follow(path)
    await two.follow(agent)
    await two.service.move(FakePeer(), wire_id(agent), "work")
    agent.write_text(agent.read_text() + record(8, isSidechain=True))
    await two.restart()  # so that it is read whole
    await two.follow(agent)
    infos = {info["sessionId"]: info for info in (await two.service.list())["sessions"]}
    moved = infos[f"work/{wire_id(agent)}"]
    assert (moved["messageCount"], moved["parent"]["sessionId"]) == (2, wire_id(path))
