"""Which writes in a store's folder are ours: hints about them cost nothing, and no other program's write is taken for one."""

from __future__ import annotations

import pytest

from sessiond.store import own_writes
from sessiond.store.own_writes import OwnWrites, Print

OLD, NEW = (1, 2, 3), (1, 2, 4)


def wrote(own: OwnWrites, relative: str, now: Print) -> None:
    with own.writing(relative):
        own.wrote(relative, now)


def test_two_writes_of_one_file_are_waited_for_until_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of one of them is not the end of both. A write that takes too long is not waited for, and then nobody knows."""
    monkeypatch.setattr(own_writes, "_PATIENCE_S", 0.0)
    own = OwnWrites()
    with own.writing("a"):
        wrote(own, "a", OLD)
        assert not own.is_own("a", lambda _: OLD)
    assert own.is_own("a", lambda _: OLD)


def test_what_was_written_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of any size costs the same memory; a file that is written again is remembered as the newest."""
    monkeypatch.setattr(own_writes, "_MOST", 2)
    own = OwnWrites()
    for name in ("a", "b", "a", "c"):
        wrote(own, name, OLD)
    assert [name for name in "abc" if own.is_own(name, lambda _: OLD)] == ["a", "c"]


def test_a_file_that_we_write_while_it_is_looked_at_is_ours() -> None:
    """The look finds the new version, and the old one was remembered when it began."""
    own = OwnWrites()
    wrote(own, "a", OLD)
    looks = 0

    def look(relative: str) -> Print:
        nonlocal looks
        looks += 1
        if looks == 1:
            wrote(own, relative, NEW)
        return NEW

    assert own.is_own("a", look)
    assert looks == 2
