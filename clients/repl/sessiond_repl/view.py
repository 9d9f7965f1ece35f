"""Which part of a session is already on the screen, and what a change adds to it. No I/O: a Screen does that.

Everything may arrive twice (a change as a notification, and again after a reconnection) but is shown once: changes are
recognised by their seq, text of a streamed message by its offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from sessiond.cli.output import clean, content_text, message_text, one_line

Message = dict[str, Any]


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


class Cursor:
    """Which changes are known. Ours arrive as answers, those of others as notifications, so they may be out of order."""

    def __init__(self, seq: int = 0) -> None:
        self.seq = seq
        """All changes up to this seq are known."""
        self._ahead: set[int] = set()

    def take(self, seqs: Iterable[int]) -> bool:
        """Mark these as known. Returns whether any of them is new."""
        new = {seq for seq in seqs if seq > self.seq} - self._ahead
        self._ahead |= new
        while self.seq + 1 in self._ahead:
            self.seq += 1
            self._ahead.remove(self.seq)
        return bool(new)

    def jump(self, seq: int) -> None:
        """Mark all up to `seq` as known."""
        self.seq = max(seq, self.seq)
        self._ahead = {one for one in self._ahead if one > self.seq}
        self.take(())


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

    def __init__(self, screen: Screen, info: dict[str, Any]) -> None:
        self.info = info
        self.cursor = Cursor()
        self.own: set[str] = set()
        """Ids of our messages, which are on the screen from the moment they are sent."""
        self._screen = screen
        self._streams: dict[str, _Stream] = {}
        self._shown_last: str | None = None

    @property
    def session_id(self) -> str:
        return str(self.info["sessionId"])

    # Messages

    def messages(self, messages: Iterable[Message], via: str = "") -> None:
        """Show messages that are not on the screen yet."""
        for message in messages:
            if message["id"] not in self.own:
                self._show(message, via)
        self._tails()

    def reread(self, messages: Iterable[Message]) -> None:
        """Show what is new in these messages, given as they are now."""
        for message in messages:
            if message["id"] in self.own:
                continue
            if message["id"] in self._streams:
                self._more(message["id"], content_text(message.get("content", "")), 0)
                if message.get("status") != "streaming":
                    self._end(message["id"], message)
            elif message["seq"] > self.cursor.seq:
                self._show(message, "")
        self._tails()

    def _show(self, message: Message, via: str) -> None:
        head, *body = message_text(message).split("\n")
        self._shown_last = message["id"]
        if message.get("status") == "streaming":
            self.stream(message["id"], head.removesuffix(" [streaming]"), via, message["seq"])
            self._more(message["id"], content_text(message.get("content", "")), 0)
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
            self._streams[message_id] = stream = _Stream("── …", self.cursor.seq)
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

    def finish(self, message_id: str, end: dict[str, Any]) -> None:
        """End a stream; `end` has `status` and perhaps `toolCalls`."""
        self._end(message_id, end)
        self._tails()

    def _end(self, message_id: str, end: dict[str, Any]) -> None:
        stream = self._streams.pop(message_id, None)
        if stream is not None and stream.line:
            self._lines(message_id, stream, stream.line)
        for call in end.get("toolCalls") or []:
            self._screen.text(
                one_line(f"→ {call.get('name')} {json.dumps(call.get('arguments'), ensure_ascii=False)}", 200)
            )
        if end.get("status") not in (None, "done"):
            self._screen.info(str(end["status"]))

    def _tails(self) -> None:
        self._screen.tail("\n".join(clean(stream.line) for stream in self._streams.values() if stream.line))

    @property
    def read_from(self) -> int:
        """Where to read from again: messages with a greater seq may contain something that is not on the screen."""
        unfinished = (stream.seq - 1 for message_id, stream in self._streams.items() if message_id not in self.own)
        return max(0, min((self.cursor.seq, *unfinished)))

    # Changes

    def apply(self, changes: Iterable[dict[str, Any]], via: str = "") -> None:
        """Apply changes of this session, from others or from us, in order."""
        for change in changes:
            messages = change.get("messages") or []
            if self.cursor.take([message["seq"] for message in messages] or [change["seq"]]):
                self._apply(change, messages, via)
        self.info["seq"] = max(self.info["seq"], self.cursor.seq)

    def _apply(self, change: dict[str, Any], messages: list[Message], via: str) -> None:
        kind, message_id = change["kind"], change.get("messageId")
        if kind == "appended":
            self.info["messageCount"] += len(messages)
            self.messages(messages, via)
        elif message_id is not None:
            if message_id in self.own:
                return
            if kind == "extended":
                self.extend(message_id, change["text"], change.get("offset"))
            else:
                self.finish(message_id, change)
        elif kind == "updated":
            self.updated(change["session"], via)
        elif kind == "note":
            note = change["note"]
            self._event(f"note {note['heading']}: {one_line(note['content'], 200)}", via)
        elif kind in ("cleared", "truncated"):
            self._gone(kind, change.get("afterSeq"), via)

    def _event(self, text: str, via: str) -> None:
        self._screen.info(one_line(f"{text} · {via}" if via else text))

    def updated(self, info: dict[str, Any], via: str = "") -> None:
        """Take the session's fields as they are now, and show what changed."""
        old, self.info = self.info, {**info, "seq": max(self.info["seq"], info["seq"])}
        if info["name"] != old["name"]:
            self._event(f"name: {info['name'] or '(none)'}", via)
        if info["tags"] != old["tags"]:
            self._event(f"tags: {' '.join(info['tags']) or '(none)'}", via)
        if info["archived"] != old["archived"]:
            self._event("archived" if info["archived"] else "not archived", via)

    def _gone(self, kind: str, after_seq: int | None, via: str) -> None:
        self._streams.clear()
        self._tails()
        if kind == "cleared":
            self.info["messageCount"] = 0
            self._event("cleared", via)
        else:
            self._event(f"taken back: all messages after #{after_seq}", via)
