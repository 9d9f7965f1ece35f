"""Which part of a session is already on the screen, and what a change adds to it. No I/O: a Screen does that.

Changes arrive once each and in order. Still, text of a streamed message may be known already: the session was opened while it
grew, or was read again. It is recognised by its offset.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Protocol

import msgspec

from sessiond.cli.output import clean, content_text, message_text, one_line
from sessiond.client import (
    Appended,
    Change,
    Cleared,
    Extended,
    Finished,
    Message,
    Noted,
    Reread,
    SessionInfo,
    ToolCall,
    Truncated,
    Updated,
)

NAME = "repl"
"""What other clients see as the origin of our changes."""


class Screen(Protocol):
    """Where output goes. Texts have no control characters and no newline at the end."""

    def head(self, text: str) -> None:
        """Who speaks, on one line."""

    def text(self, text: str) -> None:
        """What they say: any number of complete lines."""

    def tail(self, text: str) -> None:
        """All unfinished lines of streams; replaces the earlier ones. May show nothing."""

    def info(self, text: str) -> None:
        """What happened, on one line."""

    def error(self, text: str) -> None:
        """What went wrong, on one line."""

    def table(self, headings: list[str], rows: list[list[str]]) -> None: ...


class _Stream:
    def __init__(self, head: str, seq: int) -> None:
        self.head = head
        self.seq = seq
        self.length = 0
        """Code points shown or waiting in `line`."""
        self.line = ""
        """The last line, which has no newline yet."""


class View:
    """One session on one screen. A new session needs a new View."""

    def __init__(self, screen: Screen, info: SessionInfo) -> None:
        self.info = info
        self.count = info.message_count
        """How many messages the session has."""
        self.own: set[str] = set()
        """Ids of our messages, which are on the screen from the moment they are sent."""
        self.asking = 0
        """How many requests of ours are changing the session: what this client's name does meanwhile is taken for ours."""
        self._seq = info.seq
        """All changes up to this one are on the screen."""
        self._screen = screen
        self._streams: dict[str, _Stream] = {}
        self._shown_last: str | None = None
        self._grew = asyncio.Event()

    # Messages

    def messages(self, messages: Iterable[Message], via: str = "") -> None:
        """Show messages that are not on the screen yet."""
        for message in messages:
            if message.id not in self.own:
                self._show(message, via)
        self._tails()

    def _show(self, message: Message, via: str) -> None:
        head, *body = message_text(msgspec.to_builtins(message)).split("\n")
        self._shown_last = message.id
        if message.status == "streaming":
            self.stream(message.id, head.removesuffix(" [streaming]"), via, message.seq)
            self._more(message.id, content_text(message.content), 0)
            return
        self._screen.head(f"{head} · {one_line(via)}" if via else head)
        if any(body):
            self._screen.text("\n".join(body))

    def stream(self, message_id: str, head: str, via: str = "", seq: int = 0) -> None:
        """Begin a message whose text arrives in pieces."""
        stream = self._streams[message_id] = _Stream(head, seq)
        self._screen.head(f"{head} · {one_line(via)}" if via else stream.head)
        self._shown_last = message_id

    def extend(self, message_id: str, text: str, offset: int | None) -> None:
        """More text of a stream. The part that is known, by its offset in code points, is not shown again."""
        if message_id not in self._streams:
            self._streams[message_id] = stream = _Stream("── …", self._seq)
            stream.length = offset or 0
        self._more(message_id, text, offset)
        self._tails()

    def _more(self, message_id: str, text: str, offset: int | None) -> None:
        stream = self._streams[message_id]
        if offset is not None:
            text = text[max(0, stream.length - offset) :]
        stream.length += len(text)
        *lines, stream.line = (stream.line + text).split("\n")
        if lines:
            self._lines(message_id, stream, "\n".join(lines))

    def _lines(self, message_id: str, stream: _Stream, text: str) -> None:
        if self._shown_last != message_id:
            self._screen.head(stream.head)
            self._shown_last = message_id
        self._screen.text(clean(text))

    def finish(self, message_id: str, status: str | None, tool_calls: Iterable[ToolCall] = ()) -> None:
        """End a stream."""
        self._end(message_id, status, tool_calls)
        self._tails()

    def _end(self, message_id: str, status: str | None, tool_calls: Iterable[ToolCall]) -> None:
        stream = self._streams.pop(message_id, None)
        if stream is not None and stream.line:
            self._lines(message_id, stream, stream.line)
        for call in tool_calls:
            self._screen.text(one_line(f"→ {call.name} {json.dumps(call.arguments, ensure_ascii=False)}", 200))
        if status not in (None, "done"):
            self._screen.info(str(status))

    def _tails(self) -> None:
        self._screen.tail("\n".join(clean(stream.line) for stream in self._streams.values() if stream.line))

    # Changes

    async def reached(self, seq: int) -> None:
        """Returns when all changes up to `seq` are on the screen."""
        while self._seq < seq:
            self._grew.clear()
            await self._grew.wait()

    def _reach(self, seq: int) -> None:
        self._seq = max(self._seq, seq)
        self._grew.set()

    def apply(self, change: Change) -> None:
        """Show the next change, whoever made it."""
        via = "" if change.origin is None or change.origin.client == "unknown" else change.origin.client
        if self.asking and via == NAME:
            via = ""
        self._show_change(change, via)
        self._reach(change.seq)

    def _show_change(self, change: Change, via: str) -> None:
        if isinstance(change, Appended):
            self.count += len(change.messages)
            self.messages(change.messages, via)
        elif isinstance(change, Extended | Finished):
            if change.message_id in self.own:
                return
            if isinstance(change, Extended):
                self.extend(change.message_id, change.text, change.offset)
            else:
                self.finish(change.message_id, change.status, change.tool_calls or ())
        elif isinstance(change, Updated):
            if change.session is not None:
                self.updated(change.session, via)
        elif isinstance(change, Noted):
            if change.note is not None:
                self._event(f"note {change.note.heading}: {one_line(change.note.content, 200)}", via)
        elif isinstance(change, Cleared):
            self._gone("cleared", via)
            self.count = 0
        elif isinstance(change, Truncated):
            self._gone(f"taken back: all messages after #{change.after_seq}", via)

    def read_from(self, since: int) -> int:
        """Where to read from again: messages with a greater seq may contain something that is not on the screen."""
        unfinished = (stream.seq - 1 for message_id, stream in self._streams.items() if message_id not in self.own)
        return max(0, min((since, *unfinished)))

    def reread(self, change: Reread, messages: Iterable[Message]) -> None:
        """Show what is new in `messages`: all after `read_from(change.since)`, as they are now."""
        for message in messages:
            if message.id in self.own:
                continue
            if message.id in self._streams:
                self._more(message.id, content_text(message.content), 0)
                if message.status != "streaming":
                    self._end(message.id, message.status, message.tool_calls or ())
            elif message.seq > change.since:
                self._show(message, "")
        self._tails()
        self._reach(change.seq)
        if change.session is not None:
            self.updated(change.session)
            self.count = change.session.message_count

    def updated(self, info: SessionInfo, via: str = "") -> None:
        """Take the session's fields as they are now, and show what changed."""
        old, self.info = self.info, info
        if info.name != old.name:
            self._event(f"name: {info.name or '(none)'}", via)
        if info.tags != old.tags:
            self._event(f"tags: {' '.join(info.tags) or '(none)'}", via)
        if info.archived != old.archived:
            self._event("archived" if info.archived else "not archived", via)

    def _gone(self, what: str, via: str) -> None:
        self._streams.clear()
        self._tails()
        self._event(what, via)

    def _event(self, text: str, via: str) -> None:
        self._screen.info(one_line(f"{text} · {via}" if via else text))
