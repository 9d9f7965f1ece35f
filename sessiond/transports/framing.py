"""Bytes in, messages out, for both framings of a byte stream. No I/O.

    header mode    Content-Length: N CRLF CRLF, then N bytes (the LSP base protocol)
    lines mode     one message per LF, where the peer's first byte is `{` and the transport allows it

A `Decoder` takes the bytes that arrive and returns messages one at a time, so that the reader may stop between two of them.
A stream that can no longer be followed gives one `Fault` and then nothing more. The result does not depend on how the stream
was cut into pieces. Nothing larger than a limit is ever collected: a length is checked before waiting for its body.
"""

from __future__ import annotations

import re
from typing import Literal, Protocol

import msgspec

from sessiond.limits import MAX_HEADER_LINES

_COMPACT_AT = 64 * 1024
"""How many consumed bytes may be at the front of the buffer before it is compacted."""

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_USUAL = re.compile(rb"Content-Length: ([0-9]{1,9})\r\n\r\n")
_FIELD = re.compile(rb"(" + _TOKEN + rb"+)[ \t]*:[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_NAME = re.compile(_TOKEN + rb"*")
_BLANKS = re.compile(rb"[ \t]*")


class Fault(msgspec.Struct, frozen=True):
    """The reason why a stream cannot be followed any further. `limit`: the limit that was exceeded, if any (in bytes; for a
    header, also in lines). `hint`: what a message looks like in this framing.
    """

    kind: Literal["parseError", "tooLarge"]
    message: str
    limit: int | None = None
    hint: str | None = None


def encode(message: bytes, lines: bool) -> bytes:
    """One message as it is sent. In lines mode it must not contain a raw LF (compact JSON never does)."""
    return message + b"\n" if lines else b"Content-Length: %d\r\n\r\n%b" % (len(message), message)


class Framing(Protocol):
    """The part of its framing that a stream's channel needs. No I/O."""

    message_limit: int
    """For the next message, in bytes."""

    @property
    def finished(self) -> bool:
        """True if the peer has said, in the framing itself, that nothing more will come."""

    def feed(self, data: bytes | bytearray | memoryview) -> None: ...

    def end(self) -> None:
        """The peer's last byte has arrived."""

    def next(self) -> bytes | Fault | None: ...

    def encode(self, message: bytes) -> bytes: ...

    def replies(self) -> bytes:
        """Return what the framing itself has to send; each call returns only what is new."""

    def farewell(self) -> bytes:
        """Return what is sent last."""


class Decoder:
    """Decodes one stream, framed by headers or lines. `message_limit` may be changed between two messages."""

    def __init__(self, *, header_limit: int, message_limit: int, allow_lines: bool) -> None:
        self.message_limit = message_limit
        self.lines = False
        """Whether the peer sends newline-delimited JSON; known from its first byte on."""
        self._header_limit = header_limit
        self._allow_lines = allow_lines
        self._begun = False
        self._ended = False
        self._broken = False
        self._buffer = bytearray()
        self._start = 0
        self._searched = 0
        """Lines mode: the buffer has no LF up to here."""
        self._line: _Line | None = None
        """Header mode: the header line that is not complete yet."""
        self._stated: int | None = None
        """Its Content-Length, once it has been read."""
        self._length: int | None = None
        """Header mode: the length of the body that is awaited."""

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take what arrived. After a fault it is discarded."""
        if not self._broken:
            self._buffer += data

    def end(self) -> None:
        """Nothing more will come: in lines mode the last line does not need an LF."""
        self._ended = True

    @property
    def finished(self) -> bool:
        return False

    def encode(self, message: bytes) -> bytes:
        return encode(message, self.lines)

    def replies(self) -> bytes:
        return b""

    def farewell(self) -> bytes:
        return b""

    @property
    def held(self) -> int:
        """The number of bytes that were fed and not consumed yet."""
        return len(self._buffer) - self._start

    def next(self) -> bytes | Fault | None:
        """The next complete message, or what is wrong with the stream, or None until more arrives."""
        if self._broken or self._start == len(self._buffer):
            return None
        if not self._begun:
            self._begun = True
            self.lines = self._allow_lines and self._buffer[self._start] == 0x7B
        found = self._next_line() if self.lines else self._next_framed()
        if type(found) is Fault:
            self._broken = True
            self._buffer.clear()
            self._start = 0
        return found

    def _next_framed(self) -> bytes | Fault | None:
        if self._length is None:
            header = self._header()
            if header is None or isinstance(header, Fault):
                return header
            self._length, size = header
            self._start += size
        if self.held < self._length:
            return None
        length, self._length = self._length, None
        return self._take(length)

    def _header(self) -> tuple[int, int] | Fault | None:
        """(length of the body, size of the header with its blank line). Every byte is examined once, however few arrive at a
        time: an incomplete line is continued.
        """
        limit = self._start + self._header_limit
        if self._line is None:
            usual = _USUAL.match(self._buffer, self._start, limit)
            if usual is not None:
                length = int(usual[1])
                return self._too_long(length) or (length, usual.end() - self._start)
            self._line = _Line(self._start)
        line = self._line
        while (end := self._buffer.find(b"\n", line.seen, limit)) >= 0:
            text = bytes(self._buffer[line.begin : end]).removesuffix(b"\r")
            if not text:
                self._line, self._stated, stated = None, None, self._stated
                return _broken("it has no Content-Length") if stated is None else (stated, end + 1 - self._start)
            if line.number > MAX_HEADER_LINES:
                return Fault("tooLarge", f"the header has more than {MAX_HEADER_LINES} lines", MAX_HEADER_LINES)
            length_or_fault = self._field(text, self._stated)
            if isinstance(length_or_fault, Fault):
                return length_or_fault
            self._stated = length_or_fault
            self._line = line = _Line(end + 1, line.number + 1)
        if not line.may_go_on(self._buffer, min(len(self._buffer), limit)):
            return _broken("a line is not `Name: value`")
        if self.held >= self._header_limit:
            return Fault("tooLarge", f"the header is longer than {self._header_limit} bytes", self._header_limit)
        return None

    def _field(self, line: bytes, stated: int | None) -> int | Fault | None:
        """The length, if known after this header line."""
        field = _FIELD.fullmatch(line)
        if field is None:
            return _broken("a line is not `Name: value`")
        if field[1].lower() != b"content-length":
            return stated
        if stated is not None:
            return _broken("Content-Length occurs twice")
        if not field[2].isdigit():
            return _broken("Content-Length is not a decimal number")
        if len(field[2]) > 9:
            return self._too_long(10**9)
        return self._too_long(int(field[2])) or int(field[2])

    def _too_long(self, length: int) -> Fault | None:
        if length <= self.message_limit:
            return None
        return Fault("tooLarge", f"the message is longer than {self.message_limit} bytes", self.message_limit)

    def _next_line(self) -> bytes | Fault | None:
        while self.held:
            end = self._buffer.find(b"\n", max(self._searched, self._start))
            length = (end if end >= 0 else len(self._buffer)) - self._start
            if (fault := self._too_long(length)) is not None:
                return fault
            if end < 0 and not self._ended:
                self._searched = len(self._buffer)
                return None
            line = self._take(length + 1 if end >= 0 else length).strip(b" \t\r\n")
            if line:
                return line
        return None

    def _take(self, size: int) -> bytes:
        stop = self._start + size
        with memoryview(self._buffer) as view:
            taken = bytes(view[self._start : stop])
        self._start = stop
        if stop == len(self._buffer):
            self._buffer.clear()
            self._start = self._searched = 0
        elif stop > _COMPACT_AT:
            del self._buffer[:stop]
            self._start = self._searched = 0
        return taken


class _Line:
    """A header line whose end has not arrived: its number, where it begins in the buffer, how far it was examined, and in
    which part of the line that was.
    """

    __slots__ = ("begin", "number", "part", "seen")

    def __init__(self, begin: int, number: int = 1) -> None:
        self.begin = self.seen = begin
        self.number = number
        self.part: Literal["name", "blanks", "value", "end"] = "name"

    def may_go_on(self, buffer: bytearray, stop: int) -> bool:
        """Examine its new bytes, which do not contain an LF. Returns whether it can still become `Name: value`, or a blank line."""
        while self.seen < stop and self.part != "value":
            if self.part == "end":
                return False  # a CR that is not followed by an LF
            if self.part == "name":
                self.seen = _match_end(_NAME, buffer, self.seen, stop)
                named = self.seen > self.begin
            else:
                self.seen = _match_end(_BLANKS, buffer, self.seen, stop)
                named = True
            if self.seen == stop:
                return True
            byte = buffer[self.seen]
            if byte == 0x3A and named:
                self.part = "value"
            elif byte in b" \t" and named:
                self.part = "blanks"
            elif byte == 0x0D and self.part == "name":
                self.part = "end"
            else:
                return False
            self.seen += 1
        self.seen = stop
        return True


def _match_end(pattern: re.Pattern[bytes], buffer: bytearray, start: int, stop: int) -> int:
    found = pattern.match(buffer, start, stop)
    return start if found is None else found.end()


def _broken(why: str) -> Fault:
    hint = "a message begins with `Content-Length: N`, a blank line, and N bytes of JSON"
    return Fault("parseError", f"the message header is broken: {why}", hint=hint)
