"""opencode: `opencode.db` with `session`, `message` and `part`; a message is made of its parts, and a tool's call
and result are one part. Since opencode 2 also with `session_v2` and `session_message` (`opencode_v2.py`).
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import msgspec

from sessiond.importers import opencode_v2
from sessiond.importers.alone import alone, step
from sessiond.importers.came_from import came_from
from sessiond.importers.changed_rows import ChangedRows, changed_rows
from sessiond.importers.database import Database, from_json, guarded, recognised
from sessiond.importers.draft import SessionDraft
from sessiond.importers.kept_output import KEY, OPENCODE_FOLDER, KeptOutputs
from sessiond.importers.opencode_files import exported, stored, stored_in
from sessiond.importers.opencode_message import message_of
from sessiond.importers.opencode_v2 import Forks, Form, form_of
from sessiond.importers.record import Continued, Ending, Event, Ignored, Opener, RowsEnd, RowsRead, Same, SessionStart
from sessiond.importers.row_tables import TimedRows, is_settled
from sessiond.importers.source_file import mapped, parent_of, word
from sessiond.model.values import JsonObject

_SESSION_USED = frozenset({"id", "parent_id", "title", "directory", "time_created", "time_updated"})
_MESSAGES = "message"
_ORDER = {_MESSAGES: "time_created, id", opencode_v2.MESSAGES: "seq, id"}
"""Of the rows of a session."""
_FOR_MESSAGES = ("createdAt", "model")
"""Of what a session says of itself: what its messages may take over."""
_LATEST = 16
"""Messages at the end of a session that are read again when it is read on."""
_SESSIONS = ("session", "session_v2")
"""The tables of sessions, older first. The betas of opencode 2 wrote their messages for `session`."""


class OpenCode:
    name = "opencode"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if path.endswith(".json"):
            if b'"info"' in head and b'"messages"' in head and b'"ses_' in head:
                return 85
            return 85 if b'"projectID"' in head and stored_in(path) else 0
        of_v2 = recognised(path, head, name="opencode.db", words=(b"project_id", b"session_message", b"time_created"))
        return of_v2 or recognised(
            path, head, name="opencode.db", words=(b"project_id", b"message_id", b"time_created")
        )

    def read_changed(self, path: str, open_: Opener, before: RowsRead | None) -> Iterator[Event]:
        return guarded(path, open_, lambda database: _Tables(database, path, open_).read_changed(before))

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        if not path.endswith(".json"):
            yield from guarded(path, open_, lambda database: _Tables(database, path, open_).read())
        elif stored_in(path):
            yield from stored(path, open_)
        else:
            yield from exported(path, open_)


class _Row(msgspec.Struct):
    """A message of a session that is in both generations of tables. `copy`: its row in the newer ones, if that says more."""

    time: Any
    old: JsonObject | None
    copy: JsonObject | None
    result_ids: dict[str, str] = {}

    @property
    def id(self) -> object:
        return (self.old or self.copy or {}).get("id")


class _Both:
    """The messages of a session that is in both generations of tables, each once."""

    def __init__(self) -> None:
        self.old: list[_Row] = []
        self.new: list[_Row] = []
        """Those that the older tables do not have."""
        self._by_id: dict[object, tuple[_Row, int]] = {}
        """With how much it says."""
        self._by_mark: dict[bytes, tuple[_Row, int]] = {}

    def take_old(self, row: JsonObject, form: Form) -> None:
        one = _Row(form.time, row, None, form.result_ids)
        known = one, form.words
        self._by_id[row["id"]] = self._by_mark[form.mark] = known
        self.old.append(one)

    def take_new(self, row: JsonObject) -> None:
        copy = form_of(row)
        known = self._by_id.get(row["id"]) or (self._by_mark.get(copy.mark) if copy is not None else None)
        if known is None:
            self.new.append(_Row(copy.time if copy is not None else row["time_created"], None, row))
        elif copy is not None and copy.words > known[1]:
            known[0].copy = row


class _Tables:
    """One database."""

    def __init__(self, database: Database, path: str, open_: Opener) -> None:
        self._database = database
        self._outputs = KeptOutputs(os.path.dirname(path), open_)
        self._path = path
        self._has_new = bool(database.columns(opencode_v2.MESSAGES))
        # Without the newer tables, it says which of the older ones it lacks.
        self._has_old = not self._has_new or bool(database.columns("message") and database.columns("part"))
        self._tables = [table for table in _SESSIONS if database.columns(table)]
        self._origins = self._came_from()
        self._forks = Forks(database, self._origins, self._old_form)
        self._alone = True
        """Whether the session that is being read depends on nothing but its rows."""
        self._silent: Counter[str] = Counter()
        self._clock = time.time() * 1000

    def _came_from(self) -> dict[str, str]:
        forked = [table for table in self._tables if "fork_session_id" in self._database.columns(table)]
        sql = "SELECT id, fork_session_id FROM {} WHERE fork_session_id IS NOT NULL"
        rows = (row for table in forked for row in self._database.rows(sql.format(table)))
        return {str(row["id"]): str(row["fork_session_id"]) for row in rows}

    def read(self) -> Iterator[Event]:
        self._require()
        for session in self._sessions():
            yield from alone(self._path, f"session {session['id']}", self._session(session))
        yield from self._ignored()

    def read_changed(self, before: RowsRead | None) -> Iterator[Event]:
        self._require()
        names = [_MESSAGES, "part"] * self._has_old + [opencode_v2.MESSAGES] * self._has_new
        changed = changed_rows(self._database, self._path, [TimedRows(name, self._clock) for name in names], before)
        if changed is None:  # of an older opencode
            yield from self.read()
            return
        for session in self._sessions():
            session_id = str(session["id"])
            if changed.is_same(session_id, session):
                yield Same(session_id, SessionDraft(OpenCode.name, self._path, session_id).suggested_id)
                continue
            yield from alone(self._path, f"session {session_id}", self._changed(session, changed))
        yield from self._ignored()
        yield changed.read()

    def _changed(self, session: JsonObject, changed: ChangedRows) -> Iterator[Event]:
        """A session that is not what it was: from where its messages may be others, or whole."""
        session_id = str(session["id"])
        self._alone = session_id not in self._origins
        before = changed.end(session_id)
        draft = None if before is None else before.draft.copied()
        if before is None or draft is None or not self._goes_on(before, draft, session, changed):
            end = yield from self._session(session, keeps=changed.keeps_ends)
            if self._alone:
                changed.note(session_id, session, end)
            return
        yield Continued(session_id, draft.suggested_id, self._start(draft, session).info)
        end = yield from self._from(draft, before, keeps=True)
        yield from draft.end()
        if self._alone and end is not None:
            changed.note_end(session_id, session, end)

    def _goes_on(self, end: RowsEnd, draft: SessionDraft, session: JsonObject, changed: ChangedRows) -> bool:
        """Return whether all that changed in a session is behind `end`. `draft`: a copy of its own."""
        table, added = self._only_table(draft.source_id), changed.added(draft.source_id)
        if end.after[0] != table or not self._is_behind(end, added):
            return False
        self._start(draft, session)
        return all(draft.known(key) == end.draft.known(key) for key in _FOR_MESSAGES)

    def _only_table(self, session_id: str) -> str | None:
        """The table with all messages of a session. None: they are in two, or nowhere yet."""
        names = [_MESSAGES] * self._has_old + [opencode_v2.MESSAGES] * self._has_new
        found = [name for name in names if next(self._rows(name, session_id, "LIMIT 1"), None) is not None]
        return found[0] if len(found) == 1 else None

    def _is_behind(self, end: RowsEnd, added: list[tuple[str, object]] | None) -> bool:
        """Return whether these rows, by table and id, say something only of messages after `end`."""
        table, *place = end.after
        if added is None or not place:
            return added is not None
        later = f"rowid >= ? AND ({_ORDER[table]}) > (?, ?) AS later"
        of_part = f"SELECT {later} FROM {table} WHERE id = (SELECT message_id FROM part WHERE id = ?)"  # noqa: S608  # constants
        for name, row_id in added:
            query = of_part if name == "part" else f"SELECT {later} FROM {table} WHERE id = ?"  # noqa: S608
            if not all(row["later"] for row in self._database.rows(query, *place, row_id)):
                return False
        return True

    def _from(self, draft: SessionDraft, end: RowsEnd, *, keeps: bool) -> Generator[Event, None, RowsEnd | None]:
        """The messages after `end`, in a draft that is there. Returns where it can be read on next time, if that is to be kept: before
        the last messages, and before those that were written just now.
        """
        table, *place = end.after
        # The place alone would do; without the number, all rows of the session are looked at for their places.
        later = f"AND rowid >= ? AND ({_ORDER[table]}) > (?, ?)" if place else ""
        where, values = f"FROM {table} WHERE session_id = ? {later}", (draft.source_id, *place)
        latest = self._count(where, *values) - _LATEST if keeps else 0
        number = "rowid AS place, " * keeps  # which not every table has
        rows = self._database.rows(f"SELECT {number}* {where} ORDER BY {_ORDER[table]}", *values)
        kept: RowsEnd | None = None
        numbers: list[int] = []
        for nth, row in enumerate(rows):
            if keeps and kept is None and (nth >= latest or not self._is_settled(table, row)):
                kept = RowsEnd((), draft.copied(), end.sums)
                before = place
                yield Ending()
            if kept is not None:
                numbers.append(int(str(row["place"])))
            one = _Row(None, row, None) if table == _MESSAGES else _Row(None, None, row)
            yield from alone(self._path, f"message {row['id']}", self._message(draft, one))
            place = [0, *(row[column] for column in _ORDER[table].split(", "))]
        if kept is None or None in before:
            return None
        kept.after = (table, min(numbers), *before[1:]) if before else (table,)
        return kept

    def _count(self, where: str, *values: object) -> int:
        [(count,)] = self._database.tuples(f"SELECT count(*) {where}", *values)
        return int(count)

    def _is_settled(self, table: str, row: JsonObject) -> bool:
        """Return whether the times of a message and of its parts tell their versions."""
        times = [row["time_updated"]]
        if table == _MESSAGES:
            parts = self._database.rows("SELECT time_updated FROM part WHERE message_id = ?", row["id"])
            times += [part["time_updated"] for part in parts]
        return all(is_settled(time, self._clock) for time in times)

    def _require(self) -> None:
        if not self._tables:
            self._database.require("session", "id")
        for table in self._tables:
            self._database.require(table, "id")
        if self._has_old:
            self._database.require("message", "id", "session_id", "time_created", "data")
            self._database.require("part", "id", "message_id", "data")
        if self._has_new:
            self._database.require(opencode_v2.MESSAGES, "id", "session_id", "type", "seq", "time_created", "data")

    def _ignored(self) -> Iterator[Event]:
        for kind, count in sorted(self._silent.items()):
            yield Ignored(self._path, kind, count)

    def _sessions(self) -> Iterator[JsonObject]:
        """Each session once, as the generation has it that wrote it last, in the order of ids."""
        ids = " UNION ".join(map("SELECT id FROM {}".format, self._tables))
        for found in self._database.rows(f"{ids} ORDER BY id"):
            queries = map("SELECT * FROM {} WHERE id = ?".format, self._tables)
            rows = [row for query in queries for row in self._database.rows(query, found["id"])]
            yield max(reversed(rows), key=lambda row: _number(row.get("time_updated")))

    def _session(self, session: JsonObject, *, keeps: bool = False) -> Generator[Event, None, RowsEnd | None]:
        """All of it. Returns as `_from`."""
        draft = SessionDraft(OpenCode.name, self._path, str(session["id"]))
        yield self._start(draft, session)
        table, end = self._only_table(draft.source_id), None
        if table is not None:
            end = yield from self._from(draft, RowsEnd((table,), draft, []), keeps=keeps)
        else:
            for row in (yield from self._put_together(draft.source_id)):
                yield from alone(self._path, f"message {row.id}", self._message(draft, row))
        yield from draft.end()
        return end

    def _start(self, draft: SessionDraft, session: JsonObject) -> SessionStart:
        rest = {
            key: from_json(value)
            for key, value in session.items()
            if key not in _SESSION_USED and value not in (None, "")
        }
        parent = session.get("parent_id")
        if isinstance(parent, str):
            rest["sidechain"] = True
        model = rest.get("model")
        return draft.start(
            name=session.get("title"),
            cwd=session.get("directory"),
            createdAt=session.get("time_created"),
            updatedAt=session.get("time_updated"),
            archived=bool(session["time_archived"]) if "time_archived" in session else None,
            model=model.get("id") if isinstance(model, dict) else None,
            parent=parent_of(OpenCode.name, parent)
            or came_from(rest.get("metadata"))
            or parent_of(OpenCode.name, session.get("fork_session_id")),
            metadata=rest,
        )

    def _message(self, draft: SessionDraft, row: _Row) -> Iterator[Event]:
        if row.old is not None and row.copy is None:
            form = self._with_outputs(self._form_of_old(row.old))
            yield from message_of(draft, form.about, form.time, form.parts)
        elif row.copy is not None:
            found = form_of(row.copy, row.result_ids)
            if found is not None:
                if row.old is not None:  # its id here is the one that it had before it was copied
                    found.about["id"] = row.old["id"]
                request = self._forks.request(row.copy, found)
                yield from opencode_v2.tell(draft, self._with_outputs(found), request)
            elif (kind := word(row.copy.get("type"))) in opencode_v2.SILENT:
                self._silent[kind] += 1
            else:
                draft.keep({"type": kind, **mapped(from_json(row.copy["data"]))})

    def _with_outputs(self, form: Form) -> Form:
        """With the whole of each output that is too long for its row."""
        parts = []
        for part_id, part in form.parts:
            state = mapped(mapped(part).get("state"))
            path, shown = mapped(state.get("metadata")).get("outputPath"), state.get("output")
            if isinstance(path, str) and isinstance(shown, str):
                self._alone = False
                whole, note = self._outputs.whole(shown, path, OPENCODE_FOLDER)
                parts.append((part_id, {**part, "state": {**state, "output": whole, KEY: [note]}}))
            else:
                parts.append((part_id, part))
        return msgspec.structs.replace(form, parts=parts)

    def _put_together(self, session_id: object) -> Generator[Event, None, list[_Row]]:
        """The messages of both generations, each once: in the order of the newer, and those that only the older has by time."""
        both = _Both()
        for row in self._rows(_MESSAGES, session_id, f"ORDER BY {_ORDER[_MESSAGES]}") if self._has_old else ():
            yield from alone(self._path, f"message {row['id']}", step(self._take_old, both, row))
        for row in self._rows(opencode_v2.MESSAGES, session_id, "ORDER BY seq, id") if self._has_new else ():
            yield from alone(self._path, f"message {row['id']}", step(both.take_new, row))
        return _merged(both.old, both.new)

    def _take_old(self, both: _Both, row: JsonObject) -> None:
        both.take_old(row, self._form_of_old(row))

    def _old_form(self, message_id: str) -> Form | None:
        """A message of the older tables; None if they do not have it."""
        if not self._has_old:
            return None
        row = next(self._database.rows("SELECT * FROM message WHERE id = ?", message_id), None)
        return self._form_of_old(row) if row is not None else None

    def _form_of_old(self, row: JsonObject) -> Form:
        about = from_json(row["data"])
        about = about if isinstance(about, dict) else {"data": about}
        found = self._database.rows("SELECT * FROM part WHERE message_id = ? ORDER BY id", row["id"])
        parts = [(str(part["id"]), from_json(part["data"])) for part in found]
        return Form({**about, "id": row["id"]}, row["time_created"], parts)

    def _rows(self, table: str, session_id: object, rest: str) -> Iterator[JsonObject]:
        query = f"SELECT * FROM {table} WHERE session_id = ? {rest}"  # noqa: S608  # constants
        return self._database.rows(query, session_id)


def _merged(old: list[_Row], new: list[_Row]) -> list[_Row]:
    """Both in their own order; of two at the front, the earlier one first."""
    merged: list[_Row] = []
    at = 0
    for one in new:
        while at < len(old) and _number(old[at].time) <= _number(one.time):
            merged.append(old[at])
            at += 1
        merged.append(one)
    return merged + old[at:]


def _number(value: object) -> float:
    return value if isinstance(value, (int, float)) else 0
