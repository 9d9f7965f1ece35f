"""Any session through amacs, cortex, theia and jsonl and back, any way of saving it, any crash, and any bytes."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiond.formats import amacs, cortex, jsonl, theia
from sessiond.formats.sidecar import sidecar_path
from sessiond.model.changes import Change, Created
from sessiond.model.session import Session, content_equal
from sessiond.store.merge import replay
from tests.formats.lisp_sessions import Operation, perform
from tests.formats.saving import ID, load, operations, save, sessions, show, states, steps, written
from tests.suite.explore import tries

FORMATS = [amacs, cortex, theia, jsonl]
GROWING = [amacs, cortex, jsonl]
MORE = tries(few=1, usual=1)
"""How many times the usual number of examples to try."""
each = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
each_growing = pytest.mark.parametrize("fmt", GROWING, ids=lambda fmt: str(fmt.name))


@each
@settings(max_examples=30 * MORE, deadline=None)
@given(session=sessions())
def test_any_session_comes_back_the_same(fmt: ModuleType, session: Session) -> None:
    """What a session holds is the same after a save and a load, and saving it again writes nothing."""
    files = save(fmt, session)
    decoded = load(fmt, files)
    assert decoded.problems == []
    assert show(decoded.session) == show(session)
    assert content_equal(decoded.session, session)
    assert (decoded.renumbered, decoded.incomplete, decoded.through) == (False, False, session.seq)
    assert fmt.encode(session, files) == []
    assert fmt.encode(decoded.session, files) == []


def begin() -> tuple[Session, list[Change]]:
    created = Created(
        seq=0, at="2026-01-11T14:30:22.000Z", info={"createdAt": "2026-01-11T14:30:22.000Z", "name": "first"}
    )
    session = Session(ID, created.at)
    session.apply(created)
    return session, [created]


@each
@settings(max_examples=30 * MORE, deadline=None)
@given(saves=st.lists(st.lists(operations, max_size=5), min_size=1, max_size=5))
def test_saving_bit_by_bit_gives_what_one_save_gives(fmt: ModuleType, saves: list[list[Operation]]) -> None:
    """Random changes saved in portions are the same session as the whole of them saved at once."""
    session, changes = begin()
    files: dict[str, bytes] = {}
    for batch in saves:
        changes += [change for operation in batch if (change := perform(session, operation))]
        files = written(files, steps(fmt, session, files, changes))
        decoded = load(fmt, files)
        assert show(decoded.session) == show(session)
        assert (decoded.problems, decoded.incomplete, decoded.renumbered) == ([], False, False)
        assert all(decoded.holds(change) for change in changes)
        changes = []
    whole = load(fmt, save(fmt, session)).session
    assert show(whole) == show(session)


@each
@settings(max_examples=40 * MORE, deadline=None)
@given(saves=st.lists(st.lists(operations, max_size=4), min_size=1, max_size=4), trimmed=st.booleans())
@example(saves=[[("state", {"1": None})], [("state", {"1": []})]], trimmed=False)  # the save's time, not the change's
@example(saves=[[("append", [("user", "", {})])], [("clear", None), ("begin", ""), ("extend", " ")]], trimmed=False)
def test_a_crash_between_any_two_writes_loses_nothing(
    fmt: ModuleType, saves: list[list[Operation]], trimmed: bool
) -> None:
    """After each step of a save, the files and the changes that the journal still has are the session of after."""
    session, pending = begin()
    files: dict[str, bytes] = {}
    for batch in saves:
        changes = [change for operation in batch if (change := perform(session, operation))]
        pending = [*pending, *changes]
        writes = steps(fmt, session, files, changes if files else pending)
        for crashed in states(files, writes):
            if fmt.main_path(ID) not in crashed:
                continue  # the journal has all of it
            decoded = load(fmt, crashed, floor=session.seq)
            replay(decoded, pending)
            assert show(decoded.session) == show(session)
            mended = save(fmt, decoded.session, crashed)
            assert show(load(fmt, mended).session) == show(session)
        files = written(files, writes)
        if trimmed:
            pending = []


@each_growing
@settings(max_examples=25 * MORE, deadline=None)
@given(session=sessions(), batch=st.lists(operations, max_size=6))
def test_an_append_changes_only_the_end(fmt: ModuleType, session: Session, batch: list[Operation]) -> None:
    """A save after anything but clear and truncate leaves every byte that was there where it was."""
    batch = [operation for operation in batch if operation[0] not in ("clear", "truncate")]
    files = save(fmt, session)
    changes = [change for operation in batch if (change := perform(session, operation))]
    after = written(files, steps(fmt, session, files, changes))
    assert after[fmt.main_path(ID)].startswith(files[fmt.main_path(ID)])
    assert show(load(fmt, after).session) == show(session)


@each
@settings(max_examples=50 * MORE, deadline=None)
@given(main=st.binary(max_size=200), side=st.binary(max_size=100) | st.none())
def test_any_bytes_are_read_without_an_exception(fmt: ModuleType, main: bytes, side: bytes | None) -> None:
    """Whatever is there, decoding answers; what it calls fatal is never written over."""
    files = {fmt.main_path(ID): main, **({sidecar_path(ID): side} if side is not None else {})}
    decoded = fmt.decode(ID, files)
    if decoded.fatal is None:
        numbered = written(files, fmt.adopt_numbering(decoded, files))
        again = load(fmt, numbered)
        assert show(again.session) == show(decoded.session)
        assert not again.renumbered


@each
@settings(max_examples=30 * MORE, deadline=None)
@given(session=sessions(), data=st.data())
def test_a_damaged_file_is_a_problem_and_no_exception(fmt: ModuleType, session: Session, data: st.DataObject) -> None:
    """A file that was cut, or that has junk in it, is read as far as it goes; what is read is numbered for good."""
    files = save(fmt, session)
    path = data.draw(st.sampled_from(sorted(files)))
    content = files[path]
    position = data.draw(st.integers(0, len(content)))
    junk = data.draw(
        st.binary(max_size=8)
        | st.sampled_from([b"\n* Tick 4\n** Human\nx\n", b'\n{"role":"user","content":"x"}\n', b"\n"])
    )
    files[path] = content[:position] + junk + content[position + data.draw(st.integers(0, 40)) :]
    decoded = fmt.decode(ID, files)
    if decoded.fatal is None:
        numbered = written(files, fmt.adopt_numbering(decoded, files))
        again = load(fmt, numbered)
        assert [one.wire() for one in again.session.messages()] == [one.wire() for one in decoded.session.messages()]
        saved = written(numbered, fmt.encode(decoded.session, numbered))
        assert show(load(fmt, saved).session) == show(decoded.session)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@pytest.mark.timeout(20)
def test_a_long_line_and_a_deep_value_cost_no_more_than_their_length(fmt: ModuleType) -> None:
    """A megabyte in one line, blanks, brackets and stars without end are read in bounded time."""
    for junk in (
        b" " * 1_000_000 + b"x",
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b"*" * 1_000_000,
        b"," * 500_000 + b"* ",
        b":" * 1_000_000,
        b'"' * 999_999,
    ):
        fmt.decode(ID, {fmt.main_path(ID): b"* Tick 1\n** Human\n" + junk + b"\n"})
        fmt.decode(ID, {fmt.main_path(ID): junk})
    session, changes = begin()
    text = "* x " * 250_000 + "\n" + "日本" * 200_000
    changes += [
        one
        for one in [perform(session, ("append", [("user", text, {}), ("assistant", " " * 1_000_000 + text, {})]))]
        if one
    ]
    files = written({}, steps(fmt, session, {}, changes))
    assert show(load(fmt, files).session) == show(session)


OUTSIDE = {
    "amacs": b"* Tick 7\n:PROPERTIES:\n:TIMESTAMP: 2026-01-12T00:00:00Z\n:END:\n\n** Human\ntheirs\n\n** Agent\nsame\n\n",
    "cortex": b'{"role":"user","content":"theirs","timestamp":1768176000000}\n',
    "jsonl": b'{"role":"user","content":"theirs","timestamp":"2026-01-12T00:00:00Z"}\n',
}


@each_growing
@settings(max_examples=40 * MORE, deadline=None)
@given(
    rounds=st.lists(st.tuples(st.lists(operations, max_size=4), st.booleans(), st.booleans()), min_size=1, max_size=5)
)
def test_somebody_else_appends_at_any_time(fmt: ModuleType, rounds: list[tuple[list[Operation], bool, bool]]) -> None:
    """Lines that come in between saves are messages after all known ones; nothing of ours is lost, doubled or renumbered."""
    session, pending = begin()
    files = written({}, steps(fmt, session, {}, pending))
    pending = []
    rewrite = False
    for batch, saved, outside in rounds:
        pending += [change for operation in batch if (change := perform(session, operation))]
        if saved and (pending or rewrite):
            writes = fmt.encode(session, files) if rewrite else steps(fmt, session, files, pending)
            files, pending, rewrite = written(files, writes), [], False
        if outside:
            main = fmt.main_path(ID)
            files[main] = (
                files[main] + (b"" if files[main].endswith(b"\n") or not files[main] else b"\n") + OUTSIDE[fmt.name]
            )
            decoded = load(fmt, files, floor=session.seq)
            missing = replay(decoded, pending)
            files = written(files, fmt.adopt_numbering(decoded, files))
            before = {one.id: one.wire() for one in session.messages()}
            after = {one.id: one.wire() for one in decoded.session.messages()}
            assert {key: after.get(key) for key in before} == before
            assert len(after) == len(before) + OUTSIDE[fmt.name].count(b"theirs") + OUTSIDE[fmt.name].count(b"same")
            assert all(after[key]["seq"] > session.seq for key in after.keys() - before.keys())
            assert decoded.session.state == session.state
            assert decoded.session.tags == session.tags
            session, pending, rewrite = decoded.session, missing, decoded.incomplete
        again = load(fmt, files, floor=session.seq)
        replay(again, pending)
        assert not again.renumbered
        assert show(again.session) == show(session)
