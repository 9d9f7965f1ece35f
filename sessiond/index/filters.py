"""The filters of `session/list` and `session/search` -> SQL conditions on the session table. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sessiond.errors import InvalidParams
from sessiond.index.schema import ARCHIVED, DELETED, LIVE
from sessiond.index.sessions import shelf_of
from sessiond.index.values import IndexedInfo
from sessiond.model.values import OWN_TOOL, JsonObject, epoch_ms, tool_of

_SEARCH_ONLY = ("role", "sessionId")
_INFO = "CAST(s.info AS TEXT)"
_IS_TEXT = f"json_type({_INFO}, '$.metadata.source.tool') IS 'text'"
_TOOL = f"iif({_IS_TEXT}, coalesce(nullif(json_extract({_INFO}, '$.metadata.source.tool'), ''), '{OWN_TOOL}'), '{OWN_TOOL}')"
_PARENT = f"json_extract({_INFO}, '$.parent.sessionId')"
"""Few lists are narrowed by these two, so they have no column, and no list without them pays for them."""


class CheckedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A request's filter, checked. None: the condition was not given. Times in milliseconds since 1970, `since <= updatedAt
    < until`.
    """

    store: str | None = None
    tags: tuple[str, ...] = ()
    archived: bool = False
    deleted: bool = False
    model: str | None = None
    cwd: str | None = None
    since: int | None = None
    until: int | None = None
    name: str | None = None
    tool: str | None = None
    parent: str | None = None
    role: str | None = None
    session_id: str | None = None

    @property
    def shelf(self) -> int:
        return DELETED if self.deleted else ARCHIVED if self.archived else LIVE

    @property
    def narrows(self) -> bool:
        """True if it has any condition besides the shelf."""
        return self != CheckedFilter(archived=self.archived, deleted=self.deleted)


def parse_filter(raw: Mapping[str, object] | None, *, search: bool = False) -> CheckedFilter:
    """Raise InvalidParams, naming the field, for an unknown key or a value of the wrong type. Null counts as absent."""
    if raw is None:
        return CheckedFilter()
    if not isinstance(raw, Mapping):
        raise InvalidParams("filter: expected an object", field="filter")
    fields: dict[str, Any] = {}
    for key, value in raw.items():
        read = _READERS.get(key) if search or key not in _SEARCH_ONLY else None
        if read is None:
            raise InvalidParams(f"filter.{key}: unknown filter", field=f"filter.{key}")
        if value is not None:
            fields["session_id" if key == "sessionId" else key] = read(value, f"filter.{key}")
    return CheckedFilter(**fields)


def page_limit(limit: object, default: int, most: int) -> int:
    """Return how many items a page has. InvalidParams unless it is an integer above 0; a larger one is reduced to the maximum."""
    if limit is None:
        return default
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InvalidParams("limit: expected an integer above 0", field="limit")
    return min(limit, most)


class Conditions:
    """SQL conditions that must all hold, with their parameters by name. Two that are used in one statement need different
    prefixes.
    """

    def __init__(self, prefix: str = "p") -> None:
        self._prefix = prefix
        self.all: list[str] = []
        self.params: JsonObject = {}

    def add(self, sql: str, *values: object) -> None:
        """`sql` has one `?` for each value."""
        self.all.append(self.bind(sql, *values))

    def bind(self, sql: str, *values: object) -> str:
        """`sql` with its `?`s named, so that parts may be put together in any order."""
        pieces = sql.split("?")
        out = pieces[0]
        for value, piece in zip(values, pieces[1:], strict=True):
            name = f"{self._prefix}{len(self.params)}"
            self.params[name] = value
            out += f":{name}{piece}"
        return out

    def sql(self) -> str:
        return " AND ".join(self.all) or "1"


