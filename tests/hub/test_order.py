"""The hub gives each operation its number once, and says what a daemon lacks."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from sessiond.errors import Conflict, InvalidParams, SessionNotFound
from sessiond.hub.port import NOTHING, HeadHint, Ordered, Push, Return, chain_all, seed
from tests.hub.stores import Team, after, begin, message


async def everything(hub, session: str) -> list[Ordered]:
    """All operations of a session, in small pages; their digest is the head's."""
    found: list[Ordered] = []
    number = NOTHING
    while True:
        page = await hub.operations(session, number, 1000)
        found += page.operations
        if not page.more:
            assert chain_all(seed(session), found) == page.head.digest
            assert page.head.head == (found[-1].number if found else NOTHING)
            return found
        number = found[-1].number


async def test_numbers_are_consecutive_and_the_digest_sums_them_up(team: Team) -> None:
    """`created` gets 0, the next ones 1 and 2; whoever reads them comes to the same digest, with the author as the hub saw it."""
    hub = team.hub()
    made = await hub.push(begin("one", 1, message(2, "a"), message(3, "b")))
    assert (made.outcome, made.numbers, made.head) == ("stored", (0, 1, 2), 2)
    found = await everything(team.hub("bob"), "one")
    assert [(one.number, one.kind, one.author, one.voucher) for one in found] == [
        (0, "created", "Ada", None),
        (1, "appended", "Ada", None),
        (2, "appended", "Ada", None),
    ]
    assert chain_all(seed("one"), found) == made.digest


async def test_a_resend_gets_the_same_numbers_and_adds_nothing(team: Team) -> None:
    """Also after others went on."""
    hub, other = team.hub(), team.hub("bob")
    push = begin("one", 1, message(2))
    made = await hub.push(push)
    assert (await hub.push(push)).outcome == "known"
    await other.push(after(made, message(1)))
    again = await hub.push(push)
    assert (again.outcome, again.numbers, again.head) == ("known", (0, 1), 2)
    assert len(await everything(hub, "one")) == 3


async def test_a_stale_head_stores_nothing(team: Team) -> None:
    """`behind` with the head that the hub has; on top of that it is stored, after the other's."""
    hub, other = team.hub(), team.hub("bob")
    made = await hub.push(begin("one"))
    theirs = await other.push(after(made, message(1)))
    mine = message(2)
    stale = await hub.push(after(made, mine))
    assert (stale.outcome, stale.head, stale.digest, stale.numbers) == ("behind", 1, theirs.digest, ())
    assert (await hub.push(after(theirs, mine))).numbers == (2,)


async def test_two_make_the_same_session(team: Team) -> None:
    """One of them is first, the other is behind; nothing of the second is stored."""
    hubs = [team.hub(role) for role in ("ada", "bob") * 4]
    done = await asyncio.gather(*(hub.push(begin("one")) for hub in hubs))
    assert sorted(one.outcome for one in done) == ["behind"] * 7 + ["stored"]
    assert len(await everything(hubs[0], "one")) == 1


async def test_a_base_that_the_hub_does_not_have(team: Team) -> None:
    """`ahead` of its head, or of another past: `diverged`. A session that it does not have has no past at all."""
    hub = team.hub()
    made = await hub.push(begin("one"))
    assert (await hub.push(Push("one", 5, b"x" * 32, [message(2)]))).outcome == "ahead"
    assert (await hub.push(Push("one", made.head, b"x" * 32, [message(2)]))).outcome == "diverged"
    assert (await hub.push(Push("two", 5, b"x" * 32, [message(2)]))).outcome == "ahead"
    assert (await hub.push(Push("two", NOTHING, b"x" * 32, [message(2)]))).outcome == "diverged"
    assert await hub.head("two") is None
    with pytest.raises(SessionNotFound):
        await hub.operations("two", NOTHING, 1000)


