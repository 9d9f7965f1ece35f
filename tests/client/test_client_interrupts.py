"""An interrupt, as of Ctrl-C or a time limit, between any two lines of a call: the next call of the client works."""

from __future__ import annotations

import linecache
import sys
from types import FrameType
from typing import Any

import pytest

from sessiond.client import Sessiond, connect
from tests.client.scripted import Scripted
from tests.zygote import ForkedHome

_NOTHING = ("try:", "finally:")
"""Lines at which Python looks for no signal: they do nothing."""


class _Interrupt(BaseException):
    pass


class _At:
    """Interrupts whoever runs the `number`th line of `file`."""

    def __init__(self, file: str, number: int) -> None:
        self._file = file
        self._left = number
        self.where = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.endswith(self._file):
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and not self.where and line not in _NOTHING:
            self._left -= 1
            if not self._left:
                self.where = f"{frame.f_lineno}: {line}"
                raise _Interrupt
        return self


def _interrupted(sessiond: Sessiond, number: int) -> str:
    """Make a call that is interrupted. Returns where; empty: it has fewer lines."""
    at = _At("client/link.py", number)
    before = sys.gettrace()
    sys.settrace(at)
    try:
        sessiond.status()
    except _Interrupt:
        pass
    finally:
        sys.settrace(before)
    return at.where


def test_the_next_call_works_after_an_interrupt_at_any_line() -> None:
    number, trouble = 0, {}
    with Scripted(daemon__status={"version": "1", "pid": 1}) as daemon:
        while True:
            number += 1
            with connect(daemon.address, token="t", timeout_s=5) as sessiond:
                where = _interrupted(sessiond, number)
                if not where:
                    break
                try:
                    sessiond.status()
                except Exception as error:
                    trouble[where] = error
    assert number > 20
    assert trouble == {}


class _Interrupting(dict[str, int]):
    """Interrupts whoever sets something, once."""

    interrupted = False

    def __setitem__(self, key: str, value: int) -> None:
        if not self.interrupted:
            self.interrupted = True
            raise _Interrupt
        super().__setitem__(key, value)


def test_a_change_that_is_just_being_given_is_given_after_an_interrupt(forked: ForkedHome) -> None:
    with connect(home=str(forked.path), start=False) as sessiond, (chat := sessiond.new()).changes() as changes:
        changes._given = _Interrupting(changes._given)
        wanted = chat.append("user", "words").seq
        with pytest.raises(_Interrupt):
            changes.wait(20)
        change = changes.wait(20)
        assert change is not None
        assert change.seq == wanted
