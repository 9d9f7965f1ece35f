"""Copilot Chat in VS Code: `chatSessions/<id>.json`, a document with `requests`, or since 2026 `<id>.jsonl`, the changes that
lead to such a document. A request holds the prompt, the answer as it was shown, and often the rounds with the model.
"""

from __future__ import annotations

import glob
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from sessiond.importers.document import items
from sessiond.importers.draft import SessionDraft
from sessiond.importers.jsontext import as_text
from sessiond.importers.lines import LINE_SUFFIXES, objects
from sessiond.importers.object_log import ObjectLog
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import beside, path_of, rest_of, stem
from sessiond.importers.tool import Tool, in_editors
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_ABOUT = ("sessionId", "customTitle", "creationDate", "lastMessageDate", "requests", "inputState", "pendingRequests")
_USED = ("requestId", "message", "response", "result", "timestamp", "modelId", "isCanceled", "responseId")
_SHOWN_ONLY = frozenset(
    {"undoStop", "mcpServersStarting", "progressMessage", "progressTaskSerialized", "command", "prepareToolInvocation"}
)


class CopilotChat(Tool):
    name = "copilot-chat"

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith((".json", *LINE_SUFFIXES)) or b'"requests"' not in head:
            return 0
        return 90 if b'"responderUsername"' in head and b'"sessionId"' in head else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        session = yield from (_from_log if path.endswith(LINE_SUFFIXES) else _from_document)(path, open_)
        if isinstance(session, dict) and "requests" in session:
            yield from _session(path, open_, session)

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        workspaces = [
            folder
            for pattern in in_editors(home, env, "workspaceStorage", "*", "chatSessions")
            for folder in sorted(glob.glob(pattern))
        ]
        return [*workspaces, *in_editors(home, env, "globalStorage", "emptyWindowChatSessions")]


def _from_log(path: str, open_: Opener) -> Generator[Event, None, Any]:
    log = ObjectLog()
    for item in objects(path, open_):
        if isinstance(item, SkippedLine):
            yield item
        elif reason := log.apply(item[1]):
            yield SkippedLine(path, item[0], reason)
    return log.state


def _from_document(path: str, open_: Opener) -> Generator[Event, None, JsonObject]:
    session: JsonObject = {}
    for item in items(path, open_, frozenset({"requests"})):
        if isinstance(item, SkippedLine):
            yield item
        elif item.element:
            session.setdefault("requests", []).append(item.value)
        else:
            session[item.member] = item.value
    return session


def _session(path: str, open_: Opener, session: JsonObject) -> Iterator[Event]:
    given = session.get("sessionId")
    draft = SessionDraft(CopilotChat.name, path, given if isinstance(given, str) and given else stem(path))
    workspace = beside(path, "../workspace.json", open_)
    yield draft.start(
        name=session.get("customTitle"),
        cwd=path_of(workspace.get("folder") or workspace.get("workspace")),
        createdAt=session.get("creationDate"),
        updatedAt=session.get("lastMessageDate"),
        metadata=rest_of(session, *_ABOUT),
    )
    requests = session.get("requests")
    for request in requests if isinstance(requests, list) else []:
        if isinstance(request, dict):
            yield from _request(draft, request)
        else:
            yield SkippedLine(path, None, "an element of `requests` that is not an object")
    yield from draft.end()