async def test_a_message_id_is_there_once(team: Team) -> None:
    """A second one is a Conflict, and the pushes that shared its transaction do not suffer."""
    hub = team.hub()
    made = await hub.push(begin("one", 1, message(2, message_id="same")))
    others = [hub.push(begin(f"other{index}", index + 10)) for index in range(20)]
    # Two transactions are under way, so what comes after two others shares the next one.
    done = await asyncio.gather(
        *others[:2], hub.push(after(made, message(3, message_id="same"))), *others[2:], return_exceptions=True
    )
    assert isinstance(done.pop(2), Conflict)
    assert [one.outcome for one in done] == ["stored"] * 20


async def test_an_index_is_used_once(team: Team) -> None:
    """In another session too: the operation's name is taken."""
    hub = team.hub()
    await hub.push(begin("one", 1))
    with pytest.raises(InvalidParams):
        await hub.push(begin("two", 1))


async def test_places_say_what_is_stored_and_refuse_what_comes_late(team: Team) -> None:
    """What they leave out cannot be stored by an earlier push: another hub of the replica is refused from then on."""
    replica = "0123456789abcdef" * 2
    hub = team.hub(replica=replica)
    await hub.push(begin("one", 1, message(2)))
    found = await hub.places([1, 2, 3])
    assert {index: (place.session, place.number) for index, place in found.items()} == {1: ("one", 0), 2: ("one", 1)}
    again = team.hub(replica=replica)
    await again.welcome()
    with pytest.raises(Conflict) as caught:
        await hub.push(begin("two", 3))
    assert caught.value.data["replica"]
    assert (await again.push(begin("two", 3))).outcome == "stored"


async def test_a_question_does_not_refuse_what_this_hub_pushes_itself(team: Team) -> None:
    """A push that was on its way when `places` was asked is stored."""
    hub = team.hub()
    made = await hub.push(begin("one", 1))
    gate = await asyncpg.connect(team.address("postgres").url)

    async def waiting(count: int) -> None:
        while await gate.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") != count:
            pass

    try:
        async with gate.transaction():
            await gate.execute("LOCK TABLE sessiond.replicas")
            question = asyncio.ensure_future(hub.places([1, 2]))
            await waiting(1)
            push = asyncio.ensure_future(hub.push(after(made, message(2))))
            await waiting(2)
        assert set(await question) in ({1}, {1, 2})  # the push may be stored before the question reads
        assert (await push).numbers == (1,)
    finally:
        await gate.close()


