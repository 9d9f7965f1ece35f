"""Replaying the journal on top of what the files hold."""

from __future__ import annotations

from sessiond.formats.base import Decoded
from sessiond.model.session import Session
from sessiond.store.merge import replay
from tests.store.conftest import NOW, appended, message


def test_an_append_that_is_there_in_part_is_completed():
    """A crash may leave the last message of an append and not the first: what is missing is replayed, the rest not twice."""
    session = Session("a", NOW)
    session.add_message(message(3))
    decoded = Decoded(session, [], through=0, beyond=frozenset({3}))
    replay(decoded, [appended(1, 2, 3)])
    assert [m.seq for m in session.messages()] == [1, 2, 3]


def test_an_append_that_is_there_whole_is_left_alone():
    """Nothing of it is applied, even where somebody took one of its messages out since."""
    session = Session("a", NOW)
    session.add_message(message(2))
    decoded = Decoded(session, [], through=0, beyond=frozenset({1, 2}))
    assert replay(decoded, [appended(1, 2)]) == []
    assert [m.seq for m in session.messages()] == [2]
