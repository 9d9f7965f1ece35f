"""amacs: exchanges at the end of the chat, everything else in the sidecar, notes shared by the chats of a folder."""

from __future__ import annotations

import pytest

from sessiond.formats import amacs
from sessiond.model.changes import Appended, Change, Created, Extended, Finished, Noted, Truncated, Updated
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from sessiond.store.merge import replay
from tests.formats.saving import load, save, settle, show, states, steps, written

CHAT = "agent-chat"
MAIN = "agent-chat.org"
PAD = "scratchpad.org"
AT = timestamp(1_768_142_400_000)
TICK = b"* Tick 42\n:PROPERTIES:\n:TIMESTAMP: 2025-01-02T14:30:00Z\n:END:\n\n** Human\nWhat?\n\n** Agent\nThat.\n\n"


def begin(chat: str = CHAT) -> tuple[Session, list[Change]]:
    created = Created(seq=0, at=AT, info={"createdAt": AT})
    session = Session(chat, AT)
    session.apply(created)
    return session, [created]


def said(session: Session, *turns: tuple[str, str], status: str | None = None, **rest: object) -> Appended:
    seq = session.seq
    messages = [
        Message(id=f"m{seq + n}", seq=seq + n, role=role, content=text, timestamp=AT, status=status, rest=dict(rest))
        for n, (role, text) in enumerate(turns, 1)
    ]
    change = Appended.of(messages, AT)
    session.apply(change)
    return change


def note(session: Session, heading: str, content: str, thread: str | None = None, tick: int | None = None) -> Noted:
    change = Noted.of(
        Note(
            id=f"n{session.seq + 1}",
            seq=session.seq + 1,
            heading=heading,
            content=content,
            thread=thread,
            tick=tick,
            timestamp=AT,
        )
    )
    session.apply(change)
    return change


def test_an_exchange_is_written_when_it_is_complete() -> None:
    """A user's message alone waits next to the file; with its finished answer it becomes a tick."""
    session, changes = begin()
    files = written({}, steps(amacs, session, {}, [*changes, said(session, ("user", "q"))]))
    assert files[MAIN] == b""
    assert show(load(amacs, files, CHAT).session) == show(session)
    answer = said(session, ("assistant", "an"), status="streaming")
    files = written(files, steps(amacs, session, files, [answer]))
    assert files[MAIN] == b""
    rest: list[Change] = [
        Extended(seq=3, at=AT, message_id="m2", offset=2, text="swer"),
        Finished(seq=4, at=AT, message_id="m2", status="done"),
    ]
    for one in rest:
        session.apply(one)
    files = written(files, steps(amacs, session, files, rest))
    assert files[MAIN].startswith(b"* Tick 1\n:PROPERTIES:\n:TIMESTAMP: 2026-01-11T14:40:00Z\n:SESSIOND_HUMAN: {")
    assert files[MAIN].endswith(b":END:\n\n** Human\nq\n\n** Agent\nanswer\n")
    assert show(load(amacs, files, CHAT).session) == show(session)


def test_what_is_no_exchange_stays_beside() -> None:
    """Other roles, two questions in a row, an answer to nothing and a call without words are kept, and are not part of the file."""
    session, changes = begin()
    changes += [said(session, ("system", "s"), ("assistant", "hello"), ("user", "lone"), ("user", "q"))]
    changes += [said(session, ("assistant", ""), toolCalls=[{"id": "1", "name": "f", "arguments": {}}])]
    changes += [said(session, ("tool", "r"), ("assistant", "a"), ("assistant", "and"))]
    files: dict[str, bytes] = {}
    for last in range(1, len(changes)):
        new = changes[:2] if last == 1 else [changes[last]]
        files = written(files, steps(amacs, _until(changes[: last + 1]), files, new))
    assert [line for line in files[MAIN].decode().split("\n") if line and not line.startswith((":", "*"))] == ["q", "a"]
    assert show(load(amacs, files, CHAT).session) == show(session)
    late = said(session, ("assistant", "too late"))
    files = written(files, steps(amacs, session, files, [late]))
    assert b"too late" not in files[MAIN]
    assert show(load(amacs, files, CHAT).session) == show(session)


