"""The tool `read`: a window of a session within a budget of tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sessiond.client import requests
from sessiond.client.types import SessionInfo
from sessiond.errors import SessionNotFound
from sessiond.exporters.redact import Redactor
from sessiond.exporters.turns import readable, worth_reading
from sessiond.mcp.memory import Memory, blanked, line_of, session_of
from sessiond.mcp.messages import body_of, cost_of, cut_to, lines_of, shown, tokens_of
from sessiond.mcp.quoting import NOTICE, brief, inline, quoted
from sessiond.mcp.refusals import Refused, no_session
from sessiond.mcp.shapes import MAX_SEQ, ReadCall, ReadNote, ReadOutput, ShownMessage
from sessiond.model.message import Message

_PAGE = 50
_FRAME_TOKENS = 140
"""The notice, the line about the session, and the hints for the next call, in either form."""
_NOTE_CHARS = 2000


async def read(memory: Memory, call: ReadCall) -> ReadOutput:
    """Messages, oldest first, and where to go on in both directions."""
    if sum(map(bool, (call.around, call.before, call.after))) > 1:
        raise Refused("Give only one of `around`, `before` and `after`. Call again.")
    info = await memory.gate().one(call.session_id)
    redactor = await memory.blanks.of(info)
    try:
        window = _Window(memory, call, info, redactor)
        await window.fill()
        notes = await window.notes() if call.notes else []
    except SessionNotFound:
        raise no_session(call.session_id) from None
    gate = memory.gate()
    info = await gate.one(call.session_id)  # after it was read: it may have become private meanwhile
    return ReadOutput(
        notice=NOTICE, session=session_of(gate, info, redactor), messages=window.messages,
        older_before=window.older_before, newer_after=window.newer_after, notes=notes,
    )  # fmt: skip


class _Window:
    """Messages around a place, as many as fit."""

    def __init__(self, memory: Memory, call: ReadCall, info: SessionInfo, redactor: Redactor | None) -> None:
        self._client = memory.client
        self._call = call
        self._id = info.session_id
        self._redactor = redactor
        described = session_of(memory.gate(), info, redactor)
        self._left = max(call.max_tokens // 4, call.max_tokens - _FRAME_TOKENS - tokens_of(line_of(described)))
        self.messages: list[ShownMessage] = []
        self.older_before: int | None = None
        self.newer_after: int | None = None

    async def fill(self) -> None:
        call = self._call
        if call.around:
            await self._around(call.around)
        elif call.after:
            _, self.newer_after = await self._take(self._forwards(call.after), older=False)
            self.older_before = await self._older(min(call.after + 1, MAX_SEQ))
        else:
            self.older_before, _ = await self._take(self._backwards(call.before or None), older=True)
            self.newer_after = await self._newer(call.before - 1) if call.before else None

    async def _around(self, seq: int) -> None:
        """The message itself, half of what is left for what is before it, and the rest for what is after it."""
        wire = await anext(self._forwards(seq - 1), None)
        if wire is None:
            wire = await anext(self._backwards(None), None)
        if wire is None:
            return
        seq = wire["seq"]
        self._add(wire, older=False, offset=self._call.offset)
        if self._call.offset:
            self.older_before, self.newer_after = await self._older(seq), await self._newer(seq)
            return
        rest, self._left = self._left, self._left // 2
        self.older_before, _ = await self._take(self._backwards(seq), older=True)
        self._left += rest - rest // 2
        _, self.newer_after = await self._take(self._forwards(seq), older=False)

    async def _take(self, wires: AsyncIterator[dict[str, Any]], *, older: bool) -> tuple[int | None, int | None]:
        """Add messages while they fit: the first and last seq if there are more, else None."""
        last: int | None = None
        async for wire in wires:
            if self._full or not self._add(wire, older=older):
                if last is None:
                    last = wire["seq"] + 1 if older else wire["seq"] - 1
                return last, last
            last = wire["seq"]
        return None, None

    async def _older(self, seq: int) -> int | None:
        """The seq, if there is anything before it."""
        return seq if await anext(self._backwards(seq), None) is not None else None

    async def _newer(self, seq: int) -> int | None:
        return seq if await anext(self._forwards(seq), None) is not None else None

    @property
    def _full(self) -> bool:
        return bool(self.messages) and not self.messages[-1].complete

    def _add(self, wire: dict[str, object], *, older: bool, offset: int = 0) -> bool:
        """False if it does not fit. The first one is cut so that it does."""
        body = body_of(Message.from_wire(wire), thinking=self._call.thinking)
        one = shown(wire, body, offset)
        cost = cost_of(one)
        if cost > self._left:
            if self.messages:
                return False
            one = cut_to(wire, body, one.offset, self._left)
            cost = cost_of(one)
        self._left -= cost
        self.messages.insert(0, one) if older else self.messages.append(one)
        return True

    async def _backwards(self, before: int | None) -> AsyncIterator[dict[str, object]]:
        more = True
        while more:
            which = {"last": _PAGE} if before is None else {"before": before, "limit": _PAGE}
            messages, more = await self._page(**which)
            for wire in reversed(messages):
                if worth_reading(Message.from_wire(wire)):
                    yield wire
            before = messages[0]["seq"] if messages else before

    async def _forwards(self, since: int) -> AsyncIterator[dict[str, Any]]:
        more = True
        while more:
            messages, more = await self._page(since=since, limit=_PAGE)
            for wire in messages:
                if worth_reading(Message.from_wire(wire)):
                    yield wire
            since = messages[-1]["seq"] if messages else since

    async def _page(self, **which: int) -> tuple[list[dict[str, Any]], bool]:
        page = (await self._client.answer(requests.read(self._id, **which))).plain
        wires: list[dict[str, object]] = page["messages"]
        return [clean(self._redactor, wire) for wire in wires], page["hasMore"] and bool(wires)

    async def notes(self) -> list[ReadNote]:
        """The newest ones that fit, oldest first."""
        found: list[ReadNote] = []
        for note in reversed(await self._client.session(self._id).notes()):
            text = readable(blanked(self._redactor, note.content))
            one = ReadNote(
                seq=note.seq, heading=brief(blanked(self._redactor, note.heading)), time=note.timestamp,
                quote=text[:_NOTE_CHARS] + ("…" if len(text) > _NOTE_CHARS else ""),
            )  # fmt: skip
            cost = tokens_of(_note(one)) * 2
            if cost > self._left:
                break
            self._left -= cost
            found.insert(0, one)
        return found


def clean(redactor: Redactor | None, wire: dict[str, object]) -> dict[str, object]:
    """A message with private data blanked, as exports blank it: ids, roles and times remain."""
    if redactor is None:
        return wire
    redactor.learn(wire)
    kept: dict[str, object] = {
        key: wire[key] for key in ("id", "seq", "role", "timestamp", "status", "toolCallId", "cut") if key in wire
    }
    blank: dict[str, object] = redactor.value(wire)
    return {**blank, **kept}


def text_of(call: ReadCall, found: ReadOutput) -> str:
    """The result for a model that reads text."""
    parts = [NOTICE, line_of(found.session)]
    if found.older_before is not None:
        parts.append(f"Older messages: call read with before={found.older_before}.")
    parts += [lines_of(one) for one in found.messages] or ["No messages here."]
    if found.newer_after is not None:
        parts.append(f"Newer messages: call read with after={found.newer_after}.")
    parts += [_note(one) for one in found.notes]
    return "\n\n".join(parts)


def _note(one: ReadNote) -> str:
    return f"Note #{one.seq} {inline(one.heading)} {inline(one.time)}\n{quoted(one.quote)}"
