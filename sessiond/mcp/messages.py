"""A message as words, and how many tokens it takes. No I/O."""

from __future__ import annotations

import msgspec

from sessiond.exporters import turns
from sessiond.mcp.quoting import brief, inline, quoted
from sessiond.mcp.shapes import ShownMessage
from sessiond.model.message import Message

BYTES_PER_TOKEN = 3
"""Of UTF-8: English has about four, code and other scripts three. An estimate that is rather too high."""


def body_of(message: Message, *, thinking: bool) -> str:
    """Everything that a message says, as text."""
    parts: list[str] = []
    if answered := turns.called(message):
        parts.append(f"[result of call {answered}]")
    if thinking and (thought := turns.thinking(message)):
        parts.append(f"[thinking]\n{thought}\n[end of thinking]")
    for piece in turns.pieces(message):
        if isinstance(piece, turns.TextBlock):
            parts.append(piece.text)
        elif isinstance(piece, turns.Image):
            parts.append(f"[image: {turns.one_line(piece.url or piece.label)}]")
        else:
            parts.append(f"[{piece.kind}] {_json(piece.value)}")
    for name, _, arguments in turns.calls(message):
        text = arguments if isinstance(arguments, str) else _json(arguments)
        parts.append(f"[calls {name}] {turns.readable(text)}")
    return "\n".join(filter(None, parts))


def shown(wire: dict[str, object], body: str, offset: int = 0, most: int | None = None) -> ShownMessage:
    """A message of the wire with `most` code points of its body from `offset` on."""
    message = Message.from_wire(wire)
    offset = min(offset, len(body))
    end = len(body) if most is None else min(len(body), offset + most)
    marks = turns.marks(message)
    if "cut" in wire:
        marks.append("only the beginning can be shown")
    return ShownMessage(
        seq=message.seq, role=brief(message.role, 64), time=message.timestamp, marks=marks,
        quote=body[offset:end], offset=offset, chars=len(body), complete=offset == 0 and end == len(body),
    )  # fmt: skip


def lines_of(one: ShownMessage) -> str:
    """A message in a tool's text."""
    extra = "".join(f" ({mark})" for mark in one.marks)
    head = f"#{one.seq} {inline(one.role)} {inline(one.time)}{extra}"
    if not one.complete:
        end = one.offset + len(one.quote)
        head += f" characters {one.offset} to {end} of {one.chars}"
        if end < one.chars:
            head += f"; for the rest call read with around={one.seq} and offset={end}"
    return f"{head}\n{quoted(one.quote)}"


def tokens_of(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def cost_of(one: ShownMessage) -> int:
    """Tokens of a message, in the form that takes more of them."""
    return max(tokens_of(lines_of(one)) + 1, -(-len(msgspec.json.encode(one)) // BYTES_PER_TOKEN) + 1)


def cut_to(wire: dict[str, object], body: str, offset: int, tokens: int) -> ShownMessage:
    """Return as much of a message from `offset` on as fits, at least one character."""
    low, high = 1, max(1, min(len(body) - offset, tokens * BYTES_PER_TOKEN))
    while low < high:
        middle = (low + high + 1) // 2
        if cost_of(shown(wire, body, offset, middle)) <= tokens:
            low = middle
        else:
            high = middle - 1
    return shown(wire, body, offset, low)


def _json(value: object) -> str:
    return turns.readable(msgspec.json.encode(value).decode())
