"""An import that somebody asks for, and a follower that reads the same file at the same time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sessiond.service.grown_session import Grown
from tests.service.test_intake import Served, record, transcript, wire_id


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    made = await Served(tmp_path / "home", str(tmp_path / "imports.db")).start()
    yield made
    await made.close()


async def follow(served: Served, path: Path) -> None:
    following = await served.service.transfer.followed(served.service.stores["default"])
    await following.bring(str(path), "claude-code")


@pytest.mark.parametrize("seed", range(4))
async def test_each_message_is_there_once(served: Served, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = transcript(tmp_path / "p", range(1, 3))
    count = 2
    for _ in range(10):
        works: list[asyncio.Task[object]] = []
        for _ in range(3):
            count += chance.randrange(0, 3)
            records = [record(n) for n in range(1, count + 1)]
            if chance.random() < 0.3:  # the tool is writing the last one
                records[-1] = records[-1].replace(f"text {count}", "text")
            path.write_text("".join(records))
            works.append(asyncio.create_task(served.bring(path) if chance.random() < 0.5 else follow(served, path)))
            for _ in range(chance.randrange(0, 20)):
                await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await asyncio.gather(*works)
        path.write_text("".join(record(n) for n in range(1, count + 1)))
        await follow(served, path)
        assert await served.texts(wire_id(path)) == [f"text {n}" for n in range(1, count + 1)]


@pytest.mark.parametrize("later_first", [True, False])
async def test_the_later_form_of_a_message_counts(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later_first: bool
) -> None:
    """Each has read another form of a message that is new. Neither import fails."""
    path = transcript(tmp_path / "p", range(1, 3))
    await served.bring(path)
    release, waits = asyncio.Event(), asyncio.Event()
    finish, first = Grown.finish, True

    async def late(self: Grown, mark: str | None) -> object:
        nonlocal first
        if first:
            first = False
            waits.set()
            await release.wait()
        return await finish(self, mark)

    monkeypatch.setattr(Grown, "finish", late)
    whole = record(3)
    part = whole.replace("text 3", "text")
    before = path.read_text()
    path.write_text(before + (part if later_first else whole))
    one = asyncio.create_task(served.bring(path))
    async with asyncio.timeout(30):
        await waits.wait()
    path.write_text(before + (whole if later_first else part))
    await follow(served, path)
    release.set()
    await one
    path.write_text(before + whole)
    await follow(served, path)
    assert await served.texts(wire_id(path)) == ["text 1", "text 2", "text 3"]
