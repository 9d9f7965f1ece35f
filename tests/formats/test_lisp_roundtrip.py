"""Any session through agent-q and sibyl and back, and any bytes into them."""

from __future__ import annotations

import os
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from sessiond.formats import agent_q, sibyl
from sessiond.formats.base import Tail
from sessiond.formats.lisp_file import apply_edits
from sessiond.formats.sexp import Dialect, read
from sessiond.formats.sexp_values import SexpText
from sessiond.formats.sidecar import sidecar_path
from sessiond.model.changes import Noted, StateSet
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.store.merge import replay
from tests.formats.lisp_sessions import (
    Operation,
    assert_same,
    load,
    message,
    operations,
    perform,
    save,
    session_of,
    sessions,
    written,
)

FORMATS = [agent_q, sibyl]
EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "25"))
ID = "session-20260111-143022"


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@settings(max_examples=EXAMPLES, deadline=None)
@given(session=sessions())
def test_any_session_comes_back_the_same(fmt: ModuleType, session: Session) -> None:
    """What a session holds is the same after a save and a load."""
    files = save(fmt, session)
    decoded = load(fmt, files)
    assert decoded.problems == []
    assert (decoded.renumbered, decoded.incomplete, decoded.through) == (False, False, session.seq)
    assert_same(decoded.session, session)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@settings(max_examples=EXAMPLES, deadline=None)
@given(session=sessions())
def test_a_save_without_a_change_writes_nothing(fmt: ModuleType, session: Session) -> None:
    """Saving what was just saved, or just loaded, has nothing to write."""
    files = save(fmt, session)
    assert fmt.encode(session, files) == []
    assert fmt.encode(load(fmt, files).session, files) == []


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@settings(max_examples=EXAMPLES, deadline=None)
@given(one=sessions(), other=sessions())
def test_any_session_over_any_other(fmt: ModuleType, one: Session, other: Session) -> None:
    """A save over whatever the files held before gives the session that was saved."""
    files = save(fmt, other, save(fmt, one))
    decoded = load(fmt, files)
    assert not decoded.incomplete
    assert_same(decoded.session, other)
    assert fmt.encode(other, files) == []


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@settings(max_examples=EXAMPLES, deadline=None)
@given(session=sessions(), saves=st.lists(st.lists(operations, max_size=5), min_size=1, max_size=3))
def test_a_crash_between_the_two_writes_loses_nothing(
    fmt: ModuleType, session: Session, saves: list[list[Operation]]
) -> None:
    """The old main file with the new sidecar, and the changes that the journal still has, are the session of after."""
    files = save(fmt, session)
    for batch in saves:
        pending = [change for operation in batch if (change := perform(session, operation))]
        after = save(fmt, session, files)
        torn = {**after, fmt.main_path(ID): files[fmt.main_path(ID)]}
        decoded = load(fmt, torn)
        replay(decoded, pending)
        assert_same(decoded.session, session)
        mended = save(fmt, decoded.session, torn)
        assert_same(load(fmt, mended).session, session)
        files = after


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@settings(max_examples=EXAMPLES, deadline=None)
@given(session=sessions(), batch=st.lists(operations, max_size=6))
def test_a_cheap_save_is_as_good_as_a_whole_one(fmt: ModuleType, session: Session, batch: list[Operation]) -> None:
    """Where `update` has an answer, the files are the session; it writes the main file never."""
    files = save(fmt, session)
    changes = [change for operation in batch if (change := perform(session, operation))]
    main = files[fmt.main_path(ID)]
    writes = fmt.update(session, Tail(True, len(main), main[-256:]), files, changes)
    quiet = all(isinstance(one, (StateSet, Noted)) for one in changes)
    if writes is None:
        assert not quiet or not changes
        return
    assert [write.path for write in writes] == [sidecar_path(ID)]
    decoded = load(fmt, written(files, writes))
    assert (decoded.through, decoded.incomplete) == (session.seq, False)
    assert_same(decoded.session, session)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@settings(max_examples=EXAMPLES, deadline=None)