def _until(changes: list[Change]) -> Session:
    session = Session(CHAT, AT)
    for change in changes:
        session.apply(change)
    return session


def test_ticks_go_on_from_the_highest() -> None:
    """A message's own tick counts; otherwise the next number."""
    decoded, files = settle(amacs, {MAIN: TICK}, CHAT)
    session = decoded.session
    changes: list[Change] = [
        said(session, ("user", "a"), ("assistant", "b")),
        said(session, ("user", "c"), ("assistant", "d"), tick=50),
    ]
    changes.append(said(session, ("user", "e"), ("assistant", "f")))
    after = written(files, steps(amacs, session, files, changes))
    assert after[MAIN].startswith(TICK)
    assert [line for line in after[MAIN].decode().split("\n") if line.startswith("* ")] == [
        "* Tick 42",
        "* Tick 43",
        "* Tick 50",
        "* Tick 51",
    ]
    assert show(load(amacs, after, CHAT).session) == show(session)


@pytest.mark.parametrize(
    "before",
    [
        TICK,
        TICK.rstrip(b"\n"),
        TICK.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf#+TITLE: chat\n\n" + TICK,
        b"#+TITLE: chat",
        b"# x\r\n",
    ],
)
def test_an_adopted_file_keeps_every_byte(before: bytes) -> None:
    """CRLF, a BOM, no newline at the end, a preamble: an append comes behind, with the file's own line ends."""
    decoded, files = settle(amacs, {MAIN: before}, CHAT)
    assert [one.content for one in decoded.session.messages()] == (["What?", "That."] if b"Tick" in before else [])
    change = said(decoded.session, ("user", "a\nb"), ("assistant", "c"))
    after = written(files, steps(amacs, decoded.session, files, [change]))
    assert after[MAIN].startswith(before)
    added = after[MAIN][len(before) :]
    assert (b"\r\n" in added) == (b"\r\n" in before)
    assert b"\r" not in added.replace(b"\r\n", b"")
    assert added.lstrip().startswith(b"* Tick ")
    assert show(load(amacs, after, CHAT).session) == show(decoded.session)


def test_a_rewrite_keeps_what_is_not_ours() -> None:
    """Unknown headings, properties and subheadings stay where they stood when an exchange is taken out."""
    whole = (
        b"#+TITLE: x\n* Ideas\ntext\n** Human\nno turn\n"
        + TICK
        + b"* Tick 43\n:PROPERTIES:\n:TIMESTAMP: 2025-01-02T14:31:00Z\n:MOOD: good\n:END:\n"
        b"** Human\nq\n*** deep\n- x\n** Remarks\nr\n** Agent\na\n* Tail\n"
    )
    decoded, files = settle(amacs, {MAIN: whole}, CHAT)
    assert [one.content for one in decoded.session.messages()] == ["What?", "That.", "q\n*** deep\n- x", "a"]
    later = said(decoded.session, ("user", "x"), ("assistant", "y"))
    files = written(files, steps(amacs, decoded.session, files, [later]))
    cut = Truncated(seq=7, at=AT, after_seq=4)
    decoded.session.apply(cut)
    files = written(files, steps(amacs, decoded.session, files, [cut]))
    assert files[MAIN].rstrip() == whole.rstrip()
    cut = Truncated(seq=8, at=AT, after_seq=1)
    decoded.session.apply(cut)
    files = written(files, steps(amacs, decoded.session, files, [cut]))
    assert files[MAIN].rstrip() == b"#+TITLE: x\n* Ideas\ntext\n** Human\nno turn\n* Tail"
    assert show(load(amacs, files, CHAT).session) == show(decoded.session)


def test_an_exchange_that_was_edited_by_hand() -> None:
    """New words are under the same id; a turn that was removed is gone; a copied exchange is one of its own."""
    session, changes = begin()
    changes.append(said(session, ("user", "* q"), ("assistant", "a\n"), thinking="hm"))
    files = written({}, steps(amacs, session, {}, changes))
    edited = files[MAIN].replace(b",* q", b",* question")
    decoded = load(amacs, {**files, MAIN: edited}, CHAT)
    assert [(one.id, one.content, one.rest) for one in decoded.session.messages()] == [
        ("m1", "* question", {"thinking": "hm"}),
        ("m2", "a\n", {"thinking": "hm"}),
    ]
    without = files[MAIN][: files[MAIN].index(b"** Agent")]
    assert [one.id for one in load(amacs, {**files, MAIN: without}, CHAT).session.messages()] == ["m1"]
    twice, _ = settle(amacs, {**files, MAIN: files[MAIN] + b"\n" + files[MAIN]}, CHAT)
    assert [(one.seq, one.content) for one in twice.session.messages()] == [
        (1, "* q"),
        (2, "a\n"),
        (3, "* q"),
        (4, "a\n"),
    ]


