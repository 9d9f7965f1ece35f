"""A query and a filter -> SQL. Runs on a reading thread, because some filters match the content of tables.

As much as possible becomes one expression for FTS5; the rest (filters, an OR with a filter or an exclusion in it) becomes
SQL conditions on `doc`. Names of sessions and all other documents are in two zones, queried one after another.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable

import msgspec

from sessiond.folders import is_within
from sessiond.index.filters import CheckedFilter, Conditions, session_conditions
from sessiond.index.model_names import names_model
from sessiond.index.query import Atom, PhraseTerm, Query, Where
from sessiond.index.schema import MESSAGE, NAME, ZONE_BITS, zone

_AT = {NAME: "(SELECT updated FROM session WHERE no = doc.session)", MESSAGE: "doc.at"}
"""The time of a document: for a session's name, when the session last changed."""


_WORDS = {"text": "body", "tool": "tool", "thought": "thought"}
_PARTS = {"text": "parts", "tool": "tool_parts", "thought": "thought_parts"}
"""Columns of fts with the words, and with the parts of words, by the kind of texts."""


class Plan(msgspec.Struct):
    """A plan for finding the documents of one zone. `source` and `where` go into `SELECT ... FROM source WHERE where`.

    `id` is the SQL for a document's id, `order` what to sort by to get the newest first. `lone`: only the table fts is used,
    and `doc` cannot be named.
    """

    base: int
    source: str
    where: str
    params: dict[str, object]
    id: str
    order: str
    ranked: bool
    lone: bool
    stems: bool
    """It searches for a prefix. Every question to FTS5 about a prefix costs a pass over the words of all documents that have it."""

    def below(self, doc: int) -> str:
        """The condition for documents older than one."""
        return f"{self.order} < {self.base + doc if self.ranked else doc}"


def plans(db: sqlite3.Connection, query: Query, wanted: CheckedFilter) -> tuple[Plan | None, Plan | None]:
    """Plans for names, and for messages and notes. None: nothing can be found there."""
    names, others = _plan(db, query, wanted, NAME), None
    if (Where("in", "name"),) not in query.groups:
        others = _plan(db, query, wanted, MESSAGE)
    return names, others


def filter_plans(db: sqlite3.Connection, wanted: CheckedFilter) -> tuple[Plan | None, Plan | None]:
    """Everything that a filter admits, whatever its content (for modes that search the texts themselves)."""
    return plans(db, Query(()), wanted)


def _plan(db: sqlite3.Connection, query: Query, wanted: CheckedFilter, kind: int) -> Plan | None:
    if wanted.deleted or (kind == NAME and wanted.role is not None):
        return None
    base = zone(wanted.shelf, kind)
    compiler = _Compiler(db, query, kind, base)
    match = compiler.match(query.groups)
    conditions = compiler.conditions
    if wanted.role is not None:
        conditions.add("doc.role = (SELECT no FROM role WHERE name = ?)", wanted.role)
    if wanted.narrows or match is None:
        session_conditions(wanted, within := Conditions("s"))
        conditions.add(f"doc.session IN (SELECT s.no FROM session s WHERE {within.sql()})")  # noqa: S608
        conditions.params |= within.params
    lone = not conditions.all
    if match is None:
        conditions.add(f"doc.kind {'=' if kind == NAME else '!='} {NAME}")
        return Plan(
            base, "doc", conditions.sql(), conditions.params, "doc.id", "doc.id", ranked=False, lone=False, stems=False
        )
    source = "fts" if lone else f"fts CROSS JOIN doc ON doc.id = fts.rowid - {base}"
    conditions.add(f"fts.rowid BETWEEN {base} AND {base + (1 << ZONE_BITS) - 1}")
    conditions.add("fts MATCH ?", match)
    return Plan(
        base=base,
        source=source,
        where=conditions.sql(),
        params=conditions.params,
        id=f"fts.rowid - {base}",
        order="fts.rowid",
        ranked=True,
        lone=lone,
        stems=compiler.stems,
    )


