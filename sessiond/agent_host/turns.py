"""Messages -> turns of a chat. Pure: the same messages give the same turns.

A session is a list of messages; a chat is a list of turns, each a question and its response, and the last one may still go on. A
turn begins with each message of the user's. It cannot grow once it has ended, and windows ignore what comes for it later, so the
caller decides two things that messages do not say:

    splits    messages that begin a turn although nobody asked: the turn before them had ended when they came
    goes_on   whether the last turn has not ended
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from sessiond.agent_host import shapes
from sessiond.agent_host.shapes import AnyPart, Turn
from sessiond.exporters import turns as reading
from sessiond.exporters.markdown import fenced
from sessiond.model.message import Message
from sessiond.model.token_usage import token_usage_of
from sessiond.model.values import epoch_ms

_TERMINALS = frozenset(
    {
        *("bash", "shell", "local_shell", "local_shell_call", "run_shell_command", "execute_command", "exec_command"),
        *("shell_command", "run_terminal_cmd", "run_command", "terminal", "exec", "powershell", "developer__shell"),
    }
)
"""Names of tools that run commands, in lower case. A window draws their calls as a terminal."""
_READERS = frozenset(["read", "read_file", "read_many_files", "view", "view_image", "notebookread", "cat"])
_SEARCHERS = frozenset(
    ["grep", "glob", "search", "search_file_content", "find", "ls", "list_directory", "codebase_search"]
)
MOST_TURNS = 300
"""Turns in a snapshot. A window wants all at once, and takes a second for so many."""
MOST_MESSAGES = 2000
_MOST_BYTES = 4_000_000
_CUT = "\n\n*The rest of this message is too long to be shown here.*"


class Memo:
    """The parts that were made of messages. A turn grows by words, and its parts stay the same objects: neither is anything made twice, nor kept
    twice in the states of a turn.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[Message, object, tuple[AnyPart, ...]]] = {}

    def get(self, message: Message, base: object, make: Callable[[], tuple[AnyPart, ...]]) -> tuple[AnyPart, ...]:
        """Return what `make` returns, which depends on the message and on `base`."""
        found = self._made.get(message.id)
        if found is None or found[0] is not message or found[1] is not base:
            found = self._made[message.id] = (message, base, make())
        return found[2]

    def forget(self) -> None:
        self._made.clear()


class Conversation(msgspec.Struct, frozen=True):
    """`active`: the turn that goes on, which comes after the others. `queued`: whose turns begin when it has ended."""

    turns: tuple[Turn, ...] = ()
    active: Turn | None = None
    queued: tuple[shapes.Queued, ...] = ()


def begins(message: Message, splits: Collection[str]) -> bool:
    """Return whether a turn begins with the message, whatever comes before."""
    return (message.role == "user" and message.metadata.get("injected") is not True) or message.id in splits


def is_answer(messages: Sequence[Message]) -> bool:
    """Return whether a turn of these messages may be over: its last word is an answer that asks for nothing more, or it was cut off."""
    last = messages[-1]
    cut_off = last.status in ("interrupted", "error")
    return last.role == "assistant" and (cut_off or (not last.tool_calls and last.status != "streaming"))


def is_streamed(messages: Iterable[Message]) -> bool:
    return any(message.status == "streaming" for message in messages)


def grouped(messages: Iterable[Message], splits: Collection[str]) -> list[list[Message]]:
    """The messages of each turn, up to one whose text still streams in. What came after it waits for its end: a turn after it would
    end it, and windows would ignore the rest of its text; a part after it could not come later than its own.
    """
    found: list[list[Message]] = []
    for message in messages:
        if not found or begins(message, splits):
            found.append([])
        found[-1].append(message)
        if message.status == "streaming":
            break
    return found


def waiting(messages: Sequence[Message], groups: Sequence[Sequence[Message]]) -> tuple[shapes.Queued, ...]:
    """Return what was asked while a text still streams in. `groups`: the turns up to that."""
    behind = messages[sum(map(len, groups)) :]
    return tuple(shapes.Queued(id=one.id, message=_question(one)) for one in behind if begins(one, ()))


def conversation(messages: Sequence[Message], splits: Collection[str] = (), *, goes_on: bool = False) -> Conversation:
    groups = grouped(messages, splits)
    if not groups:
        return Conversation()
    if not goes_on:
        return Conversation(tuple(map(ended, groups)), queued=waiting(messages, groups))
    return Conversation(tuple(map(ended, groups[:-1])), active(groups[-1]), waiting(messages, groups))


