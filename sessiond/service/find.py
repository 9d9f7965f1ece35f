"""Lists and searches: checks what a client asks for, and asks the catalogue and the index."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from sessiond.errors import InvalidParams, Unavailable
from sessiond.index.values import Hit, IndexedInfo, ListQuery, SearchQuery, SessionPage, UsageQuery
from sessiond.limits import Limits
from sessiond.model.session import SessionInfo as SessionHead
from sessiond.model.values import Json, WireObject, join_wire_id, strict_timestamp, tool_of
from sessiond.model.wire import encode
from sessiond.schema.sessions import ChangedSession, ListChangedResult, ListResult, SearchResult, UsageResult
from sessiond.schema.types import Parent, SessionInfo
from sessiond.service import presentation
from sessiond.service.catalog import Catalog
from sessiond.service.open_sessions import OpenSessions
from sessiond.service.size_limits import most_shown
from sessiond.service.subscribers import Peer
from sessiond.store.port import Store, Trashed

if TYPE_CHECKING:
    from sessiond.service.arrivals import Arrivals

_SORTS = ("updatedAt", "createdAt", "name", "messageCount")
_PATIENCE_S = 1.0
"""How long a list or a search waits for an index that is being built, before its result says `incomplete`."""
_SLOW_S = 20.0
"""The same where only the machine is slow: a search finds what was said before it."""
_LEAST_S = 0.2
"""What remains of that for what was fed just now, however long it took to index all sessions."""
_LOST_PATIENCE_S = 30.0
"""How long a list waits until a lost index is rebuilt."""
_PAUSE_S = 0.1
_CURSOR_CHARS = 24
"""Longer than any cursor of the trash."""
_FILTER_TYPES: dict[str, tuple[type, ...]] = {
    "store": (str,),
    "tags": (list,),
    "archived": (bool,),
    "deleted": (bool,),
    "model": (str,),
    "cwd": (str,),
    "since": (str,),
    "until": (str,),
    "name": (str,),
    "tool": (str,),
    "parent": (str,),
    "role": (str,),
    "sessionId": (str,),
    "activity": (str,),
}


class Finder:
    def __init__(
        self, stores: Mapping[str, Store], open_sessions: OpenSessions, catalog: Catalog, limits: Limits
    ) -> None:
        self._stores = stores
        self._open_sessions = open_sessions
        self._catalog = catalog
        self._limits = limits
        self._most = most_shown(limits)
        self.counts: dict[str, int] = {}
        """Sessions in each store, as of the last count."""

    async def count(self) -> None:
        """Bring `counts` up to date. While the index is rebuilt, it does not know every session that was known before."""
        await _within(self._patience, self._catalog.settled())
        for name in list(self._stores):
            found = await self._catalog.index.count(name)
            self.counts[name] = found if self._catalog.listed.is_set() else max(found, self.counts.get(name, 0))

    async def list(
        self, *, limit: int | None, cursor: str | None, sort: str | None, wanted: Mapping[str, Json]
    ) -> ListResult:
        sort = sort or "-updatedAt"
        if sort.removeprefix("-") not in _SORTS:
            raise InvalidParams(
                f"sort: expected one of {', '.join(_SORTS)}, with - in front for descending", field="sort"
            )
        wanted = _checked(wanted)
        count = self._limit(limit)
        if (state := wanted.pop("activity", None)) is not None:
            if wanted.get("deleted"):
                return ListResult(sessions=[], next_cursor=None)  # nothing goes on in the trash
            return await self._active(str(state), count, cursor, sort, wanted)
        if wanted.get("deleted"):
            return await self._deleted(count, cursor, sort, wanted)
        page, whole = await self._listed(ListQuery(limit=count, cursor=cursor, sort=sort, filter=dict(wanted)))
        result = ListResult(sessions=[self._shown(info) for info in page.items], next_cursor=page.next_cursor)
        if not whole:
            result.incomplete = True
        return result

    async def changed(self, *, limit: int | None, cursor: str | None, tell: Peer | None = None) -> ListChangedResult:
        """`tell`: who hears of what comes after the result."""
        arrivals, result = await self._changed(limit=limit, cursor=cursor)
        if tell is not None:
            arrivals.tell(tell, result.cursor)
        return result

    async def _changed(self, *, limit: int | None, cursor: str | None) -> tuple[Arrivals, ListChangedResult]:
        arrivals = self._catalog.arrivals
        if arrivals is None:
            from sessiond.service.arrivals import Arrivals  # most daemons have no client that asks

            arrivals = self._catalog.arrivals = Arrivals()
        count = self._limit(limit)
        await self._open_sessions.share_streams()
        position = None if cursor is None else arrivals.position(cursor)
        if position is None:
            nothing = ListChangedResult(sessions=[], cursor=arrivals.now(), lost=cursor is not None, has_more=False)
            return arrivals, nothing
        begin, last = position
        found = arrivals.after(last)
        page, has_more = found[:count], len(found) > count
        # What arrives while this waits is after the cursor: it is shown as it is by then, and again the next time.
        at = arrivals.between(begin, page[-1][1].no) if has_more else arrivals.now()
        about = [(wire_id, one.no, one.since(begin), one.begun > begin) for wire_id, one in page]
        await _within(self._patience, self._catalog.settled())
        sessions: list[ChangedSession] = []
        size = 0
        for wire_id, no, since, begun in about:
            info = await self._info(wire_id)
            if info is not None:
                size += len(encode(info))
                if size > self._limits.page_most and sessions:
                    some = arrivals.between(begin, last)
                    return arrivals, ListChangedResult(sessions=sessions, cursor=some, lost=False, has_more=True)
                sessions.append(ChangedSession(session=info, since=since, begun=begun))
            last = no
        return arrivals, ListChangedResult(sessions=sessions, cursor=at, lost=False, has_more=has_more)

    async def _info(self, wire_id: str) -> SessionInfo | None:
        one = self._open_sessions.peek(wire_id)
        if one is not None:
            return self._open_sessions.info(one)
        known = await self._catalog.index.info(wire_id)
        return None if known is None or known.deleted else self._shown(known)

    async def _listed(self, query: ListQuery) -> tuple[SessionPage, bool]:
        """A page, and whether all sessions were known by then. If the index turns out to be lost, it asks again."""
        now = asyncio.get_running_loop().time
        asked = now()
        await self._open_sessions.share_streams()
        while True:
            if not self._catalog.listed.is_set():
                await _within(asked + _PATIENCE_S - now(), self._catalog.listed.wait())
            settled = query.cursor is None and self._catalog.listable()
            if not settled:
                settled = await _within(max(_LEAST_S, asked + self._patience - now()), self._catalog.settled())
            page = await self._catalog.index.list(query)
            whole = settled and self._catalog.listed.is_set()
            if not page.lost and (whole or now() > asked + _PATIENCE_S):
                return page, whole
            if now() > asked + _LOST_PATIENCE_S:
                raise Unavailable(
                    "the list of sessions can be neither read nor rebuilt now",
                    hint="free space for the cache folder, or make it writable; `sessiond doctor` shows what is wrong",
                )
            await asyncio.sleep(_PAUSE_S if page.lost else 0)

    @property
    def _patience(self) -> float:
        """Seconds for what was fed before."""
        catalog = self._catalog
        hurried = not catalog.listed.is_set() or catalog.index.incomplete or catalog.index.erasing
        return _PATIENCE_S if hurried else _SLOW_S

    def _limit(self, limit: int | None) -> int:
        if limit is None:
            return self._limits.default_list_page
        if limit < 1:
            raise InvalidParams(f"limit: expected 1 or more, not {limit}", field="limit")
        return min(limit, self._limits.list_page)

    def _shown(self, info: IndexedInfo) -> SessionInfo:
        """Return what the index says, corrected by open sessions, which are never behind."""
        one = self._open_sessions.peek(info.session_id)
        if one is not None:
            return self._open_sessions.info(one)
        dirty = self._open_sessions.is_dirty(info.session_id)
        shown = presentation.shown_info(info, store=info.store, format=info.format, path=info.path, dirty=dirty)
        return self._open_sessions.activities.shown(presentation.info(shown, self._most), {})

    async def _deleted(self, limit: int, cursor: str | None, sort: str, wanted: WireObject) -> ListResult:
        found: list[tuple[Store, Trashed]] = []
        for store in list(self._stores.values()):
            if wanted.get("store") in (None, store.name):
                found += [(store, one) for one in await store.trash()]
        found = [(store, one) for store, one in found if _fits(one.info, wanted)]
        found.sort(key=lambda one: one[1].trash_id)
        found.sort(key=lambda one: _sort_key(one[1].info, sort), reverse=sort.startswith("-"))
        start = _offset(cursor)
        page = [presentation.info(_in_trash(store, one), self._most) for store, one in found[start : start + limit]]
        return self._page(page, start, len(found))

    async def _active(self, state: str, limit: int, cursor: str | None, sort: str, wanted: WireObject) -> ListResult:
        """Sessions in which something goes on: there are never many."""
        ids = sorted(self._open_sessions.activities.in_state(state))
        infos = [info for wire_id in ids if (info := await self._info(wire_id)) is not None]
        store, shelf = wanted.get("store"), bool(wanted.get("archived"))
        found = [one for one in infos if store in (None, one.store) and one.archived == shelf and _fits(one, wanted)]
        found.sort(key=lambda info: _sort_key(info, sort), reverse=sort.startswith("-"))
        start = _offset(cursor)
        return self._page(found[start : start + limit], start, len(found))

    def _page(self, infos: Sequence[SessionInfo], start: int, total: int) -> ListResult:
        """Return a page of as many of `infos` as fit. They are those from `start` on, of `total`."""
        page = [*infos[: presentation.by_bytes(infos, self._limits.page_most)]]
        after = start + len(page)
        return ListResult(sessions=page, next_cursor=f"trash-{after}" if after < total else None)

    async def search(
        self, *, query: str, mode: str, limit: int | None, cursor: str | None, wanted: Mapping[str, Json]
    ) -> SearchResult:
        if len(query) > self._limits.query_bytes:
            raise InvalidParams(f"query: longer than {self._limits.query_bytes} bytes", field="query")
        wanted = _checked(wanted)
        if not self._catalog.ready.is_set():
            # After that the result comes from what is indexed, and is marked incomplete.
            await _within(_PATIENCE_S, self._catalog.ready.wait())
        await self._open_sessions.share_streams()
        settled = await _within(self._patience, self._catalog.settled())
        asked = SearchQuery(query=query, mode=mode, limit=self._limit(limit), cursor=cursor, filter=dict(wanted))
        page = await self._catalog.index.search(asked)
        result = SearchResult(
            hits=[self._shown_hit(hit) for hit in page.hits], total=page.total, next_cursor=page.next_cursor
        )
        searched = [store for name, store in self._stores.items() if wanted.get("store") in (None, name)]
        fetching = any(store.fetching for store in searched)
        if not settled or page.incomplete or self._catalog.index.incomplete or fetching:
            result.incomplete = True
        if unfetched := sum(store.unfetched for store in searched):
            result.unfetched = unfetched
        return result

    async def usage(self, query: UsageQuery) -> UsageResult:
        """InvalidParams. Counts what is indexed; `incomplete` if that is not everything."""
        if not self._catalog.ready.is_set():
            await _within(_PATIENCE_S, self._catalog.ready.wait())
        settled = await _within(self._patience, self._catalog.settled())
        checked = _checked(query.filter or {})
        for name in ("since", "until"):
            if (given := getattr(query, name)) is not None:
                query = msgspec.structs.replace(query, **{name: _moment(given, name)})
        report = await self._catalog.index.usage(msgspec.structs.replace(query, filter=checked))
        result = UsageResult(
            rows=report.rows,
            omitted=report.omitted,
            sessions=report.sessions,
            total=report.total,
            models=report.models,
            time_zone=report.time_zone,
        )
        if not settled or report.incomplete or self._catalog.index.incomplete:
            result.incomplete = True
        return result

    def _shown_hit(self, hit: Hit) -> Hit:
        """A name may come from a file, and be as long as the file."""
        most = self._limits.name_chars
        return hit if len(hit.name or "") <= most else msgspec.structs.replace(hit, name=(hit.name or "")[:most])


async def _within(seconds: float, work: Coroutine[object, object, object]) -> bool:
    """Return whether `work` finished in time; cancel it if not."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=max(0.0, seconds))
    finally:
        task.cancel()
    for one in done:
        one.result()
    return bool(done)


