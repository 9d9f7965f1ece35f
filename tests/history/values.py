"""The parts of a history: the plan, the requests sent, the answers.

A **life** is one home with one daemon after another; many **stories** run in it side by side, each with its own sessions and
connections. A story has **rounds**: in a round every connection sends everything without waiting, and the next round begins
when everything is answered, or after the daemon was killed.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

LONG = 800
"""Characters. Longer texts are kept as their beginning, length and sum: the order of things is what counts here."""
DULL = set(
    "timestamp createdAt updatedAt path store format tags hint cwd model summary archived dirty attached".split()
)
"""Not shown to people."""


@dataclass
class Request:
    """One thing to be sent. `relative`: fields that count from the newest seq that the story knows when it is sent. `apart`: in
    a piece of its own, so that others come in between.
    """

    method: str
    params: dict[str, Any]
    cancel: bool = False
    notify: bool = False
    apart: bool = False
    relative: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Edit:
    """Somebody writes a session's file: `line` is added, or the message `without` is taken out."""

    session: str
    line: dict[str, Any] | None = None
    without: str | None = None


@dataclass
class Story:
    number: int
    theme: str
    word: str
    """In each of its texts, and a tag of each of its sessions."""
    sessions: list[str]
    rounds: list[dict[str, list[Request]]]
    edits: dict[int, list[Edit]] = field(default_factory=dict)
    """Before the round of that number, when the files are current."""


@dataclass(frozen=True)
class Step:
    """`before`: what happens to the daemon before the round: nothing, `kill` or `stop`, and then it is started again.
    `cut`: it is killed after so many answers of the round (None: the round is answered to the end).
    """

    before: str = ""
    cut: int | None = None


@dataclass
class Life:
    seed: str
    config: str
    steps: list[Step]
    stories: list[Story]
    autosaves: bool
    """The daemon saves at any time: a file's content in between does not matter."""


@dataclass
class Answer:
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    @property
    def kind(self) -> str | None:
        return None if self.error is None else str(self.error.get("data", {}).get("kind"))


@dataclass(eq=False)
class Op:
    """A request that was sent. `connection`: its client and how many times that one had to connect again (`A#1`)."""

    connection: str
    round: int
    number: int
    """Its place among the requests of its connection in this round."""
    method: str
    params: dict[str, Any]
    answer: Answer | None = None
    cancelled: bool = False
    """Somebody asked to cancel it."""
    notify: bool = False
    apart: bool = False
    copy: list[dict[str, Any]] | None = None
    """What was read of the fork that it made, before anyone else could know of it."""

    @property
    def session(self) -> str | None:
        return self.params.get("sessionId")

    def __str__(self) -> str:
        said = shown(self.params)
        marks = (" (notification)" if self.notify else "") + (" (and a cancel)" if self.cancelled else "")
        return f"{self.connection}.{self.round}.{self.number} {self.method} {said}{marks} -> {told(self.answer)}"


@dataclass
class Told:
    """One thing that a connection heard, in the order in which it came: a notification, or the answer to `op`."""

    op: Op | None = None
    method: str = ""
    params: dict[str, Any] = field(default_factory=dict)


@dataclass
class Round:
    """`restarted`: another daemon than in the round before. `cut`: the daemon was killed in it."""

    lanes: dict[str, list[Op]] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    restarted: bool = False
    cut: bool = False
    files: dict[str, list[dict[str, Any]] | None] = field(default_factory=dict)
    """The messages in session files when the round was over; None: no such file."""


@dataclass
class History:
    """The record of one story. `heard`: by connection. `failures`: faults that were noticed while it ran."""

    life: str
    story: Story
    rounds: list[Round] = field(default_factory=list)
    heard: dict[str, list[Told]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def ops(self, session: str | None = None) -> list[Op]:
        every = [op for one in self.rounds for lane in one.lanes.values() for op in lane]
        return [op for op in every if session is None or op.session == session]


def digest(content: Any) -> str:
    """A text that stands for a message's content."""
    text = content if isinstance(content, str) else "blocks " + json.dumps(content, sort_keys=True)
    if len(text) <= LONG:
        return text
    return f"{text[:24]}... {len(text)} characters, sum {zlib.crc32(text.encode()):x}"


def shown(value: Any, most: int = 1500) -> str:
    """JSON for people: short."""
    text = json.dumps(_short(value), ensure_ascii=False)
    return text if len(text) <= most else text[:most] + "..."


def _short(value: Any) -> Any:
    match value:
        case str():
            return value if len(value) <= 60 else f"{value[:24]}... ({len(value)})"
        case list():
            return ([f"({len(value)}) ..."] if len(value) > 12 else []) + [_short(one) for one in value[-12:]]
        case {"id": str(), "seq": int(), "content": content}:
            marks = [f" {value[key]}" for key in ("status", "metadata") if key in value]
            return f"{value['seq']} {value['id']} {digest(content)[:40]}{''.join(marks)}"
        case dict():
            return {key: _short(one) for key, one in value.items() if key not in DULL}
    return value


def told(answer: Answer | None) -> str:
    if answer is None:
        return "(no answer)"
    return shown(answer.result) if answer.error is None else f"{answer.kind} {shown(answer.error)}"
