"""Names and JSON of the Agent Host Protocol, version 0.9.0. No other module of this package has a word of it.

Compared by value, encoded as they are. Fields at their default are left out, as the protocol wants it of what is absent.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

VERSIONS = ("0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1")
"""Those that windows accept in the shapes of 0.9.0. They do not look at the answer again."""
PROVIDER = "sessiond"
ROOT = "ahp-root://"

MODEL = "attached"
"""Of those that may write: windows send nothing without a model."""

SESSION_EXISTS, UNSUPPORTED_VERSION = -32003, -32005
PERMISSION_DENIED = -32009
NOT_FOUND = -32008
INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32600, -32601, -32602, -32603

IDLE, ERROR, IN_PROGRESS, INPUT_NEEDED = 1, 2, 8, 24
ACTIVITY = 31
"""The bits of a status that say what goes on. The others are flags."""
READ, ARCHIVED = 32, 64

Action: TypeAlias = dict[str, Any]
"""`type`, and what belongs to it, ready to be encoded."""
State: TypeAlias = dict[str, Any]


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Root of all shapes."""


class ResponsePart(Shape, frozen=True, kw_only=True, tag_field="kind"):
    """A piece of a turn's response."""


class Markdown(ResponsePart, frozen=True, kw_only=True, tag="markdown"):
    id: str
    content: str


class Reasoning(ResponsePart, frozen=True, kw_only=True, tag="reasoning"):
    id: str
    content: str


class SystemNotification(ResponsePart, frozen=True, kw_only=True, tag="systemNotification"):
    content: str


class ErrorInfo(Shape, frozen=True, kw_only=True):
    error_type: str
    """Required: without it a window shows `undefined`."""
    message: str


class ErrorPart(ResponsePart, frozen=True, kw_only=True, tag="error"):
    error: ErrorInfo


class Text(Shape, frozen=True, kw_only=True, tag="text", tag_field="type"):
    text: str


class CallMeta(Shape, frozen=True, kw_only=True):
    tool_kind: str


class CallError(Shape, frozen=True, kw_only=True):
    message: str


class ToolCall(Shape, frozen=True, kw_only=True):
    """`status`: `running`, then `completed`, or `cancelled` if the turn ends first."""

    status: Literal["running", "completed", "cancelled"]
    tool_call_id: str
    tool_name: str
    display_name: str
    meta: CallMeta | None = msgspec.field(default=None, name="_meta")
    invocation_message: str
    tool_input: str | None = None
    confirmed: str | None = None
    success: bool | None = None
    past_tense_message: str | None = None
    content: tuple[Text, ...] | None = None
    error: CallError | None = None
    reason: str | None = None


class ToolCallPart(ResponsePart, frozen=True, kw_only=True, tag="toolCall"):
    tool_call: ToolCall


def skipped(part: ToolCallPart) -> ToolCallPart:
    """Return what windows make of a call without a result when its turn ends."""
    call = msgspec.structs.replace(part.tool_call, status="cancelled", confirmed=None, reason="skipped")
    return ToolCallPart(tool_call=call)


def running(part: ToolCallPart) -> ToolCallPart:
    """The inverse of `skipped`."""
    call = msgspec.structs.replace(part.tool_call, status="running", confirmed="not-needed", reason=None)
    return ToolCallPart(tool_call=call)


class Option(Shape, frozen=True, kw_only=True):
    id: str
    label: str


class InputQuestion(Shape, frozen=True, kw_only=True):
    """A question of a request. Its answer is one of the options, or where it has none, a text."""

    id: str
    kind: Literal["single-select", "text"]
    message: str
    required: bool
    options: tuple[Option, ...] | None = None
    allow_freeform_input: bool | None = None


class InputRequest(Shape, frozen=True, kw_only=True):
    id: str
    questions: tuple[InputQuestion, ...]


class InputRequestPart(ResponsePart, frozen=True, kw_only=True, tag="inputRequest"):
    """It has a `response` once it is over, which no snapshot of ours shows."""

    request: InputRequest


AnyPart: TypeAlias = Markdown | Reasoning | SystemNotification | ErrorPart | ToolCallPart | InputRequestPart

ANSWER = "answer"
"""The id of a request's only question."""


class Origin(Shape, frozen=True, kw_only=True):
    kind: Literal["user", "agent", "tool", "systemNotification"]