@pytest.mark.parametrize("main", [b"* Todo\n** x\n", b"plain words\n", b"\0\1\2", b"\xff\xfe"])
def test_what_is_no_chat_is_a_bad_file(main: bytes) -> None:
    """An Org file of another kind is named, with its line, and is not taken for an empty chat."""
    fatal = amacs.decode("todo", {"todo.org": main}).fatal
    assert fatal is not None
    assert (fatal.path, fatal.line) == ("todo.org", 1)


@pytest.mark.parametrize("main", [None, b"", b"\n", b"#+TITLE: x\n# y\n:PROPERTIES:\n:ID: 1\n:END:\n"])
def test_missing_or_empty_is_a_fresh_start(main: bytes | None) -> None:
    """No file, an empty one and one that only has a preamble are an empty session."""
    decoded = amacs.decode(CHAT, {} if main is None else {MAIN: main})
    assert (len(decoded.session), decoded.problems) == (0, [])


def test_notes_belong_to_every_chat_of_the_folder() -> None:
    """A note that one chat appended is in the other at its next load, numbered there; neither writes it again."""
    one, changes = begin("one")
    files = written({}, steps(amacs, one, {}, [*changes, note(one, "Working Notes", "* content", tick=42)]))
    assert files[PAD].startswith(b"* Working Notes\n:PROPERTIES:\n:THREAD: null\n:TICK: 42\n:SESSIOND_NOTES: [{")
    assert files[PAD].endswith(b":END:\n,* content\n")
    other, changes = begin("other")
    files = written(files, steps(amacs, other, files, [*changes, said(other, ("user", "q"))]))
    decoded, files = settle(amacs, files, "other")
    assert [(note.id, note.seq, note.content, note.tick) for note in decoded.session.notes] == [
        ("n1", 2, "* content", 42)
    ]
    more = note(decoded.session, "Working Notes", "more")
    files = written(files, steps(amacs, decoded.session, files, [more]))
    assert files[PAD].endswith(b":END:\n,* content\n\nmore\n")
    again, files = settle(amacs, files, "one")
    assert [(note.id, note.seq, note.content) for note in again.session.notes] == [
        ("n1", 1, "* content"),
        ("n3", 2, "more"),
    ]
    pad = files[PAD]
    files = written(files, steps(amacs, again.session, files, [said(again.session, ("user", "q"))]))
    assert files[PAD] == pad
    assert show(load(amacs, files, "other").session) == show(decoded.session)


def test_a_note_of_its_own_thread_has_its_own_heading() -> None:
    """The same heading in another thread is another heading; under an adopted one a note goes behind the text that is there."""
    pad = b"* Parser\n:PROPERTIES:\n:THREAD: rust\n:TICK: 45\n:CUSTOM: x\n:END:\nold words\n** sub\n\n* Other\n"
    decoded, files = settle(amacs, {MAIN: TICK, PAD: pad}, CHAT)
    session = decoded.session
    assert [(one.heading, one.thread, one.tick, one.content) for one in session.notes] == [
        ("Parser", "rust", 45, "old words\n** sub"),
        ("Other", None, None, ""),
    ]
    assert session.notes[0].timestamp == "2025-01-02T14:30:00.000Z"
    changes: list[Change] = [
        note(session, "Parser", "new", "rust"),
        note(session, "Parser", "global"),
        note(session, "Other", "first"),
    ]
    files = written(files, steps(amacs, session, files, changes))
    assert [line for line in files[PAD].split(b"\n") if not line.startswith(b":SESSIOND")] == (
        b"* Parser\n:PROPERTIES:\n:THREAD: rust\n:TICK: 45\n:CUSTOM: x\n:END:\nold words\n** sub\n\nnew\n\n* Other\n:PROPERTIES:\n:END:\nfirst\n\n"
        b"* Parser\n:PROPERTIES:\n:THREAD: null\n:TICK: 42\n:END:\nglobal\n"
    ).split(b"\n")
    assert show(load(amacs, files, CHAT).session) == show(session)


