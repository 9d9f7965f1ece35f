"""A message as `sessiond show` prints it: all of its words; on a terminal roles in colour, and what is long folded."""

from __future__ import annotations

from sessiond.cli.output import BRIEF, one_line, parts_of
from sessiond.cli.terminal import DIM, ROLE, Paint

_LINES = 8
"""Of thinking, or of a tool's output."""


def view(message: dict[str, object], paint: Paint, *, folded: bool) -> str:
    """Its lines. `folded`: of thinking and a tool's output only the first ones, and how many are left out; of a call one line."""
    head, thinking, text, calls = parts_of(message)
    if folded:
        thinking, text = _first(thinking, paint), _first(text, paint) if message.get("role") == "tool" else text
        calls = [one_line(call, BRIEF) for call in calls]
    thought = [paint("(thinking)", DIM), *(paint(line, DIM) for line in thinking.split("\n")), ""] if thinking else []
    said = [text] if text or not calls else []
    return "\n".join([paint(head, ROLE), *thought, *said, *(paint(call, DIM) for call in calls)])


def _first(text: str, paint: Paint) -> str:
    lines = text.split("\n")
    if len(lines) <= _LINES + 1:
        return text
    return "\n".join([*lines[:_LINES], paint(f"… {len(lines) - _LINES} more lines; --full shows them", DIM)])
