"""Replaying the journal on top of what the files hold."""

from __future__ import annotations

import pytest

from sessiond.formats.base import Decoded
from sessiond.model.changes import Extended
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.store.merge import adds_nothing_to, replay
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


def replied(content: str, status: str | None = "streaming", role: str = "assistant") -> Session:
    session = Session("a", NOW)
    session.add_message(Message(id="r", seq=1, role=role, content=content, timestamp=NOW, status=status))  # type: ignore[arg-type]
    return session


@pytest.mark.parametrize(
    ("there", "after"),
    [("be", "begin"), ("begin", "begin"), ("begin with", "begin with"), ("b", "b"), ("bet", "bet")],
    ids=["not there", "there", "there, and more", "what is before it is missing", "something else is there"],
)
def test_more_text_is_added_once_and_only_where_it_belongs(there: str, after: str) -> None:
    """A crash may leave a reply with the text of a change whose seq the file does not have yet."""
    session = replied(there)
    change = Extended(seq=2, at=NOW, message_id="r", offset=2, text="gin")
    missing = replay(Decoded(session, [], through=1), [change])
    [found] = session.messages()
    assert found.content == after
    assert missing == ([change] if there == "be" else [])


@pytest.mark.parametrize(
    ("earlier", "now", "nothing"),
    [
        (replied("be"), replied("begin", None), True),
        (replied("be"), replied("bad", None), False),
        (replied("be", None), replied("begin", None), False),
        (replied("be", None), replied("be", None), True),
        (replied("be", None), replied("be", None, "user"), False),
        (replied("be"), Session("a", NOW), False),
    ],
)
def test_only_a_reply_that_was_streamed_may_have_grown(earlier: Session, now: Session, nothing: bool) -> None:
    """Of an earlier state in the trash nothing is thrown away that the session itself does not have."""
    assert adds_nothing_to(earlier, now) == nothing
