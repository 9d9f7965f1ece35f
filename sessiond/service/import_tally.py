"""Collects what an import found and did: sessions, warnings, and a report for each tool."""

from __future__ import annotations

from collections import Counter

from msgspec import UNSET

from sessiond.importers.registry import NATIVE
from sessiond.schema.sessions import ImportResult, ToolReport
from sessiond.schema.types import FileWarning, SessionInfo

_MAX_WARNINGS = 10_000


class _Tool:
    """Counts for one tool."""

    def __init__(self) -> None:
        self.files = 0
        self.unchanged = 0
        self.messages = 0
        self.nothing_new = 0
        self.warnings = 0
        self.sessions: set[str] = set()
        self.ignored: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.newest = self.written = ""
        """RFC 3339: of the records that were read, and of their files."""

    def report(self, name: str) -> ToolReport:
        return ToolReport(
            tool=name,
            files=self.files,
            unchanged=self.unchanged,
            sessions=len(self.sessions),
            messages=self.messages,
            nothing_new=self.nothing_new,
            ignored=dict(self.ignored.most_common()),
            unknown=dict(self.unknown.most_common()),
            warnings=self.warnings,
            newest=self.newest or UNSET,
            written=self.written or UNSET,
        )


class ImportTally:
    """`tool`: the importer's name, where it is known."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionInfo] = {}
        """By id, those that were created or have changed."""
        self.messages = 0
        self._skipped = 0
        self._untouched = 0
        self._warnings: list[FileWarning] = []
        self._unlisted = 0
        self._tools: dict[str, _Tool] = {}

    def of(self, tool: str) -> _Tool:
        return self._tools.setdefault(tool, _Tool())

    def read(self, tool: str, newest: str, written: str) -> None:
        """A file was read to its end, which was `written` then, and whose `newest` record is of then (RFC 3339; "": none)."""
        counts = self.of(tool)
        if newest:
            counts.newest, counts.written = max(counts.newest, newest), max(counts.written, written)

    def warn(self, path: str, line: int | None, message: str, tool: str | None = None) -> None:
        if tool is not None:
            self.of(tool).warnings += 1
        if len(self._warnings) < _MAX_WARNINGS:
            self._warnings.append(FileWarning(path, line, message))
        else:
            self._unlisted += 1

    def took(self, described: SessionInfo | None, messages: int, tool: str = NATIVE) -> None:
        """A session was read; None: it had nothing new."""
        counts = self.of(tool)
        counts.messages += messages
        self.messages += messages
        if described is None:
            self._skipped += 1
            counts.nothing_new += 1
        else:
            self.sessions[described.session_id] = described
            counts.sessions.add(described.session_id)

    def unchanged(self, tool: str, sessions: int) -> None:
        """A file of so many sessions was not read, because it is known in this version."""
        counts = self.of(tool)
        counts.files += 1
        counts.unchanged += 1
        counts.nothing_new += sessions
        self._skipped += sessions

    def untouched(self) -> None:
        """A file was not opened, because it did not change since the time that was asked for."""
        self._untouched += 1

    def result(self, path: str, *, since: bool, report: bool) -> ImportResult:
        """`path`: what was imported."""
        if self._unlisted:
            message = f"{self._unlisted} more lines were skipped; import the files by themselves to see which"
            self._warnings.append(FileWarning(path, None, message))
        result = ImportResult(sessions=list(self.sessions.values()), skipped=self._skipped, warnings=self._warnings)
        if since:
            result.untouched = self._untouched
        unknown = {
            f"{name} {kind}": count for name, one in self._tools.items() for kind, count in one.unknown.most_common()
        }
        if unknown:
            result.unknown = unknown
        if report:
            result.report = [one.report(name) for name, one in sorted(self._tools.items())]
        return result
