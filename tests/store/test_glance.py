"""A large session is first loaded partially: what is shown before its file is read, what is not trusted, and what happens
when the whole file says otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.errors import BadFile, SessionNotFound
from sessiond.fs import RealFileSystem
from sessiond.limits import Limits
from sessiond.model.changes import Appended, Extended, Truncated, Updated
from sessiond.model.message import Message, Note
from sessiond.model.session import Absent, Session, content_equal
from sessiond.store import partial_load
from sessiond.store.files import StoreFiles
from tests.fakes.crashfs import Crash, CrashFS
from tests.store.conftest import NOW, House, appended, begun, created, message
from tests.store.owner import Reloaded, Vanished
from tests.store.test_crash import Ledger, verify
from tests.store.test_decay import flip

LIMITS = Limits(settle_s=0.0, segment_bytes=4000, reserve_bytes=512, glanced_file_bytes=1000, glanced_end_bytes=700)
COUNT = 30


@pytest.fixture
async def house(tmp_path: Path) -> House:
    house = House(RealFileSystem(), str(tmp_path), limits=LIMITS)
    await house.open()
    return house


async def saved(house: House, count: int = COUNT) -> Session:
    """A session on the disk, and no daemon that knows it."""
    session = await begun(house.store, "a", count)
    await house.store.commit(
        session, [Updated(seq=count + 1, at=NOW, fields={"name": "N", "metadata": {"z": [1], "a": None}})]
    )
    await house.store.save("a")
    await asyncio.sleep(0)
    house.events.clear()
    await house.open()
    return session


async def glanced(house: House) -> Session:
    session = (await house.store.load("a", whole=False)).session
    assert session.absent, "it was read whole"
    return session


def files(house: House) -> tuple[Path, Path]:
    folder = Path(house.folder)
    return folder / "a.jsonl", folder / ".sessiond" / "a.json"


def decay(path: Path, there: bytes, instead: bytes) -> None:
    """Other bytes, and nothing tells that anybody wrote them."""
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(there, instead))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def brief(house: House) -> dict[str, Any]:
    side = msgspec.json.decode(files(house)[1].read_bytes())
    return msgspec.json.decode(side["main"]["brief"])


# What a partial load shows


async def test_what_is_shown_is_what_the_file_says(house: House) -> None:
    """Number, seq, info, notes, state and last messages are those of the whole; all of it is there after a load that asks for it."""
    session = await begun(house.store, "a", COUNT)
    note = Note(thread=None, tick=None, id="n", seq=COUNT + 1, heading="h", content="c", timestamp=NOW)
    session.add_note(note)  # as a decoder does it
    session.state["z"] = {"b": 1, "a": [None]}
    session.saved_at = NOW
    await house.store.commit(
        session, [Updated(seq=COUNT + 2, at=NOW, fields={"tags": ["b", "a"], "metadata": {"z": 1, "a": 2}})]
    )
    house.store.of("a").save_even_blank()  # all of it, not only what waits
    await house.store.save("a")
    await house.open()
    short = await glanced(house)
    assert (len(short), short.seq, short.info(), short.notes) == (COUNT, session.seq, session.info(), session.notes)
    assert (list(short.state["z"]), list(short.metadata), short.saved_at) == (["b", "a"], ["z", "a"], NOW)
    assert short.messages(COUNT - 1) == session.messages(COUNT - 1)
    with pytest.raises(Absent):
        short.messages(0, 1)
    with pytest.raises(Absent):
        short.message("m1")
    with pytest.raises(Absent):
        short.position_after(2)
    loaded = await house.store.load("a")
    assert loaded.session is short and not short.absent
    assert content_equal(short, session)
    assert not any(isinstance(one, Reloaded) for one in house.events)


async def test_little_is_read(house: House) -> None:
    """Opening, appending without an id and reading the end costs no more than the end of the file and the sidecar. That holds
    what the last save appended, so a long session that grew by a message is read for a fraction of its file.
    """
    await saved(house, 300)
    session = (await house.store.load("a")).session
    await house.store.commit(session, [appended(302)])
    await house.store.save("a")
    await house.open()
    read = []

    class Counting(RealFileSystem):
        def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
            content = super().read(path, offset, size)
            read.append(len(content))
            return content

    house.store._files.fs = Counting()
    session = await glanced(house)
    await house.store.commit(session, [appended(303)])
    assert [m.seq for m in session.messages(299)] == [300, 302, 303]
    side = files(house)[1].stat().st_size
    assert sum(read) <= LIMITS.glanced_end_bytes + side < files(house)[0].stat().st_size / 10


async def test_an_id_is_looked_for_in_the_file(house: House) -> None:
    """That the file has no message of an id is known without reading it whole; of one that it has, and of one that may be written
    otherwise there, it is not.
    """
    await saved(house)
    session = await glanced(house)
    assert await house.store.lacks(session, ["x1", "x2"])
    assert session.message("x1") is None
    for one in (["m3"], ["x3", "m4"], ["ä"], [f"x{n}" for n in range(9)]):
        assert not await house.store.lacks(session, one)
    with pytest.raises(Absent):
        session.message("x3")


@pytest.mark.parametrize("chunk", [7, 64])
def test_an_id_across_the_edge_of_a_chunk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Wherever it is in the file."""
    monkeypatch.setattr(partial_load, "_CHUNK_BYTES", chunk)
    store = StoreFiles(RealFileSystem(), str(tmp_path), House(RealFileSystem(), str(tmp_path)).format)
    for place in range(90):
        (tmp_path / "a.jsonl").write_bytes(b"." * place + b'"id-id"' + b"." * (90 - place))
        now = store.print_of("a.jsonl")
        assert not partial_load._lacks(store, "a.jsonl", now, [b'"id-id"'])
        assert partial_load._lacks(store, "a.jsonl", now, [b'"id-ie"', b'"ie"'])
        assert not partial_load._lacks(store, "a.jsonl", (1, 2, 3), [b'"other"'])