class Hidden(Shape, frozen=True, kw_only=True):
    request: bool = msgspec.field(default=False, name="vscode.chat.requestHiddenFromTranscript")


class Question(Shape, frozen=True, kw_only=True):
    """The question that a turn answers. In a turn that nobody asked for, it is hidden."""

    text: str
    origin: Origin
    meta: Hidden | None = msgspec.field(default=None, name="_meta")


class Queued(Shape, frozen=True, kw_only=True):
    """A question whose turn has not begun."""

    id: str
    message: Question


class Usage(Shape, frozen=True, kw_only=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None


class Turn(Shape, frozen=True, kw_only=True):
    """`duration` (milliseconds) and `state` are None while it goes on."""

    id: str
    started_at: str
    duration: int | None = None
    message: Question
    response_parts: tuple[AnyPart, ...]
    usage: Usage | None = None
    state: Literal["complete", "cancelled", "error"] | None = None


class Project(Shape, frozen=True, kw_only=True):
    uri: str
    display_name: str


class SessionSummary(Shape, frozen=True, kw_only=True):
    """A row of the list. Times: RFC 3339."""

    resource: str
    provider: str
    title: str
    status: int
    created_at: str
    modified_at: str
    working_directories: tuple[str, ...] | None = None
    """File URIs. A window shows the sessions of its own folders, and where it has none, all."""
    project: Project | None = None
    activity: str | None = None
    """What goes on in it, in a few words."""


def session_uri(wire_id: str) -> str:
    """Windows take the scheme for the provider, whatever the specification says."""
    return f"{PROVIDER}:/{wire_id}"


def chat_uri(wire_id: str) -> str:
    encoded = base64.urlsafe_b64encode(session_uri(wire_id).encode()).decode().rstrip("=")
    return f"ahp-chat://default/{encoded}"


def session_of(channel: str) -> str | None:
    """The session of a channel, as on our own wire; None for any other channel."""
    prefix, chats = f"{PROVIDER}:/", "ahp-chat://default/"
    if channel.startswith(chats):
        encoded = channel.removeprefix(chats)
        try:
            channel = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        except ValueError:
            return None
    return channel.removeprefix(prefix) if channel.startswith(prefix) else None


def channels_of(wire_id: str) -> tuple[str, str]:
    """A session's own channel, and that of its only chat."""
    return session_uri(wire_id), chat_uri(wire_id)


def is_chat(channel: str) -> bool:
    return channel.startswith("ahp-chat:")


def root_state(*, writes: bool) -> State:
    """Without a model nobody can send. No resource is protected: so nobody is asked to sign in."""
    agent = {"provider": PROVIDER, "displayName": "sessiond", "description": "Every conversation on this machine"}
    models = [{"id": MODEL, "provider": PROVIDER, "name": "Whoever is attached"}] if writes else []
    return {"agents": [{**agent, "models": models, "protectedResources": []}], "activeSessions": 0}


def chat_status(turns: tuple[Turn, ...], active: Turn | None, said: int) -> int:
    """`said`: the status of the row, which programs that work in the session may have set."""
    if said & ACTIVITY in (INPUT_NEEDED, IN_PROGRESS):
        return said & ACTIVITY | READ
    if active is not None:
        return IN_PROGRESS | READ
    return (ERROR if turns and turns[-1].state == "error" else IDLE) | READ


def chat_summary(summary: SessionSummary, wire_id: str, status: int, *, writes: bool) -> State:
    """Return the summary by which a session's state and a chat's state name the chat."""
    return {
        "resource": chat_uri(wire_id),
        "title": summary.title,
        "status": status,
        "modifiedAt": summary.modified_at,
        "interactivity": "full" if writes else "read-only",
    }


def chat_state(chat: State, turns: tuple[Turn, ...], active: Turn | None, queued: tuple[Queued, ...]) -> State:
    """`chat`: as `chat_summary` has it."""
    state = {**chat, "turns": turns}
    if active is not None:
        state["activeTurn"] = active
    if queued:
        state["queuedMessages"] = queued
    return state


def session_state(summary: SessionSummary, status: int, chat: State) -> State:
    """`chat`: as `chat_summary` has it."""
    return {
        **msgspec.to_builtins(summary),
        "status": status | summary.status & ARCHIVED,
        "lifecycle": "ready",
        "chats": [chat],
        "defaultChat": chat["resource"],
        "activeClients": [],
    }


def turn_started(turn: Turn) -> Action:
    return {"type": "chat/turnStarted", "turnId": turn.id, "startedAt": turn.started_at, "message": turn.message}


def part_added(turn_id: str, part: AnyPart) -> list[Action]:
    """A call begins as the window's own agents begin one, so that it is drawn as theirs."""
    if not isinstance(part, ToolCallPart):
        return [{"type": "chat/responsePart", "turnId": turn_id, "part": part}]
    call = part.tool_call
    about = {"turnId": turn_id, "toolCallId": call.tool_call_id}
    names = {"toolName": call.tool_name, "displayName": call.display_name}
    given = {} if call.tool_input is None else {"toolInput": call.tool_input}
    marked = {} if call.meta is None else {"_meta": call.meta}
    found: list[Action] = [
        {"type": "chat/toolCallStart", **about, **names, **marked},
        {
            "type": "chat/toolCallReady",
            **about,
            "invocationMessage": call.invocation_message,
            **given,
            "confirmed": "not-needed",
        },
    ]
    return [*found, call_completed(turn_id, call)] if call.status == "completed" else found


def call_completed(turn_id: str, call: ToolCall) -> Action:
    result: dict[str, object] = {"success": call.success, "pastTenseMessage": call.past_tense_message}
    if call.content is not None:
        result["content"] = call.content
    if call.error is not None:
        result["error"] = call.error
    return {"type": "chat/toolCallComplete", "turnId": turn_id, "toolCallId": call.tool_call_id, "result": result}


def text_added(turn_id: str, part: Markdown | Reasoning, text: str) -> Action:
    kind = "chat/delta" if isinstance(part, Markdown) else "chat/reasoning"
    return {"type": kind, "turnId": turn_id, "partId": part.id, "content": text}


def input_request(id: str, text: str, choices: Sequence[tuple[str, str]]) -> InputRequest:
    """`choices`: ids and labels; without them the answer is a text."""
    options = tuple(Option(id=own, label=label) for own, label in choices)
    asked = InputQuestion(
        id=ANSWER,
        kind="single-select" if options else "text",
        message=text,
        required=True,
        options=options or None,
        allow_freeform_input=False if options else None,
    )
    return InputRequest(id=id, questions=(asked,))


def input_requested(request: InputRequest) -> Action:
    return {"type": "chat/inputRequested", "request": request}


def input_completed(request_id: str, response: str, answers: object = None) -> Action:
    """`answers`: as a window sent them."""
    said = {} if answers is None else {"answers": answers}
    return {"type": "chat/inputCompleted", "requestId": request_id, "response": response, **said}


def usage_known(turn_id: str, usage: Usage) -> Action:
    return {"type": "chat/usage", "turnId": turn_id, "usage": usage}


def turn_ended(turn: Turn) -> Action:
    ended = {"turnId": turn.id, "duration": turn.duration}
    match turn.state:
        case "error":
            return {"type": "chat/error", **ended, "part": turn.response_parts[-1]}
        case "cancelled":
            return {"type": "chat/turnCancelled", **ended}
        case _:
            return {"type": "chat/turnComplete", **ended}


def turns_cut(last: Turn | None) -> Action:
    """The turns after `last` are gone, and one that goes on. An open window obeys only when it is loaded again."""
    return {"type": "chat/truncated"} if last is None else {"type": "chat/truncated", "turnId": last.id}


def queued(question: Queued) -> Action:
    return {"type": "chat/pendingMessageSet", "kind": "queued", "id": question.id, "message": question.message}


def not_queued(question: Queued) -> Action:
    return {"type": "chat/pendingMessageRemoved", "kind": "queued", "id": question.id}


def title_changed(title: str) -> Action:
    return {"type": "session/titleChanged", "title": title}


def archived_changed(archived: bool) -> Action:
    return {"type": "session/isArchivedChanged", "isArchived": archived}


def activity_changed(activity: str | None) -> Action:
    return {"type": "session/activityChanged", **({} if activity is None else {"activity": activity})}


def chat_changed(wire_id: str, **changes: object) -> Action:
    return {"type": "session/chatUpdated", "chat": chat_uri(wire_id), "changes": changes}


def envelope(channel: str, action: Action | msgspec.Raw, number: int) -> State:
    return {"channel": channel, "action": action, "serverSeq": number}
