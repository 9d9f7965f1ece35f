"""The work that a follower asks of the service: import a file, find files that are behind, note files that are gone."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from sessiond.errors import SessiondError, Unavailable
from sessiond.fs import FOLLOWING
from sessiond.importers import registry
from sessiond.importers.freshness import doubt
from sessiond.importers.record import SkippedLine
from sessiond.schema.sessions import ImportResult
from sessiond.service.growing_sources import ReadOn, read_on
from sessiond.service.imported_session import GONE, ImportTarget
from sessiond.service.sources import Sources, changed_at, mark_of
from sessiond.service.vanished import mark_session
from sessiond.store.port import FileWarning

log = logging.getLogger(__name__)
UNKNOWN = "unknown"
"""The version of a file that cannot be looked at. It differs from every other, so that reading the file says why."""
_TOGETHER = 200
"""Files that are looked at in one go on a thread."""
_SUSPECTS = 1000

Import = Callable[[str, str | None], Awaitable[ImportResult]]


class FollowedSources:
    """`import_(path, tool)` imports a file without a client having asked for it. `tell(path, result)` is called with what came."""

    def __init__(
        self,
        place: ImportTarget,
        sources: Sources,
        import_: Import,
        tell: Callable[[str, ImportResult], Awaitable[None]],
    ) -> None:
        self._place = place
        self._sources = sources
        self._import = import_
        self._tell = tell
        self._told: set[str] = set()
        self._suspect: dict[str, Sequence[FileWarning]] = {}
        """By file: what was met when it was read last."""
        self._unread: dict[str, list[str]] = {}
        """By file: what it has that nobody reads."""
        self._seen: dict[str, tuple[str, str]] = {}
        """By tool: the time of the newest record, and of the last write to the files that were read (RFC 3339)."""

    def now(self) -> str:
        return self._place.open_sessions.now()

    async def bring(self, path: str, tool: str | None, *, named: bool = False) -> ImportResult:
        """Import a file. `tool`: whose file it is; None: it is found out. `named`: somebody named this very file. SessiondError,
        also if an error of ours or of the system kept the file from being read to its end.
        """
        whose = tool or await FOLLOWING.call(partial(_whose, path, named=named))
        if whose is None:
            return ImportResult(sessions=[], skipped=0, warnings=[])
        if self._sources.mark(path) == GONE:
            await self._set_gone(path, None)
        if (read := await self._read_on(path, whose)) is not None:
            warnings = [FileWarning(one.path, one.line, one.reason) for one in read.skipped]
            told = ImportResult(sessions=read.sessions, skipped=0, warnings=warnings)
            await self._tell(path, told)
            return told
        result = await self._import(path, None if whose == registry.NATIVE else whose)
        for warning in result.warnings:
            text = f"{warning.path}: {warning.message}"
            if text not in self._told and len(self._told) < 1000:
                self._told.add(text)
                log.info("following %s", text)
        self._note_doubts(path, result)
        await self._tell(path, msgspec.structs.replace(result, warnings=self._sure(path, result.warnings)))
        if (reason := self._sources.unread.reason(path)) is not None:
            raise Unavailable(reason)
        return result

    async def _read_on(self, path: str, tool: str) -> ReadOn | None:
        """Return what `read_on` returns, and None if that fails: reading the whole says why."""
        try:
            went_on = await read_on(self._place, self._sources, path, tool)
            if went_on is not None and went_on.newest:
                self._note_newest(tool, went_on.newest, await FOLLOWING.call(changed_at, path))
            return went_on
        except (SessiondError, OSError) as error:
            log.info("%s is read whole: %s", path, error)
        except Exception:  # a bug of ours
            log.exception("%s could not be read on, and is read whole", path)
        return None

    def _sure(self, path: str, warnings: list[FileWarning]) -> list[FileWarning]:
        """Those that do not pass when the tool has written what it is just writing: they are about whole lines, or were met at the last
        reading too.
        """
        before, lines = self._suspect.pop(path, ()), self._sources.kept.lines(path)
        if warnings and len(self._suspect) < _SUSPECTS:
            self._suspect[path] = warnings
        return [one for one in warnings if one in before or (one.line is not None and one.line <= lines)]

    def goes_on(self, path: str) -> bool:
        """Return whether only what is new in the file will be read, whatever its size."""
        return path in self._sources.kept or path in self._sources.rows

    def read_to(self, path: str) -> int | None:
        """Return how many bytes of the file need not be read again; None for a database that is read where it is."""
        return None if path in self._sources.rows else self._sources.kept.read_to(path)

    async def compare(self, seconds: float, covers: Callable[[str], bool] = lambda _: True) -> list[str]:
        """Compare what was read of files that go on with what is there now, for that long. Return those that are to be read again,
        because they were changed in place or a session of theirs came back from the trash. `covers`: whether this follower wants a
        file; what others want is left to them.
        """
        changed: list[str] = []
        if self._sources.kept.unchecked:
            changed = await FOLLOWING.run(self._sources.kept.compare, seconds)
        for path in changed:
            self._sources.kept.take(path)
        changed += self._sources.rows_due()
        for path in changed:
            self._sources.forget_mark(path)
        self._sources.due.update(changed)
        return self._sources.take_due(covers)

    def _note_doubts(self, path: str, result: ImportResult) -> None:
        for one in result.report or []:
            if one.files > one.unchanged:
                tables = [
                    f"{count} rows of the {kind} are not read" for kind, count in one.unknown.items() if _is_table(kind)
                ]
                self._unread[path] = tables
            if one.newest and one.written:
                self._note_newest(one.tool, one.newest, one.written)

    def _note_newest(self, tool: str, newest: str, written: str) -> None:
        before, written_before = self._seen.get(tool, ("", ""))
        self._seen[tool] = (max(before, newest), max(written_before, written))

    def doubt(self, path: str, tool: str | None) -> str | None:
        """Return what showed in a file, or in all of a tool's that were read so far, that the tool writes more than is read, or that
        a write costs a copy of the file.
        """
        found = list(self._unread.get(path, ()))
        if (reason := self._sources.copied.get(path)) is not None:
            found.append(f"{path} was copied to be read: {reason}")
        return "; ".join(found) or doubt(*self._seen.get(tool or "", ("", "")))

    async def behind(self, paths: Sequence[str]) -> list[str]:
        """Those of `paths` that were not read to their end in their present version."""
        await self._place.catalog.over(self._place.store.name).wait()
        await self._sources.load()
        found: list[str] = []
        for start in range(0, len(paths), _TOGETHER):
            part = paths[start : start + _TOGETHER]
            marks = await FOLLOWING.call(_marks, part)
            found += [path for path, mark in zip(part, marks, strict=True) if mark != self._sources.mark(path)]
        return found

    async def known(self) -> list[str]:
        """All files that sessions came from and that were not found to be gone."""
        await self._place.catalog.over(self._place.store.name).wait()
        await self._sources.load()
        return self._sources.paths(GONE)

    async def gone(self, paths: Sequence[str]) -> None:
        """Record that these files were removed. Their sessions stay, and say so."""
        for path in paths:
            if self._sources.mark(path) not in (None, GONE):
                with self._sources.unread.apart(path, SessiondError):  # the next look at its place tries again
                    await self._set_gone(path, True)

    async def _set_gone(self, path: str, gone: bool | None) -> None:
        place = self._place
        for local_id in await place.ledger.sessions(place.store.name, path):
            holder = await place.where(local_id)
            if await holder.has(local_id):
                try:
                    await mark_session(holder, local_id, path, gone)
                except SessiondError as error:
                    log.warning("cannot note in %s whether %s is there: %s", local_id, path, error.message)
        if gone:
            self._sources.kept.take(path)
            tool = self._sources.tool(path)
            place.ledger.read_to_end(place.store.name, path, tool, GONE)
            self._sources.remember(path, tool, GONE, await place.ledger.sessions(place.store.name, path))


def _is_table(kind: str) -> bool:
    return kind.startswith("table ")


def _whose(path: str, *, named: bool) -> str | None:
    """The importer that recognises a file; None if none does. Unavailable if it cannot be looked at. Blocks."""
    found = registry.identify(path, None, named=named)
    if isinstance(found, SkippedLine) and found.failed:
        raise Unavailable(found.reason)
    return found.importer if isinstance(found, registry.Found) else None


def _marks(paths: Sequence[str]) -> list[str | None]:
    return [_mark(path) for path in paths]


def _mark(path: str) -> str | None:
    try:
        return mark_of(path) if os.path.isfile(path) else None
    except FileNotFoundError:
        return None  # it went while we looked
    except OSError:
        return UNKNOWN