# What is not believed


@pytest.mark.parametrize(
    "harm",
    [
        "no sidecar",
        "sidecar",
        "brief",
        "longer",
        "shorter",
        "later",
        "earlier",
        "end",
        "last line",
        "newline",
        "small",
        "older",
        "streaming",
    ],
)
async def test_what_is_in_doubt_is_read_whole(house: House, harm: str) -> None:
    """A brief that is missing or damaged, a file of another length or time, or a strange end: the whole is read at once."""
    session = await saved(house)
    main, side = files(house)
    content, stat = main.read_bytes(), main.stat()
    match harm:
        case "no sidecar":
            side.unlink()
        case "sidecar":
            side.write_bytes(side.read_bytes()[:-20])
        case "brief":
            side.write_bytes(side.read_bytes().replace(b'\\"name\\":\\"N\\"', b'\\"name\\":\\"M\\"'))
        case "longer":
            main.write_bytes(content + b'{"role":"user","content":"by hand"}\n')
        case "shorter":
            main.write_bytes(content[: content.rindex(b"\n", 0, -1) + 1])
        case "later" | "earlier":
            moved = stat.st_mtime_ns + (3 if harm == "later" else -3) * 10**9
            os.utime(main, ns=(moved, moved))
        case "end":
            main.write_bytes(content[:-10] + b"\0" * 10)
        case "last line":
            main.write_bytes(content[:-2] + b"]\n")
        case "newline":
            main.write_bytes(content[:-1] + b" ")
        case "small":
            house.limits = msgspec.structs.replace(LIMITS, glanced_file_bytes=len(content) + 1)
            await house.open()
        case "older":
            known = msgspec.json.decode(side.read_bytes())
            del known["main"]
            side.write_bytes(msgspec.json.encode(known))
        case "streaming":
            first = Message(id="s", seq=COUNT + 2, role="assistant", content="b", timestamp=NOW, status="streaming")
            loaded = await house.store.load("a")
            await house.store.commit(loaded.session, [Appended.of([first], NOW)])
            await house.store.save("a")
            await house.open()
    found = (await house.store.load("a", whole=False)).session
    assert not found.absent
    assert found.message("m1") == session.message("m1")
    if harm == "brief":
        assert found.name == "N"


