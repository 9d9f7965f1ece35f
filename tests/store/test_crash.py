"""Crash images: whatever is on the disk after a power failure, no acknowledged word is missing or there twice."""

from __future__ import annotations

import contextlib
import errno
import random
from unittest import mock

import pytest

from sessiond.errors import BadFile, Indeterminate, ReadOnly, SessionNotFound
from sessiond.formats import registry, sidecar_file
from sessiond.limits import Limits
from sessiond.model.changes import Appended, Cleared, Extended, Finished, Truncated, Updated
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.store.folder import FolderStore
from tests.fakes.crashfs import Crash, CrashFS
from tests.store.conftest import NOW, House, created, message
from tests.store.owner import Loaded
from tests.suite.explore import seeds

SMALL = Limits(
    settle_s=0.0, segment_bytes=1500, reserve_bytes=512, glanced_file_bytes=1, glanced_end_bytes=400
)  # fmt: skip
STEPS = 14


class Ledger:
    """What was acknowledged, and what may or may not be there."""

    def __init__(self) -> None:
        self.must: dict[int, str] = {}
        self.may: dict[int, str] = {}
        self.seq = 0

    def takes(self, session: Session) -> None:
        """What was served once must remain."""
        self.must, self.may, self.seq = {m.seq: m.content for m in session.messages()}, {}, session.seq


async def live(house: House, ledger: Ledger, rng: random.Random) -> None:
    """Random changes and saves on one session, new or as an earlier life left it; the ledger is brought up to date only when
    an acknowledgement came.
    """
    store = await house.open()
    try:
        await glance(store, ledger)
        loaded = await store.load("a")
    except SessionNotFound:
        assert not ledger.must, "the session is gone"
        session = await store.begin("a", NOW)
        await store.commit(session, [created("n")])
    else:
        verify(loaded, ledger)
        session = loaded.session
        ledger.takes(session)
    for _ in range(STEPS):
        seq = session.seq + 1
        action = rng.choice(["append", "append", "append", "save", "stream", "truncate", "clear", "rename", "reopen"])
        if action == "append":
            count = rng.choice([1, 1, 2, 3])
            batch = [message(seq + n, f"word {seq + n} " + "x" * rng.choice([0, 40])) for n in range(count)]
            ledger.may = {m.seq: m.content for m in batch}
            await store.commit(session, [Appended.of(batch, NOW)])
            ledger.must |= ledger.may
        elif action == "save":
            await store.save("a")
        elif action == "stream":
            first = Message(id=f"m{seq}", seq=seq, role="assistant", content="be", timestamp=NOW, status="streaming")
            ledger.may = {seq: "begin"}
            await store.commit(session, [Appended.of([first], NOW)])
            await store.commit(session, [Extended(seq=seq + 1, at=NOW, message_id=f"m{seq}", offset=2, text="gin")])
            if rng.random() < 0.5:
                await store.save("a")
            await store.commit(session, [Finished(seq=seq + 2, at=NOW, message_id=f"m{seq}", status="done")])
            ledger.must |= ledger.may
        elif action == "truncate":
            after = rng.choice([0, *ledger.must]) if ledger.must else 0
            gone = {s: t for s, t in ledger.must.items() if s > after}
            for s in gone:
                del ledger.must[s]
            ledger.may = gone
            await store.commit(session, [Truncated(seq=seq, at=NOW, after_seq=after)])
        elif action == "clear":
            ledger.may, ledger.must = ledger.must, {}
            await store.commit(session, [Cleared(seq=seq, at=NOW)])
        elif action == "rename":
            await store.commit(session, [Updated(seq=seq, at=NOW, fields={"name": f"name {seq}"})])
        else:
            store = await house.open()
            await glance(store, ledger)
            session = (await store.load("a")).session
        ledger.may = {}
        ledger.seq = session.seq


async def glance(store: FolderStore, ledger: Ledger) -> None:
    """The session is opened, appended to before its file was read whole where that can be, and read whole."""
    session = (await store.load("a", whole=False)).session
    if session.absent:
        first = session.messages(session.absent)
        assert all(ledger.must.get(m.seq) or ledger.may.get(m.seq) for m in first), "never there"
        seq = session.seq + 1
        before, ledger.may = ledger.may, {**ledger.may, seq: f"glanced {seq}"}
        await store.commit(session, [Appended.of([message(seq, f"glanced {seq}")], NOW)])
        ledger.must[seq], ledger.may = f"glanced {seq}", before
        ledger.seq = max(ledger.seq, seq)


async def check(image: CrashFS, house: House, ledger: Ledger) -> None:
    again = House(image, house.home, house.format.name, house.limits)
    store = await again.open()
    try:
        loaded: Loaded = await store.load("a")
    except SessionNotFound:
        assert not ledger.must, "the session is gone"
        return
    verify(loaded, ledger)
    await store.save("a")
    once_more = House(image, house.home, house.format.name, house.limits)
    await once_more.open()
    after = await once_more.store.load("a")
    verify(after, ledger)
    assert not after.warnings, after.warnings
    assert [m.wire() for m in after.session.messages()] == [m.wire() for m in loaded.session.messages()]


