"""WebSocket frames in, messages out (RFC 6455), without I/O: each message is a text frame, or several fragments of one.

The library reads and writes single frames; their meaning is here, because the limit may change between two messages, because
a peer that violates the protocol still gets an answer before the close frame, and because nothing may be read ahead while
the channel is held. Extensions (compression) are never negotiated.
"""

from __future__ import annotations

from collections.abc import Generator

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.streams import StreamReader

from sessiond.transports.framing import Fault

_CONTROL_BYTES = 125
"""A control frame may be this long, even if the message has no room left."""


class WsFraming:
    """One peer's frames from the handshake on. A `Framing`."""

    lines = False

    def __init__(self, message_limit: int) -> None:
        self.message_limit = message_limit
        self.finished = False
        self.opened = False
        """Whether the handshake is over; before that there is no farewell."""
        self._reader = StreamReader()
        self._frame: Generator[None, None, Frame] | None = None
        """The frame that is being read."""
        self._message: bytearray | None = None
        """The fragments so far."""
        self._replies: list[bytes] = []
        self._broken = False
        self._close_sent = False
        self._close_code: int = CloseCode.NORMAL_CLOSURE

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take what arrived. After a fault or the peer's close frame it is discarded."""
        if not (self._broken or self.finished):
            self._reader.feed_data(bytes(data))

    def end(self) -> None:
        """The stream ended without a close frame: an incomplete message does not count, complete ones are still returned."""

    def next(self) -> bytes | Fault | None:
        """The next complete message, or what is wrong with the stream, or None until more arrives."""
        while not (self._broken or self.finished):
            try:
                frame = self._next_frame()
                message = None if frame is None else self._take(frame)
            except PayloadTooBig:
                return self._too_large()
            except ProtocolError as error:
                return self._fault(CloseCode.PROTOCOL_ERROR, f"the WebSocket frame is broken: {error}")
            except UnicodeDecodeError:
                return self._fault(CloseCode.INVALID_DATA, "the WebSocket close frame is not UTF-8")
            if frame is None or message is not None:
                return message
        return None

    def encode(self, message: bytes) -> bytes:
        return Frame(Opcode.TEXT, message).serialize(mask=False)

    def ping(self) -> bytes:
        return Frame(Opcode.PING, b"").serialize(mask=False)

    def replies(self) -> bytes:
        """Pongs."""
        data = b"".join(self._replies)
        self._replies.clear()
        return data

    def farewell(self) -> bytes:
        """The close frame, once."""
        if self._close_sent or not self.opened:
            return b""
        self._close_sent = True
        return Frame(Opcode.CLOSE, Close(self._close_code, "").serialize()).serialize(mask=False)

    def close_with(self, code: int) -> None:
        """Set the code of the farewell."""
        self._close_code = code

    def _next_frame(self) -> Frame | None:
        if self._frame is None:
            if not self._reader.buffer:
                return None
            # Use the present limit: earlier messages have been delivered, and may have changed it.
            room = self.message_limit - len(self._message or b"")
            self._frame = Frame.parse(self._reader.read_exact, mask=True, max_size=max(room, _CONTROL_BYTES))
        try:
            next(self._frame)
        except StopIteration as done:
            self._frame = None
            frame: Frame = done.value
            return frame
        return None

    def _take(self, frame: Frame) -> bytes | Fault | None:
        if frame.opcode is Opcode.PING:
            self._replies.append(Frame(Opcode.PONG, frame.data).serialize(mask=False))
        elif frame.opcode is Opcode.CLOSE:
            self._peer_closes(Close.parse(bytes(frame.data)))
        elif frame.opcode is Opcode.BINARY:
            return self._fault(CloseCode.UNSUPPORTED_DATA, "unexpected binary frame")
        elif frame.opcode is Opcode.TEXT or frame.opcode is Opcode.CONT:
            return self._collect(frame)
        return None

    def _collect(self, frame: Frame) -> bytes | Fault | None:
        begins = frame.opcode is Opcode.TEXT
        if begins != (self._message is None):
            raise ProtocolError("a new message began inside another" if begins else "a continuation of nothing")
        if len(self._message or b"") + len(frame.data) > self.message_limit:
            return self._too_large()
        if begins and frame.fin:
            return bytes(frame.data)
        self._message = self._message or bytearray()
        self._message += frame.data
        if not frame.fin:
            return None
        message, self._message = bytes(self._message), None
        return message

    def _peer_closes(self, close: Close) -> None:
        self.finished = True
        self._message = None
        self._reader.discard()
        if close.code != CloseCode.NO_STATUS_RCVD:
            self._close_code = close.code

    def _too_large(self) -> Fault:
        limit = self.message_limit
        self._fault(CloseCode.MESSAGE_TOO_BIG, "")
        return Fault("tooLarge", f"the message is longer than {limit} bytes", limit)

    def _fault(self, code: int, message: str) -> Fault:
        self._broken = True
        self._close_code = code
        self._frame = self._message = None
        self._reader.discard()
        return Fault("parseError", message, hint="a message is a text frame, or several fragments of one")
