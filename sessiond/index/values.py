"""Input and output of the index: frozen values with the names of the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from sessiond.model.session import SessionInfo

DEFAULT_SORT = "-updatedAt"


class IndexedInfo(SessionInfo, frozen=True, kw_only=True, rename="camel"):
    """A session as the catalogue knows it: `SessionInfo` and its place. `session_id` is the id on the wire."""

    store: str = "default"
    format: str = "jsonl"
    path: str = ""
    fingerprint: str | None = None
    """The fingerprint of the session's files when everything fed here was read from them; None if unknown."""
    deleted: bool = False
    """It is in the trash: listed only on request, never found."""


class Unseen(NamedTuple):
    """The part of a session that lists show, fed but not committed yet. `info`: None if it was removed. `stamp`: grows with every
    change that is fed.
    """

    stamp: int
    info: IndexedInfo | None


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query as in `session/list`. A `limit` over the maximum is reduced to it; `filter` has the wire's names."""

    limit: int | None = None
    cursor: str | None = None
    sort: str | None = None
    filter: Mapping[str, Any] | None = None


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions in the requested order. `next_cursor` is None on the last page."""

    items: list[IndexedInfo]
    next_cursor: str | None = None
    incomplete: bool = False
    """The index is being filled, or could not be written: there may be more."""
    lost: bool = False
    """It is meaningless: the index was lost during the query."""


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query as in `session/search`."""

    query: str
    mode: str = "text"
    limit: int | None = None
    cursor: str | None = None
    filter: Mapping[str, Any] | None = None


class Hit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message, or a session's name or note (`messageId` null), with the piece of it that shows why it was found.

    Notes and names lack a `role`; a name has its session's `updatedAt` as timestamp. `ranges` are in order and do not
    overlap. `score` only grows with relevance: it orders the hits of one result and cannot be compared between results.
    """

    session_id: str
    name: str | None
    message_id: str | None
    seq: int | None
    """Null for a session's name."""
    role: str | None
    timestamp: str
    snippet: str
    ranges: list[list[int]]
    """Code points of the snippet, each [start, end), of what was found; empty if only the meaning is near."""
    score: float


class SearchPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`total` counts every hit of the query at the time of its first page, whatever page this is."""

    hits: list[Hit]
    total: int
    next_cursor: str | None = None
    incomplete: bool = False


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query as in `session/usage`."""

    by: str
    since: str | None = None
    until: str | None = None
    tool: str | None = None
    time_zone: str | None = None
    limit: int | None = None
    filter: Mapping[str, Any] | None = None


class TokenTotals(msgspec.Struct, kw_only=True, rename="camel"):
    """The usage of a number of requests to models. `input` is what was sent without the tokens that were read from the model's
    cache or written to it; `reasoning` is a part of `output`.
    """

    requests: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    cost: float = 0.0
    """In US dollars: the sum over the requests whose tool said what they cost."""
    priced: int = 0
    """How many requests these are."""


class ModelUsage(TokenTotals, kw_only=True, rename="camel"):
    """The same of one model."""

    model: str | None
    """Null if the messages do not say."""


class UsageRow(msgspec.Struct, kw_only=True, rename="camel"):
    """A day, model, tool, project or session."""

    key: str | None
    """`YYYY-MM-DD` (months: `YYYY-MM`), the model, the tool (`sessiond` for sessions that were not imported), the folder, or the id
    of the session. Null if it is unknown.
    """
    name: str | None
    """Of the session; null for anything else."""
    sessions: int
    total: TokenTotals
    models: list[ModelUsage]
    """The most used first."""


class UsageReport(msgspec.Struct, kw_only=True):
    """A report as in `session/usage`."""

    rows: list[UsageRow] = []
    omitted: int = 0
    sessions: int = 0
    total: TokenTotals = msgspec.field(default_factory=TokenTotals)
    models: list[ModelUsage] = []
    time_zone: str = "UTC"
    incomplete: bool = False
