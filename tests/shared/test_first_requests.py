"""What needs the hub and is asked in the first moments after a start: it waits until the hub was asked, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sessiond.clock import SystemClock
from sessiond.errors import Unavailable
from sessiond.hub.port import Hint, Hub, Lost
from sessiond.shared.ledger import Ledger
from sessiond.shared.link import HubLink
from tests.shared.conftest import Machines
from tests.shared.test_sharing import shared_session

_DELAY_S = 0.01


def test_what_needs_the_hub_waits_for_its_first_word(machines: Machines) -> None:
    a, b = machines(2)
    session = shared_session(a, b)
    b.kill()
    new = a.call("session/new", store="team")["session"]["sessionId"]
    a.append(new, "new")
    b.link.delay = _DELAY_S
    b.start()
    message = {"role": "user", "content": "agreed"}
    asked = [
        b.client.send("session/append", {"sessionId": session, "messages": [message], "expectedSeq": 1}),
        b.client.send("session/truncate", {"sessionId": session, "afterSeq": 1}),
        b.client.send("session/read", {"sessionId": new}),
    ]
    answers = [b.client.answer(number) for number in asked]
    assert [one.get("error") for one in answers] == [None, None, None]
    assert (answers[0]["result"]["seq"], answers[1]["result"]["removed"]) == (2, 1)
    assert [one["content"] for one in answers[2]["result"]["messages"]] == ["new"]


def test_a_hub_that_is_away_is_waited_for_once(machines: Machines) -> None:
    a, b = machines(2)
    session = shared_session(a, b)
    b.kill()
    b.link.cut()
    b.start()
    assert b.append(session, "waits")["provisional"] is True
    message = {"role": "user", "content": "agreed"}
    error = b.client.fails("session/append", sessionId=session, messages=[message], expectedSeq=2)
    assert error["data"]["kind"] == "unavailable"
    assert "it was not reached yet" not in error["message"]
    assert b.client.fails("session/read", sessionId="team/nowhere")["data"]["kind"] == "sessionNotFound"


async def test_a_link_that_fails_ends_the_wait(tmp_path: Path) -> None:
    heard: list[Callable[[Hint], None]] = []
    hub = cast(Hub, cast(Any, SimpleNamespace(subscribe=heard.append)))
    ledger = Ledger(str(tmp_path / "team.ledger"))
    await ledger.open()
    link = HubLink("team", ledger, hub, SystemClock(), patience_s=600)
    waiting = asyncio.ensure_future(link.reach())
    await asyncio.sleep(0)
    heard[0](Lost("no route"))
    async with asyncio.timeout(20):
        with pytest.raises(Unavailable, match="no route"):
            await waiting
    await ledger.close()