@given(session=sessions())
def test_a_lost_sidecar_costs_only_what_the_file_cannot_show(fmt: ModuleType, session: Session) -> None:
    """Without the sidecar the file is a separate session, numbered from 1, and the same each time."""
    files = save(fmt, session)
    main = {fmt.main_path(ID): files[fmt.main_path(ID)]}
    first, second = load(fmt, main), load(fmt, main)
    assert_same(first.session, second.session)
    assert [one.seq for one in first.session.messages()] == list(range(1, len(first.session) + 1))
    shown = [one for one in session.messages() if fmt is agent_q or one.role.lower() != "system"]
    assert [one.content for one in first.session.messages()] == [one.text() for one in shown]


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@settings(max_examples=EXAMPLES, deadline=None)
@given(session=sessions(), data=st.data())
def test_a_cut_or_damaged_file_is_a_problem_and_no_exception(
    fmt: ModuleType, session: Session, data: st.DataObject
) -> None:
    """Whatever happens to the bytes of either file, decoding ends, and what it cannot read is never written over."""
    files = save(fmt, session)
    path = data.draw(st.sampled_from(sorted(files)))
    content = files[path]
    position = data.draw(st.integers(0, len(content)))
    junk = data.draw(st.binary(max_size=8))
    files[path] = content[:position] + junk + content[position + data.draw(st.integers(0, 40)) :]
    decoded = fmt.decode(ID, files)
    if decoded.fatal is not None:
        assert fmt.encode(session, files) == []
    else:
        again = save(fmt, decoded.session, save_numbering(fmt, decoded, files))
        assert_same(load(fmt, again).session, decoded.session)


def save_numbering(fmt: ModuleType, decoded: object, files: dict[str, bytes]) -> dict[str, bytes]:
    return {**files, **{write.path: write.data for write in fmt.adopt_numbering(decoded, files)}}


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    main=st.binary(max_size=200) | st.text("()\"\\;'#|:. \nabc1[]?,@`", max_size=60).map(str.encode),
    side=st.none() | st.binary(max_size=60),
)
def test_any_bytes_are_decoded_without_an_exception(fmt: ModuleType, main: bytes, side: bytes | None) -> None:
    """Garbage is a problem, and remains as it is."""
    files = {fmt.main_path(ID): main} | ({sidecar_path(ID): side} if side is not None else {})
    decoded = fmt.decode(ID, files)
    if decoded.fatal is not None:
        assert fmt.encode(Session(ID, "2026-01-11T14:30:22.000Z"), files) == []


AT = "2026-01-12T06:40:00.000Z"


def by_system(fmt: ModuleType, memory: list[Message]) -> bytes:
    """The main file as a system writes it that knows nothing but these messages."""
    session = Session(ID, AT)
    for number, one in enumerate(memory, 1):
        session.add_message(structs.replace(one, seq=number))
    return save(fmt, session)[fmt.main_path(ID)]


COMMENTS = [' ; c " (\n', "\n;; own line )\n", "\n\n", "  ", "\t;;;\n ;\n"]
STRAYS = [*COMMENTS, " stray ", " (no message) ", '\n(:content "no role")\n', " nil ", " 12 ; c\n", ' "text" ']


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(session=sessions(), saves=st.lists(st.lists(operations, max_size=4), min_size=1, max_size=3), data=st.data())
def test_comments_and_strangers_survive_any_save(
    fmt: ModuleType, session: Session, saves: list[list[Operation]], data: st.DataObject
) -> None:
    """A file full of comments and of things that are not messages stays readable, and keeps all of them but what stood inside a cut message."""
    files = save(fmt, session)
    text, kept = littered(files[fmt.main_path(ID)].decode(), fmt, data)
    files[fmt.main_path(ID)] = text.encode()
    decoded = load(fmt, files)
    assert [one.wire() for one in decoded.session.messages()] == [one.wire() for one in session.messages()]
    files = save_numbering(fmt, decoded, files)
    session = decoded.session
    for batch in saves:
        for operation in batch:
            perform(session, operation)
        files = save(fmt, session, files)
        again = load(fmt, files)
        assert_same(again.session, session)
        assert not again.incomplete
        after = files[fmt.main_path(ID)].decode()
        for one in set(kept):
            # A comment behind the last message remains in its line, and what is new stands before the next one.
            for line in filter(None, map(str.strip, one.split("\n"))):
                assert after.count(line) >= kept.count(one), (one, after)


