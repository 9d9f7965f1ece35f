"""What a follower asks the service to do: import a file, find files that are behind, note files that are gone."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence

from sessiond.errors import SessiondError
from sessiond.model.session import Session
from sessiond.model.values import JsonObject
from sessiond.schema.sessions import ImportResult
from sessiond.service.imported_session import ImportTarget
from sessiond.service.planning import Draft
from sessiond.service.sources import Sources, mark_of

log = logging.getLogger(__name__)
_GONE = "gone"
"""The mark of a file that was removed, in the ledger. Its sessions say so in `metadata.source.gone`."""
_TOGETHER = 200
"""Files that are looked at in one go on a thread."""

Import = Callable[[str, str], Awaitable[ImportResult]]


class FollowedSources:
    """`import_(path, tool)` imports a file without a client having asked for it."""

    def __init__(self, place: ImportTarget, sources: Sources, import_: Import) -> None:
        self._place = place
        self._sources = sources
        self._import = import_
        self._told: set[str] = set()

    def now(self) -> str:
        return self._place.open_sessions.now()

    async def bring(self, path: str, tool: str) -> list[str]:
        """Import a file; returns the ids of the sessions that are new or have changed. SessiondError."""
        if self._sources.mark(path) == _GONE:
            await self._set_gone(path, None)
        result = await self._import(path, tool)
        for warning in result.warnings:
            text = f"{warning.path}: {warning.message}"
            if text not in self._told and len(self._told) < 1000:
                self._told.add(text)
                log.info("following %s", text)
        return [info.session_id for info in result.sessions]

    async def behind(self, paths: Sequence[str]) -> list[str]:
        """Those of `paths` that were not read to their end in their present version."""
        await self._place.catalog.ready.wait()
        await self._sources.load()
        found: list[str] = []
        for start in range(0, len(paths), _TOGETHER):
            part = paths[start : start + _TOGETHER]
            marks = await asyncio.to_thread(_marks, part)
            found += [path for path, mark in zip(part, marks, strict=True) if mark != self._sources.mark(path)]
        return found

    async def known(self) -> list[str]:
        """All files that sessions came from and that were not found to be gone."""
        await self._place.catalog.ready.wait()
        await self._sources.load()
        return self._sources.paths(_GONE)

    async def gone(self, paths: Sequence[str]) -> None:
        """Record that these files were removed. Their sessions stay, and say so."""
        for path in paths:
            if self._sources.mark(path) not in (None, _GONE):
                await self._set_gone(path, True)

    async def _set_gone(self, path: str, gone: bool | None) -> None:
        place = self._place
        for local_id in await place.ledger.sessions(place.store.name, path):
            if await place.has(local_id):
                try:
                    await self._mark_session(local_id, path, gone)
                except SessiondError as error:
                    log.warning("cannot note in %s whether %s is there: %s", local_id, path, error.message)
        if gone:
            tool = self._sources.tool(path)
            place.ledger.read_to_end(place.store.name, path, tool, _GONE)
            self._sources.remember(path, tool, _GONE, await place.ledger.sessions(place.store.name, path))

    async def _mark_session(self, local_id: str, path: str, gone: bool | None) -> None:
        one = self._place.open_sessions.of(self._place.store, local_id)

        def plan(draft: Draft) -> None:
            metadata = _with_mark(draft.session, path, gone)
            if metadata is not None:
                draft.update({"metadata": metadata}, None, at=draft.session.updated_at)

        with one.in_use():
            await one.change(plan)


def _with_mark(session: Session, path: str, gone: bool | None) -> JsonObject | None:
    source = session.metadata.get("source")
    if not isinstance(source, dict) or source.get("path") != path or source.get(_GONE) is gone:
        return None
    rest = {key: value for key, value in source.items() if key != _GONE}
    return {**session.metadata, "source": {**rest, _GONE: True} if gone else rest}


def _marks(paths: Sequence[str]) -> list[str | None]:
    return [_mark(path) for path in paths]


def _mark(path: str) -> str | None:
    try:
        return mark_of(path) if os.path.isfile(path) else None
    except OSError:
        return None
