"""What waits to be written."""

from __future__ import annotations

from sessiond.index.lanes import Lanes, Step


def step(session_id: str, name: int = 0, bulk: bool = False) -> Step:
    return Step(session_id, name, lambda batch: None, bulk)


def test_live_goes_first_and_sessions_keep_their_order() -> None:
    """Live steps overtake bulk ones, but no step overtakes one of the same session."""
    lanes = Lanes()
    lanes.put(step("a", 1, bulk=True))
    lanes.put(step("b", 2, bulk=True))
    lanes.put(step("a", 3))
    lanes.put(step("c", 4))
    taken = [lanes.take(0) for _ in range(5)]
    assert [item.weight if isinstance(item, Step) else None for item in taken] == [4, 1, 2, 3, None]
    lanes.put(step("a", 5))
    lanes.put(step("b", 6, bulk=True))
    assert [lanes.take(0).weight for _ in range(2)] == [5, 6]  # type: ignore[union-attr]


def test_weight_counts_what_is_not_written() -> None:
    """The weight falls when steps are written, not when they are taken."""
    lanes = Lanes()
    steps = [step("a", 10, bulk=True), step("b", 20, bulk=True)]
    for one in steps:
        lanes.put(one)
    lanes.take(0)
    assert lanes.weight == 30
    lanes.written(steps)
    assert lanes.weight == 0


def test_ends_when_all_is_taken() -> None:
    """A closed queue ends only after the last step was taken."""
    lanes = Lanes()
    lanes.put(step("a", bulk=True))
    lanes.close()
    assert not lanes.ended()
    assert lanes.take(None) is not None
    assert lanes.take(None) is None
    assert lanes.ended()
