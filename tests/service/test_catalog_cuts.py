"""What was cut from a session is no longer found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiond.index.index import Index
from sessiond.limits import Limits
from sessiond.service.sessions import Service
from tests.fakes.clock import ManualClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer
from tests.fakes.wire_service import WireService


async def found(service: Service, query: str) -> list[Any]:
    page: Any = await service.search(None, query=query)
    return [hit["messageId"] for hit in page["hits"]]


@pytest.mark.parametrize("way", ["truncate", "clear", "delete"])
async def test_what_was_cut_is_not_found(tmp_path: Path, way: str) -> None:
    """After truncate, clear and delete the messages that went are not hits; the ones that stayed are."""
    limits = Limits()
    index = Index(str(tmp_path / "index.sqlite3"), limits)
    await index.open()
    service = WireService(stores={"default": MemoryStore()}, index=index, clock=ManualClock(), limits=limits)
    await service.start()
    peer = FakePeer("one")
    try:
        await service.new(
            peer, session_id="a", messages=[{"id": f"m{n}", "role": "user", "content": f"word{n}"} for n in (1, 2, 3)]
        )
        assert await found(service, "word3") == ["m3"]
        if way == "truncate":
            await service.truncate(peer, "a", 1)
        elif way == "clear":
            await service.clear(peer, "a")
        else:
            await service.delete("a")
        assert await found(service, "word3") == []
        assert await found(service, "word2") == []
        assert await found(service, "word1") == (["m1"] if way == "truncate" else [])
    finally:
        await service.close()
        await index.close()
