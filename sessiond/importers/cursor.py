"""Cursor: `globalStorage/state.vscdb`, a SQLite file of keys and JSON values. `composerData:<id>` is a conversation, and
`bubbleId:<id>:<bubble>` one of its messages. The workspaces' files may have chats from before 2025 as one value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from sessiond.importers.alone import alone
from sessiond.importers.changed_rows import ChangedRows, changed_only, changed_rows
from sessiond.importers.database import MAGIC, Database, from_json, guarded
from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.record import Event, Ignored, Opener, RowsRead, SkippedLine
from sessiond.importers.row_tables import ContentRows
from sessiond.importers.source_file import listed, mapped, parent_of, rest_of, word
from sessiond.importers.tool import Tool, in_editors
from sessiond.importers.turn import Turn
from sessiond.importers.usage import of_camel
from sessiond.model.values import JsonObject

_ROLES = {1: "user", 2: "assistant", "user": "user", "ai": "assistant"}
_OLD_CHATS = "workbench.panel.aichat.view.aichat.chatdata"
_ABOUT = ("composerId", "name", "createdAt", "lastUpdatedAt", "conversation", "fullConversationHeadersOnly", "richText",
          "text", "conversationMap", "context", "capabilities", "codeBlockData", "originalFileStates")  # fmt: skip
_USED = ("bubbleId", "type", "text", "rawText", "richText", "thinking", "toolFormerData", "createdAt", "timingInfo",
         "supportedTools", "context", "id", "modelInfo", "_v", "allThinkingBlocks")  # fmt: skip


_SAYS_NOTHING = "bubbles that say nothing"
_TABLE = "cursorDiskKV"
_COMPOSER = "composerData:"
_CONVERSATION = """CASE
    WHEN key LIKE 'bubbleId:%:%' THEN substr(key, 10, instr(substr(key, 10), ':') - 1)
    WHEN key LIKE 'composerData:%' THEN substr(key, 14)
END"""
"""The conversation that a row belongs to."""


class Cursor(Tool):
    name = "cursor"

    def recognise(self, path: str, head: bytes) -> int:
        return 92 if head.startswith(MAGIC) and b"cursorDiskKV" in head and b"ItemTable" in head else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from guarded(path, open_, lambda database: _read(database, path, None))

    def read_changed(self, path: str, open_: Opener, before: RowsRead | None) -> Iterator[Event]:
        tables = [_rows()]
        return guarded(path, open_, lambda one: _read(one, path, changed_rows(one, path, tables, before)))

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return in_editors(home, env, "globalStorage", "state.vscdb", editors=("Cursor", "Cursor Nightly"))


def _rows() -> ContentRows:
    """The conversations and their bubbles. A key that is written again gets a row of its own, at the table's end."""
    return ContentRows(
        _TABLE,
        key="key",
        session=_CONVERSATION,
        content=f"CASE WHEN {_CONVERSATION} IS NOT NULL THEN value END",
        of=lambda key: ("(key >= ? AND key < ?) OR key = ?", [f"bubbleId:{key}:", f"bubbleId:{key};", _COMPOSER + key]),
        among=f"{_within('bubbleId:')} OR {_within(_COMPOSER)}",
    )


def _within(prefix: str) -> str:
    return f"(key >= '{prefix}' AND key < '{prefix[:-1]};')"


def _read(database: Database, path: str, changed: ChangedRows | None) -> Iterator[Event]:
    database.require(_TABLE, "key", "value")
    keys = [str(row["key"]) for row in _range(database, _COMPOSER, "key")]
    for key in keys:
        read = _row(database, path, key)
        yield from alone(path, key, changed_only(changed, Cursor.name, path, key.removeprefix(_COMPOSER), {}, read))
    for row in database.rows("SELECT value FROM ItemTable WHERE key = ?", _OLD_CHATS):
        for tab in listed(mapped(from_json(row["value"])).get("tabs")):
            if isinstance(tab, dict):
                yield from alone(path, f"chat {tab.get('tabId')}", _tab(path, tab))
    if changed is not None:
        yield changed.read()


def _row(database: Database, path: str, key: str) -> Iterator[Event]:
    composer = _value(database, key)
    if isinstance(composer, dict):
        yield from _composer(database, path, key.partition(":")[2], composer)
    elif composer is not None:
        yield SkippedLine(path, None, f"{key} is not an object")


def _range(database: Database, prefix: str, columns: str) -> Iterator[JsonObject]:
    """The rows whose keys begin with `prefix`, which ends in a colon; the index gives them without looking at others."""
    query = f"SELECT {columns} FROM cursorDiskKV WHERE key >= ? AND key < ? ORDER BY key"  # noqa: S608  # constant columns
    return database.rows(query, prefix, prefix[:-1] + ";")


def _value(database: Database, key: str) -> object:
    for row in database.rows("SELECT value FROM cursorDiskKV WHERE key = ?", key):
        return from_json(row["value"])
    return None


