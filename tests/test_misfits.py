"""What a loop over other people's things notes of those that it could not handle."""

from __future__ import annotations

import logging

import pytest

from sessiond import misfits
from sessiond.misfits import Misfits


def test_a_thing_that_fails_is_named_until_it_passes(caplog: pytest.LogCaptureFixture) -> None:
    """With its last reason. The log has each reason once, and where an error was raised."""
    found = Misfits(logging.getLogger("x"), "could not be done")
    for name, error in (("a", KeyError("k")), ("a", KeyError("k")), ("b", OSError(24, "Too many open files"))):
        with found.apart(name):
            raise error
    found.note("a", "it is odd")
    with found.apart("c"):
        pass
    assert (found.names(), len(found), "a" in found, "c" in found) == (["a", "b"], 2, True, False)
    assert (found.reason("a"), found.reason("c")) == ("it is odd", None)
    assert found.reason("b") == "OSError: [Errno 24] Too many open files"
    assert caplog.text.count("a could not be done: KeyError: 'k'") == 1
    assert caplog.text.count("Traceback") == 2
    found.passed("a")
    found.passed("a")
    assert found.names() == ["b"]


def test_what_ends_the_work_is_no_misfit() -> None:
    """Ctrl-C and the end of a task go on."""
    found = Misfits(logging.getLogger("x"), "could not be done")
    with pytest.raises(KeyboardInterrupt), found.apart("a"):
        raise KeyboardInterrupt
    assert not found


def test_what_was_told_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many different reasons there are; one may then be told again."""
    monkeypatch.setattr(misfits, "_MOST_TOLD", 3)
    found = Misfits(logging.getLogger("x"), "could not be done")
    for number in range(10):
        found.note("a", f"reason {number}")
    assert len(found._told) <= 3
    assert len(found) == 1


def test_reasons_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are kept. Of the others the names are, so that everything that failed is counted until it passes."""
    monkeypatch.setattr(misfits, "_MOST_REASONS", 3)
    found = Misfits(logging.getLogger("x"), "could not be done")
    for number in range(6):
        found.note(str(number), f"reason {number}")
    assert (len(found), found.reason("5"), found.reason("3")) == (6, "reason 5", "reason 3")
    assert found.reason("2") == found.reason("0") == "it failed, and the log says why"
    found.passed("0")
    found.note("1", "again")
    assert (found.names(), found.reason("1")) == (["2", "3", "4", "5", "1"], "again")
    assert sum(one is not None for one in found._reasons.values()) == 3


def test_what_speaks_of_all_things_is_raised() -> None:
    found = Misfits(logging.getLogger("x"), "could not be done")
    with pytest.raises(OSError, match="full"), found.apart("a", OSError):
        raise OSError(28, "the disk is full")
    assert not found
