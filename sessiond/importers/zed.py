"""Zed: `threads/threads.db`, a SQLite file whose `data` is JSON or compressed JSON: `User` and `Agent` messages, or before
version 0.3 messages with segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sessiond.importers.alone import alone
from sessiond.importers.changed_rows import ChangedRows, changed_only, changed_rows
from sessiond.importers.database import Database, guarded, recognised
from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.record import Event, Ignored, Opener, RowsRead, SkippedLine
from sessiond.importers.row_tables import ContentRows
from sessiond.importers.source_file import listed, mapped, parent_of, rest_of, word
from sessiond.importers.tool import Tool, in_config
from sessiond.importers.usage import anthropic
from sessiond.importers.zed_messages import turn_of
from sessiond.limits import MIB
from sessiond.model.values import JsonObject

_MAX_THREAD_BYTES = 256 * MIB
"""A thread that is larger than this once it is decompressed is skipped."""
_KINDS = frozenset({"User", "Agent", "segments"})
_ABOUT = ("title", "summary", "messages", "updated_at", "model", "version", "request_token_usage", "initial_project_snapshot",
          "ui_scroll_position", "draft_prompt", "detailed_summary")  # fmt: skip


class Zed(Tool):
    name = "zed"

    def recognise(self, path: str, head: bytes) -> int:
        return recognised(path, head, name="threads.db", words=(b"data_type", b"summary", b"threads"))

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from guarded(path, open_, lambda database: _read(database, path, None))

    def read_changed(self, path: str, open_: Opener, before: RowsRead | None) -> Iterator[Event]:
        def read(database: Database) -> Iterator[Event]:
            tables = [ContentRows("threads", session="id", content=f"{_beside_data(database)}, length(data)")]
            return _read(database, path, changed_rows(database, path, tables, before))

        return guarded(path, open_, read)

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return [path for name in ("zed", "Zed") for path in in_config(home, env, name, "threads", "threads.db")]


def _beside_data(database: Database) -> str:
    """The columns of a thread but for its content. UnknownSchema."""
    known = database.require("threads", "id", "summary", "updated_at", "data_type", "data")
    return ", ".join(sorted(known - {"data"}))


def _read(database: Database, path: str, changed: ChangedRows | None) -> Iterator[Event]:
    columns = _beside_data(database)
    order = "created_at" if "created_at" in database.columns("threads") else "updated_at"
    query = f"SELECT {columns} FROM threads ORDER BY {order}, id"  # noqa: S608  # columns that it has
    for row in database.rows(query):
        read = changed_only(changed, Zed.name, path, str(row["id"]), row, _row(database, path, row))
        yield from alone(path, f"thread {row['id']}", read)
    if changed is not None:
        yield changed.read()


def _row(database: Database, path: str, row: JsonObject) -> Iterator[Event]:
    # `hex`: a row's blob would come as text.
    data = next(database.rows("SELECT hex(data) AS data FROM threads WHERE id = ?", row["id"]))["data"]
    thread = _thread(bytes.fromhex(str(data)), str(row["data_type"]))
    if isinstance(thread, str):
        yield SkippedLine(path, None, f"thread {row['id']}: {thread}")
    else:
        yield from _session(path, row, thread)


def _thread(data: bytes, kind: str) -> JsonObject | str:
    """The thread, or why it cannot be read."""
    if kind == "zstd":
        import zstandard  # most imports need none

        try:
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                data = reader.read(_MAX_THREAD_BYTES + 1)
        except zstandard.ZstdError as error:
            return f"cannot be decompressed: {error}"
        if len(data) > _MAX_THREAD_BYTES:
            return f"larger than {_MAX_THREAD_BYTES} bytes"
    elif kind != "json":
        return f"data of unknown type {kind!r}"
    try:
        value = decode(data)[0]
    except NotJson as error:
        return str(error)
    return value if isinstance(value, dict) else "not an object"


def _session(path: str, row: JsonObject, thread: JsonObject) -> Iterator[Event]:
    model, parent, folders = thread.get("model"), row.get("parent_id"), str(row.get("folder_paths") or "")
    updated = thread.get("updated_at") or row["updated_at"]
    draft = SessionDraft(Zed.name, path, str(row["id"]), fallback_time=moment(row.get("created_at") or updated))
    yield draft.start(
        name=thread.get("title") or row["summary"],
        summary=thread.get("detailed_summary") if isinstance(thread.get("detailed_summary"), str) else None,
        createdAt=row.get("created_at") or updated,
        updatedAt=updated,
        cwd=folders.splitlines()[0] if folders else None,
        model=mapped(model).get("model"),
        parent=parent_of(Zed.name, parent),
        metadata={key: value for key, value in rest_of(thread, *_ABOUT).items() if value is not False},
    )
    resumed = 0
    for message in listed(thread.get("messages")):
        if message == "Resume":
            resumed += 1
            continue
        said = _message(draft, message, mapped(thread.get("request_token_usage")), mapped(model).get("model"))
        yield from alone(path, f"a message of thread {row['id']}", said)
    yield from draft.end()
    if resumed:
        yield Ignored(path, "Resume", resumed)


def _message(draft: SessionDraft, message: object, usage: JsonObject, model: object) -> Iterator[Event]:
    if not isinstance(message, dict) or not message.keys() & _KINDS:
        draft.unknown(next(iter(message)) if isinstance(message, dict) and message else type(message).__name__)
    turn, message_id = turn_of(message)
    if used := usage.get(word(message_id)):
        turn.metadata["requestTokenUsage"] = used
        turn.metadata |= anthropic(used, model=model)
    yield from turn.events(draft, id=message_id)
