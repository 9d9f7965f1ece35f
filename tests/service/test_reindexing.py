"""What could not be indexed is tried again on request, and each session's outcome is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import BadFile
from sessiond.index import prepared
from sessiond.index.index import Index
from sessiond.index.text import Texts, searchable
from sessiond.limits import Limits
from sessiond.model.message import Message
from sessiond.service.sessions import Service
from tests.fakes.clock import ManualClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.peer import FakePeer
from tests.fakes.wire_service import WireService


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """With an index that is a file."""
    limits = Limits()
    index = Index(str(tmp_path / "index.sqlite3"), limits)
    await index.open()
    service = WireService(stores={"default": MemoryStore()}, index=index, clock=ManualClock(), limits=limits)
    await service.start()
    yield service
    await service.close()
    await index.close()


async def found(service: Service, query: str) -> list[str]:
    page: Any = await service.search(None, query=query)
    return [hit["messageId"] for hit in page["hits"]]


async def made(service: Service, name: str) -> None:
    messages = [{"id": f"{name}{no}", "role": "user", "content": f"{name} word{no}"} for no in (1, 2)]
    await service.new(FakePeer("one"), session_id=name, messages=messages)


async def test_what_could_not_be_indexed_passes_the_second_time(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two is still spoilt at first: each is told with its outcome. Then nothing is left to try."""
    odd = {"a word2", "b word1"}

    def buggy(one: Message) -> Texts:
        if one.content in odd:
            raise TypeError("planted")
        return searchable(one)

    monkeypatch.setattr(prepared, "searchable", buggy)
    for name in "abc":
        await made(service, name)
    assert sorted(await found(service, "word1 OR word2")) == ["a1", "b2", "c1", "c2"]
    odd.remove("a word2")
    tried = await service.reindex()
    assert tried == {"a": None, "b": "message b1: TypeError: planted"}
    assert await found(service, "a word2") == ["a2"]
    assert service.catalog.status().problem == "not everything could be indexed of b"
    odd.clear()
    assert await service.reindex() == {"b": None}
    assert await service.reindex() == {}
    assert (await found(service, "b word1"), service.catalog.status().problem) == (["b1"], None)


async def test_a_session_that_could_not_be_read_is_tried_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one in a store that is not there any more, or on which its store refuses, is told as such."""
    await made(service, "a")
    for name in ("a", "elsewhere/x"):
        service.catalog.failed.note(name, KeyError("k"))
    assert await service.reindex() == {"a": None, "elsewhere/x": "its store is not there"}
    service.catalog.failed.passed("elsewhere/x")
    service.catalog.failed.note("a", KeyError("k"))

    async def refused(*_: object) -> list[Any]:
        raise BadFile("it is out of reach", path="/x")

    monkeypatch.setattr(service.catalog, "reindex", refused)
    assert await service.reindex() == {"a": "it is out of reach"}