def test_notes_that_somebody_edited() -> None:
    """An edited text remains the note that it was, a removed heading takes its notes along, text behind ours is a new note."""
    session, changes = begin()
    changes += [note(session, "H", "one"), note(session, "H", "two"), note(session, "G", "three")]
    files = written({}, steps(amacs, session, {}, changes))
    edited = files[PAD].replace(b"\ntwo\n", b"\ntwo changed\nand more\n")
    found = load(amacs, {**files, PAD: edited}, CHAT).session.notes
    assert [(one.id, one.content) for one in found] == [("n1", "one"), ("n2", "two changed\nand more"), ("n3", "three")]
    found = load(amacs, {**files, PAD: files[PAD] + b"by hand\n"}, CHAT).session.notes
    assert [(one.id, one.content) for one in found[:-1]] == [("n1", "one"), ("n2", "two"), ("n3", "three")]
    assert (found[-1].seq, found[-1].content) == (4, "by hand")
    found = load(amacs, {**files, PAD: files[PAD][files[PAD].index(b"* G") :]}, CHAT).session.notes
    assert [one.id for one in found] == ["n3"]


def test_a_crash_with_notes_and_messages_in_one_save() -> None:
    """Between any two of scratchpad, sidecar and chat, what is there and what the journal has are the session."""
    session, changes = begin()
    changes += [said(session, ("user", "q")), note(session, "H", "one")]
    files = written({}, steps(amacs, session, {}, changes))
    later: list[Change] = [
        note(session, "H", "two"),
        said(session, ("assistant", "a"), ("user", "b")),
        note(session, "G", "three"),
    ]
    for crashed in states(files, steps(amacs, session, files, later)):
        decoded = load(amacs, crashed, CHAT, floor=session.seq)
        replay(decoded, later)
        assert show(decoded.session) == show(session)
        mended = save(amacs, decoded.session, crashed)
        assert show(load(amacs, mended, CHAT).session) == show(session)
        assert mended[PAD].count(b"two") == 1


def test_a_name_or_a_state_does_not_touch_the_chat() -> None:
    """What has no place in Org is saved only in the sidecar."""
    decoded, files = settle(amacs, {MAIN: TICK}, CHAT)
    change = Updated(seq=3, at=AT, fields={"name": "n", "tags": ["a"]})
    decoded.session.apply(change)
    assert [write.path for write in steps(amacs, decoded.session, files, [change])] == [".sessiond/agent-chat.json"]


def test_it_knows_its_folder() -> None:
    """Chats are told by their ticks, a scratchpad by its threads; the scratchpad is not a session."""
    assert amacs.matches([MAIN], lambda _: TICK) == 95
    assert amacs.matches([PAD], lambda _: b"* x\n:PROPERTIES:\n:THREAD: null\n") == 80
    assert amacs.matches(["todo.org"], lambda _: b"* TODO x") == 0
    assert amacs.find([MAIN, PAD, ".#x.org", "a/b.org", "日記.org"]) == {CHAT: MAIN, "%E6%97%A5%E8%A8%98": "日記.org"}
    assert amacs.abilities.shared_files == (PAD,)


def test_a_byte_order_mark_is_no_part_of_the_first_tick():
    """A chat that another editor wrote with a mark is read as ever, and keeps it."""
    content = (
        b"\xef\xbb\xbf* Tick 1\n:PROPERTIES:\n:TIMESTAMP: 2026-01-11T14:30:22Z\n:END:\n\n** Human\nhi\n\n** Agent\nho\n"
    )
    decoded = amacs.decode("chat", {"chat.org": content})
    assert decoded.problems == []
    assert [message.content for message in decoded.session.messages()] == ["hi", "ho"]
    writes = amacs.encode(decoded.session, {"chat.org": content})
    assert all(write.data.startswith(content) for write in writes if write.path == "chat.org")
