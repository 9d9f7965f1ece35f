"""llm: `logs.db`. One file may have two layouts.

Up to 0.31 a row of `responses` is a prompt and its answer: two messages. The rows of a conversation are a session. Since 0.32 a
thread is a session: `turns` say when, and from which message to which, each `messages` row names the one before it, and `parts`
hold what was said. Rows of `responses` that a thread has taken over have the id of a turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from sessiond.importers.alone import alone
from sessiond.importers.blocks import tool_call
from sessiond.importers.database import Database, from_json, guarded, recognised
from sessiond.importers.draft import SessionDraft, utc_moment
from sessiond.importers.llm_threads import LlmThreads, tokens_of
from sessiond.importers.record import Event, Opener
from sessiond.model.values import JsonObject

_USED = frozenset({"id", "model", "prompt", "response", "datetime_utc", "conversation_id", "system"})


class Llm:
    name = "llm"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        return recognised(path, head, name="logs.db", words=(b"conversation_id", b"datetime_utc"))

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from guarded(path, open_, lambda database: _read(database, path))


def _read(database: Database, path: str) -> Iterator[Event]:
    threads = LlmThreads(database)
    yield from threads.read(path)
    if not threads.there or database.columns("responses"):
        yield from _responses(database, path, threads)


def _responses(database: Database, path: str, threads: LlmThreads) -> Iterator[Event]:
    known = database.require("responses", "id", "prompt", "response", "conversation_id", "datetime_utc")
    names = (
        {str(row["id"]): row for row in database.rows("SELECT * FROM conversations")}
        if database.columns("conversations")
        else {}
    )
    extras = _Extras(database)
    order = "conversation_id, datetime_utc, rowid"
    rows = (
        row
        for row in database.rows(f"SELECT * FROM responses ORDER BY {order}")  # noqa: S608  # constant columns
        if _id_of(row) not in threads.ids and row["id"] not in threads.turn_ids
    )
    for source_id, exchanges in groupby(rows, _id_of):
        draft = SessionDraft(Llm.name, path, source_id)
        yield from alone(path, f"conversation {source_id}", _conversation(draft, exchanges, names, known, extras))


def _id_of(row: JsonObject) -> str:
    return str(row["conversation_id"] or row["id"])


def _conversation(
    draft: SessionDraft,
    rows: Iterable[JsonObject],
    names: dict[str, JsonObject],
    known: frozenset[str],
    extras: _Extras,
) -> Iterator[Event]:
    for row in rows:
        if not draft.started:
            about = names.get(str(row["conversation_id"]), {})
            created = utc_moment(row["datetime_utc"])
            yield draft.start(name=about.get("name"), model=about.get("model") or row.get("model"), createdAt=created)
        yield from alone(draft.path, f"response {row['id']}", _exchange(draft, row, known, extras))
    yield from draft.end()


class _Extras:
    """Tables that newer versions have."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calls = {"response_id", "name", "arguments", "tool_call_id"} <= database.columns("tool_calls")
        self._results = {"response_id", "output", "tool_call_id"} <= database.columns("tool_results")
        self._fragments = {
            kind: {"response_id", "fragment_id", "order"} <= database.columns(f"{kind}_fragments")
            for kind in ("prompt", "system")
        }

    def fragments(self, response_id: object, kind: str) -> list[str]:
        """Texts that were put before the prompt or the system prompt (`-f`)."""
        if not self._fragments[kind]:
            return []
        query = (
            f"SELECT f.content FROM {kind}_fragments p JOIN fragments f ON f.id = p.fragment_id"  # noqa: S608  # two words
            ' WHERE p.response_id = ? ORDER BY p."order"'
        )
        return [str(row["content"] or "") for row in self._database.rows(query, response_id)]

    def calls(self, response_id: object) -> list[JsonObject]:
        if not self._calls:
            return []
        found = self._database.rows("SELECT * FROM tool_calls WHERE response_id = ? ORDER BY id", response_id)
        return [tool_call(row["tool_call_id"], row["name"], from_json(row["arguments"])) for row in found]

    def results(self, response_id: object) -> list[JsonObject]:
        if not self._results:
            return []
        return list(self._database.rows("SELECT * FROM tool_results WHERE response_id = ? ORDER BY id", response_id))


def _exchange(draft: SessionDraft, row: JsonObject, known: frozenset[str], extras: _Extras) -> Iterator[Event]:
    time = utc_moment(row["datetime_utc"])
    response_id = str(row["id"])
    if isinstance(model := row.get("model"), str):
        draft.model = model
    system = "\n".join([*extras.fragments(row["id"], "system"), *([str(row["system"])] if row.get("system") else [])])
    if system:
        yield from draft.message("system", system, id=f"{response_id}-system", time=time)
    for result in extras.results(row["id"]):
        call_id = str(result.get("tool_call_id") or "")
        metadata = {"name": result.get("name"), "row": result.get("id")}
        yield from draft.message(
            "tool",
            str(result.get("output") or ""),
            id=f"{response_id}-{call_id}",
            time=time,
            metadata=metadata,
            toolCallId=call_id,
        )
    prompt = "\n".join([*extras.fragments(row["id"], "prompt"), *([str(row["prompt"])] if row.get("prompt") else [])])
    if prompt:
        yield from draft.message("user", prompt, id=f"{response_id}-prompt", time=time)
    rest = {key: from_json(row[key]) for key in sorted(known - _USED) if row.get(key) not in (None, "")}
    metadata = {"model": row.get("model"), **rest, **tokens_of(row)}
    calls = extras.calls(row["id"])
    yield from draft.message(
        "assistant",
        str(row["response"] or ""),
        id=f"{response_id}-response",
        time=time,
        metadata=metadata,
        toolCalls=calls or None,
    )
