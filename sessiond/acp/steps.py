"""The steps that are to be taken in sessions, one after the other. Values; no I/O.

`key` is the agent's id of the session. Ids of messages are the same each time a spool is read, so a step that was taken before
a kill adds nothing when it is taken again.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.client.types import NewMessage, ToolCall


class Step(Struct, frozen=True, kw_only=True):
    """Root of the steps."""

    key: str


class SessionOpened(Step, frozen=True, kw_only=True):
    """A session begins (`fresh`), or one that existed before is asked for: what the agent repeats of it before `Caught` is
    recorded only if nothing is known of it.
    """

    fresh: bool
    agent: str
    cwd: str | None = None


class Caught(Step, frozen=True, kw_only=True):
    """The agent has repeated a session that existed before, or said that it cannot."""


class Said(Step, frozen=True, kw_only=True):
    """A message. With the status `streaming` it grows until it has `Ended`."""

    message: NewMessage
    there: bool = False
    """The session has it already. If it is missing there, somebody removed it."""


class Grew(Step, frozen=True, kw_only=True):
    """More text of a message."""

    message_id: str
    text: str


class Ended(Step, frozen=True, kw_only=True):
    """A message is complete, or will not be: `done`, `interrupted` or `error`."""

    message_id: str
    status: str
    metadata: dict[str, Any] | None = None
    tool_calls: list[ToolCall] = []


class Begun(Step, frozen=True, kw_only=True):
    """A request that goes on for a while: a prompt, or a question of the agent for permission."""

    request: str
    """Its id, as `identity` has it."""
    asked: dict[str, Any] | None = None
    """Params of a question."""


class Over(Step, frozen=True, kw_only=True):
    """There is a response to it, or it was withdrawn."""

    request: str
    question: bool
    """Whether it was one: both sides count their requests for themselves."""


class Learned(Step, frozen=True, kw_only=True):
    """The facts that became known of the session. None: nothing new."""

    name: str | None = None
    model: str | None = None
    weak: bool = False
    """The name counts only if the session has none."""


class Kept(Step, frozen=True, kw_only=True):
    """Values of the session's state: plan, mode, options, usage, the end of the last turn."""

    values: dict[str, Any]