class _Compiler:
    def __init__(self, db: sqlite3.Connection, query: Query, kind: int, base: int) -> None:
        self._db = db
        kinds = [kind for kind in ("text", "tool", "thought") if query.searches(kind)]
        self._whole = " ".join(_WORDS[kind] for kind in kinds)
        self._inner = " ".join(_PARTS[kind] for kind in kinds)
        self._kind = kind
        self._base = base
        self.conditions = Conditions()
        self.stems = False

    def match(self, groups: Iterable[tuple[Atom, ...]]) -> str | None:
        """The part of the query for FTS5, or None. The rest goes into `conditions`."""
        together: list[str] = []
        without: list[str] = []
        for group in groups:
            if all(isinstance(atom, PhraseTerm) and not atom.negated for atom in group):
                together.append(" OR ".join(self._expression(atom) for atom in group))  # type: ignore[arg-type]
            elif len(group) == 1 and isinstance(group[0], PhraseTerm):
                without.append(self._expression(group[0]))
            else:
                self.conditions.all.append("(" + " OR ".join(map(self._condition, group)) + ")")
        if not together:
            if without:
                self.conditions.all.append(f"NOT {self._found_by(' OR '.join(without))}")
            return None
        match = " AND ".join(f"({part})" for part in together)
        return f"({match}) NOT ({' OR '.join(without)})" if without else match

    def _expression(self, text: PhraseTerm) -> str:
        whole, inner = self._whole, self._inner
        star = " *" if text.prefix else ""
        self.stems = self.stems or text.prefix
        phrase = f'"{" ".join(text.words)}"{star}'
        if len(text.words) > 1:
            return f"{{{whole}}} : {phrase}"
        alone = f"{{{whole} {inner}}} : {phrase}"
        if not text.parts:
            return alone
        return f'({alone} OR {{{inner}}} : "{" ".join(text.parts)}"{star})'

    def _condition(self, atom: Atom) -> str:
        sql = self._found_by(self._expression(atom)) if isinstance(atom, PhraseTerm) else self._holds(atom)
        return f"NOT ({sql})" if atom.negated else f"({sql})"

    def _found_by(self, match: str) -> str:
        low, high = self._base, self._base + (1 << ZONE_BITS) - 1
        sql = f"doc.id IN (SELECT rowid - {low} FROM fts WHERE fts MATCH ? AND rowid BETWEEN {low} AND {high})"  # noqa: S608
        return self.conditions.bind(sql, match)

    def _holds(self, where: Where) -> str:
        value = where.value
        if where.key == "in":
            return "1" if self._kind == NAME else "0"
        if where.key in ("before", "after"):
            return self.conditions.bind(f"{_AT[self._kind]} {'<' if where.key == 'before' else '>='} ?", value)
        text = str(value)
        if where.key == "role":
            roles = self._among("SELECT name FROM role WHERE no > 0", lambda role: role.casefold() == text.casefold())
            return self.conditions.bind(
                "doc.role IN (SELECT no FROM role WHERE name IN (SELECT value FROM json_each(?)))", roles
            )
        if where.key == "tag":
            tags = self._among("SELECT DISTINCT tag FROM tag", lambda tag: tag.casefold() == text.casefold())
            return self.conditions.bind(
                "doc.session IN (SELECT no FROM tag WHERE tag IN (SELECT value FROM json_each(?)))", tags
            )
        matches = {"cwd": is_within, "model": names_model, "store": str.__eq__}[where.key]
        among = self._among(
            f"SELECT DISTINCT {where.key} FROM session WHERE {where.key} IS NOT NULL",  # noqa: S608
            lambda found: matches(found, text),
        )
        sql = f"doc.session IN (SELECT no FROM session WHERE {where.key} IN (SELECT value FROM json_each(?)))"  # noqa: S608
        return self.conditions.bind(sql, among)

    def _among(self, sql: str, matches: Callable[[str], bool]) -> str:
        return json.dumps([value for (value,) in self._db.execute(sql) if matches(value)])
