"""The state in which a window that comes back knows a conversation. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sessiond.agent_host.actions import changes
from sessiond.agent_host.shapes import Action
from sessiond.agent_host.turns import Conversation


class KnownState(NamedTuple):
    """A state that a window has; or it has taken some of the actions to `reached`, and lacks `first`."""

    base: Conversation
    first: Sequence[Action]
    reached: Conversation | None
    asked: str | None = None
    """The last question that it was asked."""


class Reached(NamedTuple):
    """`first` to `number`: of the actions that led to it."""

    first: int
    number: int
    conversation: Conversation


def in_the_middle(base: Conversation, later: Reached, number: int) -> KnownState:
    """The connection broke between two actions of one change."""
    return KnownState(base, changes(base, later.conversation)[number - later.first + 1 :], later.conversation)