def _checked(wanted: Mapping[str, Json]) -> WireObject:
    """The filter with its types checked and its times in the protocol's shape; a null is not a filter."""
    checked: WireObject = {}
    for key, given in wanted.items():
        value: Json = given
        if value is None:
            continue
        if key not in _FILTER_TYPES:
            raise InvalidParams(
                f"filter.{key}: unknown; expected one of {', '.join(_FILTER_TYPES)}", field=f"filter.{key}"
            )
        if not isinstance(value, _FILTER_TYPES[key]):
            raise InvalidParams(f"filter.{key}: expected {_FILTER_TYPES[key][0].__name__}", field=f"filter.{key}")
        if key in ("since", "until"):
            value = _moment(str(value), f"filter.{key}")
        if key == "tags" and not (isinstance(value, list) and all(isinstance(tag, str) for tag in value)):
            raise InvalidParams("filter.tags: expected a list of strings", field="filter.tags")
        checked[key] = value
    return checked


_SORT_FIELDS = {
    "updatedAt": "updated_at", "createdAt": "created_at", "name": "name", "messageCount": "message_count",
}  # fmt: skip


def _sort_key(info: SessionHead | SessionInfo, sort: str) -> tuple[int, str]:
    value = getattr(info, _SORT_FIELDS[sort.removeprefix("-")])
    return (value, "") if isinstance(value, int) else (0, value or "")