def _composer(database: Database, path: str, source_id: str, composer: JsonObject) -> Iterator[Event]:
    draft = SessionDraft(Cursor.name, path, source_id)
    workspace, config, subagent = (composer.get(key) for key in ("workspaceIdentifier", "modelConfig", "subagentInfo"))
    yield draft.start(
        name=composer.get("name"),
        createdAt=composer.get("createdAt"),
        updatedAt=composer.get("lastUpdatedAt"),
        cwd=mapped(mapped(workspace).get("uri")).get("fsPath"),
        model=_named(config),
        parent=(parent := parent_of(Cursor.name, mapped(subagent).get("parentComposerId"))),
        metadata={key: value for key, value in rest_of(composer, *_ABOUT).items() if value is not False}
        | ({"sidechain": True} if parent else {}),
    )
    silent: Counter[str] = Counter()
    known: set[str] = set()
    for bubble in _listed(database, source_id, composer):
        known.add(str(bubble.get("bubbleId")))
        yield from alone(path, f"bubble {bubble.get('bubbleId')}", _bubble(draft, bubble, {}, silent))
    for row in _range(database, f"bubbleId:{source_id}:", "key, value"):
        if str(row["key"]).rpartition(":")[2] not in known:
            bubble = mapped(from_json(row["value"]))
            yield from alone(path, str(row["key"]), _bubble(draft, bubble, {"branch": True}, silent))
    yield from draft.end()
    for what, count in silent.items():
        yield Ignored(path, what, count)


def _listed(database: Database, source_id: str, composer: JsonObject) -> Iterator[JsonObject]:
    """The bubbles of a conversation in its order; older versions kept them, and their calls, in the conversation itself."""
    calls: JsonObject = {}
    for capability in map(mapped, listed(composer.get("capabilities"))):
        calls |= mapped(from_json(mapped(capability.get("data")).get("bubbleDataMap")))
    for bubble in listed(composer.get("conversation")):
        if isinstance(bubble, dict):
            yield {"toolFormerData": calls.get(str(bubble.get("bubbleId"))), **bubble}
    for header in listed(composer.get("fullConversationHeadersOnly")):
        if isinstance(header, dict):
            bubble = _value(database, f"bubbleId:{source_id}:{header.get('bubbleId')}")
            yield {**header, **bubble} if isinstance(bubble, dict) else header


def _bubble(draft: SessionDraft, bubble: JsonObject, marks: JsonObject, silent: Counter[str]) -> Iterator[Event]:
    """The messages of one bubble. `silent`: where one is counted that says nothing."""
    kind = bubble.get("type")
    rest = {key: value for key, value in rest_of(bubble, *_USED).items() if value is not False and value != 0}
    turn = Turn(_ROLES.get(kind, f"type-{kind}") if isinstance(kind, (int, str)) else "unknown", {**rest, **marks})
    thinking = bubble.get("thinking")
    turn.think(thinking.get("text") if isinstance(thinking, dict) else thinking)
    turn.say(bubble.get("text") or bubble.get("rawText"))
    tool = bubble.get("toolFormerData")
    if isinstance(tool, dict) and (tool.get("name") or tool.get("tool")):
        _take_tool(turn, tool, str(bubble.get("bubbleId")))
    if turn.is_empty:
        silent[_SAYS_NOTHING] += 1
        return
    if turn.role not in _ROLES.values():
        draft.unknown(turn.role)
    turn.metadata |= of_camel(mapped(bubble.get("tokenCount")) | {"model": _named(bubble.get("modelInfo"))})
    draft.model = _named(bubble.get("modelInfo")) or draft.model
    yield from turn.events(draft, id=bubble.get("bubbleId") or bubble.get("id"), time=_time(bubble))


def _named(model: object) -> str | None:
    """The name of a model; None if Cursor chose it."""
    name = word(mapped(model).get("modelName"))
    return name if name not in ("", "default") else None


def _take_tool(turn: Turn, tool: JsonObject, bubble_id: str) -> None:
    call_id = tool.get("toolCallId") or bubble_id
    rest = rest_of(
        tool, "toolCallId", "name", "rawArgs", "params", "result", "tool", "modelCallId", "toolIndex", "error"
    )
    turn.call(call_id, tool.get("name") or tool.get("tool"), from_json(tool.get("rawArgs") or tool.get("params")))
    if tool.get("result") or tool.get("error"):
        failed = bool(tool.get("error")) or tool.get("status") == "error"
        turn.result(call_id, tool.get("result") or tool.get("error"), rest, error=failed)
    else:
        turn.metadata |= {"tool": rest} if rest else {}


def _time(bubble: JsonObject) -> str | None:
    timings = mapped(bubble.get("timingInfo"))
    candidates = (bubble.get("createdAt"), timings.get("clientRpcSendTime"), timings.get("clientEndTime"))
    found = (
        moment(time) for time in candidates if isinstance(time, str) or (isinstance(time, (int, float)) and time > 1e12)
    )
    return next((time for time in found if time), None)


def _tab(path: str, tab: JsonObject) -> Iterator[Event]:
    """A chat of the older panel."""
    draft = SessionDraft(Cursor.name, path, str(tab.get("tabId")))
    sent = tab.get("lastSendTime")
    yield draft.start(name=tab.get("chatTitle"), createdAt=sent, metadata=rest_of(tab, "tabId", "chatTitle", "bubbles"))
    for bubble in listed(tab.get("bubbles")):
        if isinstance(bubble, dict):
            yield from alone(path, f"bubble {bubble.get('id')}", _bubble(draft, bubble, {}, Counter()))
    yield from draft.end()
