"""Records of a source that nobody knows are kept with the session, and are not sent to every client that lists it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.peer import FakePeer, user
from tests.importers.collected import lines
from tests.importers.test_agents_of_today import claude
from tests.service.test_intake import Served

ONE = "claude-code-s"
UNKNOWN = {"type": "of-next-week", "sessionId": "s", "shape": "x" * 39_000}
MOST_BYTES = 1000


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    made = await Served(tmp_path / "home").start()
    await made.bring(bring_from(tmp_path))
    yield made
    await made.close()


def bring_from(tmp_path: Path, *more: Any) -> Path:
    said = claude("u1", "user", message={"role": "user", "content": "hi"})
    return lines(tmp_path / "source" / "s.jsonl", said, UNKNOWN, *more)


async def records(served: Served, wire_id: str = ONE) -> Any:
    whole = json.loads((await served.service.export(wire_id, "json"))["content"])
    return whole["session"]["metadata"].get("records")


def size(value: Any) -> int:
    return len(json.dumps(value))


async def test_a_list_and_an_open_do_not_show_them(served: Served) -> None:
    """One record of 39 kB made every info of its session as large."""
    listed = (await served.service.list())["sessions"]
    opened = await served.service.open(FakePeer(), ONE)
    assert size(listed) < MOST_BYTES
    assert size(opened["session"]) < MOST_BYTES
    assert "records" not in listed[0]["metadata"]
    assert listed[0]["metadata"]["source"]["tool"] == "claude-code"
    assert await records(served) == [UNKNOWN]


async def test_no_broadcast_has_them(served: Served, tmp_path: Path) -> None:
    """Neither one of a tag, nor one of new metadata, nor one of an import that found one more of them."""
    watching, writing = FakePeer(), FakePeer()
    metadata = (await served.service.open(watching, ONE))["session"]["metadata"]
    await served.service.update(writing, ONE, {"tags": ["a"]})
    await served.service.update(writing, ONE, {"metadata": {**metadata, "mine": 1}})
    notes = watching.take("session/changed")
    assert len(notes) == 2
    assert max(map(size, notes)) < 2 * MOST_BYTES
    more = {**UNKNOWN, "type": "of-the-week-after"}
    result = await served.bring(bring_from(tmp_path, more))
    assert size(result["sessions"]) < MOST_BYTES
    assert max(map(size, watching.take("session/changed"))) < 2 * MOST_BYTES
    assert await records(served) == [UNKNOWN, more]


async def test_a_client_that_writes_metadata_again_does_not_lose_them(served: Served) -> None:
    """It writes what it was shown. Only one that takes the source away, or names them, changes them."""
    [info] = (await served.service.list())["sessions"]
    await served.service.update(FakePeer(), ONE, {"metadata": {**info["metadata"], "mine": 1}})
    assert await records(served) == [UNKNOWN]
    await served.restart()
    assert await records(served) == [UNKNOWN]
    await served.service.update(FakePeer(), ONE, {"metadata": {**info["metadata"], "records": []}})
    assert await records(served) == []
    await served.service.update(FakePeer(), ONE, {"metadata": {"mine": 2}})
    assert await records(served) is None


@pytest.mark.parametrize("fmt", ["json", "jsonl"])
async def test_an_export_takes_them_to_another_daemon(served: Served, tmp_path: Path, fmt: str) -> None:
    exported = tmp_path / f"exported.{fmt}"
    exported.write_text((await served.service.export(ONE, fmt))["content"])
    other = await Served(tmp_path / "other").start()
    await other.bring(exported)
    assert await records(other) == [UNKNOWN]
    assert size((await other.service.list())["sessions"]) < MOST_BYTES
    await other.close()


async def test_a_clients_own_records_are_shown(served: Served) -> None:
    """Of a session that was not imported."""
    info = await served.service.new(FakePeer(), metadata={"records": [1]})
    await served.service.append(FakePeer(), info["sessionId"], [user("hi")])
    listed = {one["sessionId"]: one for one in (await served.service.list())["sessions"]}
    assert listed[info["sessionId"]]["metadata"] == {"records": [1]}
