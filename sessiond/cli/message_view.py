"""A message as `sessiond show` prints it on a terminal: roles in colour, outputs of tools folded."""

from __future__ import annotations

from typing import Any

from sessiond.cli.output import parts_of
from sessiond.cli.terminal import DIM, ROLE, Paint

_LINES = 8
"""Of a tool's output."""


def view(message: dict[str, Any], paint: Paint, *, folded: bool) -> str:
    """Its lines. `folded`: of a tool's output only the first ones, and how many are left out."""
    head, text, calls = parts_of(message)
    lines = text.split("\n")
    if folded and message.get("role") == "tool" and len(lines) > _LINES + 1:
        text = "\n".join([*lines[:_LINES], paint(f"… {len(lines) - _LINES} more lines; --full shows them", DIM)])
    return "\n".join([paint(head, ROLE), text, *(paint(call, DIM) for call in calls)])