def _fits(info: SessionHead | SessionInfo, wanted: WireObject) -> bool:
    name, cwd, model = wanted.get("name"), wanted.get("cwd"), wanted.get("model")
    return (
        all(tag in info.tags for tag in wanted.get("tags", []))
        and (model is None or _is_of_model(info.model, str(model)))
        and (cwd is None or _is_of_folder(info.cwd, str(cwd)))
        and (name is None or name.casefold() in (info.name or "").casefold())
        and wanted.get("since", "") <= info.updated_at
        and info.updated_at < wanted.get("until", "~")
        and (not wanted.get("archived") or info.archived)
        and wanted.get("tool") in (None, tool_of(info.metadata))
        and wanted.get("parent") in (None, _parent_of(info))
    )


def _parent_of(info: SessionHead | SessionInfo) -> object:
    parent = info.parent
    return parent.session_id if isinstance(parent, Parent) else (parent or {}).get("sessionId")


def _is_of_model(model: str | None, asked: str) -> bool:
    from sessiond.index.model_names import names_model  # few lists of the trash are of a model

    return names_model(model, asked)


def _is_of_folder(cwd: str | None, asked: str) -> bool:
    from sessiond.folders import folder_key  # few lists of the trash are of a folder

    return cwd is not None and folder_key(cwd) == folder_key(asked)


def _in_trash(store: Store, one: Trashed) -> SessionInfo:
    head = msgspec.structs.replace(one.info, session_id=join_wire_id(store.name, one.trash_id))
    shown = presentation.shown_info(head, store=store.name, format=store.format, path=store.file_path(one.trash_id))
    shown.deleted_at, shown.reason = one.deleted_at, one.reason
    return shown


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.startswith("trash-") or not cursor[6:].isdecimal() or len(cursor) > _CURSOR_CHARS:
        raise InvalidParams("cursor: invalid for this list", hint="start again without a cursor", field="cursor")
    return int(cursor[6:])


def _moment(given: str, field: str) -> str:
    try:
        return strict_timestamp(given)
    except (ValueError, OverflowError) as error:
        raise InvalidParams(
            f"{field}: expected an RFC 3339 timestamp such as 2026-01-11T14:30:22.000Z", field=field
        ) from error
