"""The queue of steps that wait to be written."""

from __future__ import annotations

from sessiond.index.feed_queue import FeedQueue, FeedStep


def step(session_id: str, name: int = 0, bulk: bool = False) -> FeedStep:
    return FeedStep(session_id, name, lambda batch: None, bulk)


def test_live_goes_first_and_sessions_keep_their_order() -> None:
    """Live steps overtake bulk ones, but no step overtakes one of the same session."""
    lanes = FeedQueue()
    lanes.put(step("a", 1, bulk=True))
    lanes.put(step("b", 2, bulk=True))
    lanes.put(step("a", 3))
    lanes.put(step("c", 4))
    taken = [lanes.take(0) for _ in range(5)]
    assert [item.weight if isinstance(item, FeedStep) else None for item in taken] == [4, 1, 2, 3, None]
    lanes.put(step("a", 5))
    lanes.put(step("b", 6, bulk=True))
    assert [lanes.take(0).weight for _ in range(2)] == [5, 6]  # type: ignore[union-attr]


def test_weight_counts_what_is_not_written() -> None:
    """The weight falls when steps are written, not when they are taken."""
    lanes = FeedQueue()
    steps = [step("a", 10, bulk=True), step("b", 20, bulk=True)]
    for one in steps:
        lanes.put(one)
    lanes.take(0)
    assert lanes.weight == 30
    lanes.written(steps)
    assert lanes.weight == 0


def test_ends_when_all_is_taken() -> None:
    """A closed queue ends only after the last step was taken."""
    lanes = FeedQueue()
    lanes.put(step("a", bulk=True))
    lanes.close()
    assert not lanes.ended()
    assert lanes.take(None) is not None
    assert lanes.take(None) is None
    assert lanes.ended()


def late(session_id: str, name: int) -> FeedStep:
    return FeedStep(session_id, name, lambda batch: None, late=True)


def test_what_nobody_waits_for_comes_after_what_somebody_does() -> None:
    """And before whole sessions; a mark in the live lane is taken first, and nobody is told to wait for it."""
    lanes = FeedQueue()
    lanes.put(step("a", 1, bulk=True))
    lanes.put(late("b", 2))
    assert not lanes.ask()
    lanes.put(step("c", 3))
    assert lanes.ask()
    mark = lanes.mark(bulk=False)
    taken = [lanes.take(0) for _ in range(5)]
    assert [item.weight if isinstance(item, FeedStep) else item for item in taken] == [3, mark, 2, 1, None]
    lanes.written([one for one in taken if isinstance(one, FeedStep)])
    assert not lanes.ask() and lanes.weight == 0


def test_of_what_nobody_waits_for_only_the_newest_counts() -> None:
    """Anything newer of the session takes its place, so that it never overtakes that."""
    for newer in (step("a", 2), step("a", 2, bulk=True), late("a", 2)):
        lanes = FeedQueue()
        lanes.put(late("a", 1))
        lanes.put(newer)
        assert lanes.weight == 2
        assert lanes.take(0) is newer and lanes.take(0) is None
    lanes = FeedQueue()
    lanes.put(step("a", 1, bulk=True))
    lanes.put(late("a", 2))  # it must not overtake what stands before it
    lanes.put(late("b", 3))
    assert [lanes.take(0).weight for _ in range(3)] == [3, 1, 2]  # type: ignore[union-attr]


def test_what_nobody_waits_for_is_written_before_the_end() -> None:
    """A closed queue has not ended before that was taken."""
    lanes = FeedQueue()
    lanes.put(late("a", 1))
    lanes.close()
    assert not lanes.ended()
    assert isinstance(lanes.take(None), FeedStep)
    assert lanes.ended()


def test_marks_with_nothing_before_them_are_done() -> None:
    """Those that stand behind a step are not."""
    lanes = FeedQueue()
    first = [lanes.mark(bulk=False), lanes.mark(bulk=False)]
    lanes.put(step("a", 1))
    behind = lanes.mark(bulk=False)
    assert lanes.done_marks() == first and lanes.done_marks() == []
    assert isinstance(lanes.take(0), FeedStep)
    assert lanes.waited_for and lanes.done_marks() == [behind] and not lanes.waited_for
