"""A hub that comes and goes, and links that lie: what is certain is said, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sessiond.errors import Indeterminate, Unavailable
from sessiond.hub import links, listening
from sessiond.hub.port import Back, HeadHint, Lost, OperationPlace
from tests.hub.postgres import Server
from tests.hub.proxy import Proxy
from tests.hub.stores import Team, after, begin, message


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    made = await Proxy(server.port).start()
    yield made
    await made.close()


async def test_a_hub_that_is_killed_and_started_again(own_server: Server, own_team: Team) -> None:
    """Listeners hear `Lost` once and `Back` once. A push meanwhile is `unavailable`; afterwards it is stored on top of what was
    confirmed before, and none of that is lost.
    """
    hub, other = own_team.hub(), own_team.hub("bob")
    heard: asyncio.Queue = asyncio.Queue()
    hub.subscribe(heard.put_nowait)
    assert isinstance(await heard.get(), Back)
    made = await hub.push(begin("one", 1, message(2)))
    assert await heard.get() == HeadHint("one", 1)
    own_server.kill()
    assert isinstance(await heard.get(), Lost)
    with pytest.raises(Unavailable):
        await hub.push(after(made, message(3)))
    with pytest.raises(Unavailable):
        await hub.heads(None, 10)
    assert (await hub.welcome()).member == "Ada"
    own_server.start()
    assert isinstance(await heard.get(), Back)
    assert (await hub.push(after(made, message(4)))).numbers == (2,)
    assert await heard.get() == HeadHint("one", 2)
    head = await other.head("one")
    assert head is not None and head.head == 2
    assert heard.empty()


async def test_a_hub_that_is_not_there_yet(own_server: Server, own_team: Team) -> None:
    """A daemon may start first."""
    own_server.stop()
    hub = own_team.hub()
    heard: asyncio.Queue = asyncio.Queue()
    hub.subscribe(heard.put_nowait)
    assert isinstance(await heard.get(), Lost)
    own_server.start()
    assert isinstance(await heard.get(), Back)
    assert (await hub.push(begin("one"))).outcome == "stored"


async def test_a_restart_begins_the_list_again(own_server: Server, own_team: Team) -> None:
    """It may have been restored from a backup: only a pass of everything shows what it lacks."""
    hub = own_team.hub()
    await hub.push(begin("one", 1))
    await hub.push(begin("two", 2))
    cursor = (await hub.heads(None, 10)).cursor
    own_server.stop()
    own_server.start()
    page = await hub.heads(cursor, 1)
    assert (page.reset, page.more, [head.session for head in page.heads]) == (True, True, ["one"])
    page = await hub.heads(page.cursor, 1)
    page = await hub.heads(page.cursor, 1)
    assert (page.reset, page.more) == (True, False)
    page = await hub.heads(page.cursor, 1)
    assert (page.reset, page.more, page.heads) == (False, False, [])


async def test_a_link_that_goes_deaf(team: Team, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The push is `indeterminate`: it may be stored. Once there is a link again, the hub says what became of it."""
    hub = team.hub(port=proxy.port)
    heard: asyncio.Queue = asyncio.Queue()
    hub.subscribe(heard.put_nowait)
    assert isinstance(await heard.get(), Back)
    made = await hub.push(begin("one", 1))
    proxy.go_deaf()
    # Not before: on a busy machine, an answer that does come may take as long.
    monkeypatch.setattr(links, "HUB_ANSWER_S", 0.5)
    monkeypatch.setattr(listening, "HUB_CONNECT_S", 0.5)
    with pytest.raises(Indeterminate):
        await hub.push(after(made, message(2)))
    while not isinstance(await heard.get(), Lost):
        pass
    monkeypatch.undo()
    assert isinstance(await heard.get(), Back)
    assert await hub.places([1, 2]) == {1: OperationPlace("one", 0)}
    assert (await hub.push(after(made, message(2)))).numbers == (1,)


async def test_an_answer_that_is_lost(team: Team, proxy: Proxy) -> None:
    """The hub stored it, the link broke before the answer: `indeterminate`, then found in its place."""
    hub = team.hub(port=proxy.port)
    made = await hub.push(begin("one", 1))
    watcher = team.hub("bob")
    heard: asyncio.Queue = asyncio.Queue()
    watcher.subscribe(heard.put_nowait)
    assert isinstance(await heard.get(), Back)
    proxy.mute()
    push = asyncio.ensure_future(hub.push(after(made, message(2))))
    assert await heard.get() == HeadHint("one", 1)
    proxy.cut()
    with pytest.raises(Indeterminate):
        await push
    assert await hub.places([2]) == {2: OperationPlace("one", 1)}
