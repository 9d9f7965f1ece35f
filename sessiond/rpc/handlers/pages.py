"""Requests that concern many sessions, or move them in and out: list, search, export, import."""

from __future__ import annotations

import msgspec

from sessiond.index.values import UsageQuery
from sessiond.model.values import JsonObject
from sessiond.rpc.methods import Call, method
from sessiond.schema import sessions as s
from sessiond.schema.types import Filter, Nothing


def _wire_names(filter_: Filter | None) -> JsonObject | None:
    found: JsonObject | None = None if filter_ is None else msgspec.to_builtins(filter_)
    return found


@method("session/list", s.ListParams, s.ListResult, "unavailable", bulky=True, outlives=False, order="after")
async def list_(call: Call, params: s.ListParams) -> s.ListResult:
    """Return a page of sessions. Archived and deleted sessions are included only on request."""
    return await call.service.list(
        limit=params.limit, cursor=params.cursor, sort=params.sort, filter=_wire_names(params.filter)
    )


@method("session/listChanged", s.ListChangedParams, s.ListChangedResult, bulky=True, outlives=False, order="after")
async def list_changed(call: Call, params: s.ListChangedParams) -> s.ListChangedResult:
    """Return the sessions that changed after a cursor, in the order in which the changes arrived."""
    return await call.service.finder.changed(
        limit=params.limit, cursor=params.cursor, tell=call.peer if params.tell else None
    )


@method(
    "session/search",
    s.SearchParams,
    s.SearchResult,
    "cancelled",
    "tooLarge",
    "unavailable",
    bulky=True,
    outlives=False,
    order="after",
)
async def search(call: Call, params: s.SearchParams) -> s.SearchResult:
    """Find messages, names and notes. Deleted sessions are never found, archived ones only on request."""
    return await call.service.search(
        call.peer,
        query=params.query,
        mode=params.mode or "text",
        limit=params.limit,
        cursor=params.cursor,
        filter=_wire_names(params.filter),
    )


@method("session/usage", s.UsageParams, s.UsageResult, "cancelled", "unavailable", outlives=False, order="after")
async def usage(call: Call, params: s.UsageParams) -> s.UsageResult:
    """Count the tokens that messages report (`metadata.tokens`). Each request to a model counts once."""
    return await call.service.finder.usage(
        UsageQuery(
            by=params.by,
            since=params.since,
            until=params.until,
            tool=params.tool,
            time_zone=params.time_zone,
            limit=params.limit,
            filter=_wire_names(params.filter),
        )
    )


@method(
    "session/export",
    s.ExportParams,
    s.ExportResult,
    "sessionNotFound",
    "alreadyExists",
    "tooLarge",
    "badFile",
    "unavailable",
    bulky=True,
)
async def export(call: Call, params: s.ExportParams) -> s.ExportResult:
    """Write a session in another format, to a file or into the response."""
    return await call.service.export(params.session_id, params.format, params.path, bool(params.overwrite))


@method(
    "session/import",
    s.ImportParams,
    s.ImportResult,
    "badFile",
    "readOnly",
    "indeterminate",
    "unavailable",
    outlives=False,
    order="barrier",
)
async def import_(call: Call, params: s.ImportParams) -> s.ImportResult:
    """Import other tools' files. Importing them again adds nothing; if a source has grown, its session grows."""
    progress = None if params.work_done_token is None else call.progress(params.work_done_token, "Importing")
    try:
        return await call.service.import_(
            call.peer,
            params.path,
            format=params.format,
            store=params.store,
            since=params.since,
            dry_run=bool(params.dry_run),
            report=bool(params.report),
            progress=None if progress is None else progress.report,
        )
    finally:
        if progress is not None:
            progress.end("")


@method("session/follow", s.SessionFollowParams, Nothing, "unavailable", outlives=False, order="free")
async def follow(call: Call, params: s.SessionFollowParams) -> Nothing:
    """Import what is written at these places from now on, as long as the caller stays connected. What came is told by `session/imported`."""
    await call.daemon.follow_places(call.peer, params)
    return Nothing()