def session_conditions(
    wanted: CheckedFilter, conditions: Conditions, *, keys: str = "s", shelves: tuple[int, int] | None = None
) -> None:
    """Add a filter's conditions on a session `s`. `keys` is the table from which updatedAt and name are read, unlike the
    shelf (see session_list.py). `shelves`: any of these instead of the filter's one.
    """
    if shelves is None:
        conditions.add("s.shelf = ?", wanted.shelf)
    else:
        conditions.add("s.shelf IN (?, ?)", *shelves)
    if wanted.deleted and wanted.archived:
        conditions.add("s.archived = 1")
    if wanted.session_id is not None:
        conditions.add("s.id = ?", wanted.session_id)
    if wanted.store is not None:
        conditions.add("s.store = ?", wanted.store)
    if wanted.model is not None:
        conditions.add("names_model(s.model, ?)", wanted.model)
    if wanted.cwd is not None:
        conditions.add(*_of_folder(wanted.cwd))
    for tag in wanted.tags:
        conditions.add("s.no IN (SELECT no FROM tag WHERE tag = ?)", tag)
    if wanted.name is not None:
        conditions.add(f"instr({keys}.name_key, ?) > 0", wanted.name.casefold())
    for sql, value in (
        (f"{keys}.updated >= ?", wanted.since),
        (f"{keys}.updated < ?", wanted.until),
        (f"{_TOOL} = ?", wanted.tool),
        (f"{_PARENT} = ?", wanted.parent),
    ):
        if value is not None:
            conditions.add(sql, value)


def fits(wanted: CheckedFilter, info: IndexedInfo, keys: tuple[int, int, str, int]) -> bool:
    """Check the conditions of `session_conditions` for a session that has no row yet. `keys`: its `keys_of`."""
    updated, _, name_key, _ = keys
    return (
        shelf_of(info) == wanted.shelf
        and (info.archived or not (wanted.deleted and wanted.archived))
        and wanted.session_id in (None, info.session_id)
        and wanted.store in (None, info.store)
        and (wanted.model is None or _is_of_model(info.model, wanted.model))
        and (wanted.cwd is None or _is_of_folder(info.cwd, wanted.cwd))
        and all(tag in info.tags for tag in wanted.tags)
        and (wanted.since is None or updated >= wanted.since)
        and (wanted.until is None or updated < wanted.until)
        and (wanted.name is None or wanted.name.casefold() in name_key)
        and wanted.tool in (None, tool_of(info.metadata))
        and (wanted.parent is None or (info.parent or {}).get("sessionId") == wanted.parent)
    )


def _is_of_model(model: str | None, asked: str) -> bool:
    from sessiond.index.model_names import names_model  # few lists are of a model

    return names_model(model, asked)


def _is_of_folder(cwd: str | None, asked: str) -> bool:
    from sessiond.folders import folder_key  # few lists are of a folder

    return cwd is not None and folder_key(cwd) == folder_key(asked)


def _of_folder(asked: str) -> tuple[str, *tuple[str, ...]]:
    """A condition and its values. The function is called only for rows whose folder may be written in another way."""
    from sessiond.folders import folder_key

    key = folder_key(asked)
    if key.startswith(("/mnt/", "//")):
        return "folder_key(s.cwd) = ?", key
    bare = key.rstrip("/")
    sql = "(s.cwd IN (?, ?) OR (substr(s.cwd, 1, 2) IN ('\\\\', '//') AND folder_key(s.cwd) = ?))"
    return sql, bare or "/", bare + "/", key


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidParams(f"{field}: expected a string", field=field)
    return value


def _flag(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidParams(f"{field}: expected true or false", field=field)
    return value


def _tags(value: object, field: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(tag, str) for tag in value):
        raise InvalidParams(f"{field}: expected a list of strings", field=field)
    return tuple(dict.fromkeys(value))


def _moment(value: object, field: str) -> int:
    try:
        return epoch_ms(_text(value, field))
    except (ValueError, OverflowError) as error:
        raise InvalidParams(
            f"{field}: expected an RFC 3339 timestamp such as 2026-01-11T14:30:22.000Z", field=field
        ) from error


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "store": _text,
    "tags": _tags,
    "archived": _flag,
    "deleted": _flag,
    "model": _text,
    "cwd": _text,
    "since": _moment,
    "until": _moment,
    "name": _text,
    "tool": _text,
    "parent": _text,
    "role": _text,
    "sessionId": _text,
}