def verify(loaded: Loaded, ledger: Ledger) -> None:
    found = {m.seq: m.content for m in loaded.session.messages()}
    assert len({m.id for m in loaded.session.messages()}) == len(found)
    for seq, text in ledger.must.items():
        assert found.get(seq) == text, f"seq {seq} should say {text!r}: {found}"
    for seq, text in found.items():
        known = ledger.must.get(seq) or ledger.may.get(seq)
        assert known is not None, f"seq {seq} was never there: {found}"
        assert known.startswith(text)
    assert loaded.session.seq >= ledger.seq


@pytest.mark.parametrize("fmt", ["jsonl", "cortex", "amacs", "agent-q", "theia", "sibyl"])
@pytest.mark.parametrize("seed", seeds(few=2, usual=8))
async def test_every_crash_image_holds_what_was_acknowledged(fmt, seed):
    """Crash before every step of a random life, then open what the disk may hold: all that was answered is there once."""
    registry.get(fmt)
    total = await steps_of_a_whole_life(fmt, seed)
    checked = 0
    rng = random.Random(seed)
    for step in range(total):
        fs, ledger = CrashFS(seed=seed), Ledger()
        fs.crash_at = step
        house = House(fs, "/home", fmt, SMALL)
        with contextlib.suppress(Crash):
            await live(house, ledger, random.Random(seed))
        for image in fs.crash_images(limit=6 if rng.random() < 0.5 else 3):
            await check(image, house, ledger)
            checked += 1
    assert checked > total


@pytest.mark.parametrize("fmt", ["jsonl", "cortex", "amacs"])
@pytest.mark.parametrize("seed", seeds(few=1, usual=3))
async def test_every_crash_image_of_a_sidecar_that_lets_go_of_what_is_appended(fmt, seed, monkeypatch):
    """The same where every append counts as a long one, whose bytes are removed from the sidecar when they are in the file."""
    monkeypatch.setattr(sidecar_file, "KEPT_BYTES", 0)
    await test_every_crash_image_holds_what_was_acknowledged(fmt, seed)


async def steps_of_a_whole_life(fmt: str, seed: int) -> int:
    fs = CrashFS(seed=seed)
    await live(House(fs, "/home", fmt, SMALL), Ledger(), random.Random(seed))
    return fs.steps


LIVES = 6
WALKS = seeds(few=4, usual=25)
FAULTS = ("write", "sync", "truncate", "rename", "link", "remove", "sync_dir", "make")


@pytest.mark.parametrize("fmt", ["jsonl", "cortex", "amacs", "agent-q", "theia", "sibyl"])
async def test_one_crash_after_the_other_with_faults_in_between(fmt):
    """Life after life on one disk: each ends with a crash, at its start, in its recovery, in a save or a rotation, some after a
    call that failed; the next begins on a disk that the crash may have left. All that was ever served or answered stays.
    """
    for seed in WALKS:
        try:
            await walk(fmt, seed)
        except BaseException:
            print(f"reproduce: walk({fmt!r}, {seed})")
            raise


async def walk(fmt: str, seed: int) -> None:
    names = random.Random(seed)
    with mock.patch("secrets.token_hex", lambda size=8: names.randbytes(size).hex()):  # it decides the order of names
        await _walk(fmt, seed)


async def _walk(fmt: str, seed: int) -> None:
    rng = random.Random(f"{fmt} {seed}")
    fs, ledger = CrashFS(seed=seed), Ledger()
    for life in range(LIVES):
        house = House(fs, "/home", fmt, SMALL)
        fs.crash_at = fs.steps + rng.choice((rng.randrange(12), rng.randrange(40), rng.randrange(150)))
        faulty = rng.random() < 0.5
        if faulty:
            fault = rng.choice(FAULTS)
            fs.fail(fault, rng.choice((errno.EIO, errno.ENOSPC)), skip=rng.randrange(8), times=rng.choice((1, 1, 3)),
                    written=rng.choice((0, 7)))  # fmt: skip
        try:
            await live(house, ledger, rng)
        except Crash:
            pass
        except (ReadOnly, Indeterminate, BadFile, OSError):
            # A fault was met, also in mending what an earlier crash left. Nothing more is answered; the process ends here.
            assert faulty
        fs.heal()
        images = list(fs.crash_images(limit=4))
        chosen = rng.choice(images)
        (fs,) = chosen.crash_images()
        for image in images:
            try:
                await check(image, house, ledger)
            except BaseException:
                print(f"life {life}: {image.story}; {fs.trace[-6:]}")
                raise
