"""Warp: `warp.sqlite`. A conversation's tasks are Protocol Buffers, published as Warp's `task.proto`; a conversation without
tasks has only its prompts, in `ai_queries`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from sessiond.importers import protobuf
from sessiond.importers.alone import alone
from sessiond.importers.database import Database, from_json, guarded, recognised
from sessiond.importers.draft import SessionDraft, utc_moment
from sessiond.importers.protobuf import Fields, NotProtobuf
from sessiond.importers.record import Event, Ignored, Opener, SkippedLine
from sessiond.importers.source_file import mapped
from sessiond.importers.tool import Tool, in_state
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_Message: TypeAlias = tuple[float, Fields, bool]
"""When it was said, its fields, and whether it is a subtask's."""
_TOOLS = {2: "run_shell_command", 3: "search_codebase", 4: "server", 5: "read_files", 6: "apply_file_diffs", 7: "suggest_plan",
          8: "suggest_create_plan", 9: "grep", 10: "file_glob", 11: "read_mcp_resource", 12: "call_mcp_tool",
          13: "write_to_long_running_shell_command", 14: "suggest_new_conversation", 15: "file_glob_v2", 16: "suggest_prompt",
          17: "open_code_review", 18: "init_project", 19: "subagent", 20: "read_documents", 21: "edit_documents",
          22: "create_documents", 23: "read_shell_command_output", 24: "use_computer", 25: "insert_review_comments",
          26: "read_skill", 27: "request_computer_use", 28: "fetch_conversation", 29: "start_agent"}  # fmt: skip
_SILENT = {6: "server_event", 10: "update_todos", 18: "update_review_comments", 21: "debug_output", 25: "model_used"}
_KINDS = frozenset({2, 3, 4, 5, 9, 15, 16})
"""Prompts, answers, calls, results, the system's words, thoughts and summaries."""
_ABOUT = (1, 7, 8, 11, 13, 14)
"""Fields of a message that say something about it: ids, opaque data, citations, time."""


class Warp(Tool):
    name = "warp"

    def recognise(self, path: str, head: bytes) -> int:
        return recognised(path, head, name="warp.sqlite", words=(b"ai_queries", b"exchange_id"))

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from guarded(path, open_, lambda database: _read(database, path))

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        group = f"{home}/Library/Group Containers/2BBY89MBSN.dev.warp/Library/Application Support/dev.warp.Warp-Stable"
        return [*in_state(home, env, "warp-terminal", "warp.sqlite"), f"{group}/warp.sqlite"]


def _read(database: Database, path: str) -> Iterator[Event]:
    database.require("ai_queries", "conversation_id", "start_ts", "input")
    ids = [row["id"] for row in database.rows("SELECT DISTINCT conversation_id AS id FROM ai_queries")]
    has_tasks = {"conversation_id", "task"} <= database.columns("agent_tasks")
    if has_tasks:
        ids += [row["id"] for row in database.rows("SELECT DISTINCT conversation_id AS id FROM agent_tasks")]
    for source_id in dict.fromkeys(ids):
        query = "SELECT hex(task) AS task FROM agent_tasks WHERE conversation_id = ? ORDER BY rowid"
        tasks = database.rows(query, source_id) if has_tasks else ()
        queries = list(database.rows("SELECT * FROM ai_queries WHERE conversation_id = ? ORDER BY start_ts", source_id))
        yield from alone(path, f"conversation {source_id}", _conversation(path, str(source_id), queries, tasks))


def _task(path: str, source_id: str, row: JsonObject, messages: list[_Message]) -> Iterator[Event]:
    """Adds the messages of a task."""
    try:
        messages += list(_messages(bytes.fromhex(str(row["task"]))))
    except NotProtobuf as error:
        yield SkippedLine(path, None, f"a task of conversation {source_id} cannot be read: {error}")