def active(messages: Sequence[Message], memo: Memo | None = None) -> Turn:
    """The turn of these messages, which has not ended."""
    first = messages[0]
    return Turn(
        id=first.id,
        started_at=first.timestamp,
        message=_question(first),
        response_parts=tuple(_parts(messages, Memo() if memo is None else memo)),
        usage=_usage(messages),
    )


def ended(messages: Sequence[Message], trouble: str | None = None) -> Turn:
    """`trouble`: why its question has no answer."""
    turn, last = active(messages), messages[-1]
    parts = tuple(_skipped(part) for part in turn.response_parts)
    status = next((one.status for one in reversed(messages) if one.role == "assistant"), last.status)
    if trouble is not None:
        status = "error"
    if status == "error":
        said = _error(last) if trouble is None else trouble
        parts += (shapes.ErrorPart(error=shapes.ErrorInfo(error_type="error", message=said)),)
    return msgspec.structs.replace(
        turn,
        duration=_milliseconds(messages),
        response_parts=parts,
        state="error" if status == "error" else "cancelled" if status == "interrupted" else "complete",
    )


def nobody(wire_id: str) -> str:
    return (
        "Nobody is here who answers. Your words are kept. "
        f"While `sessiond repl --agent COMMAND --session-id {wire_id}` is open in a terminal, that command answers what is written here."
    )


def refused(turn_id: str, text: str, at: str, trouble: str) -> Turn:
    """Return a turn for what somebody said that could not be kept. `at`: when."""
    return Turn(
        id=turn_id,
        started_at=at,
        duration=0,
        message=shapes.Question(text=text, origin=shapes.Origin(kind="user")),
        response_parts=(shapes.ErrorPart(error=shapes.ErrorInfo(error_type="error", message=trouble)),),
        state="error",
    )


def _question(first: Message) -> shapes.Question:
    """Return the question of a turn. It is hidden where nobody asked."""
    if first.role == "user" and first.metadata.get("injected") is not True:
        return shapes.Question(text=_text(first), origin=shapes.Origin(kind="user"))
    return shapes.Question(text="", origin=shapes.Origin(kind="agent"), meta=shapes.Hidden(request=True))


def _parts(messages: Sequence[Message], memo: Memo) -> list[AnyPart]:
    found: list[AnyPart] = []
    calls: dict[str, int] = {}
    """Id of a call -> where its part is."""
    for at, message in enumerate(messages):
        if at == 0 and begins(message, ()):
            continue
        if message.role == "tool":
            _answer(found, calls, message, memo)
            continue
        made = memo.get(message, None, lambda message=message: tuple(_said(message)))  # type: ignore[misc]
        found += made
        ids = _call_ids(message)
        for no, call_id in enumerate(ids, len(found) - len(ids)):
            if call_id and not _runs(found, calls.get(call_id)):  # an id may come again once its call is answered
                calls[call_id] = no
    return found


def _runs(parts: Sequence[AnyPart], at: int | None) -> bool:
    part = None if at is None else parts[at]
    return isinstance(part, shapes.ToolCallPart) and part.tool_call.status == "running"


def _call_ids(message: Message) -> list[str]:
    return [call_id for _, call_id, _ in reading.calls(message)] if message.tool_calls else []


def _said(message: Message) -> Iterator[AnyPart]:
    """The calls come last."""
    text = _text(message)
    if message.role == "assistant":
        if thought := reading.thinking(message):
            yield shapes.Reasoning(id=f"{message.id}/thinking", content=thought)
        if text:
            yield shapes.Markdown(id=message.id, content=text)
    elif text:
        yield shapes.SystemNotification(content=text)
    for at, (name, _, given) in enumerate(reading.calls(message)):
        # Some tools leave ids out, and some use one again: a window needs them to differ.
        yield _call(f"{message.id}/{at}", name, _given(name, given))


def _call(own_id: str, name: str, given: str | None) -> shapes.ToolCallPart:
    lower = name.lower()
    kind = (
        "terminal" if lower in _TERMINALS else "read" if lower in _READERS else "search" if lower in _SEARCHERS else ""
    )
    return shapes.ToolCallPart(
        tool_call=shapes.ToolCall(
            status="running",
            tool_call_id=own_id,
            tool_name=name,
            display_name=name,
            meta=shapes.CallMeta(tool_kind=kind) if kind else None,
            invocation_message=f"Running {name}",
            tool_input=given,
            confirmed="not-needed",
        )
    )