async def test_what_was_not_understood_gets_no_brief(house: House) -> None:
    """A session with a line that cannot be read is read whole each time, and reported each time."""
    await saved(house)
    main, _ = files(house)
    main.write_bytes(main.read_bytes().replace(b'{"id":"m4"', b'!!id":"m4"'))
    os.utime(main, ns=(0, main.stat().st_mtime_ns + 10**10))
    for seq in (40, 41):
        loaded = await house.store.load("a", whole=False)
        assert not loaded.session.absent
        assert [one.line for one in loaded.warnings] == [5]
        await house.store.commit(loaded.session, [appended(seq)])
        await house.store.save("a")
        await house.open()


async def test_messages_between_those_shown_are_not_missed(house: House) -> None:
    """A reply that was streamed while others wrote, whose line comes late, does not take the place of theirs."""
    store = house.store
    session = await begun(store, "a", 20)
    reply = Message(id="r", seq=21, role="assistant", content="be", timestamp=NOW, status="streaming")
    await store.commit(session, [Appended.of([reply], NOW)])
    for seq in range(22, 30):
        await store.commit(session, [appended(seq)])
    await store.commit(session, [Extended(seq=30, at=NOW, message_id="r", offset=2, text="gin " * 100)])
    await store.commit(session, [appended(31)])
    session.replace_message(session.messages(20, 21)[0].with_status("done"))
    await store.save("a")
    await house.open()
    found = (await house.store.load("a", whole=False)).session
    shown = found.messages(found.absent)
    assert shown == session.messages(found.absent)
    assert content_equal((await house.store.load("a")).session, session)


async def test_a_brief_is_small(house: House) -> None:
    """It names at most 256 messages, and it is left out if notes and state are large, so that a save costs the same at any length."""
    session = await begun(house.store, "a", 2)
    await house.store.commit(session, [Appended.of([message(seq) for seq in range(3, 501)], NOW)])
    await house.store.save("a")
    told = brief(house)
    assert (told["count"], told["recent"]) == (500, list(range(245, 501)))
    await house.store.commit(session, [Updated(seq=501, at=NOW, fields={"summary": "x" * 70_000})])
    await house.store.save("a")
    assert "main" not in msgspec.json.decode(files(house)[1].read_bytes())


# When the whole file says otherwise


@pytest.mark.parametrize("bits", [1, 0x1F])
async def test_damage_is_noticed_when_the_whole_is_read(house: House, bits: int) -> None:
    """A flipped bit, and more than one, in an old message: clients are told to read again, with the warning, and what was appended before
    that stays; the next save does not hide it.
    """
    await saved(house)
    main, _ = files(house)
    flip(main, main.read_bytes().index(b"word 3") + 1, bits)
    session = await glanced(house)
    await house.store.commit(session, [appended(50)])
    loaded = await house.store.load("a")
    assert loaded.session is not session and loaded.session.message("m50") is not None
    assert len(loaded.warnings) == 1
    await asyncio.sleep(0)
    (told,) = house.events
    assert isinstance(told, Reloaded) and told.session is loaded.session and told.warnings == loaded.warnings
    assert loaded.session.seq > 50
    await house.store.save("a")
    await house.open()
    again = await house.store.load("a", whole=False)
    assert not again.session.absent
    assert again.warnings == loaded.warnings
    assert again.session.message("m50") is not None