def _messages(task: bytes) -> Iterator[_Message]:
    found = protobuf.fields(task)
    is_sub = bool(protobuf.text(protobuf.inner(found, 3), 1))
    for one in found.get(5, []):
        message = protobuf.fields(one) if isinstance(one, bytes) else {}
        time = protobuf.inner(message, 14)
        yield time.get(1, [0])[0] + time.get(2, [0])[0] / 1e9, message, is_sub


def _conversation(path: str, source_id: str, queries: list[JsonObject], tasks: Iterable[JsonObject]) -> Iterator[Event]:
    messages: list[_Message] = []
    for row in tasks:
        yield from alone(path, f"a task of conversation {source_id}", _task(path, source_id, row, messages))
    messages.sort(key=lambda one: one[0])
    draft = SessionDraft(Warp.name, path, source_id)
    first: JsonObject = queries[0] if queries else {}
    yield draft.start(
        createdAt=utc_moment(first.get("start_ts")) or (messages[0][0] if messages else None),
        cwd=first.get("working_directory"),
        model=next((str(row["model_id"]) for row in reversed(queries) if row.get("model_id")), None),
    )
    silent: Counter[str] = Counter()
    for one in messages:
        yield from alone(path, f"a message of conversation {source_id}", _message(draft, one, silent))
    for row in queries if not messages else ():
        yield from alone(path, f"a query of conversation {source_id}", _query(draft, row))
    yield from draft.end()
    for name, count in sorted(silent.items()):
        yield Ignored(path, name, count)


def _message(draft: SessionDraft, one: _Message, silent: Counter[str]) -> Iterator[Event]:
    time, message, is_sub = one
    kind = next((number for number in message if number not in _ABOUT), 0)
    if kind in _SILENT or not kind:
        silent[_SILENT.get(kind, "empty message")] += 1
        return
    if kind not in _KINDS:
        draft.unknown(f"message {kind}")
    turn = _turn(kind, message)
    if is_sub:
        turn.metadata["sidechain"] = True
    yield from turn.events(draft, id=protobuf.text(message, 1) or None, time=time or None)


def _turn(kind: int, message: Fields) -> Turn:
    value = message[kind][0]
    content = protobuf.inner(message, kind)
    turn = Turn("user" if kind == 2 else "system" if kind in (9, 16) else "assistant")
    if kind in (2, 3):
        turn.say(protobuf.text(content, 1))
    elif kind == 15:
        turn.think(protobuf.text(content, 1))
    elif kind == 16 and 1 in content:
        turn.say(protobuf.text(protobuf.inner(content, 1), 1))
    elif kind == 4:
        tool = next((number for number in content if number != 1), 0)
        payload = content.get(tool, [b""])[0]
        arguments = protobuf.plain(payload) if isinstance(payload, bytes) else payload
        if tool == 2 and isinstance(payload, bytes):
            arguments = {"command": protobuf.text(protobuf.fields(payload), 1)}
        turn.call(protobuf.text(content, 1), _TOOLS.get(tool, f"tool-{tool}"), arguments)
    elif kind == 5:
        shown = {str(number): _shown(many) for number, many in content.items() if number != 1}
        turn.result(protobuf.text(content, 1), shown)
    else:
        turn = Turn("system", {"record": {str(kind): _shown([value])}, "injected": True})
    return turn


def _shown(values: list[object]) -> object:
    shown = [protobuf.plain(one) if isinstance(one, bytes) else one for one in values]
    return shown[0] if len(shown) == 1 else shown


def _query(draft: SessionDraft, row: JsonObject) -> Iterator[Event]:
    """Yield what was asked in one exchange."""
    given = from_json(row["input"])
    for one in given if isinstance(given, list) else [given]:
        query = mapped(one).get("Query")
        turn = Turn("user" if isinstance(query, dict) else "system")
        if isinstance(query, dict):
            turn.say(query.get("text"))
        else:
            turn.metadata |= {"record": one, "injected": True}
        yield from turn.events(draft, time=utc_moment(row["start_ts"]))
