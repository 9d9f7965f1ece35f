"""`session/list` and the small queries, from the catalogue alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.errors import InvalidParams
from tests import inside
from tests.index.feeding import at, info, listed, message, opened


async def ids(index: Any, **fields: Any) -> list[str]:
    return [item.session_id for item in (await listed(index, **fields)).items]


async def test_filters_and_sorts(tmp_path: Path) -> None:
    """Every filter and every order of the protocol."""
    async with opened(tmp_path) as index:
        index.put_info(
            info("a", minutes=1, name="Beta", message_count=3, model="m", cwd="/x", tags=["t", "u"], created_at=at(-3))
        )
        index.put_info(info("b", minutes=2, name="alpha", message_count=9, store="lisp", tags=["t"], created_at=at(-2)))
        index.put_info(info("c", minutes=3, created_at=at(-1)))
        index.put_info(info("arch", archived=True))
        index.put_info(info("gone", deleted=True))
        index.put_info(info("both", archived=True, deleted=True))
        await index.settled()
        assert await ids(index) == ["c", "b", "a"]
        assert await ids(index, sort="updatedAt") == ["a", "b", "c"]
        assert await ids(index, sort="-createdAt") == ["c", "b", "a"]
        assert await ids(index, sort="name") == ["c", "b", "a"]
        assert await ids(index, sort="-messageCount") == ["b", "a", "c"]
        for wanted, expected in (
            ({"archived": True}, ["arch"]),
            ({"archived": False}, ["c", "b", "a"]),
            ({"deleted": True}, ["gone", "both"]),
            ({"deleted": True, "archived": True}, ["both"]),
            ({"store": "lisp"}, ["b"]),
            ({"tags": ["t"]}, ["b", "a"]),
            ({"tags": ["t", "u"]}, ["a"]),
            ({"tags": []}, ["c", "b", "a"]),
            ({"model": "m"}, ["a"]),
            ({"cwd": "/x/"}, ["a"]),
            ({"since": at(2)}, ["c", "b"]),
            ({"until": at(2)}, ["a"]),
            ({"since": at(2), "until": at(3)}, ["b"]),
            ({"name": "ALPH"}, ["b"]),
            ({"name": "%"}, []),
            ({"model": None}, ["c", "b", "a"]),
        ):
            assert sorted(await ids(index, filter=wanted)) == sorted(expected), wanted


async def test_what_was_put_is_what_is_listed(tmp_path: Path) -> None:
    """All fields come back as they were, the newest put wins, tags that went are gone."""
    async with opened(tmp_path) as index:
        full = info("s", minutes=4, name="n", tags=["x"], path="/p", seq=7)
        full = msgspec.structs.replace(
            full, metadata={"k": [1, None]}, parent={"sessionId": "p", "seq": 1}, summary="sum"
        )
        index.put_info(info("s", name="old", tags=["y"]))
        index.put_info(full)
        await index.settled()
        assert (await listed(index)).items == [full]
        assert await index.info("s") == full
        assert await index.info("t") is None
        assert await ids(index, filter={"tags": ["y"]}) == []


async def test_fingerprints_and_counts(tmp_path: Path) -> None:
    """Fingerprints are those of the store's sessions that are not in the trash, empty where unknown; archived ones count."""
    async with opened(tmp_path) as index:
        index.put_info(info("a", fingerprint="1"))
        index.put_info(info("b", fingerprint="2", archived=True))
        index.put_info(info("c"))
        index.put_info(info("d", fingerprint="3", deleted=True))
        index.put_info(info("lisp/e", fingerprint="4", store="lisp"))
        await index.settled()
        assert await index.fingerprints("default") == {"a": "1", "b": "2", "c": ""}
        assert await index.fingerprints("lisp") == {"lisp/e": "4"}
        assert (await index.count("default"), await index.count("lisp"), await index.count("none")) == (3, 1, 0)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": "5"}, "limit"),
        ({"sort": "size"}, "sort"),
        ({"sort": "--name"}, "sort"),
        ({"filter": {"role": "user"}}, "filter.role"),
        ({"filter": {"tags": "t"}}, "filter.tags"),
        ({"filter": {"archived": 1}}, "filter.archived"),
        ({"filter": {"until": "2026-99-01T00:00:00Z"}}, "filter.until"),
    ],
)
async def test_bad_lists_name_the_field(tmp_path: Path, fields: dict[str, Any], field: str) -> None:
    """An invalid request is invalidParams, and names the field."""
    async with opened(tmp_path) as index:
        with pytest.raises(InvalidParams) as caught:
            await listed(index, **fields)
        assert caught.value.data["field"] == field


async def test_put_session_replaces(tmp_path: Path) -> None:
    """put_session makes a session what it says: what was next to it goes, what is the same is not written again."""
    async with opened(tmp_path) as index:
        index.put_session(info("s", name="a"), [message(1, "one"), message(2, "two")], [])
        await index.settled()
        before = inside.next_chunk(index)
        index.put_session(info("s", name="a"), [message(1, "one"), message(2, "two")], [])
        await index.settled()
        assert inside.next_chunk(index) == before
        index.put_session(info("s", name=None), [message(2, "two!")], [])
        await index.settled()
        assert inside.database(index).execute("SELECT count(*) FROM doc").fetchone() == (1,)
        assert inside.database(index).execute("SELECT sum(live) FROM chunk").fetchone() == (1,)
