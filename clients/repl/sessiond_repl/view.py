"""What of a session is on the screen already, and what a change adds to it. No I/O: a Screen does that.

Everything may come twice (a change that was heard, and again after a reconnection) and is shown once: changes by their
seq, text of a streamed message by its offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Protocol

from sessiond.cli.output import clean, content_text, message_text, one_line

Message = dict[str, Any]


class Screen(Protocol):
    """Where it goes. Texts come without control characters and without a newline at the end."""

    def head(self, text: str) -> None:
        """Who speaks, on one line."""

    def text(self, text: str) -> None:
        """What they say, any number of whole lines."""

    def tail(self, text: str) -> None:
        """The lines of streams that are not ended yet, all of them; replaces what was there. May show nothing."""

    def info(self, text: str) -> None:
        """What happened, on one line."""

    def error(self, text: str) -> None:
        """What went wrong, on one line."""

    def table(self, headings: list[str], rows: list[list[str]]) -> None: ...


class Cursor:
    """Which changes are known. Our own are told by answers, others' by notifications, so they may come out of order."""

    def __init__(self, seq: int = 0) -> None:
        self.seq = seq
        """All up to here are known."""
        self._ahead: set[int] = set()

    def take(self, seqs: Iterable[int]) -> bool:
        """These are known now. Whether any of them was not."""
        new = {seq for seq in seqs if seq > self.seq} - self._ahead
        self._ahead |= new
        while self.seq + 1 in self._ahead:
            self.seq += 1
            self._ahead.remove(self.seq)
        return bool(new)

    def jump(self, seq: int) -> None:
        """All up to `seq` is known."""
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
        """The end that has no newline yet."""


class View:
    """One session on one screen. A new session takes a new View."""

    def __init__(self, screen: Screen, info: dict[str, Any]) -> None:
        self.info = info
        self.cursor = Cursor()
        self.own: set[str] = set()
        """Messages of ours: they are on the screen from the moment they were said."""
        self._screen = screen
        self._streams: dict[str, _Stream] = {}
        self._shown_last: str | None = None

    @property
    def session_id(self) -> str:
        return str(self.info["sessionId"])

    # Messages

    def messages(self, messages: Iterable[Message], via: str = "") -> None:
        """Messages that are not on the screen yet."""
        for message in messages:
            if message["id"] not in self.own:
                self._show(message, via)
        self._tails()

    def reread(self, messages: Iterable[Message]) -> None:
        """Messages as they are now: what is new of them is shown."""
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
        """A message begins whose text comes bit by bit."""
        stream = self._streams[message_id] = _Stream(head, seq)
        self._screen.head(f"{head} · {one_line(via)}" if via else stream.head)
        self._shown_last = message_id

    def extend(self, message_id: str, text: str, offset: int | None) -> None:
        """Text of a stream; what of it is known by its offset (code points) is not shown again."""
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
        """A stream ends; `end` holds `status` and perhaps `toolCalls`."""
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
        """Where to read again from: every message with a greater seq may hold something that is not on the screen."""
        unfinished = (stream.seq - 1 for message_id, stream in self._streams.items() if message_id not in self.own)
        return max(0, min((self.cursor.seq, *unfinished)))

    # Changes

    def apply(self, changes: Iterable[dict[str, Any]], via: str = "") -> None:
        """Changes of this session, of others' or of ours, in order."""
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
        """What the session's own fields are now."""
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
