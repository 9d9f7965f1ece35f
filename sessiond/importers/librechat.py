"""LibreChat's JSON export of one conversation: `messages`, flat or with `children`, or `messagesTree`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessiond.importers.alone import alone
from sessiond.importers.branches import path_to
from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import listed, mapped, read_records, rest_of, stem, word
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_USED = ("messageId", "text", "content", "isCreatedByUser", "createdAt", "updatedAt", "conversationId", "children",
         "unfinished", "error", "user", "__v", "_id")  # fmt: skip
_CALL_USED = ("id", "name", "args", "output", "progress", "type")


class LibreChat(Tool):
    name = "librechat"

    def recognise(self, path: str, head: bytes) -> int:
        if not path.endswith(".json") or b'"conversationId"' not in head:
            return 0
        return 92 if b'"exportAt"' in head and b'"endpoint"' in head else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_records(lambda about: _Reader(path, about), path, open_, "messages", "messagesTree")


class _Reader:
    """Holds the messages until the end: only then is it known which branch was seen last."""

    def __init__(self, path: str, about: JsonObject) -> None:
        self._about = about
        self._draft = SessionDraft(LibreChat.name, path, word(about.get("conversationId")) or stem(path))
        self._messages: list[tuple[int, JsonObject]] = []

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        """Take a message and all below it, each before its children."""
        waiting = [record]
        while waiting:
            message = waiting.pop()
            self._messages.append((line, message))
            children = message.get("children")
            below = listed(children)
            waiting += [child for child in reversed(below) if isinstance(child, dict)]
            for child in below:
                if not isinstance(child, dict):
                    yield SkippedLine(self._draft.path, line, "an element of `children` that is not an object")

    def end(self) -> Iterator[Event]:
        about, first = self._about, self._messages[0][1] if self._messages else {}
        options = mapped(about.get("options"))
        yield self._draft.start(
            name=about.get("title"),
            createdAt=first.get("createdAt"),
            model=options.get("model"),
            tags=about.get("tags", options.get("tags")),
            archived=about.get("isArchived", options.get("isArchived")),
            metadata=rest_of(about, "conversationId", "title", "tags", "isArchived"),
        )
        parents = {str(one.get("messageId")): one.get("parentMessageId") for _, one in self._messages}
        seen = path_to(next(reversed(parents), None), parents)
        linked = any(word(parent) in parents for parent in parents.values())
        for line, message in self._messages:
            said = self._message(line, message, branch=linked and str(message.get("messageId")) not in seen)
            yield from alone(self._draft.path, f"message {message.get('messageId')}", said, line)
        yield from self._draft.end()

    def _message(self, line: int, message: JsonObject, *, branch: bool) -> Iterator[Event]:
        by_user = message.get("isCreatedByUser") is True or message.get("sender") == "User"
        turn = Turn("user" if by_user else "assistant", rest_of(message, *_USED))
        if branch:
            turn.metadata["branch"] = True
        for part in listed(message.get("content")):
            _take(turn, part)
        if turn.is_empty:
            turn.say(message.get("text"))
        if turn.role == "assistant" and isinstance(model := message.get("model"), str):
            self._draft.model = model
        status = "error" if message.get("error") else "interrupted" if message.get("unfinished") else None
        time = message.get("createdAt")
        yield from turn.events(self._draft, line=line, id=message.get("messageId"), time=time, status=status)


def _take(turn: Turn, part: Any) -> None:
    kind = mapped(part).get("type")
    call = mapped(part).get("tool_call")
    if kind == "text":
        turn.say(_text(part.get("text")))
    elif kind == "think":
        turn.think(_text(part.get("think")))
    elif kind == "tool_call" and isinstance(call, dict):
        function = call.get("function")
        inner: JsonObject = function if isinstance(function, dict) else call
        turn.call(
            call.get("id"), inner.get("name"), inner.get("args", inner.get("arguments")), **rest_of(call, *_CALL_USED)
        )
        if inner.get("output") is not None:
            turn.result(call.get("id"), inner["output"])
    elif part is not None:
        turn.add(part)


def _text(value: object) -> object:
    return value.get("value") if isinstance(value, dict) else value
