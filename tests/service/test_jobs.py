"""service/jobs.py: what the journal's thread may answer, and whether anything else is waited for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from sessiond.errors import InvalidParams
from sessiond.schema.types import SessionInfo
from sessiond.service.jobs import Job, on_durable
from sessiond.service.subscribers import Subscribers
from tests.fakes.peer import FakePeer


class Reply:
    """An answer that can be sent early, or cannot. `sent`: what it was told to send."""

    def __init__(self, can: bool = True) -> None:
        self.can = can
        self.sent: list[Any] = []

    def when_durable(self, result: Any) -> Callable[[], bool] | None:
        def send() -> bool:
            self.sent.append(result)
            return True

        return send if self.can else None


def info_at(seq: int) -> SessionInfo:
    """Of a session without anything but a seq."""
    return SessionInfo(
        session_id="s", name=None, created_at="", updated_at="", model=None, message_count=0, seq=seq, store="default",
        format="jsonl", path="", cwd=None, tags=[], archived=False, summary=None, parent=None, metadata={}, attached=1, dirty=False,
    )  # fmt: skip


def planned(reply: Reply | None, peer: FakePeer | None = None, **more: Any) -> Job:
    job = Job(plan=lambda draft: None, origin=peer, early=reply, **more)
    job.result = "the result"
    return job


async def test_a_lone_append_is_answered_and_nobody_else_waits():
    """The answer is out, and the loop need not hurry."""
    reply, peer = Reply(), FakePeer()
    audience = Subscribers("s")
    audience.attach(peer, 0)
    send = on_durable([planned(reply, peer)], deque(), audience)
    assert send is not None
    assert not reply.sent
    assert send() is True
    assert reply.sent == ["the result"]


async def test_those_who_stand_behind_it_are_not_forgotten():
    """Also those who come after the record was handed over: the loop has work when it is durable."""
    for before in (True, False):
        reply = Reply()
        waiting: deque[Job] = deque([planned(None)] if before else [])
        send = on_durable([planned(reply)], waiting, Subscribers("s"))
        assert send is not None
        waiting.append(planned(None))
        assert send() is False
        assert reply.sent == ["the result"]


async def test_others_who_have_it_open_are_not_forgotten():
    """They wait to be told of the change."""
    reply, peer, other = Reply(), FakePeer(), FakePeer()
    audience = Subscribers("s")
    audience.attach(other, 0)
    send = on_durable([planned(reply, peer)], deque(), audience)
    assert send is not None
    assert send() is False
    assert reply.sent == ["the result"]


@pytest.mark.parametrize("case", ["shared", "no client", "asks again", "refused", "cannot"])
async def test_what_only_the_loop_can_answer(case):
    """Several that share a record, one that nobody waits for, one that asks the session afterwards, an error, and what the
    connection cannot send now.
    """
    taken = [planned(Reply())]
    if case == "shared":
        taken.append(planned(Reply()))
    elif case == "no client":
        taken = [planned(None)]
    elif case == "asks again":
        taken = [planned(Reply(), then=lambda: None)]
    elif case == "refused":
        taken[0].error = InvalidParams("no")
    else:
        taken = [planned(Reply(can=False))]
    assert on_durable(taken, deque(), Subscribers("s")) is None


async def test_a_session_that_is_shorter_after_a_reload():
    """What follows is told, though it has seqs that the peer knew of what is gone now."""
    peer = FakePeer()
    audience = Subscribers("s")
    audience.attach(peer, 10)
    audience.reloaded(info_at(5), "synced")
    audience.changed(6, [{"kind": "updated", "seq": 6, "fields": {}}], None)
    assert [(method, params.get("seq")) for method, params in peer.got] == [
        ("session/reloaded", None),
        ("session/changed", 6),
    ]
