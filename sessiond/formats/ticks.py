"""amacs' chat file: one `* Tick N` per exchange. Bytes to pieces and back; docs/formats/amacs.md has the grammar.

An exchange is a user's message and its answer. The drawer has the ids, the seqs and what the text cannot express, one
property per turn.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence

import msgspec

from sessiond.formats import org
from sessiond.formats.append_only import Piece
from sessiond.formats.base import Problem, Tail
from sessiond.formats.foreign_message import HEAD, usable_id, usable_seq, usable_time
from sessiond.formats.sidecar import Seen, key_of
from sessiond.model.message import STATUSES, Message
from sessiond.model.values import Json

_ROLES = {"Human": "user", "Agent": "assistant"}
_TICK = re.compile(r"Tick[ \t]+(\d{1,15})(?:[ \t].*)?")
_TURN = re.compile(r"(Human|Agent)(?:[ \t]+:[^\s]*:)?")


class TickChat(msgspec.Struct):
    """The pieces of a chat: what comes before the first heading, then a piece for every heading of level 1."""

    pieces: list[Piece]
    tick: int = 0
    """The highest tick."""
    headings: int = 0
    ticks: int = 0


def parse(main: bytes, path: str, problems: list[Problem]) -> TickChat:
    """Never fails: a heading that is not a tick is a piece without messages."""
    chat = TickChat([])
    group: list[org.OrgSection] = []
    for section in [*org.sections(main), org.OrgSection(1, "", 0, b"")]:
        if section.level == 1 and group:
            chat.pieces.append(_piece(group, chat, path, problems))
            group = []
        group.append(section)
    return chat


def _piece(group: list[org.OrgSection], chat: TickChat, path: str, problems: list[Problem]) -> Piece:
    piece = Piece(b"".join(section.raw for section in group), [])
    first = group[0]
    chat.headings += first.level == 1
    match = _TICK.fullmatch(first.title) if first.level == 1 else None
    if match is None:
        return piece
    chat.ticks += 1
    chat.tick = max(chat.tick, int(match[1]))
    try:
        piece.raw.decode()
    except UnicodeDecodeError:
        problems.append(Problem(path, first.line, "has bytes that are not valid UTF-8; they are read as U+FFFD"))
    heads = [index for index, section in enumerate(group) if section.level == 2]
    told: set[str] = set()
    for start, end in itertools.pairwise([*heads, len(group)]):
        turn = _TURN.fullmatch(group[start].title)
        if turn is None:
            continue
        key = f"SESSIOND_{turn[1].upper()}"
        ours = first.properties.get(key) if key not in told else None
        told.add(key)
        body = group[start].body + b"".join(section.raw for section in group[start + 1 : end])
        text = org.body_text(body, crlf=org.is_crlf(first.raw))
        seen = _seen(_ROLES[turn[1]], text, int(match[1]), org.time_of(first.properties.get("TIMESTAMP", "")))
        if ours is not None and not _restore(seen, text, ours):
            problems.append(Problem(path, first.line, f"has a {key} property that cannot be used"))
        piece.seen.append(seen)
    return piece


def _seen(role: str, text: str, tick: int, time: str | None) -> Seen:
    """A turn that another program wrote: its text is taken as it is."""
    return Seen(
        key=key_of(role, text, tick),
        role=role,
        content=text,
        timestamp=time,
        rest={"tick": tick},
        near=key_of(role, tick),
    )


def _restore(seen: Seen, text: str, ours: str) -> bool:
    """Restore a turn of ours from its property. False if the property cannot be used."""
    try:
        value = msgspec.json.decode(ours)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    if not isinstance(value, dict) or usable_id(value.get("id")) is None or usable_seq(value.get("seq")) is None:
        return False
    seen.id, seen.seq = value["id"], value["seq"]
    seen.timestamp = usable_time(value.get("timestamp")) or seen.timestamp
    seen.status = value.get("status") if value.get("status") in STATUSES else None
    rest = value.get("rest")
    seen.rest = {key: one for key, one in rest.items() if key not in HEAD} if isinstance(rest, dict) else {}
    blocks = value.get("content")
    if isinstance(blocks, list) and org.show(_text_of(blocks)).text == text:
        seen.content = blocks
    else:
        seen.content = org.restore(text, value)
    return True


def _text_of(blocks: list[Json]) -> str:
    return Message(id="", seq=0, role="", content=blocks, timestamp="").text()


class Exchange(msgspec.Struct):
    human: Message
    agent: Message
    tick: int


def pair(
    messages: Iterable[Message], alone: set[str], written: Collection[str], tick: int
) -> tuple[list[Exchange], int]:
    """The exchanges among `messages` (in order) that can be written now, and the last tick. Users' messages that will
    never be answered are added to `alone`.

    The answer to a message is the assistant's next message with text; one that only calls tools does not count.
    """
    found: list[Exchange] = []
    waiting: Message | None = None
    for message in messages:
        if message.role == "user":
            if waiting is not None and waiting.id not in written:
                alone.add(waiting.id)
            waiting = None if message.id in alone else message
        elif message.role == "assistant" and waiting is not None:
            if message.tool_calls and message.id not in written and not message.text().strip():
                continue
            if not {waiting.id, message.id} & set(written) and "streaming" not in (waiting.status, message.status):
                number = _tick_of(waiting) or _tick_of(message) or tick + 1
                tick = max(tick, number)
                found.append(Exchange(waiting, message, number))
            waiting = None
    return found, tick


def _tick_of(message: Message) -> int | None:
    tick = message.rest.get("tick")
    return tick if type(tick) is int and 0 < tick < 10**15 else None


def _render(exchange: Exchange) -> str:
    shown = {"HUMAN": org.show(exchange.human.text()), "AGENT": org.show(exchange.agent.text())}
    at = exchange.agent.timestamp
    properties = {"TIMESTAMP": f"{at[:19]}Z" if at.endswith(".000Z") else at}
    for turn, message in (("HUMAN", exchange.human), ("AGENT", exchange.agent)):
        properties[f"SESSIOND_{turn}"] = org.property_json(_property(message, shown[turn].extra, at))
    human, agent = shown["HUMAN"].text, shown["AGENT"].text
    return f"* Tick {exchange.tick}\n{org.drawer(properties)}\n** Human\n{human}\n\n** Agent\n{agent}\n"


def _property(message: Message, extra: dict[str, Json], shown_time: str) -> dict[str, Json]:
    """Return what the heading and the text do not say about a message."""
    value: dict[str, Json] = {"id": message.id, "seq": message.seq}
    if message.timestamp != shown_time:
        value["timestamp"] = message.timestamp
    if message.status is not None:
        value["status"] = message.status
    value |= extra
    if not isinstance(message.content, str):
        value["content"] = message.content
    if message.rest:
        value["rest"] = dict(message.rest)
    return value


def data(exchanges: Sequence[Exchange], before: Tail) -> bytes:
    """The bytes to append: the exchanges, each after a blank line, with the file's own line ends."""
    if not exchanges:
        return b""
    text = "\n".join(_render(one) for one in exchanges)
    if before.size:
        text = ("\n" if before.last_byte == b"\n" else "\n\n") + text
    return org.line_ends(text, crlf=b"\r\n" in before.end)
