"""What the hub cannot do to a store that is encrypted: read it, or change it without a reader noticing."""

from __future__ import annotations

import random

import pytest

from sessiond.errors import BadFile, ConfigError
from sessiond.hub.bodies import pack_json, unpack_json
from sessiond.hub.keys import Key, file_of, new_key, parse_keys, read_keys
from sessiond.hub.port import NOTHING, Operation, Push, Return, chain, chain_all, seed
from sessiond.hub.postgres import PostgresHub
from sessiond.hub.sealing import SealedHub, Sealer
from sessiond.hub.verifying import verify
from tests.hub.postgres import Server
from tests.hub.stores import Team, after, begin


@pytest.fixture
async def vault(server: Server):
    """A store that is encrypted."""
    made = await Team.make(server, f"vault_{random.SystemRandom().getrandbits(60)}", sealed=True)
    yield made
    await made.close()


KEY = new_key()
R1, R2 = "1" * 32, "2" * 32


def sealed(vault: Team, replica: str, role: str = "ada", keys: list[Key] | None = None) -> SealedHub:
    bare = vault.hub(role, replica=replica)
    return SealedHub(bare, Sealer(lambda: keys or [KEY], "the key file"), replica)


def word(index: int, text: str) -> Operation:
    return Operation(index, "appended", f"id{index}", pack_json({"messages": [{"role": "user", "content": text}]}))


async def texts(hub: SealedHub, session: str) -> list[str]:
    page = await hub.operations(session, NOTHING, 10_000_000)
    return [unpack_json(one.body)["messages"][0]["content"] for one in page.operations if one.kind == "appended"]


async def test_a_dump_holds_no_word(vault: Team) -> None:
    """Of 1,000 marker words, in messages and in what lists show, pg_dump holds none; whoever has the key reads all of them."""
    words = [f"marker{number:04}quokka" for number in range(1000)]
    hub = sealed(vault, R1)
    push = begin("one", 1, *(word(number + 2, one) for number, one in enumerate(words)))
    await hub.push(Push("one", push.base, push.digest, push.operations, pack_json({"name": words[0]})))
    dump = vault.server.dump(vault.database)
    # bytea is dumped as hexadecimal digits.
    assert [one for one in words if one.encode() in dump or one.encode().hex().encode() in dump] == []
    other = sealed(vault, R2, "bob")
    assert await texts(other, "one") == words
    [head] = (await other.heads(None, 10)).heads
    assert unpack_json(head.listing) == {"name": words[0]}


async def _two_sessions(vault: Team) -> SealedHub:
    hub = sealed(vault, R1)
    made = await hub.push(begin("one", 1, word(2, "a"), word(3, "b"), word(4, "c")))
    await hub.push(begin("two", 11, word(12, "d"), word(13, "e")))
    await hub.push(after(made, word(5, "f")))
    return hub


TAMPERINGS = {
    "two bodies of a session are swapped": (
        "UPDATE sessiond.operations o SET body = p.body FROM sessiond.operations p"
        " WHERE o.index IN (2, 3) AND p.index IN (2, 3) AND o.index <> p.index"
    ),
    "two bodies of two sessions are swapped": (
        "UPDATE sessiond.operations o SET body = p.body FROM sessiond.operations p"
        " WHERE o.index IN (3, 13) AND p.index IN (3, 13) AND o.index <> p.index"
    ),
    "an old one is put in place of a new one": (
        "UPDATE sessiond.operations SET body = (SELECT body FROM sessiond.operations WHERE index = 2) WHERE index = 4"
    ),
    "one is cut out and the numbers are closed up": (
        "DELETE FROM sessiond.operations WHERE index = 3;"
        " UPDATE sessiond.operations SET number = number - 1 WHERE session = 1 AND number > 2;"
        " UPDATE sessiond.sessions SET head = 3 WHERE id = 1"
    ),
    "the end is cut off": (
        "DELETE FROM sessiond.operations WHERE index = 5; UPDATE sessiond.sessions SET head = 3 WHERE id = 1"
    ),
    "the beginning is cut off": (
        "DELETE FROM sessiond.operations WHERE index IN (1, 2); UPDATE sessiond.sessions SET floor = 2 WHERE id = 1"
    ),
    "a bit is another one": "UPDATE sessiond.operations SET body = set_bit(body, 300, 1 - get_bit(body, 300)) WHERE index = 3",
    "it gets another message's id": "UPDATE sessiond.operations SET id = 'id99' WHERE index = 3",
    "it is somebody else's": (
        "UPDATE sessiond.operations SET author = (SELECT id FROM sessiond.members WHERE name = 'Bob') WHERE index = 3"
    ),
    "it is of another kind": "UPDATE sessiond.operations SET kind = 2 WHERE index = 3",
    "one that is not sealed is put in": "UPDATE sessiond.operations SET body = '\\x007b7d' WHERE index = 3",
}


