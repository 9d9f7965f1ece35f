"""A session of which only the newest messages are in memory answers like one that is there completely: three daemons get the
same requests. The first loads partially, the second lets go of old messages as often as it can, and the third does neither.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import msgspec
import pytest

from sessiond.errors import SessiondError
from sessiond.limits import Limits
from sessiond.model.session import Session
from tests.fakes.crashfs import CrashFS
from tests.fakes.index import FakeIndex
from tests.fakes.peer import FakePeer
from tests.fakes.wire_service import WireService
from tests.store.conftest import House
from tests.suite.explore import seeds

SEEDS = seeds(few=8, usual=40)
NEVER = 2**40
STEPS = 90


class Daemon:
    """The core on a disk of its own. `restart`: as after `stop`, or after a kill. `whole`: limit of what a session holds."""

    def __init__(self, glanced_from: int, whole: int = NEVER) -> None:
        self.limits = Limits(
            settle_s=0.0, glanced_file_bytes=glanced_from, glanced_end_bytes=900, default_page_messages=5, page_messages=40,
            retained_changes=8, whole_session_bytes=whole,
        )  # fmt: skip
        self.house = House(CrashFS(), "/home", limits=self.limits)
        self.ids = itertools.count()
        self.peer = FakePeer("p")
        self.glances = 0

    async def start(self) -> None:
        store = (await self.house.open()).store
        self.service = WireService(
            stores={"default": store}, index=FakeIndex(), clock=self.house.clock, limits=self.limits
        )
        self.service.open_sessions.new_id = lambda: f"m{next(self.ids):016x}"
        self.peer = FakePeer("p")
        self.peer.id = 1

    async def restart(self, *, killed: bool) -> None:
        for timer in self.service.open_sessions._later:
            timer.cancel()
        if not killed:
            self.service.disconnected(self.peer)
            await self.service.close()
            await self.house.store.close()
        await self.start()

    async def shorten(self) -> None:
        """As if nobody had read old messages for a while."""
        one = self.service.open_sessions.peek("a")
        for _ in range(2):  # the first look finds what was read before
            if one is not None:
                await self.service.open_sessions.shortening.look(one)

    async def ask(self, method: str, **params: Any) -> Any:
        """The answer, or what went wrong."""
        try:
            answer = await getattr(self.service, method)(**params)
        except SessiondError as error:
            answer = [type(error).__name__, error.message, error.data]
        one = self.service.open_sessions.peek("a")
        if one is not None and one.there.absent:
            self.glances += 1
        return answer


def at_once(timer: asyncio.TimerHandle) -> None:
    """Its time has come."""
    timer._run()
    timer.cancel()


async def rounds() -> None:
    """What follows an answer in the next rounds of the loop is there."""
    for _ in range(4):
        await asyncio.sleep(0)


def requests(rng: random.Random, made: list[str]) -> tuple[str, dict[str, Any]]:
    """Something that a client may ask. `made`: ids that were sent before."""
    peer: dict[str, Any] = {"peer": None, "session_id": "a"}
    known = rng.choice(made) if made else "none"
    seq = rng.randrange(120)
    text = "word " * rng.choice((1, 5, 40))
    fresh = f"c{len(made)}"
    kind = rng.choice(
        ("append", "append", "append", "twice", "clash", "several", "stream", "extend", "finish", "open", "open", "since", "read", "before",
         "after", "update", "note", "notes", "state", "states", "truncate", "clear", "save", "fork", "export", "expected", "delete", "blocks")
    )  # fmt: skip
    match kind:
        case "append":
            made.append(fresh)
            return "append", {**peer, "messages": [{"id": fresh, "role": "user", "content": text}]}
        case "several":
            return "append", {**peer, "messages": [{"role": "user", "content": f"{n} {text}"} for n in range(9)]}
        case "twice":
            return "append", {**peer, "messages": [{"id": known, "role": "user", "content": "word "}]}
        case "clash":
            return "append", {
                **peer,
                "messages": [{"id": known, "role": "user", "content": "other"}, {"role": "user", "content": ""}],
            }
        case "blocks":
            content = [{"type": "text", "text": text}]
            return "append", {**peer, "messages": [{"id": 'ö"', "role": "x", "content": content, "tick": 3}]}
        case "expected":
            return "append", {**peer, "expected_seq": seq, "messages": [{"role": "user", "content": text}]}
        case "stream":
            made.append(fresh)
            return "append", {
                **peer,
                "messages": [{"id": fresh, "role": "assistant", "content": "b", "status": "streaming"}],
            }
        case "extend":
            return "extend", {**peer, "message_id": known, "text": text}
        case "finish":
            return "finish", {**peer, "message_id": known, "metadata": {"n": 1.5}}
        case "open":
            return "open", {
                "peer": "self",
                "session_id": "a",
                "last": rng.choice((None, 0, 2, 5, 30)),
                "restore": rng.random() < 0.3,
            }
        case "since":
            return "open", {"peer": "self", "session_id": "a", "since": seq}
        case "read":
            return "read", {"session_id": "a", "last": rng.choice((None, 0, 3, 20))}
        case "before":
            return "read", {"session_id": "a", "before": seq, "limit": rng.choice((2, 10))}
        case "after":
            return "read", {"session_id": "a", "since": seq, "before": rng.choice((None, seq + 9)), "limit": 4}
        case "update":
            fields = rng.choice(
                ({"name": text}, {"tags": ["b", "a"]}, {"metadata": {"z": 1, "a": None}}, {"archived": True})
            )
            return "update", {**peer, "fields": fields}
        case "note":
            return "note_append", {
                **peer,
                "heading": "h",
                "content": text,
                "thread": rng.choice((None, "t")),
                "id": fresh,
            }
        case "notes":
            return "note_list", {"session_id": "a", "thread": "t", "last_global": 2}
        case "state":
            return "state_set", {**peer, "values": rng.choice(({"k": text}, {"z": 1, "b": [2]}, {"k": None}))}
        case "states":
            return "state_get", {"session_id": "a"}
        case "truncate":
            return "truncate", {**peer, "after": seq + 20}
        case "clear":
            return rng.choice((("clear", peer), ("state_get", {"session_id": "a"})))
        case "save":
            return "save", {"session_id": "a"}
        case "fork":
            return "fork", {**peer, "at_seq": rng.choice((None, seq))}
        case "export":
            return "export", {"session_id": "a", "format": rng.choice(("jsonl", "markdown"))}
        case _:
            return "delete", {"session_id": "a"}


@pytest.mark.parametrize("seed", SEEDS)
async def test_all_answer_the_same(seed: int) -> None:
    """Requests of every kind, restarts and kills between them: every answer and every error is the same, and what is told is too."""
    rng = random.Random(seed)
    glancing, shortening, reading = Daemon(1), Daemon(rng.choice((1, NEVER)), 8_000), Daemon(NEVER)
    daemons = (glancing, shortening, reading)
    made = [f"x{n}" for n in range(30)]
    first = [{"id": one, "role": "user", "content": "word "} for one in made]
    for daemon in daemons:
        await daemon.start()
        await daemon.ask("new", peer=None, session_id="a", name="n", messages=first)
    for step in range(STEPS):
        method, params = requests(rng, made)
        answers = [
            await daemon.ask(method, **{**params, **({"peer": daemon.peer} if params.get("peer") == "self" else {})})
            for daemon in daemons
        ]
        if params.get("since") is not None and method == "open" and None in (one["changes"] for one in answers):
            for one in answers:  # "read again" may be said whenever that is simpler
                one["changes"] = None
        assert answers[0] == answers[1] == answers[2], f"step {step}: {method} {params}"
        if method == "delete":
            for daemon in daemons:
                await daemon.ask("restore", peer=None, session_id="a")
        await rounds()
        told = [daemon.peer.take() for daemon in daemons]
        assert told[0] == told[1] == told[2], f"step {step}: {method} {params}"
        if rng.random() < 0.4:
            for daemon in daemons:
                await daemon.ask("save", session_id="a")
                await daemon.shorten()
        if rng.random() < 0.15:
            killed = rng.random() < 0.5
            for daemon in daemons:
                await daemon.restart(killed=killed)
        for daemon in daemons:
            daemon.house.clock.advance(0.25)
    last = [await daemon.ask("export", session_id="a", format="jsonl") for daemon in daemons]
    assert last[0] == last[1] == last[2]
    assert reading.glances == 0
    for daemon in daemons:
        await daemon.service.close()
        await daemon.house.store.close()


async def test_they_really_glance() -> None:
    """Lest the test above show nothing: after a restart the older messages are not in memory when a session is opened, appended to and
    read at its end."""
    daemon = Daemon(1)
    await daemon.start()
    await daemon.ask(
        "new",
        peer=None,
        session_id="a",
        messages=[{"id": f"x{n}", "role": "user", "content": f"{n}"} for n in range(99)],
    )
    await daemon.restart(killed=False)
    opened = await daemon.ask("open", peer=daemon.peer, session_id="a", last=3)
    assert [one["seq"] for one in opened["messages"]] == [97, 98, 99]
    assert opened["session"]["messageCount"] == 99
    sent = [{"id": "new", "role": "user", "content": "y"}]
    assert (await daemon.ask("append", peer=None, session_id="a", messages=sent))["seq"] == 100
    assert len((await daemon.ask("read", session_id="a", last=2))["messages"]) == 2
    one = daemon.service.open_sessions.peek("a")
    assert one is not None and one.there.absent > 80
    again = await daemon.ask(
        "append", peer=None, session_id="a", messages=[{"id": "x3", "role": "user", "content": "3"}]
    )
    assert again["messages"] == [{"id": "x3", "seq": 4}]
    assert one.there.absent == 0
    await daemon.service.close()
    await daemon.house.store.close()


async def test_a_session_is_not_let_go_while_the_rest_of_it_is_read() -> None:
    """A client that opens it with more messages than were shown at first gets the later changes."""
    daemon = Daemon(1)
    await daemon.start()
    await daemon.ask(
        "new", peer=None, session_id="a", messages=[{"role": "user", "content": f"{n}"} for n in range(99)]
    )
    await daemon.restart(killed=False)
    service, store = daemon.service, daemon.house.store
    one, tried = service.open_sessions.at("a"), []
    stored: Any = one.stored
    read_rest = stored.read_rest

    async def slowly(session: Session) -> Any:
        tried.append(service.open_sessions.let_go(one))
        return await read_rest(session)

    stored.read_rest = slowly
    opened = await service.open(daemon.peer, "a", last=40)
    assert len(opened["messages"]) == 40 and tried
    await service.append(None, "a", [{"role": "user", "content": "y"}])
    assert [method for method, _ in daemon.peer.got] == ["session/changed"]
    await service.close()
    await store.close()


async def test_the_rest_comes_by_itself() -> None:
    """Nobody needs to ask for the older messages. A session that nobody has open and that turns out to be large is released soon after."""
    daemon = Daemon(1)
    await daemon.start()
    await daemon.ask(
        "new", peer=None, session_id="a", messages=[{"role": "user", "content": "z" * 200} for n in range(99)]
    )
    await daemon.restart(killed=False)
    daemon.service.open_sessions.limits = msgspec.structs.replace(daemon.limits, idle_sessions_bytes=50_000)
    await daemon.ask("read", session_id="a", last=1)
    all_open, one = daemon.service.open_sessions, daemon.service.open_sessions.peek("a")
    assert one is not None and one.there.absent and not one.spare
    (timer,) = all_open._later
    at_once(timer)
    await asyncio.gather(*all_open._tasks)
    assert not one.there.absent and len(one.there.messages()) == 99
    assert all_open._sparing is not None
    at_once(all_open._sparing)
    assert one.spare and not all_open._later
    await daemon.service.close()
    await daemon.house.store.close()


@pytest.mark.parametrize("whole", [1, NEVER])
async def test_damage_is_told_to_whoever_has_it_open(whole: int) -> None:
    """A flipped bit in a message that was not shown: `session/reloaded` comes by itself, and the next `session/open` has the warning.
    So it is with a file that is too large to be kept (`whole`).
    """
    daemon = Daemon(1, whole)
    await daemon.start()
    await daemon.ask(
        "new", peer=None, session_id="a", messages=[{"role": "user", "content": f"word {n}"} for n in range(99)]
    )
    await daemon.restart(killed=False)
    content = daemon.house.file("a")
    node = daemon.house.fs._file(daemon.house.store.file_path("a"))  # type: ignore[attr-defined]
    node.data[content.index(b"word 7")] ^= 1
    opened = await daemon.ask("open", peer=daemon.peer, session_id="a", last=2)
    assert opened["warnings"] == []
    (timer,) = daemon.service.open_sessions._later
    at_once(timer)
    await asyncio.gather(*daemon.service.open_sessions._tasks)
    (told,) = daemon.peer.take("session/reloaded")
    assert told["session"]["seq"] == opened["session"]["seq"] + 1
    (warning,) = (await daemon.ask("open", peer=daemon.peer, session_id="a", last=2))["warnings"]
    assert "one bit" in warning["message"]
    await daemon.service.close()
    await daemon.house.store.close()


async def test_who_gives_up_while_an_id_is_looked_for_is_answered() -> None:
    """An append that was cancelled on its way, while the file is looked through, is carried out and waits for nobody for ever."""
    daemon = Daemon(1)
    await daemon.start()
    await daemon.ask(
        "new", peer=None, session_id="a", messages=[{"role": "user", "content": f"{n}"} for n in range(99)]
    )
    await daemon.restart(killed=False)
    store, looking, go_on = daemon.house.store, asyncio.Event(), asyncio.Event()
    stored: Any = daemon.service.open_sessions.at("a").stored
    lacks = stored.lacks

    async def slowly(session: Any, ids: Any) -> bool:
        looking.set()
        await go_on.wait()
        return await lacks(session, ids)

    stored.lacks = slowly
    sent = [{"id": "new", "role": "user", "content": "y"}]
    task = asyncio.create_task(daemon.service.append(None, "a", sent))
    await looking.wait()
    go_on.set()
    task.cancel()
    assert (await task)["seq"] == 100
    assert (await daemon.service.append(None, "a", sent))["seq"] == 100
    await daemon.service.close()
    await store.close()


async def shortened(most: int = 8_000, glanced_from: int = NEVER) -> Daemon:
    """One whose session `a` has 99 messages, of which it holds a few."""
    daemon = Daemon(glanced_from, most)
    await daemon.start()
    sent = [{"id": f"x{n}", "role": "user", "content": f"word {n}"} for n in range(99)]
    await daemon.ask("new", peer=None, session_id="a", messages=sent)
    await daemon.ask("open", peer=daemon.peer, session_id="a", last=2)
    await daemon.ask("save", session_id="a")
    await daemon.shorten()
    return daemon


def held(daemon: Daemon) -> Session:
    one = daemon.service.open_sessions.peek("a")
    assert one is not None
    return one.there


async def test_a_large_session_keeps_its_newest_messages() -> None:
    """It is appended to, read at its end and saved without the others, and they come back when somebody needs them."""
    daemon = await shortened()
    assert held(daemon).absent > 90
    read: Any = daemon.house.store._files.read
    daemon.house.store._files.read = None  # type: ignore[assignment]
    for n in range(20):
        sent = [{"id": f"new{n}", "role": "user", "content": f"word new{n}"}]
        assert (await daemon.ask("append", peer=None, session_id="a", messages=sent))["seq"] == 100 + n
        assert (await daemon.ask("append", peer=None, session_id="a", messages=sent))["messages"][0]["seq"] == 100 + n
        assert len((await daemon.ask("read", session_id="a", last=2))["messages"]) == 2
        await daemon.ask("save", session_id="a")
        await daemon.shorten()
    assert held(daemon).absent > 110 and len(held(daemon)) == 119
    assert daemon.house.file("a").count(b'"word ') == 119
    daemon.house.store._files.read = read
    for known in ("x3", "new4"):
        again = [{"id": known, "role": "user", "content": f"word {known.removeprefix('x')}"}]
        told = await daemon.ask("append", peer=None, session_id="a", messages=again)
        assert told["messages"] == [{"id": known, "seq": 4 if known == "x3" else 104}]
    assert held(daemon).absent == 0
    await daemon.service.close()
    await daemon.house.store.close()


async def test_a_large_file_is_checked_without_being_kept() -> None:
    """After a partial load: what an append has to know of the absent messages is known, and so it is after the next one."""
    daemon = await shortened(glanced_from=1)
    await daemon.restart(killed=False)
    await daemon.ask("open", peer=daemon.peer, session_id="a", last=2)
    assert held(daemon).absent and not held(daemon).is_checked
    (timer,) = daemon.service.open_sessions._later
    at_once(timer)
    await asyncio.gather(*daemon.service.open_sessions._tasks)
    assert held(daemon).absent > 80 and held(daemon).is_checked
    daemon.house.store._files.read = None  # type: ignore[assignment]
    sent = [{"id": f"new{n}", "role": "user", "content": "word"} for n in range(9)]
    assert (await daemon.ask("append", peer=None, session_id="a", messages=sent))["seq"] == 108
    await daemon.ask("save", session_id="a")
    assert not daemon.service.open_sessions.is_dirty("a")
    await daemon.service.close()
    await daemon.house.store.close()


async def test_messages_that_somebody_reads_stay() -> None:
    """A client that goes back through a long conversation has its file read once, not for each page."""
    daemon = await shortened()
    assert len((await daemon.ask("read", session_id="a", before=60, limit=5))["messages"]) == 5
    for before in (55, 50, 45):
        one = daemon.service.open_sessions.at("a")
        await daemon.service.open_sessions.shortening.look(one)
        assert held(daemon).absent == 0
        await daemon.ask("read", session_id="a", before=before, limit=5)
    await daemon.shorten()
    assert held(daemon).absent > 90
    await daemon.service.close()
    await daemon.house.store.close()


@pytest.mark.parametrize("edit", ["touched", "edited", "cut", "removed"])
async def test_a_shortened_session_whose_file_is_written_outside(edit: str) -> None:
    """Nothing happens if the file still says the same. If not, the edit is read in, and no acknowledged message that was in memory is lost:
    it is in the session or in the trash.
    """
    daemon = await shortened()
    path, content = daemon.house.store.file_path("a"), daemon.house.file("a")
    lines = content.splitlines(keepends=True)
    if edit == "removed":
        daemon.house.fs.remove(path)
    else:
        new = {
            "touched": lines,
            "edited": [*lines[:9], lines[9].replace(b"word", b"sword"), *lines[10:]],
            "cut": lines[:50],
        }
        daemon.house.clock.advance(5)
        daemon.house.fs.remove(path)
        daemon.house.fs.create(path, b"".join(new[edit]))
    daemon.peer.take()
    await daemon.service.open_sessions.look_outside(daemon.house.store, "a")
    told = [method for method, _ in daemon.peer.got]
    if edit == "removed":
        assert told == ["session/deleted"]
    else:
        assert told == ([] if edit == "touched" else ["session/reloaded"])
        words = [one.content for one in held(daemon).messages()]
        assert words.count("sword 8") == (edit == "edited")
        assert len(words) == (49 if edit == "cut" else 99)
    if edit in ("cut", "removed"):
        trash = (await daemon.ask("list", filter={"deleted": True}))["sessions"]
        assert [one["messageCount"] for one in trash] and trash[0]["messageCount"] >= 1
    await daemon.service.close()
    await daemon.house.store.close()


async def test_a_shortened_session_whose_sidecar_is_lost_is_read_before_it_is_written_again() -> None:
    daemon = await shortened()
    one = daemon.service.open_sessions.at("a")
    await daemon.ask("append", peer=None, session_id="a", messages=[{"role": "user", "content": "word"}])
    one.stored.save_even_blank()  # the next save writes all of it
    assert held(daemon).absent
    await daemon.ask("save", session_id="a")
    assert not held(daemon).absent and daemon.house.file("a").count(b'"word') == 100
    await daemon.service.close()
    await daemon.house.store.close()


async def test_nothing_is_let_go_while_somebody_relies_on_it() -> None:
    """Not while it is in use, while its file is behind, while the index waits for it, or while a reply streams in."""
    daemon = await shortened(2**20)
    every = daemon.service.open_sessions
    every.shortening._most = 8_000
    one, session = every.at("a"), held(daemon)
    with one.in_use():
        await daemon.shorten()
        assert not session.absent
    await daemon.ask(
        "append", peer=None, session_id="a", messages=[{"id": "s", "role": "a", "content": "", "status": "streaming"}]
    )
    await daemon.shorten()
    assert not session.absent
    await daemon.ask("save", session_id="a")
    await daemon.shorten()
    assert session.absent  # what came before the stream
    await daemon.ask(
        "append", peer=None, session_id="a", messages=[{"role": "user", "content": "z" * 900} for _ in range(20)]
    )
    await daemon.ask("save", session_id="a")
    await daemon.shorten()
    assert session.message("s") is not None
    await daemon.ask("finish", peer=None, session_id="a", message_id="s")
    await daemon.ask("save", session_id="a")
    every.catalog._waiting["a"] = None  # type: ignore[assignment]
    await daemon.shorten()
    assert session.message("s") is not None
    del every.catalog._waiting["a"]
    await daemon.shorten()
    assert len(session) - session.absent == 1
    await daemon.service.close()
    await daemon.house.store.close()
