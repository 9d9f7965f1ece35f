"""What the tests of every importer check in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.wire_service import WireService
from tests.store.conftest import House

Told = tuple[str, Any]


def told(messages: list[dict[str, Any]]) -> list[Told]:
    """Role and content of each message."""
    return [(one["role"], one["content"]) for one in messages]


def calls(message: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Id, name and arguments of each call."""
    return [(one["id"], one["name"], one["arguments"]) for one in message.get("toolCalls", [])]


async def imported_twice(home: Path, path: Path, messages: int) -> None:
    """A daemon's import of `path` brings so many messages, and the next one brings nothing, though it reads the file again."""
    store = (await House(RealFileSystem(), str(home)).open()).store
    service = WireService(stores={"default": store}, index=FakeIndex(), clock=ManualClock(), limits=Limits())
    await service.start()
    try:
        first = await service.import_(None, str(path))
        assert sum(info["messageCount"] for info in first["sessions"]) == messages
        path.touch()
        second = await service.import_(None, str(path))
        assert second["sessions"] == []
    finally:
        await service.close()