@pytest.mark.parametrize("how", TAMPERINGS)
async def test_tampering_is_noticed(vault: Team, how: str) -> None:
    """By a machine that reads the session for the first time, and by `verify`."""
    await _two_sessions(vault)
    assert (await verify(sealed(vault, R2, "bob"))).differences == []
    vault.server.sql(TAMPERINGS[how], vault.database)
    reader = sealed(vault, R2, "bob")
    with pytest.raises(BadFile):
        await texts(reader, "one")
    assert (await verify(reader)).differences != []


ENDS = {
    "it gets another id": "UPDATE sessiond.operations SET id = 'id99' WHERE index = 5",
    "it becomes another kind": "UPDATE sessiond.operations SET kind = 2 WHERE index = 5",
    "it gets another index": "UPDATE sessiond.operations SET index = 99 WHERE index = 5",
    "it is said to be of another replica": (
        "UPDATE sessiond.operations SET replica = (SELECT id FROM sessiond.replicas WHERE replica::text LIKE '2222%') WHERE index = 5"
    ),
    "it is replaced by one of another session": (
        "UPDATE sessiond.operations SET body = (SELECT body FROM sessiond.operations WHERE index = 13) WHERE index = 5"
    ),
    "the one before it is cut out": (
        "DELETE FROM sessiond.operations WHERE index = 4; UPDATE sessiond.operations SET number = number - 1 WHERE index = 5;"
        " UPDATE sessiond.sessions SET head = 3 WHERE id = 1"
    ),
}


@pytest.mark.parametrize("how", ENDS)
async def test_a_digest_that_was_made_to_fit_does_not_help(vault: Team, how: str) -> None:
    """A hub can sum up digests as everybody can. It changes the end of a session, and gives it a digest that fits."""
    await _two_sessions(vault)
    await sealed(vault, R2, "bob").push(begin("three", 21))
    bare = PostgresHub(vault.address("ada"), None)
    page = await bare.operations("one", NOTHING, 100_000)
    before = chain_all(seed("one"), page.operations[:-1])
    vault.server.sql(ENDS[how], vault.database)
    page = await bare.operations("one", NOTHING, 100_000)
    fits = chain(before, page.operations[-1]).hex()
    vault.server.sql(f"UPDATE sessiond.sessions SET digest = decode('{fits}', 'hex') WHERE id = 1", vault.database)
    await bare.close()
    with pytest.raises(BadFile):
        await texts(sealed(vault, R2, "bob"), "one")


async def test_a_cut_that_adds_up_is_noticed_by_who_knows_more(vault: Team) -> None:
    """The hub may put back a whole older state. A new machine cannot know; one that has seen the later head does."""
    hub = await _two_sessions(vault)
    page = await hub.operations("one", NOTHING, 100_000)
    before, last = page.operations[-2], page.operations[-1]
    older = chain_all(seed("one"), page.operations[:-1])
    vault.server.sql(
        "DELETE FROM sessiond.operations WHERE index = 5;"
        f" UPDATE sessiond.sessions SET head = {before.number}, digest = decode('{older.hex()}', 'hex') WHERE id = 1",
        vault.database,
    )
    reader = sealed(vault, R2, "bob")
    assert await texts(reader, "one") == ["a", "b", "c"]
    report = await verify(reader, {"one": (last.number, page.head.digest)})
    assert [one.kind for one in report.differences] == ["behind"]


async def test_a_key_that_was_added_meanwhile_is_used(vault: Team) -> None:
    """A rotation on another machine, after the file was copied here: the hub that is open reads on, and seals with the new one."""
    newer = new_key()
    ours = [KEY]
    hub = sealed(vault, R1, keys=ours)
    made = await hub.push(begin("one", 1, word(2, "old")))
    other = sealed(vault, R2, "bob", [KEY, newer])
    made = await other.push(after(made, word(3, "new")))
    with pytest.raises(ConfigError, match=newer.id):
        await texts(hub, "one")
    ours.append(newer)
    assert await texts(hub, "one") == ["old", "new"]
    await hub.push(after(made, word(4, "newer")))
    assert await texts(sealed(vault, R2, "bob", [newer, KEY]), "one") == ["old", "new", "newer"]


