"""Marks: which number stands for which state, in a file that is cut, lost and shortened."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.agent_host import numbers
from sessiond.agent_host.numbers import Numbers, ShownState, StateMark
from sessiond.fs import RealFileSystem


def made(path: Path, now_ms: int = 1000) -> Numbers:
    found = Numbers(RealFileSystem(), str(path))
    found.load(now_ms)
    return found


def marked(one: Numbers, session: str, seq: int, **more: str) -> StateMark:
    first = one.next()
    mark = one.mark(first, session, ShownState(seq, seq, False), **more)  # type: ignore[arg-type]
    one.write(*one.to_write([mark]))
    return mark


def test_a_number_leads_to_the_state_before_the_next(tmp_path: Path) -> None:
    one = made(tmp_path / "numbers")
    first, other, last = marked(one, "a", 1), marked(one, "b", 1), marked(one, "a", 2)
    assert one.at("a", other.number) == (first, last)
    assert one.at("a", last.number) == (last, None)
    assert one.at("a", first.number - 1) == (None, first)
    again = made(tmp_path / "numbers")
    assert again.at("a", other.number) == (first, last)


def test_no_number_is_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    given = marked(made(path), "a", 1).number
    assert made(path).next() > given
    path.unlink()
    assert made(path, now_ms=100_000).next() > given  # the time of day goes on


@pytest.mark.parametrize("damage", [b"\x00\xff\n", b"[1,2", b"null\n", b"{}\n"])
def test_what_cannot_be_read_costs_itself(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "numbers"
    before = marked(made(path), "a", 1)
    path.write_bytes(path.read_bytes() + damage)
    one = made(path)
    assert one.newest("a") == before
    after = marked(one, "a", 2)
    assert made(path).at("a", after.number) == (after, None)


def test_what_was_dropped_stands_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark that is kept for its split does not stand for the numbers of those behind it that are gone."""
    monkeypatch.setattr(numbers, "_MOST", 20)
    one = made(tmp_path / "numbers")
    split = marked(one, "a", 1, split="m1")
    seen = marked(one, "a", 2)
    for seq in range(3, 60):
        marked(one, "a", seq)
    for again in (one, made(tmp_path / "numbers")):
        assert again.splits("a") == {"m1"}
        assert again.at("a", split.number)[0] is None
        assert again.at("a", seen.number)[0] is None
        newest = again.newest("a")
        assert newest is not None
        assert again.at("a", newest.number)[0] == newest


def test_a_snapshot_counts_for_its_window_only(tmp_path: Path) -> None:
    one = made(tmp_path / "numbers")
    early = marked(one, "a", 1).number
    snapshot = marked(one, "a", 2, client="w")
    assert one.seen("a", early, "w") == snapshot.number
    assert one.seen("a", early, "other") == early


def test_the_last_question_is_known_when_older_marks_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that comes back may show it still."""
    monkeypatch.setattr(numbers, "_MOST", 10)
    one = made(tmp_path / "numbers")
    one._limit = 20
    for question in ("q1", "q2"):
        marked(one, "a", 1, asked=question)
    for seq in range(2, 40):
        marked(one, "a", seq)
    assert one.asked("a", one.last) == "q2"
    assert made(tmp_path / "numbers").asked("a", one.last) == "q2"