def _request(draft: SessionDraft, request: JsonObject) -> Iterator[Event]:
    asked, request_id, time = request.get("message"), request.get("requestId"), request.get("timestamp")
    prompt = Turn("user", rest_of(request, *_USED))
    prompt.say(asked.get("text") if isinstance(asked, dict) else asked)
    yield from prompt.events(draft, id=request_id, time=time)
    if isinstance(request.get("modelId"), str):
        draft.model = request["modelId"]
    given = request.get("result")
    result: JsonObject = given if isinstance(given, dict) else {}
    known = result.get("metadata")
    about: JsonObject = known if isinstance(known, dict) else {}
    parts = request.get("response")
    answer = Turn("assistant", rest_of(result, "metadata"))
    rounds = about.get("toolCallRounds")
    _take_parts(answer, parts if isinstance(parts, list) else [], is_text=not rounds)
    if isinstance(rounds, list):
        results = about.get("toolCallResults")
        _take_rounds(answer, rounds, results if isinstance(results, dict) else {})
    failed = "error" if result.get("errorDetails") else None
    if answer.metadata or not answer.is_empty:
        answer_id = request.get("responseId") or (f"{request_id}-answer" if request_id else None)
        status = "interrupted" if request.get("isCanceled") else failed
        yield from answer.events(draft, id=answer_id, time=time, status=status)


def _take_rounds(turn: Turn, rounds: list[Any], results: JsonObject) -> None:
    """What went to and fro between Copilot and the model."""
    for one in rounds:
        if not isinstance(one, dict):
            continue
        thinking = one.get("thinking")
        turn.think(_joined(thinking.get("text") if isinstance(thinking, dict) else thinking))
        turn.say(one.get("response"))
        made = [call for call in one.get("toolCalls") or [] if isinstance(call, dict)]
        for call in made:
            turn.call(call.get("id"), call.get("name"), call.get("arguments"))
        for call in made:
            found = results.get(str(call.get("id")))
            if isinstance(found, dict):
                turn.result(call.get("id"), "".join(_texts(found.get("content"))), rest_of(found, "content", "$mid"))


def _take_parts(turn: Turn, parts: list[Any], *, is_text: bool) -> None:
    """The answer as it was shown. `is_text`: whether its texts, thoughts and calls count, because no rounds have them."""
    text: list[str] = []
    last = {part.get("toolCallId"): part for part in parts if isinstance(part, dict)}
    for part in parts:
        kind = part.get("kind") if isinstance(part, dict) else None
        if kind in (None, "inlineReference"):
            text.append(_shown(part))
            continue
        if kind in ("thinking", "toolInvocationSerialized") and is_text:
            turn.say("".join(text))
            text.clear()
        if kind == "thinking" and is_text:
            turn.think(_joined(part.get("value")))
        elif kind == "toolInvocationSerialized" and is_text and last.get(part.get("toolCallId")):
            _take_call(turn, last.pop(part.get("toolCallId")))
        elif kind not in ("thinking", "toolInvocationSerialized") and kind not in _SHOWN_ONLY:
            turn.metadata.setdefault("response", []).append(part)
    if is_text:
        turn.say("".join(text))


def _take_call(turn: Turn, part: JsonObject) -> None:
    given = part.get("resultDetails")
    details: JsonObject = given if isinstance(given, dict) else {}
    arguments = details.get("input", part.get("toolSpecificData"))
    turn.call(
        part.get("toolCallId"), part.get("toolId"), arguments, message=_shown(part.get("pastTenseMessage")) or None
    )
    if "output" in details:
        turn.result(part.get("toolCallId"), "".join(_texts(details["output"])), error=bool(details.get("isError")))


def _shown(part: Any) -> str:
    """The text of a piece of Markdown, or the name of what a reference leads to."""
    if not isinstance(part, dict):
        return part if isinstance(part, str) else ""
    inner = part.get("inlineReference")
    if isinstance(inner, dict):
        return f"`{part.get('name') or str(inner.get('fsPath') or inner.get('path') or '').rpartition('/')[2]}`"
    value = part.get("value", part.get("content"))
    return _shown(value)


def _joined(value: Any) -> str:
    return "".join(one for one in value if isinstance(one, str)) if isinstance(value, list) else str(value or "")


def _texts(value: Any) -> Iterator[str]:
    """The texts in a result, which may be a tree of nodes."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        known = [value[key] for key in ("value", "text", "node", "children", "content") if value.get(key) is not None]
        yield from _texts(known) if known else [as_text(value)]
