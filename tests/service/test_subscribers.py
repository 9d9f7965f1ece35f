"""Who has a session open, and who of them is asked to answer."""

from __future__ import annotations

from sessiond.service.subscribers import Subscribers
from tests.fakes.peer import FakePeer


def asked(peer: FakePeer) -> list[str]:
    return [params["messageId"] for params in peer.take("session/asked")]


def test_what_was_asked_of_one_that_left_is_asked_again() -> None:
    """Of the next that answers, in the order of the session; not of one that only looks on, and not what others still have."""
    audience = Subscribers("s")
    first, second, third = FakePeer(), FakePeer(), FakePeer()
    audience.attach(first, 0, answers=True)
    assert audience.ask("m1") and audience.ask("m2")
    assert asked(first) == ["m1", "m2"]
    audience.attach(second, 0, answers=True)
    audience.ask_again(["m1", "m2"])
    assert asked(second) == []
    first.closed = True
    audience.attach(third, 0, answers=True)
    audience.ask_again(["m0", "m1", "m2"])
    assert (asked(second), asked(third)) == ([], ["m1", "m2"])


def test_what_was_stopped_is_not_asked_again() -> None:
    audience = Subscribers("s")
    first, second = FakePeer(), FakePeer()
    audience.attach(first, 0, answers=True)
    audience.ask("m1")
    assert audience.interrupt("m1")
    assert [one["messageId"] for one in first.take("session/interrupted")] == ["m1"]
    audience.detach(first)
    audience.attach(second, 0, answers=True)
    audience.ask_again(["m1"])
    assert asked(second) == []
