"""The journal is crashed before every step of a history, and every disk that this may leave is opened again.

What must hold then: every acknowledged change that was not noted as saved is pending, once, in order; what was certainly
deleted does not come back; nothing appears that was never written; nothing is called corrupt; and the journal continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from sessiond.errors import Indeterminate, ReadOnly
from sessiond.journal.record import RecordEntry
from sessiond.journal.recovery import Contents
from sessiond.journal.replay import replay
from sessiond.journal.segments import Segments
from sessiond.limits import Limits
from tests.fakes.crashfs import Crash, CrashFS
from tests.journal.builders import ID, changes, gone, saved

FOLDER = "/data/journal"
LIMITS = Limits(segment_bytes=260, reserve_bytes=32, damaged_copies=2)


def opened(fs: CrashFS) -> tuple[Segments, Contents]:
    segments = Segments(fs, FOLDER, LIMITS, lambda: 0.0)
    return segments, segments.recover(lambda: ID)


def pending_of(contents: Contents) -> dict[str, list[str]]:
    """Session -> payloads."""
    found = replay(record for _, record in contents.records)
    return {session: [record.entry.payload.decode() for record in kept] for (_, session), kept in found.items()}


@dataclass
class Promises:
    """What the users of the journal were told."""

    acked: dict[str, list[str]] = field(default_factory=dict)
    """Session -> payloads of the changes that must not be lost, or that were noted as saved since."""
    saved: dict[str, int] = field(default_factory=dict)
    trying: dict[str, list[str]] = field(default_factory=dict)
    """Handed over, not answered yet: may be there or not."""
    going: str | None = None
    """Its deletion was handed over and not answered yet."""
    purged: list[str] = field(default_factory=list)
    """Payloads of which no byte may be anywhere."""
    lsn: int = 0

    def must(self, session: str) -> list[str]:
        return self.acked.get(session, [])[self.saved.get(session, 0) :]

    def check(self, pending: dict[str, list[str]]) -> None:
        for session in {*self.acked, *pending}:
            got = pending.get(session, [])
            if session == self.going and not got:
                continue
            known = self.acked.get(session, []) + self.trying.get(session, [])
            assert [payload for payload in known if payload in got] == got, "once, in order, nothing else"
            assert [payload for payload in got if payload in self.must(session)] == self.must(session), "none missing"


class User:
    """Uses a journal as a store does, and notes what it was promised."""

    def __init__(self, fs: CrashFS) -> None:
        self.fs = fs
        self.promises = Promises()
        self.segments, _ = opened(fs)
        self._seqs: dict[str, int] = {}
        self._made = 0

    def commit(self, *sessions: str) -> None:
        told, entries = self.promises, []
        for session in sessions:
            self._made += 1
            seq = self._seqs[session] = self._seqs.get(session, 0) + 1
            payload = f"<{session}{self._made:03d}>"
            entries.append(changes(session, seq, payload.encode()))
            told.trying.setdefault(session, []).append(payload)
        told.lsn = self.segments.write(entries, sync=True) + len(entries) - 1
        for session, payloads in told.trying.items():
            told.acked.setdefault(session, []).extend(payloads)
        told.trying = {}

    def save(self, session: str) -> None:
        self.promises.saved[session] = self._seqs[session]
        self.segments.write([saved(session, self._seqs[session])], sync=False)
        self.segments.trim()

    def delete(self, session: str, *, purge: bool = False) -> None:
        told = self.promises
        told.going = session
        if purge:
            self.segments.purge("default", session)
            told.purged += told.acked[session]
        else:
            self.segments.write([gone(session)], sync=True)
        told.going = None
        for noted in (told.acked, told.saved, self._seqs):
            noted.pop(session, None)

    def rotate(self) -> None:
        self.segments.rotate()

    def hold_back(self) -> None:
        self.segments.hold_back()

    def restart(self) -> None:
        self.segments.close()
        self.segments, contents = opened(self.fs)
        self.promises.check(pending_of(contents))


Step = Callable[[User], None]


def script(text: str) -> list[Step]:
    """`a` commits to session a; `ab` in one batch to both; `a!` saves it, `a-` deletes it, `a--` for ever; `/` rotates; `^` moves
    what the oldest segment is kept for out of the way; `.` closes and opens."""
    steps: list[Step] = []
    for word in text.split():
        if word == "/":
            steps.append(User.rotate)
        elif word == "^":
            steps.append(User.hold_back)
        elif word == ".":
            steps.append(User.restart)
        elif word.endswith("!"):
            steps.append(lambda user, s=word[0]: user.save(s))
        elif word.endswith("-"):
            steps.append(lambda user, w=word: user.delete(w[0], purge=w.endswith("--")))
        else:
            steps.append(lambda user, s=word: user.commit(*s))
    return steps


HISTORIES = {
    "commits": "a b a c",
    "batches": "abc ab abcc a",
    "rotation": "a / b / a b c a b c a b c",
    "saved and trimmed": "a b / a! c / b! a / c! a! / a",
    "deleted and made again": "a a a- a a",
    "deleted across segments": "a b / a / a- / b! a",
    "purged": "a b / a b / ab a-- b a",
    "purged twice": "ab / a-- / b-- a b a--",
    "restarted": "a b . a . b! a! . . c",
    "held back": "a b a ^ c b! ^ a ^ a! c",
    "held back and deleted": "a b / a ^ ^ a- b / b! ^ a b",
    "held back and purged": "a b / a c ^ ^ a-- b / ^ b-- c",
    "held back and restarted": "a b ^ . a / b! ^ . a- ^ b a",
    "restarted in the middle": "a / b . a b / c c! . c",
}


def crashed(text: str) -> Iterator[tuple[CrashFS, Promises]]:
    """The history, crashed before each of its steps, and at last not at all."""
    count = 0
    while True:
        fs = CrashFS(seed=count)
        fs.crash_at = count
        user: User | None = None
        try:
            user = User(fs)
            for step in script(text):
                step(user)
        except Crash:
            yield fs, user.promises if user else Promises()
        else:
            fs.crash_at = None
            yield fs, user.promises
            return
        count += 1


def verify(image: CrashFS, promises: Promises, exactly: dict[str, list[str]] | None = None) -> None:
    """Open a disk, check the promises, use it, and open it again."""
    segments, contents = opened(image)
    pending = pending_of(contents)
    if exactly is None:
        promises.check(pending)
    else:
        assert pending == exactly
    assert [damage for damage in contents.damage if not damage.torn] == [], "a crash is not corruption"
    assert segments.state is None
    assert segments.lsn >= promises.lsn
    for payload in promises.purged:
        assert not any(payload.encode() in data for data in image.tree().values())
    segments.write([changes("y", 1, b"<y>")], sync=True)
    segments.close()
    assert pending_of(opened(image)[1]) == {**pending, "y": ["<y>"]}


@pytest.mark.parametrize("name", HISTORIES)
def test_every_crash_image_keeps_every_promise(name: str) -> None:
    """Crash before any step, open any disk that is left: all promises hold."""
    images = 0
    for fs, promises in crashed(HISTORIES[name]):
        for image in fs.crash_images(limit=60):
            images += 1
            try:
                verify(image, promises)
            except BaseException:
                print(f"after {fs.trace[-8:]}: {image.story}")
                raise
    assert images > 100, "the fake disk does harm"


@pytest.mark.parametrize("name", HISTORIES)
def test_crashes_during_recovery_keep_every_promise(name: str) -> None:
    """Crash, then crash again before any step of the recovery: all promises hold at the third start."""
    for fs, promises in crashed(HISTORIES[name]):
        for image in fs.crash_images(limit=2):
            for count in range(100):
                (second,) = image.crash_images()
                second.crash_at = count
                try:
                    opened(second)
                except Crash:
                    for third in second.crash_images(limit=3):
                        verify(third, promises)
                else:
                    break


@pytest.mark.parametrize("name", HISTORIES)
def test_what_a_killed_process_left_is_made_durable_before_it_is_served(name: str) -> None:
    """After a kill -9 the next start may serve what is only in the page cache; a power failure after it takes none of
    that.
    """
    for fs, promises in crashed(HISTORIES[name]):
        fs.revive()
        segments, contents = opened(fs)
        pending = pending_of(contents)
        promises.check(pending)
        for image in fs.crash_images(limit=8):
            _, after = opened(image)
            assert pending_of(after) == pending
        segments.write([changes("z", 1, b"<z>")], sync=True)
        for image in fs.crash_images(limit=8):
            verify(image, promises, {**pending, "z": ["<z>"]})


@pytest.mark.parametrize("skip", range(12))
def test_a_failed_sync_at_any_place_is_final_and_nothing_acknowledged_is_lost(skip: int) -> None:
    """Whichever sync fails: nothing is acknowledged after it, and neither a kill nor a power failure loses what was
    before.
    """
    fs = CrashFS(seed=skip)
    user = User(fs)
    fs.fail("sync" if skip % 2 else "sync_dir", 5, skip=skip // 2)
    failed = False
    with contextlib.suppress(ReadOnly, Indeterminate):
        for step in script("a b a / b a! a / ab b! a / b a / a"):
            step(user)
    state = user.segments.state
    if state is not None and state.final:
        failed = True
        before = user.promises.acked
        with pytest.raises(ReadOnly):
            user.segments.write([RecordEntry(changes("a", 1).kind, "default", "a", 99, b"no")], sync=True)
        assert user.promises.acked == before
    promises = user.promises
    for image in fs.crash_images(limit=60):
        verify(image, promises)
    fs.revive()
    _, contents = opened(fs)
    served = pending_of(contents)
    promises.check(served)
    for image in fs.crash_images(limit=60):
        assert pending_of(opened(image)[1]) == served, "what is served after a failed sync is really on the disk"
    assert failed or skip > 6
