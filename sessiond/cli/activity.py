"""Describes what goes on in a session, for people."""

from __future__ import annotations

from sessiond.cli.output import one_line
from sessiond.client.types import Activity, Question
from sessiond.errors import InvalidParams


def in_short(activity: Activity | None) -> str:
    """`waits: permission`, `works`, or nothing."""
    if activity is None:
        return ""
    if activity.state != "waiting":
        return "works"
    return f"waits: {activity.waiting_for}" if activity.waiting_for else "waits"


def in_words(activity: Activity | None) -> str:
    """`claude waits: permission: rm -r build`."""
    if activity is None:
        return "idle"
    return f"{activity.client} {in_short(activity)}" + (f": {activity.text}" if activity.text else "")


def choices_in_words(question: Question) -> list[str]:
    """A line for each: its id and its label."""
    return [one_line(f"{one.id}: {one.label}" if one.id != one.label else one.id) for one in question.choices or []]


def choice_of(question: Question, answer: str) -> str | None:
    """The id of the choice with this id or label; None if the question has no choices. InvalidParams if none or several match."""
    choices = question.choices
    if not choices:
        return None
    for named in ([one.id for one in choices], [one.label for one in choices]):
        found = [one.id for one, name in zip(choices, named, strict=True) if name.casefold() == answer.casefold()]
        if len(found) == 1:
            return found[0]
    raise InvalidParams(f"{answer!r} cannot be chosen", hint=f"answer with {', '.join(one.id for one in choices)}")
