"""Copilot Chat in VS Code: `chatSessions/<id>.json`, a document with `requests`, or since 2026 `<id>.jsonl`, the changes that
lead to such a document. A request holds the prompt, the answer as it was shown, and often the rounds with the model.
"""

from __future__ import annotations

import glob
from collections.abc import Generator, Iterator, Mapping

from sessiond.importers.alone import alone
from sessiond.importers.copilot_answer import take_parts, take_rounds
from sessiond.importers.document import items
from sessiond.importers.draft import SessionDraft
from sessiond.importers.lines import LINE_SUFFIXES, head_objects, objects
from sessiond.importers.object_log import ObjectLog
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import beside, listed, mapped, path_of, rest_of, stem, word
from sessiond.importers.tool import Tool, in_editors
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject, WireObject

_ABOUT = ("sessionId", "customTitle", "creationDate", "lastMessageDate", "requests", "inputState", "pendingRequests")
_USED = ("requestId", "message", "response", "result", "timestamp", "modelId", "isCanceled", "responseId")


class CopilotChat(Tool):
    name = "copilot-chat"

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith((".json", *LINE_SUFFIXES)) or b'"requests"' not in head:
            return 0
        if path.endswith(LINE_SUFFIXES) and b'"requestId"' in head and any(map(_is_change, head_objects(head))):
            return 85  # the log of a chat, although it may have lost its beginning, which has the words below
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


def _is_change(record: JsonObject) -> bool:
    return isinstance(record.get("kind"), int) and listed(record.get("k"))[:1] == ["requests"]


def _from_log(path: str, open_: Opener) -> Generator[Event, None, object]:
    log = ObjectLog()
    for item in objects(path, open_):
        if isinstance(item, SkippedLine):
            yield item
            continue
        yield from alone(path, "this change", _change(path, log, *item), item[0])
    return log.state


def _change(path: str, log: ObjectLog, line: int, record: JsonObject) -> Iterator[Event]:
    """Makes the change that a record tells of."""
    known = log.headless
    reason = log.apply(record)
    if log.headless and not known:
        yield SkippedLine(path, line, "the beginning of the log is missing; what came later is read", taken=True)
    if reason:
        yield SkippedLine(path, line, reason)


def _from_document(path: str, open_: Opener) -> Generator[Event, None, JsonObject]:
    session: WireObject = {}
    for item in items(path, open_, frozenset({"requests"})):
        if isinstance(item, SkippedLine):
            yield item
        elif item.element:
            session.setdefault("requests", []).append(item.value)
        else:
            session[item.member] = item.value
    return session


def _session(path: str, open_: Opener, session: JsonObject) -> Iterator[Event]:
    draft = SessionDraft(CopilotChat.name, path, word(session.get("sessionId")) or stem(path))
    workspace = beside(path, "../workspace.json", open_)
    yield draft.start(
        name=session.get("customTitle"),
        cwd=path_of(workspace.get("folder") or workspace.get("workspace")),
        createdAt=session.get("creationDate"),
        updatedAt=session.get("lastMessageDate"),
        metadata=rest_of(session, *_ABOUT),
    )
    for request in listed(session.get("requests")):
        if isinstance(request, dict):
            if request:  # otherwise it is lost, and only its place is known
                yield from alone(path, f"request {request.get('requestId')}", _request(draft, request))
        else:
            yield SkippedLine(path, None, "an element of `requests` that is not an object")
    yield from draft.end()


def _request(draft: SessionDraft, request: JsonObject) -> Iterator[Event]:
    asked, request_id, time = request.get("message"), request.get("requestId"), request.get("timestamp")
    prompt = Turn("user", rest_of(request, *_USED))
    prompt.say(asked.get("text") if isinstance(asked, dict) else asked)
    if (
        "message" in request or prompt.metadata
    ):  # otherwise the prompt is lost, and only something of its answer is here
        yield from prompt.events(draft, id=request_id, time=time)
    if isinstance(model := request.get("modelId"), str):
        draft.model = model
    result = mapped(request.get("result"))
    about = mapped(result.get("metadata"))
    answer = Turn("assistant", rest_of(result, "metadata"))
    rounds = about.get("toolCallRounds")
    take_parts(answer, listed(request.get("response")), is_text=not rounds)
    if isinstance(rounds, list):
        take_rounds(answer, rounds, mapped(about.get("toolCallResults")))
    failed = "error" if result.get("errorDetails") else None
    if answer.metadata or not answer.is_empty:
        answer_id = request.get("responseId") or (f"{request_id}-answer" if request_id else None)
        status = "interrupted" if request.get("isCanceled") else failed
        yield from answer.events(draft, id=answer_id, time=time, status=status)