async def test_what_cannot_be_opened_of_one_session_keeps_nobody_from_the_others(vault: Team) -> None:
    """A listing under another key, and one that was damaged: the page says so of these two, `verify` does, and the third is there."""
    hub = sealed(vault, R1)
    await hub.push(begin("damaged", 1, word(2, "a")))
    await hub.push(begin("well", 11, word(12, "b")))
    stranger = new_key()
    await sealed(vault, R2, "bob", [stranger]).push(begin("foreign", 1, word(2, "c")))
    vault.server.sql("UPDATE sessiond.sessions SET listing = '\\x02' WHERE session = 'damaged'", vault.database)
    heads = {head.session: head for head in (await hub.heads(None, 10)).heads}
    assert heads["well"].listing is not None and heads["well"].problem is None
    assert stranger.id in str(heads["foreign"].problem) and heads["damaged"].problem is not None
    assert (heads["foreign"].listing, heads["damaged"].listing) == (None, None)
    assert await texts(hub, "damaged") == ["a"]
    found = {(one.session, one.kind) for one in (await verify(hub)).differences}
    assert {("damaged", "listing"), ("foreign", "listing")} <= found


async def test_what_is_sealed_again_is_the_same(vault: Team) -> None:
    """So a hub that lost it gets back the same digests, from any replica that has the key."""
    hub = await _two_sessions(vault)
    page = await hub.operations("one", NOTHING, 100_000)
    vault.server.sql(
        "DELETE FROM sessiond.operations WHERE session = 1; DELETE FROM sessiond.sessions WHERE id = 1", vault.database
    )
    bob = sealed(vault, R2, "bob")
    first = begin("one")
    done = await bob.give_back(Return("one", NOTHING, first.digest, page.operations))
    assert (done.outcome, done.digest) == ("stored", page.head.digest)
    assert await texts(bob, "one") == ["a", "b", "c", "f"]


async def test_a_resend_is_known(vault: Team) -> None:
    """Its seal has the same base as the first time."""
    hub = sealed(vault, R1)
    push = begin("one", 1, word(2, "a"))
    assert (await hub.push(push)).outcome == "stored"
    assert (await hub.push(push)).outcome == "known"


async def test_keys_rotate(vault: Team, tmp_path) -> None:
    """The new key seals, the old one still opens; a machine without the new one is told which it lacks."""
    newer = new_key()
    old = sealed(vault, R1)
    made = await old.push(begin("one", 1, word(2, "with the old one")))
    both = sealed(vault, R2, "bob", [KEY, newer])
    await both.push(after(made, word(3, "with the new one")))
    assert await texts(both, "one") == ["with the old one", "with the new one"]
    with pytest.raises(ConfigError, match=newer.id):
        await texts(old, "one")
    file = tmp_path / "key"
    file.write_bytes(file_of([KEY, newer]))
    file.chmod(0o600)
    assert read_keys(str(file)) == [KEY, newer]


def test_a_key_file_that_is_wrong_is_refused(tmp_path) -> None:
    """Missing, readable by others, damaged: each is said, and no message holds a secret."""
    file = tmp_path / "key"
    with pytest.raises(ConfigError, match="does not exist"):
        read_keys(str(file))
    file.write_bytes(file_of([KEY]))
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="read by others"):
        read_keys(str(file))
    line = KEY.line
    for damaged in (line[:-1], line.replace(KEY.id, "00000000"), line[:-2] + "??", "", "# only a comment"):
        with pytest.raises(ConfigError) as caught:
            parse_keys(damaged, "FILE")
        assert line.split()[-1][:20] not in str(caught.value)
    assert KEY.secret.hex() not in repr(KEY) and line.split()[-1] not in repr(KEY)


@pytest.mark.parametrize("seed", range(200))
def test_only_the_same_place_opens_it(seed: int) -> None:
    """Whatever is bound, a seal opens under exactly that; a changed byte anywhere is noticed."""
    chance = random.Random(seed)
    sealer = Sealer(lambda: [KEY], "FILE")
    text, bound = chance.randbytes(chance.randint(0, 200)), chance.randbytes(chance.randint(0, 60))
    made = sealer.seal(text, bound)
    assert sealer.open(made, bound, "it") == text
    assert sealer.seal(text, bound) == made
    place = chance.randrange(len(made))
    changed = made[:place] + bytes([made[place] ^ 1 << chance.randrange(8)]) + made[place + 1 :]
    with pytest.raises((BadFile, ConfigError)):
        sealer.open(changed, bound, "it")
    with pytest.raises((BadFile, ConfigError)):
        sealer.open(made, bound + b"\0", "it")
    with pytest.raises((BadFile, ConfigError)):
        sealer.open(made[: chance.randrange(len(made))], bound, "it")


async def test_a_daemon_without_the_key_does_nothing(vault: Team) -> None:
    """It is told before it has written anything."""
    bare = PostgresHub(vault.address("ada"), R1, sealed=False)
    with pytest.raises(ConfigError, match="is encrypted"):
        await bare.push(begin("one"))
    await bare.close()
    assert vault.server.sql("SELECT count(*) FROM sessiond.operations", vault.database) == "0"
