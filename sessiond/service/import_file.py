"""One file while it is imported."""

from __future__ import annotations

import msgspec

from sessiond.importers import registry
from sessiond.importers.growth import Growth
from sessiond.importers.record import InfoUpdate, RowsEnd, RowsRead, SessionStart
from sessiond.model.values import JsonObject
from sessiond.service.imported_session import ImportedSession, ImportTarget, fields_said
from sessiond.service.kept_sources import KeptSource
from sessiond.service.sources import Sources, beside_of


class Wanted(msgspec.Struct, frozen=True):
    """The task of an import. `format` None: any that is recognised. `since`: RFC 3339; sessions without messages after it are left
    out. `followed`: nobody asked for this import, so what was deleted here does not come back.
    """

    format: str | None = None
    since: str | None = None
    dry_run: bool = False
    followed: bool = False


class ImportFile(msgspec.Struct):
    found: registry.Found
    mark: str | None
    """The version that is being read; None if that is unknown."""
    arriving: dict[str, ImportedSession] = {}
    ended: ImportedSession | None = None
    """The session that ended last. It waits, because it may be the last in the file, which gets the file's mark."""
    local_ids: set[str] = msgspec.field(default_factory=set)
    whole: bool = True
    """Nothing was left out that a later import should bring."""
    explained: bool = False
    """A warning that applies to the whole file was given."""
    kept: int = 0
    """The number of sessions that were found in it."""
    newest: str = ""
    """The time of its newest record, RFC 3339."""
    named: bool = False
    """The client named this file itself; it was not found in a folder."""
    unknown: dict[str, int] = msgspec.field(default_factory=dict)
    """Kinds of records that its importer does not know, with their number."""
    ignored: list[str] = msgspec.field(default_factory=list)
    """Kinds of records that are not messages, with their number."""
    starts: list[SessionStart] = msgspec.field(default_factory=list)
    names: list[InfoUpdate] = msgspec.field(default_factory=list)
    """What it says of sessions of other files."""
    before_end: JsonObject | None = None
    """What was known of its session when its end began; None before that, and where it cannot be read on."""
    last: dict[str, bytes] = msgspec.field(default_factory=dict)
    """The messages that its end let it say, id -> digest."""
    growth: Growth | None = None
    ends_before: dict[str, RowsEnd] = {}
    """Where its sessions may be read on, if it is a database."""
    not_begun: set[str] = msgspec.field(default_factory=set)
    """Sessions in which nothing was said."""
    read_to: dict[str, tuple[dict[str, bytes], ImportedSession]] = msgspec.field(default_factory=dict)
    """Of each of its sessions whose end began: what that let it say."""
    same: bool = False
    """It has sessions that did not change since it was last read."""
    rows: RowsRead | None = None

    def without_sessions(self) -> str:
        """The warning about a file that an importer recognised but that has no session."""
        text = f"is a {self.found.importer} file, but no conversation was found in it"
        return f"{text} ({', '.join(self.ignored)})" if self.ignored else text

    def begins(self, start: SessionStart) -> None:
        """A session begins, or goes on."""
        self.starts.append(start)
        self.local_ids.add(start.suggested_id)
        self.before_end, self.last = None, {}

    def end_begins(self) -> None:
        if len(self.arriving) == 1:
            self.before_end = dict(next(iter(self.arriving.values())).info)

    def ends(self, source_id: str, one: ImportedSession) -> None:
        if self.before_end is not None:
            self.read_to[source_id] = self.last, one

    def to_go_on(self, one: ImportedSession) -> KeptSource | None:
        """Return what is needed to read it on, once its session has all of it; None if it has others, or cannot be read on."""
        if self.growth is None or self.before_end is None or len(self.starts) != 1 or not self.found.sure:
            return None
        [start] = self.starts
        fields = fields_said(one.info)
        tool, beside = self.found.importer, beside_of(self.mark or "")
        return KeptSource(self.growth, tool, beside, start, self.before_end, self.last, fields, self.names)

    async def keep_rows(self, home: ImportTarget, sources: Sources) -> None:
        """Only what has changed is read the next time. What is not here now, because it was deleted, will be read."""
        if self.rows is None or not self.whole or self.explained:
            return
        sessions, ends = dict(self.rows.sessions), dict(self.rows.ends)
        for source_id, (last, one) in self.read_to.items():
            if source_id in ends:
                ends[source_id] = msgspec.structs.replace(ends[source_id], last=last, fields=fields_said(one.info))
        for start in self.starts:
            place = await home.where(start.suggested_id)
            if start.suggested_id not in self.not_begun and not await place.has(start.suggested_id):
                sessions.pop(start.source_id, None)
                ends.pop(start.source_id, None)
        sources.rows[self.found.path] = msgspec.structs.replace(self.rows, sessions=sessions, ends=ends)
