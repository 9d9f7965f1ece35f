"""The question that windows show in the turn that goes on.

    none ──the session's activity asks it──> shown ──answered, withdrawn, or its turn ends──> none

A window cannot lose a part of a turn again. What was asked stays in the windows that saw it, marked as answered, while a window
that comes later gets only the open question. So a question is not part of the conversation: it is closed before the actions that
change that, because its turn may end with them, and asked after them. To close or to ask twice does no harm, so a window that
comes back is told both.

A turn that has ended takes no question: then only the session's status says that somebody waits.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sessiond.agent_host import shapes
from sessiond.agent_host.shapes import Action, Turn
from sessiond.model.values import Json
from sessiond.schema.types import Activity, Question

_MOST_ANSWERS = 20


class Asking:
    """The question of one session that windows show. `was_answered`: whether somebody answered a question that has ended."""

    def __init__(self, was_answered: Callable[[str], bool]) -> None:
        self._was_answered = was_answered
        self._wanted: Question | None = None
        """What the session asks."""
        self._words = ""
        self._turn: str | None = None
        """The turn in which it is shown."""
        self._shown: Question | None = None
        self._answers: dict[str, Json] = {}
        """By question: what was said in a window."""

    @property
    def shown(self) -> str | None:
        """Id of the question that windows have."""
        return None if self._shown is None else self._shown.id

    def hear(self, activity: Activity | None) -> None:
        """Take note of what goes on in the session now."""
        question = None if activity is None else activity.question
        self._wanted = None if question is None or question.id in self._answers else question
        if activity is not None and self._wanted is not None:
            self._words = activity.text or f"{activity.client} waits: {activity.waiting_for}"

    def asks(self, question_id: str) -> Question | None:
        """The question, if it is open."""
        return self._shown if self._shown is not None and self._shown.id == question_id else None

    def answered(self, question_id: str, answers: Json) -> None:
        """A window's answer was the first one."""
        self._answers[question_id] = answers
        if len(self._answers) > _MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]
        self._wanted = None

    # Actions

    def closing(self, active: Turn | None) -> list[Action]:
        """`active`: the turn that goes on from now on."""
        if self._shown is None or (self._shown == self._wanted and active is not None and active.id == self._turn):
            return []
        closed, self._shown = self._shown.id, None
        return [self._close(closed)]

    def opening(self, active: Turn | None) -> list[Action]:
        if self._wanted is None or self._shown is not None or active is None:
            return []
        self._shown, self._turn = self._wanted, active.id
        return [shapes.input_requested(self._request(self._shown))]

    def missed(self, before: str | None, active: Turn | None) -> tuple[list[Action], list[Action]]:
        """Return what a window that was away lacks: before other actions, and after them. `before`: the last question that it was asked.
        `active`: the turn that went on for it.
        """
        same = before == self.shown and active is not None and active.id == self._turn
        first = [] if before is None or same else [self._close(before)]
        return first, [] if self._shown is None else [shapes.input_requested(self._request(self._shown))]

    def in_turn(self, active: Turn | None) -> Turn | None:
        """The turn with the open question, as a window gets it that has nothing yet."""
        if self._shown is None or active is None:
            return active
        part = shapes.InputRequestPart(request=self._request(self._shown))
        return msgspec.structs.replace(active, response_parts=(*active.response_parts, part))

    def _close(self, question_id: str) -> Action:
        """Windows show that it was answered elsewhere, or that it was not."""
        answered = question_id in self._answers or self._was_answered(question_id)
        return shapes.input_completed(question_id, "accept" if answered else "cancel", self._answers.get(question_id))

    def _request(self, question: Question) -> shapes.InputRequest:
        choices = [(one.id, one.label) for one in question.choices or []]
        return shapes.input_request(question.id, self._words, choices)
