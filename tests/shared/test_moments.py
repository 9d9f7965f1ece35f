"""Something comes from the hub in the middle of something else: moments that real links hit once in a thousand times."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from sessiond.clock import SystemClock
from sessiond.errors import BadFile, Conflict
from sessiond.fs import RealFileSystem
from sessiond.hub.port import HubHead, HubWelcome, OperationPage, Ordered, Push, Pushed, chain_all, seed
from sessiond.limits import Limits
from sessiond.model.changes import Appended, Change, Cleared, Created, Truncated
from sessiond.model.session import Session
from sessiond.shared import fold, stored
from sessiond.shared.journal import NoJournal
from sessiond.shared.ledger import Ledger
from sessiond.shared.link import HubLink
from sessiond.shared.stored import SharedSession
from sessiond.store.folder import FolderStore
from sessiond.store.mounts import Mounts

AT = "2026-01-01T00:00:00.000Z"


class OneSession:
    """What a link needs of a hub, for one session. `asked` is called before a page is given."""

    def __init__(self) -> None:
        self.rows: list[Ordered] = []
        self.pushes = 0
        self.asked: Callable[[], None] = lambda: None

    def subscribe(self, listener: object) -> None:
        pass

    async def push(self, push: Push) -> Pushed:
        assert (push.base, push.digest) == (len(self.rows) - 1, self.digest)
        self.pushes += 1
        there = {one.id for one in self.rows} - {None}
        if there.intersection(one.id for one in push.operations):
            raise Conflict("an id is taken")
        numbers = range(len(self.rows), len(self.rows) + len(push.operations))
        self.rows += [
            Ordered(number, "ab" * 16, one.index, one.kind, one.id, "Ada", None, 0, one.body, b"sealed " + one.body)
            for number, one in zip(numbers, push.operations, strict=True)
        ]
        return Pushed("s", "stored", len(self.rows) - 1, self.digest, tuple(numbers))

    async def operations(self, session: str, after: int, max_bytes: int) -> OperationPage:
        self.asked()
        head = HubHead(session, len(self.rows) - 1, self.digest, 0, seed(session), None)
        return OperationPage(self.rows[after + 1 :], head, False)

    @property
    def digest(self) -> bytes:
        return chain_all(seed("s"), self.rows)


class Rig:
    def __init__(self, ledger: Ledger, folder: FolderStore) -> None:
        self.ledger = ledger
        self.hub = OneSession()
        self.folder = folder
        self.link = HubLink("team", ledger, self.hub, SystemClock(), patience_s=20.0)  # type: ignore[arg-type]
        self.up()
        self.stored = SharedSession(self.link, folder, folder.session("s"))

    def up(self) -> None:
        self.link.came_up(HubWelcome("team", "Ada", True, "listening", "18", None))

    def more(self, *changes: Change) -> None:
        """Others did this; the ledger has it."""
        for one in fold.waiting_of(changes, self.ledger.name):
            self.hub.rows.append(one.ordered(len(self.hub.rows), "Bob"))
        self.ledger.confirm("s", self.hub.rows)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    ledger = Ledger(str(tmp_path / "team.ledger"))
    await ledger.open()
    mounts = Mounts(RealFileSystem(), str(tmp_path), NoJournal(), SystemClock(), Limits(), pending={})
    yield Rig(ledger, await mounts.mount_shared("team", str(tmp_path / "team"), NoJournal()))
    await mounts.close()
    await ledger.close()


def message(seq: int) -> Appended:
    wire = {"id": f"m{seq}", "seq": seq, "role": "user", "content": f"{seq}", "timestamp": AT}
    return Appended(seq=seq, at=AT, messages=[wire])


def ids(session: Session | None) -> list[str]:
    assert session is not None
    return [one.id for one in session.messages()]


CREATED = Created(seq=0, at=AT, info={"createdAt": AT, "updatedAt": AT})


@pytest.mark.parametrize("saved", [False, True])
async def test_a_message_comes_while_the_session_is_read(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, saved: bool
) -> None:
    """It is merged after that, once, and the next seq is the next one."""
    rig.more(CREATED, message(1))
    if saved:
        first = SharedSession(rig.link, rig.folder, rig.folder.session("s"))
        await first.save(await first.read(whole=True))
    look = rig.folder.look

    async def slow(local_id: str) -> object:
        rig.more(message(len(rig.hub.rows)))
        return await look(local_id)

    monkeypatch.setattr(rig.folder, "look", slow)
    session = await rig.stored.read(whole=True)
    monkeypatch.undo()
    assert (session.seq, ids(session)) == (1, ["m1"])
    assert await rig.stored.changed()
    session = await rig.stored.merge(session)
    assert ids(session) == ["m1", "m2"]
    await rig.stored.commit(session, [message(3)])
    assert [row.id for row in rig.hub.rows] == [None, "m1", "m2", "m3"]
    assert session.seq == rig.ledger.head("s").number == 3


async def test_what_cannot_be_understood_changes_nothing(rig: Rig) -> None:
    """The session stays as it was, each time that a merge is tried; nothing is planned beside the hub's numbers."""
    rig.more(CREATED, message(1))
    session = await rig.stored.read(whole=True)
    rig.more(message(2))
    rig.hub.rows.append(Ordered(3, "cd" * 16, 1, "appended", "odd", "Bob", None, 0, b"\x77from a later version"))
    rig.ledger.confirm("s", rig.hub.rows)
    for _ in range(2):
        with pytest.raises(BadFile):
            await rig.stored.merge(session)
        assert (session.seq, ids(session)) == (1, ["m1"])