def _given(name: str, arguments: object) -> str | None:
    """Return the arguments as text; a terminal's command comes first, and alone if it was given nothing else."""
    if arguments is None:
        return None
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        arguments = msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
    if (
        isinstance(arguments, dict)
        and isinstance(command := arguments.get("command"), str)
        and name.lower() in _TERMINALS
    ):
        rest = {key: value for key, value in arguments.items() if key != "command"}
        return reading.readable("\n".join([command, reading.pretty(rest)] if rest else [command]))
    return reading.readable(arguments if isinstance(arguments, str) else reading.pretty(arguments))


def _answer(parts: list[AnyPart], calls: Mapping[str, int], message: Message, memo: Memo) -> None:
    """A result completes its call. One whose call is not in this turn stands for itself, so that no word is missing."""
    at = calls.get(reading.called(message))
    call = parts[at] if at is not None and _runs(parts, at) else None
    made = memo.get(message, call, lambda: (_answered(message, call),))
    if call is None or at is None:
        parts += made
    else:
        (parts[at],) = made


def _answered(message: Message, call: AnyPart | None) -> shapes.ToolCallPart:
    if not isinstance(call, shapes.ToolCallPart):
        name = message.rest.get("name")
        call = _call(message.id, reading.one_line(name) if isinstance(name, str) and name else "tool", None)
    return shapes.ToolCallPart(tool_call=_completed(call.tool_call, message))


def _completed(call: shapes.ToolCall, message: Message) -> shapes.ToolCall:
    failed = message.metadata.get("isError") is True or message.status == "error"
    text = _text(message)
    return msgspec.structs.replace(
        call,
        status="completed",
        success=not failed,
        past_tense_message=f"{'Failed' if failed else 'Ran'} {call.tool_name}",
        content=(shapes.Text(text=text),) if text else None,
        error=shapes.CallError(message=reading.one_line(text)[:200] or "the call failed") if failed else None,
    )


def _skipped(part: AnyPart) -> AnyPart:
    if isinstance(part, shapes.ToolCallPart) and part.tool_call.status == "running":
        return shapes.skipped(part)
    return part


def _text(message: Message) -> str:
    """The message's content as Markdown: all of it, whatever its blocks are."""
    found: list[str] = []
    for piece in reading.pieces(message):
        if isinstance(piece, reading.TextBlock):
            found.append(piece.text)
        elif isinstance(piece, reading.Image):
            found.append(f"*image: {reading.one_line(piece.url or piece.label)}*")
        else:
            shown = (f"{part.label or ''}\n\n{fenced(part.text, part.language)}" for part in reading.shown(piece.value))
            found.append("\n\n".join([f"*{piece.kind}*", *shown]))
    return "\n\n".join(found) + (_CUT if "cut" in message.rest else "")


def _usage(messages: Sequence[Message]) -> shapes.Usage | None:
    """Return the usage of the last request: what it was sent is what the model had in view."""
    found = next((one for message in reversed(messages) if (one := token_usage_of(message.metadata)) is not None), None)
    if found is None:
        return None
    sent = found.input + found.cache_read + found.cache_write
    return shapes.Usage(input_tokens=sent or None, output_tokens=found.output or None, model=found.model)


def _error(last: Message) -> str:
    said = last.metadata.get("error")
    return reading.one_line(said) if isinstance(said, str) and said else "The response ended with an error."


def _milliseconds(messages: Sequence[Message]) -> int:
    """From the first message to the last. 0 where an edited file has something else for a time."""
    try:
        return max(0, epoch_ms(messages[-1].timestamp) - epoch_ms(messages[0].timestamp))
    except ValueError:
        return 0


def newest(groups: list[list[Message]]) -> list[list[Message]]:
    """Return as many of the last turns as a window opens in a second; at least the last one."""
    size = 0
    for count, group in enumerate(reversed(groups)):
        size += sum(len(msgspec.json.encode(message.wire())) for message in group)
        if count == MOST_TURNS or (count and size > _MOST_BYTES):
            return groups[len(groups) - count :]
    return groups


def earlier(wire_id: str, created_at: str, count: int | None = None) -> shapes.Turn:
    """Says that turns are left out. `count`: of messages, where it is known."""
    what = "Earlier messages are" if not count or count < 0 else f"{count:,} earlier messages are"
    text = f"*{what} not shown here. `sessiond show {wire_id}` and `sessiond web` have all of them.*"
    return shapes.Turn(
        id="earlier",
        started_at=created_at,
        duration=0,
        message=shapes.Question(text="", origin=shapes.Origin(kind="agent"), meta=shapes.Hidden(request=True)),
        response_parts=(shapes.Markdown(id="earlier", content=text),),
        state="complete",
    )
