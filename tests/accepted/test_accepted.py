"""Accepted values can be saved, read and reported again, in every format; everything else is refused at once."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from sessiond.errors import SessiondError
from sessiond.fs import RealFileSystem
from sessiond.journal import JournalWriter
from sessiond.limits import Limits
from sessiond.rpc import handlers
from sessiond.rpc.envelope import Envelope, decode, encode_json
from sessiond.rpc.methods import METHODS
from sessiond.store.mounts import Mounts
from tests.accepted.asked import FORMATS, Asked, asked, makings, request
from tests.fakes.clock import ManualClock
from tests.fakes.index import FakeIndex
from tests.fakes.peer import FakePeer
from tests.fakes.wire_service import WireService
from tests.suite.explore import tries

assert handlers
_REFUSALS = {"parseError", "invalidParams", "tooLarge", "conflict", "alreadyExists"}
_GIVEN = {"attached", "dirty", "path"}
examples = tries(few=4, usual=12)


class Life:
    """A daemon's inside over a home: a store of each format on the real disk, asked by the bytes of requests."""

    def __init__(self, home: str, data: str) -> None:
        self.home = home
        self.data = f"{home}/{data}"
        self.peer = FakePeer("one")
        self.service: Any = None

    async def __aenter__(self) -> Life:
        fs = RealFileSystem()
        os.makedirs(f"{self.data}/mounts")
        self.journal, _ = await JournalWriter.recover(fs, f"{self.data}/journal", Limits())
        self.mounts = Mounts(fs, self.data, self.journal, ManualClock(), Limits(settle_s=0.0), pending={})
        await self.mounts.mount_default()
        for name in FORMATS:
            os.makedirs(f"{self.home}/{name}", exist_ok=True)
            await self.mounts.mount(name, f"{self.home}/{name}", name)
        self.service = WireService(
            stores=self.mounts.stores, index=FakeIndex(), clock=ManualClock(), limits=Limits(), interval_s=0, idle_s=0
        )
        await self.service.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.service.close()
        await self.mounts.close()
        await self.journal.close()

    def early(self) -> None:
        return None

    def earlier(self, *_: str) -> Any:
        return asyncio.sleep(0)

    async def ask(self, method: str, **params: Any) -> Any:
        """The result as it goes over the wire, or the error. Whatever is not a refusal is raised."""
        message = decode(request(method, params), 100)
        if not isinstance(message, Envelope):
            return message.error  # type: ignore[union-attr]
        try:
            result = await METHODS[method].call(self, message.params)  # type: ignore[arg-type]
        except SessiondError as error:
            return error
        return json.loads(encode_json(result), parse_float=_exact)

    async def told(self, session_id: str) -> dict[str, Any]:
        """All that a client can see of it, and nothing of where it lies."""
        opened = await self.ask("session/open", sessionId=session_id, last=1000)
        assert not isinstance(opened, SessiondError), opened
        opened["session"] = {key: value for key, value in opened["session"].items() if key not in _GIVEN}
        return dict(opened)


def _exact(text: str) -> str:
    return f"float {text}"


async def _live(home: str, made: dict[str, Any], steps: list[Asked], formats: list[str]) -> None:
    before: dict[str, Any] = {}
    made_here: list[str] = []
    async with Life(home, "first") as life:
        for fmt in formats:
            new = await life.ask("session/new", **made, store=fmt)
            if isinstance(new, SessiondError):
                assert new.kind in _REFUSALS, (fmt, new)
                new = await life.ask("session/new", store=fmt)
            assert isinstance(new, dict), (fmt, new)
            session_id = new["session"]["sessionId"]
            for method, params in steps:
                answer = await life.ask(method, **await _filled(life, session_id, params), sessionId=session_id)
                if isinstance(answer, SessiondError):
                    assert answer.kind in _REFUSALS, (fmt, method, params, answer)
                elif method == "session/fork":
                    made_here.append(answer["session"]["sessionId"])
                elif method == "session/move":
                    session_id = answer["session"]["sessionId"]
            await life.ask(
                "note/append", sessionId=session_id, heading="A session with nothing in it", content="has no file"
            )
            saved = await life.ask("session/save", sessionId=session_id)
            assert not isinstance(saved, SessiondError), (fmt, saved)
            made_here.append(session_id)
        for session_id in made_here:
            before[session_id] = await life.told(session_id)
            assert not before[session_id]["warnings"], (session_id, before[session_id]["warnings"])
    async with Life(home, "second") as life:  # which has nothing but the files
        for session_id, was in before.items():
            now = await life.told(session_id)
            assert now == was, session_id


async def _filled(life: Life, session_id: str, params: dict[str, Any]) -> dict[str, Any]:
    """`@streaming` is a message that streams, if one does."""
    if params.get("messageId") != "@streaming":
        return params
    there = (await life.told(session_id))["messages"]
    streaming = [one["id"] for one in there if one.get("status") == "streaming"]
    return {**params, "messageId": streaming[-1] if streaming else "none"}


_LONE = {"role": "user", "content": "x"}


@example({"sessionId": "store"}, [])
@example(
    {"sessionId": "scratchpad"},
    [
        ("session/append", {"messages": [_LONE, {**_LONE, "role": "assistant"}]}),
        ("note/append", {"heading": "H", "content": "c"}),
    ],
)
@example({}, [("note/append", {"id": "n" * 257, "heading": "H", "content": "c"})])
@example({}, [("note/append", {"id": "n" * 256, "heading": "H", "content": "c"})])
@example({}, [("session/append", {"messages": [{**_LONE, "timestamp": "2026-W02-7T14:30:22.000Z"}]})])
@settings(
    max_examples=examples,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(makings, st.lists(asked, max_size=6))
def test_9_what_was_accepted_is_saved_and_read_again(made: dict[str, Any], steps: list[Asked]) -> None:
    """Every field of every request, in all six formats; the same after a restart from the files alone."""
    with tempfile.TemporaryDirectory() as home:
        asyncio.run(_live(home, made, steps, FORMATS))