@pytest.mark.parametrize("cut", [Cleared(seq=3, at=AT), Truncated(seq=3, at=AT, after_seq=1)])
async def test_a_cut_is_fetched_before_its_own_answer_is_read(rig: Rig, cut: Change) -> None:
    """In an encrypted store the hub is asked how it has what was pushed. Meanwhile a hint may bring the same, and more."""
    rig.more(CREATED, message(1), message(2))
    session = await rig.stored.read(whole=True)

    def hint() -> None:
        rig.hub.asked = lambda: None
        rig.more(message(4))

    rig.hub.asked = hint
    session = await rig.stored.cut(session, [cut])
    left = [] if isinstance(cut, Cleared) else ["m1"]
    assert (session.seq, ids(session)) == (3, left)
    assert ids(await rig.stored.merge(session)) == [*left, "m4"]
    assert session.seq == 4


async def test_an_append_is_fetched_before_its_own_answer_is_read(rig: Rig) -> None:
    """It is final, and not provisional: the seq that was planned is the one that it has."""
    rig.more(CREATED)
    session = await rig.stored.read(whole=True)

    def hint() -> None:
        rig.hub.asked = lambda: None
        rig.more(message(2))

    rig.hub.asked = hint
    await rig.stored.commit(session, [message(1)])
    assert not rig.stored.provisional
    assert ids(await rig.stored.merge(session)) == ["m1", "m2"]


@pytest.mark.parametrize("same", [True, False])
async def test_an_id_that_waits_was_used_elsewhere(rig: Rig, same: bool) -> None:
    """The same message is there once, another one gets another id; what comes after it has the hub's seq."""
    rig.more(CREATED)
    session = await rig.stored.read(whole=True)
    rig.link.up = False
    for seq in (1, 2):
        await rig.stored.commit(session, [message(seq)])
    rig.more(message(1) if same else Appended(seq=1, at=AT, messages=[{**message(1).messages[0], "content": "other"}]))
    rig.up()
    merged = await rig.stored.merge(session)
    former = [] if same else [f"m1-{rig.ledger.replica[:8]}"]
    assert ids(merged) == ["m1", *former, "m2"] == [one.id for one in rig.hub.rows][1:]
    assert merged is not None
    assert merged.seq == rig.ledger.head("s").number
    assert not rig.stored.provisional


async def test_an_import_that_is_cut_short_does_not_look_complete(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What says which version of the source was read comes last, so that the next import adds the rest."""
    monkeypatch.setattr(stored, "_BATCH", 3)
    session = Session("s", AT)
    for seq in range(1, 8):
        session.apply(message(seq))
    session.metadata = {"source": {"path": "/p", "fingerprint": "1:2"}, "more": True}
    await rig.stored.put(session)
    assert len(rig.hub.rows) == 9
    for count in range(1, 9):
        partly = fold.folded("s", rig.hub.rows[:count])
        assert partly.metadata == {"source": {"path": "/p"}, "more": True}
    assert fold.folded("s", rig.hub.rows).metadata == session.metadata


async def test_more_waits_than_one_transaction_takes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is pushed in parts, in its order; a link that is lost in between loses nothing."""
    monkeypatch.setattr(fold, "HUB_PUSH_OPERATIONS", 3)
    rig.more(CREATED)
    session = await rig.stored.read(whole=True)
    rig.link.up = False
    for seq in range(1, 9):
        await rig.stored.commit(session, [message(seq)])
    rig.up()
    push = rig.hub.push

    async def once(pushed: Push) -> Pushed:
        rig.hub.push = push  # type: ignore[method-assign]
        done = await push(pushed)
        rig.link.up = False
        return done

    rig.hub.push = once  # type: ignore[method-assign]
    assert await rig.stored.merge(session) is session
    assert (rig.stored.provisional, rig.ledger.waits) == (5, {"s": 5})
    await rig.stored.commit(session, [message(9)])
    rig.up()
    assert await rig.stored.merge(session) is session
    assert [one.id for one in rig.hub.rows][1:] == ids(session) == [f"m{seq}" for seq in range(1, 10)]
    assert (rig.stored.provisional, rig.ledger.waits, rig.hub.pushes) == (0, {}, 3)
