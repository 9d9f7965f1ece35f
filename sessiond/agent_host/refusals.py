"""Everything that was said in windows and could not be kept: it stays, with the reason, as long as its session is open here. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from sessiond.agent_host.shapes import Turn
from sessiond.model.message import Message


class Cut(NamedTuple):
    """`seq`: of the last message that remains. `kept`: turns after which what was refused remains. `turn_id`: the last turn."""

    seq: int
    kept: frozenset[str]
    turn_id: str | None


class Refusals:
    """Turns by the id of the turn after which they stand; empty where they come first."""

    def __init__(self) -> None:
        self._after: dict[str, list[Turn]] = {}

    def after(self, turn_id: str) -> Sequence[Turn]:
        return self._after.get(turn_id, ())

    def add(self, turn_id: str, refused: Turn, taken: Collection[str]) -> None:
        """`taken`: ids that it must not have, because they are other turns' or messages'. What is sent again is there once."""
        there = [turn for turns in self._after.values() for turn in turns]
        if any(turn.message == refused.message and turn.id.split("/")[0] == refused.id for turn in there):
            return
        ids, wanted, count = {*taken, *(turn.id for turn in there)}, refused.id, 0
        while refused.id in ids:
            count += 1
            refused = msgspec.structs.replace(refused, id=f"{wanted}/refused-{count}")
        self._after.setdefault(turn_id, []).append(refused)

    def place(self, turn_id: str | None) -> str | None:
        """The turn after which this refused one stands; None if that is not refused."""
        return next((key for key, turns in self._after.items() if turn_id in {turn.id for turn in turns}), None)

    def cut(self, groups: Sequence[Sequence[Message]], turn_id: str | None, first: int) -> Cut | None:
        """Return what remains once every turn after this one is gone; None if the turn is unknown. `first`: the seq of the first message.
        `turn_id` None: nothing that is shown remains.
        """
        ids = [group[0].id for group in groups]
        place = self.place(turn_id)
        if turn_id in ids or place in ids:
            at = ids.index(place or turn_id or "")
            return Cut(groups[at][-1].seq, frozenset(("", *ids[:at])), turn_id)
        return Cut(first - 1, frozenset(), turn_id) if place is not None or turn_id is None else None

    def keep(self, cut: Cut) -> None:
        """It was done. In the place of the last turn, those up to it remain."""
        place = self.place(cut.turn_id)
        kept = {key: turns for key, turns in self._after.items() if key in cut.kept}
        if place is not None:
            turns = self._after[place]
            kept[place] = turns[: [turn.id for turn in turns].index(cut.turn_id or "") + 1]
        self._after = kept
