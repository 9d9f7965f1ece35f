"""The things that pass, and what is to be done with them. Values; no I/O. The standard library only: an editor waits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

OURS = "sessiond-"
"""Ids of requests that the editor did not make begin with this."""
UPDATE = b'{"jsonrpc":"2.0","method":"session/update"'
"""Most messages of most agents begin like this, and need not be parsed to know what they are."""


class Line:
    """Bytes on their way. `whole`: a line that begins as a message does; False: a piece of something else."""

    __slots__ = ("_message", "_parsed", "data", "whole")

    def __init__(self, data: bytes, whole: bool = True) -> None:
        self.data = data
        self.whole = whole
        self._message: dict[str, object] | None = None
        self._parsed = not whole

    @property
    def message(self) -> dict[str, object] | None:
        """The message that it holds; None if it does not hold one."""
        if not self._parsed:
            self._message = parsed(self.data)
            self._parsed = True
        return self._message


class Down(NamedTuple):
    """Bytes for the agent."""

    data: bytes
    whole: bool = True


class Up(NamedTuple):
    """Bytes for the editor's side. `keep`: the recorder reads them too."""

    data: bytes
    whole: bool = True
    keep: bool = True


class Keep(NamedTuple):
    """Bytes that the recorder reads and that go nowhere for now; of the agent, or of the editor's side."""

    data: bytes
    editor: bool = False


class To(NamedTuple):
    """A message for a client that has joined."""

    client: int
    data: bytes


class Recall(NamedTuple):
    """A question for the store (memory.py). The answer comes back as a `RecallResponse` with the same number."""

    number: int
    job: dict[str, Any]
    lines: tuple[bytes, ...] = ()


Act = Down | Up | Keep | To | Recall
Acts = Iterator[Act]


class RecallResponse(NamedTuple):
    """The store's answer to a `Recall`: what it has. `problem`: why it could not say; None if it could."""

    head: dict[str, Any]
    lines: list[bytes]
    problem: str | None = None


def parsed(line: bytes) -> dict[str, Any] | None:
    """The message that a line holds, or None if it does not hold one."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def dumped(message: dict[str, object]) -> bytes:
    """A message of ours as a line."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


QUESTION = "sessiond.question"
"""In `_meta` of an answer by our own recorder: the fingerprint of the question that was shown to whoever answered."""


def fingerprint(params: object) -> str:
    """A digest of a question's params: the same for the same question, whatever its id."""
    return hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()[:32]


def identity(number: object) -> str:
    """A key for the id of a request, whatever it is: 1, 1.0, "1" and true are four."""
    return json.dumps(number)