@pytest.mark.parametrize(
    "listed", ["(;; none yet\n)", "( #| none yet |# )", "nil ; none yet\n", ";; none yet\n nil", "()"]
)
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
def test_a_comment_in_an_empty_list_stays(fmt: ModuleType, listed: str) -> None:
    """Whether a person wrote it there or a clear left it; what is appended, cleared and appended again is read back."""
    if fmt is agent_q and "#|" in listed:
        pytest.skip("Emacs Lisp has no such comments")
    path = fmt.main_path(ID)
    files = save(fmt, session_of(local_id=ID))
    files[path] = f"(:messages {listed})".encode()
    decoded = load(fmt, files)
    session, files = decoded.session, save_numbering(fmt, decoded, files)
    for operation in (("append", [("user", "one", {})]), ("clear", None), ("append", [("user", "two", {})] * 2)):
        perform(session, operation)
        files = save(fmt, session, files)
        assert_same(load(fmt, files).session, session)
        assert files[path].decode().count("none yet") == listed.count("none yet")


def littered(text: str, fmt: ModuleType, data: st.DataObject) -> tuple[str, list[str]]:
    """The text with litter between the elements of its lists; what of it stands between messages must stay."""
    dialect = Dialect.EMACS if fmt is agent_q else Dialect.COMMON
    form = read(text, dialect)
    source = SexpText(text, dialect)
    listed = source.plist(form)[":messages"]
    between = [one.start for one in listed.items] + [listed.end - 1] if listed.items else []
    inside = [one.start for node in (form, *listed.items) for one in node.items]
    edits = []
    kept = []
    for position in data.draw(st.lists(st.sampled_from(sorted({*between, *inside})), unique=True, max_size=8)):
        litter = data.draw(st.sampled_from(STRAYS if position in between else COMMENTS))
        edits.append((position, position, litter))
        if position in between and litter.strip() and litter.strip() != "nil":
            kept.append(litter)
    return apply_edits(text, edits), kept


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.name))
@settings(max_examples=EXAMPLES * 4, deadline=None)
@given(steps=st.lists(st.sampled_from(["ours", "ours", "theirs", "theirs", "save", "look", "load"]), max_size=30))
def test_a_system_that_writes_from_memory_and_the_daemon_lose_nothing(fmt: ModuleType, steps: list[str]) -> None:
    """Whatever order both write in, all within one second: every message of either is there once, and in the order of its writer."""
    files: dict[str, bytes] = save(fmt, session_of(message(1)))
    path = fmt.main_path(ID)
    known = files[path]
    session, pending = load(fmt, files).session, []
    memory = [message(1)]
    said = {"ours": 0, "theirs": 0}

    def merge() -> None:
        nonlocal session, files, known
        decoded = load(fmt, files, floor=session.seq)
        replay(decoded, pending)
        decoded.session.seq += 1
        files = written(files, fmt.adopt_numbering(decoded, files))
        session, known = decoded.session, files[path]

    for step in [*steps, "theirs", "save", "look"]:
        if step in said:
            said[step] += 1
        text = f"{step} {said.get(step)}"
        if step == "ours":
            pending.append(perform(session, ("append", [("user", text, {})])))
        elif step == "theirs":
            memory.append(Message(id=text, seq=len(memory) + 9, role="user", content=text, timestamp=AT))
            files[path] = by_system(fmt, memory)
        elif step == "load":
            memory = load(fmt, {path: files[path]}).session.messages()
        elif files[path] != known:
            merge()
        if step == "save":
            files, pending = save(fmt, session, files), []
            known = files[path]
    merge()
    found = [one.text() for one in load(fmt, save(fmt, session, files)).session.messages()]
    for who, count in said.items():
        assert [one for one in found if one.startswith(who)] == [f"{who} {n + 1}" for n in range(count)]
    assert len(found) == len(set(found)) == 1 + sum(said.values())