async def test_a_refusal_that_overtakes_the_answer_to_a_question(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub raised the fence, and says so after it has refused the push: the push waits for that, and is stored."""
    hub = team.hub()
    made = await hub.push(begin("one", 1))
    read, raised, late = hub._read, asyncio.Event(), asyncio.Event()

    async def slow(statement: str, *arguments: object) -> list[asyncpg.Record]:
        rows = await read(statement, *arguments)
        if "settle" in statement:
            raised.set()
            await late.wait()
        return rows

    change = hub._change

    async def refused(statement: str, arguments: list[object]) -> list[asyncpg.Record]:
        try:
            return await change(statement, arguments)
        except Conflict:
            asyncio.get_running_loop().call_later(0, late.set)
            raise

    monkeypatch.setattr(hub, "_read", slow)
    monkeypatch.setattr(hub, "_change", refused)
    question = asyncio.ensure_future(hub.places([2]))
    await raised.wait()
    assert (await hub.push(after(made, message(2)))).numbers == (1,)
    assert await question == {}


async def test_a_cancelled_push_goes_on_and_the_next_one_waits_for_it(team: Team) -> None:
    """Whoever gave up waiting finds the hub's head moved on, or its own operation known."""
    hub = team.hub()
    made = await hub.push(begin("one", 1))
    push = after(made, message(2))
    given_up = asyncio.ensure_future(hub.push(push))
    await asyncio.sleep(0)
    given_up.cancel()
    again = await hub.push(push)
    assert (again.outcome, again.numbers) == ("known", (1,))


async def test_heads_list_what_changed(team: Team) -> None:
    """All of them at first, in pages, then only what changed since."""
    hub, other = team.hub(), team.hub("bob")
    made = [await hub.push(begin(f"s{index:02}", index)) for index in range(1, 26)]
    cursor, listed = None, []
    while True:
        page = await other.heads(cursor, 10)
        assert page.reset
        listed += page.heads
        cursor = page.cursor
        if not page.more:
            break
    assert {one.session for one in listed} == {one.session for one in made}
    assert listed[0].listing == b"listing of s01"
    page = await other.heads(cursor, 10)
    assert (page.heads, page.reset, page.more) == ([], False, False)
    await hub.push(after(made[3], message(100)))
    page = await other.heads(page.cursor, 10)
    assert [(one.session, one.head) for one in page.heads] == [("s04", 1)]


async def test_a_change_that_was_under_way_is_not_missed(team: Team) -> None:
    """A transaction that began before the list was read, and ended after others that the list had, is in the next page."""
    hub, reader = team.hub(), team.hub("bob")
    one = await hub.push(begin("one", 1))
    await hub.push(begin("two", 2))
    slow = await asyncpg.connect(team.address("postgres").url)
    try:
        async with slow.transaction():
            await slow.execute(
                "UPDATE sessiond.sessions SET change = pg_current_xact_id()::text::bigint WHERE session = 'one'"
            )
            await hub.push(begin("three", 3))
            cursor = (await reader.heads(None, 100)).cursor
        page = await reader.heads(cursor, 100)
        assert "one" in {head.session for head in page.heads}
    finally:
        await slow.close()
    assert one.head == 0


async def test_listeners_hear_of_every_session(team: Team) -> None:
    """The hub tells each of them of a change at another, with the head."""
    hub, other = team.hub(), team.hub("bob")
    heard: asyncio.Queue = asyncio.Queue()
    other.subscribe(heard.put_nowait)
    assert type(await heard.get()).__name__ == "Back"
    assert (await other.welcome()).hints == "listening"
    await hub.push(begin("one", 1, message(2)))
    assert await heard.get() == HeadHint("one", 1)
    await hub.push(begin("n" * 7500, 3))
    assert type(await heard.get()).__name__ == "Back"


async def test_what_the_hub_lost_is_given_back(team: Team) -> None:
    """With the names and authors that it had, so that the digest is the same; whoever gives it vouches for what others wrote."""
    ada, bob = team.hub(), team.hub("bob")
    made = await ada.push(begin("one", 1, message(2)))
    whole = await bob.push(after(made, message(1)))
    had = await everything(ada, "one")
    team.server.sql(
        "DELETE FROM sessiond.operations WHERE number > 0; UPDATE sessiond.sessions SET head = 0,"
        " digest = decode('%s', 'hex')" % chain_all(seed("one"), had[:1]).hex(),
        team.database,
    )
    base = await bob.head("one")
    assert base is not None and base.head == 0
    back = await bob.give_back(Return("one", base.head, base.digest, had[1:]))
    assert (back.outcome, back.head, back.digest) == ("stored", whole.head, whole.digest)
    assert [(one.author, one.voucher) for one in await everything(ada, "one")] == [
        ("Ada", None), ("Ada", "Bob"), ("Bob", None)
    ]  # fmt: skip
    assert (await ada.give_back(Return("one", base.head, base.digest, had[1:]))).outcome == "known"


async def test_erased_operations_are_gone(team: Team) -> None:
    """Nothing of them is in the database; a reader gets the floor first."""
    hub = team.hub()
    word = "unmistakable"
    made = await hub.push(begin("one", 1, message(2, word)))
    from sessiond.hub.port import Operation

    done = await hub.erase(Push("one", made.head, made.digest, [Operation(3, "erased", None, b"\0{}")]))
    assert (done.outcome, done.numbers) == ("stored", (2,))
    page = await hub.operations("one", NOTHING, 1000)
    assert (page.head.floor, [one.number for one in page.operations]) == (2, [2])
    assert page.head.before == made.digest
    assert (await hub.push(after(done, message(4)))).numbers == (3,)
    page = await hub.operations("one", NOTHING, 1000)
    assert chain_all(page.head.before, page.operations) == page.head.digest