async def test_a_save_comes_after_the_whole(house: House) -> None:
    """Nothing is written to a file before all of it was read: a line that cannot be read is told, and stays."""
    await saved(house)
    main, _ = files(house)
    decay(main, b'{"id":"m4"', b'!!id":"m4"')
    session = await glanced(house)
    await house.store.commit(session, [appended(50)])
    await house.store.save("a")
    assert house.store.of("a").warnings()
    loaded = await house.store.load("a")
    await house.store.commit(loaded.session, [Truncated(seq=60, at=NOW, after_seq=10)])
    await house.store.save("a")
    assert b'\n!!id":"m4"' in main.read_bytes()


async def test_a_brief_that_lies_is_found_out(house: House) -> None:
    """Of another name and number, with a sum that is right: what the file says counts."""
    await saved(house)
    _, side = files(house)
    known = msgspec.json.decode(side.read_bytes())
    lie = known["main"]["brief"].replace('"name":"N"', '"name":"M"').replace(f'"count":{COUNT}', f'"count":{COUNT + 5}')
    known["main"] |= {"brief": lie, "briefCrc": zlib.crc32(lie.encode())}
    stat = side.stat()
    side.write_bytes(msgspec.json.encode(known))
    os.utime(side, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    session = await glanced(house)
    assert (session.name, len(session)) == ("M", COUNT + 5)
    await house.store.commit(session, [appended(50)])
    loaded = await house.store.load("a")
    assert (loaded.session.name, len(loaded.session)) == ("N", COUNT + 1)
    assert loaded.session.message("m50") is not None


async def test_an_edit_after_the_glance_is_merged(house: House) -> None:
    """The file is edited before it is read completely: the edit counts, what was shown and is gone is in the trash, what was
    appended is kept.
    """
    await saved(house)
    main, _ = files(house)
    session = await glanced(house)
    await house.store.commit(session, [appended(50)])
    main.write_bytes(main.read_bytes().replace(f"word {COUNT}".encode(), b"his words").replace(b'word 2"', b'older"'))
    await house.store.look_at("a")
    loaded = await house.store.load("a")
    assert [loaded.session.message(one).content for one in ("m2", f"m{COUNT}", "m50")] == [
        "older",
        "his words",
        "word 50",
    ]  # type: ignore[union-attr]
    (trashed,) = await house.store.trash()
    assert trashed.reason == "edited"
    back = (await house.store.restore(trashed.trash_id, trashed.trash_id)).session
    assert f"word {COUNT}" in [m.content for m in back.messages()]
    assert any(isinstance(one, Reloaded) for one in house.events)


async def test_a_file_that_goes_after_the_glance(house: House) -> None:
    """Somebody deletes it: what was shown of it is in the trash."""
    await saved(house)
    session = await glanced(house)
    shown = session.messages(session.absent)
    files(house)[0].unlink()
    await house.store.look_at("a")
    await asyncio.sleep(0)
    assert [type(one) for one in house.events] == [Vanished]
    (trashed,) = await house.store.trash()
    assert (await house.store.restore(trashed.trash_id, trashed.trash_id)).session.messages() == shown


async def test_a_session_that_was_glanced_at_is_deleted_whole(house: House) -> None:
    """All of it comes back from the trash."""
    before = await saved(house)
    await glanced(house)
    await house.store.delete("a", permanent=False)
    back = (await house.store.restore("a", "a")).session
    assert content_equal(back, before)


async def test_a_file_that_cannot_be_read_any_more(house: House) -> None:
    """The header of a newer version, after a partial load: what needs the whole file is refused, nothing is written, and the reason is a warning."""
    await saved(house)
    main, _ = files(house)
    decay(main, b'{"sessiond":1', b'{"sessiond":9')
    session = await glanced(house)
    await house.store.commit(session, [appended(50)])
    content = main.read_bytes()
    with pytest.raises(BadFile):
        await house.store.load("a")
    with pytest.raises(BadFile):
        await house.store.save("a")
    assert main.read_bytes() == content
    (told,) = (await house.store.load("a", whole=False)).warnings
    assert "newer format" in told.message


async def test_a_cut_needs_the_whole(house: House) -> None:
    """It is refused before it is durable, rather than done to a part."""
    await saved(house)
    session = await glanced(house)
    with pytest.raises(Absent):
        await house.store.commit(session, [Truncated(seq=90, at=NOW, after_seq=2)])
    await house.open()
    assert len((await house.store.load("a")).session) == COUNT


async def test_changes_while_the_whole_is_read(house: House) -> None:
    """What is appended, streamed, noted and renamed before the whole is there is the same after it, and is saved."""
    await saved(house)
    session = await glanced(house)
    store = house.store
    reply = Message(id="r", seq=50, role="assistant", content="be", timestamp=NOW, status="streaming")
    await store.commit(session, [Appended.of([reply], NOW)])
    await store.commit(session, [Extended(seq=51, at=NOW, message_id="r", offset=2, text="gin")])
    await store.commit(session, [Updated(seq=52, at=NOW, fields={"name": "later"})])
    assert (await store.load("a")).session is session
    assert [m.id for m in session.streaming()] == ["r"]
    assert session.appended_text("r") == "be"
    await store.commit(session, [Extended(seq=53, at=NOW, message_id="r", offset=5, text="!")])
    await store.save("a")
    await house.open()
    found = (await store.load("a")).session
    assert (found.name, found.message("r").content, len(found)) == ("later", "begin!", COUNT + 1)  # type: ignore[union-attr]


# Crashes


async def life(house: House, ledger: Ledger) -> None:
    """Saves, restarts with a partial load, and changes before and after the whole file was read."""
    for lived in range(3):
        await house.open()
        if not lived:
            session = await house.store.begin("a", NOW)
            await house.store.commit(session, [created("n")])
        else:
            session = (await house.store.load("a", whole=False)).session
        for _ in range(4):
            seqs = [session.seq + n for n in (1, 2, 3)]
            texts = {seq: f"word {seq} " + "x" * 40 for seq in seqs}
            ledger.may = texts
            await house.store.commit(session, [Appended.of([message(seq, text) for seq, text in texts.items()], NOW)])
            ledger.must |= texts
            ledger.may, ledger.seq = {}, session.seq
        await house.store.save("a")


async def glances_at(image: CrashFS, ledger: Ledger) -> int:
    """Open what a crash left by a partial load, append, kill it, and look again: 1 if it was one."""
    house = House(image, "/home", limits=LIMITS)
    await house.open()
    try:
        session = (await house.store.load("a", whole=False)).session
    except SessionNotFound:
        assert not ledger.must, "the session is gone"
        return 0
    glanced_at = 1 if session.absent else 0
    for one in session.messages(session.absent):
        assert (ledger.must.get(one.seq) or ledger.may.get(one.seq)) == one.content
    seq = session.seq + 1
    await house.store.commit(session, [Appended.of([message(seq, "more")], NOW)])
    more = Ledger()
    more.must, more.may, more.seq = {**ledger.must, seq: "more"}, ledger.may, seq
    await house.open()
    await house.store.load("a", whole=False)
    verify(await house.store.load("a"), more)
    await house.store.save("a")
    await house.open()
    verify(await house.store.load("a"), more)
    return glanced_at


async def test_a_crash_at_any_step_and_a_glance_after_it() -> None:
    """Whatever the disk holds then: what was acknowledged is there, once, and what is acknowledged on top of a partial load too."""
    fs, ledger = CrashFS(), Ledger()
    await life(House(fs, "/home", limits=LIMITS), ledger)
    total, seen = fs.steps, 0
    rng = random.Random(1)
    for step in range(total):
        fs, ledger = CrashFS(), Ledger()
        fs.crash_at = step
        with contextlib.suppress(Crash):
            await life(House(fs, "/home", limits=LIMITS), ledger)
        for image in fs.crash_images(limit=rng.choice((2, 4))):
            seen += await glances_at(image, ledger)
    assert seen > total // 4
