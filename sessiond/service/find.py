"""Lists and searches: what a client asks, checked, against the catalogue and the index."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from sessiond.errors import InvalidParams, Unavailable
from sessiond.index.values import IndexedInfo, ListQuery, Page, SearchQuery
from sessiond.limits import Limits
from sessiond.model.session import SessionInfo
from sessiond.model.values import Json, join_wire_id, normal_timestamp, split_wire_id
from sessiond.service.catalog import Catalog
from sessiond.service.rooms import Rooms
from sessiond.store.port import Store, Trashed

_SORTS = ("updatedAt", "createdAt", "name", "messageCount")
_SEARCH_PATIENCE_S = 1.0
"""How long a search waits for an index that is being rebuilt before it answers `incomplete`."""
_LOST_PATIENCE_S = 30.0
"""How long a list waits for an index that was lost to be made anew."""
_PAUSE_S = 0.1
_CURSOR_CHARS = 24
"""More than any cursor of the trash has."""
_FILTER_TYPES: dict[str, tuple[type, ...]] = {
    "store": (str,), "tags": (list,), "archived": (bool,), "deleted": (bool,), "model": (str,), "cwd": (str,), "since": (str,),
    "until": (str,), "name": (str,), "role": (str,), "sessionId": (str,),
}  # fmt: skip


class Finder:
    def __init__(self, stores: Mapping[str, Store], rooms: Rooms, catalog: Catalog, limits: Limits) -> None:
        self._stores = stores
        self._rooms = rooms
        self._catalog = catalog
        self._limits = limits
        self.counts: dict[str, int] = {}
        """Sessions in each store, as of the last count."""

    async def count(self) -> None:
        """Bring `counts` up to date. While the index is made anew, it does not know of every session that was known before."""
        await self._catalog.settled()
        for name in self._stores:
            found = await self._catalog.index.count(name)
            self.counts[name] = found if self._catalog.ready.is_set() else max(found, self.counts.get(name, 0))

    async def list(
        self, *, limit: int | None, cursor: str | None, sort: str | None, wanted: Mapping[str, Json]
    ) -> dict[str, Json]:
        sort = sort or "-updatedAt"
        if sort.removeprefix("-") not in _SORTS:
            raise InvalidParams(
                f"sort: expected one of {', '.join(_SORTS)}, with - in front for descending", field="sort"
            )
        wanted = _checked(wanted)
        count = self._limit(limit)
        if wanted.get("deleted"):
            return await self._deleted(count, cursor, sort, wanted)
        page = await self._listed(ListQuery(limit=count, cursor=cursor, sort=sort, filter=dict(wanted)))
        return {"sessions": [self._wire(info) for info in page.items], "nextCursor": page.next_cursor}

    async def _listed(self, query: ListQuery) -> Page:
        """A list is never wrong: where the index turns out to be lost meanwhile, it waits till it is whole again."""
        now = asyncio.get_running_loop().time
        deadline = None
        while True:
            await self._catalog.ready.wait()
            await self._catalog.settled()
            page = await self._catalog.index.list(query)
            if self._catalog.ready.is_set() and not page.lost:
                return page
            deadline = (deadline or now() + _LOST_PATIENCE_S) if page.lost else None
            if deadline is not None and now() > deadline:
                raise Unavailable(
                    "the list of all sessions cannot be read or made now",
                    hint="make room for the cache folder, or see to it that it can be written; `sessiond doctor` looks closer",
                )
            await asyncio.sleep(_PAUSE_S if page.lost else 0)

    def _limit(self, limit: int | None) -> int:
        if limit is None:
            return self._limits.default_list_page
        if limit < 1:
            raise InvalidParams(f"limit: expected 1 or more, not {limit}", field="limit")
        return min(limit, self._limits.list_page)

    def _wire(self, info: IndexedInfo) -> dict[str, Json]:
        """What the index says, corrected by what is open: that is never behind."""
        room = self._rooms.peek(info.session_id)
        if room is not None:
            return self._rooms.info(room)
        wire: dict[str, Any] = msgspec.to_builtins(info)
        store, local_id = split_wire_id(info.session_id)
        dirty = store in self._stores and self._stores[store].dirty(local_id)
        for key in ("fingerprint", "deleted"):
            wire.pop(key, None)
        return wire | {"attached": 0, "dirty": dirty}

    async def _deleted(self, limit: int, cursor: str | None, sort: str, wanted: Mapping[str, Json]) -> dict[str, Json]:
        found: list[tuple[Store, Trashed]] = []
        for store in self._stores.values():
            if wanted.get("store") in (None, store.name):
                found += [(store, one) for one in await store.trash()]
        found = [(store, one) for store, one in found if _fits(one.info, wanted)]
        key = {"updatedAt": "updated_at", "createdAt": "created_at", "name": "name", "messageCount": "message_count"}[
            sort.lstrip("-")
        ]
        found.sort(key=lambda one: one[1].trash_id)
        found.sort(key=lambda one: (getattr(one[1].info, key) or 0) if key == "message_count" else str(getattr(one[1].info, key) or ""),
                   reverse=sort.startswith("-"))  # fmt: skip
        start = _offset(cursor)
        page = found[start : start + limit]
        after = start + limit
        return {
            "sessions": [_trashed_wire(store, one) for store, one in page],
            "nextCursor": f"trash-{after}" if after < len(found) else None,
        }

    async def search(
        self, *, query: str, mode: str, limit: int | None, cursor: str | None, wanted: Mapping[str, Json]
    ) -> dict[str, Json]:
        if len(query) > self._limits.query_bytes:
            raise InvalidParams(f"query: longer than {self._limits.query_bytes} bytes", field="query")
        wanted = _checked(wanted)
        if not self._catalog.ready.is_set():
            # After that it is answered from what is there, and marked incomplete.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._catalog.ready.wait(), _SEARCH_PATIENCE_S)
        await self._catalog.settled()
        asked = SearchQuery(query=query, mode=mode, limit=self._limit(limit), cursor=cursor, filter=dict(wanted))
        page = await self._catalog.index.search(asked)
        result: dict[str, Json] = {
            "hits": [msgspec.to_builtins(hit) for hit in page.hits],
            "total": page.total,
            "nextCursor": page.next_cursor,
        }
        if page.incomplete or self._catalog.index.incomplete:
            result["incomplete"] = True
        return result


def _checked(wanted: Mapping[str, Json]) -> dict[str, Json]:
    """The filter with its types checked and its times in the protocol's shape; nulls are no filter."""
    checked: dict[str, Json] = {}
    for key, given in wanted.items():
        value: Any = given
        if value is None:
            continue
        if key not in _FILTER_TYPES:
            raise InvalidParams(
                f"filter.{key}: unknown; expected one of {', '.join(_FILTER_TYPES)}", field=f"filter.{key}"
            )
        if not isinstance(value, _FILTER_TYPES[key]):
            raise InvalidParams(f"filter.{key}: expected {_FILTER_TYPES[key][0].__name__}", field=f"filter.{key}")
        if key in ("since", "until"):
            try:
                value = normal_timestamp(str(value))
            except (ValueError, OverflowError) as error:
                raise InvalidParams(
                    f"filter.{key}: expected RFC 3339, as 2026-01-11T14:30:22.000Z", field=f"filter.{key}"
                ) from error
        if key == "tags" and not all(isinstance(tag, str) for tag in value):
            raise InvalidParams("filter.tags: expected a list of strings", field="filter.tags")
        checked[key] = value
    return checked


def _fits(info: SessionInfo, wanted: Mapping[str, Json]) -> bool:
    name = wanted.get("name")
    return (
        all(tag in info.tags for tag in wanted.get("tags", []))
        and wanted.get("model") in (None, info.model)
        and wanted.get("cwd") in (None, info.cwd)
        and (name is None or name.casefold() in (info.name or "").casefold())
        and wanted.get("since", "") <= info.updated_at
        and info.updated_at < wanted.get("until", "~")
        and (not wanted.get("archived") or info.archived)
    )


def _trashed_wire(store: Store, one: Trashed) -> dict[str, Json]:
    wire: dict[str, Any] = msgspec.to_builtins(one.info)
    wire["sessionId"] = join_wire_id(store.name, one.trash_id)
    wire |= {
        "store": store.name,
        "format": store.format,
        "path": store.file_path(one.trash_id),
        "attached": 0,
        "dirty": False,
    }
    return wire | {"deletedAt": one.deleted_at, "reason": one.reason}


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.startswith("trash-") or not cursor[6:].isdecimal() or len(cursor) > _CURSOR_CHARS:
        raise InvalidParams("cursor: not one of this list's", hint="start again without a cursor", field="cursor")
    return int(cursor[6:])
