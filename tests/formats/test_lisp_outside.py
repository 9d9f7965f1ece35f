"""Agent-Q's and sibyl's files when other programs write them: their own systems, an editor, a restored copy."""

from __future__ import annotations

import difflib
from types import ModuleType

import pytest

from sessiond.formats import agent_q, sibyl
from sessiond.formats.base import Decoded, Tail
from sessiond.formats.sidecar import sidecar_path
from sessiond.model.changes import Extended, Finished, Updated
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from tests.formats.lisp_sessions import load, message, perform, plain, save, session_of, written

ID = "session-20260111-143022"
SIDE = sidecar_path(ID)
each = pytest.mark.parametrize("fmt", [agent_q, sibyl], ids=lambda fmt: str(fmt.name))


def main_of(fmt: ModuleType, files: dict[str, bytes]) -> str:
    return files[fmt.main_path(ID)].decode()


def outside(fmt: ModuleType, files: dict[str, bytes], text: str) -> dict[str, bytes]:
    """The files after somebody wrote the main one."""
    return {**files, fmt.main_path(ID): text.encode()}


def by_system(fmt: ModuleType, *messages: Message) -> bytes:
    """The main file as the system itself writes it from its memory."""
    return save(fmt, session_of(*messages))[fmt.main_path(ID)]


def taken_in(fmt: ModuleType, decoded: Decoded, files: dict[str, bytes]) -> dict[str, bytes]:
    """The files after a merge: only the sidecar may change."""
    writes = fmt.adopt_numbering(decoded, files)
    assert all(write.path == SIDE for write in writes)
    return written(files, writes)


def texts(session: Session) -> list[str]:
    return [one.text() for one in session.messages()]


@each
def test_an_append_is_a_small_difference(fmt: ModuleType) -> None:
    """One message more is only lines more, but for parentheses and the time of the last change."""
    session = session_of(message(1), message(2, "assistant"))
    before = save(fmt, session)
    perform(session, ("append", [("user", "a\nb", {})]))
    after = save(fmt, session, before)
    lines = list(difflib.ndiff(main_of(fmt, before).splitlines(), main_of(fmt, after).splitlines()))
    gone = [line[2:].strip() for line in lines if line.startswith("- ")]
    assert all(line.startswith(":updated-at") or line.endswith((")", "))", ")))")) for line in gone)
    assert len(gone) <= 2


@each
def test_a_removed_message_is_gone(fmt: ModuleType) -> None:
    """A message that its system took out, in the middle or at the end, remains out."""
    conversation = [message(n) for n in range(1, 5)]
    files = outside(fmt, {}, by_system(fmt, *conversation).decode())
    files = taken_in(fmt, load(fmt, files), files)
    decoded = load(fmt, outside(fmt, files, by_system(fmt, *conversation[:1], *conversation[2:3]).decode()))
    assert texts(decoded.session) == ["text 1", "text 3"]
    assert [one.seq for one in decoded.session.messages()] == [1, 3]
    assert not decoded.incomplete


@each
def test_what_another_version_showed_is_known_to_others(fmt: ModuleType) -> None:
    """A message of ours that a version of theirs has shown is theirs to remove from then on."""
    conversation = [message(n) for n in range(1, 4)]
    files = save(fmt, session_of(*conversation))
    files = outside(fmt, files, by_system(fmt, *conversation, message(4)).decode())
    decoded = load(fmt, files)
    assert decoded.renumbered
    files = taken_in(fmt, decoded, files)
    later = load(fmt, outside(fmt, files, by_system(fmt, *conversation[:2]).decode()))
    assert texts(later.session) == ["text 1", "text 2"]
    assert not later.incomplete


@each
@pytest.mark.parametrize("extra", [[], [message(9, content="theirs")]], ids=["as it was", "with one more"])
def test_an_old_copy_costs_no_message(fmt: ModuleType, extra: list[Message]) -> None:
    """What the daemon saved after that writer's last write is put back, in its place, with all that belongs to it."""
    session = session_of(message(1), message(2, "assistant"))
    files = outside(fmt, {}, by_system(fmt, *session.messages()).decode())
    files = taken_in(fmt, load(fmt, files), files)
    session = load(fmt, files).session
    perform(session, ("append", [("user", "newer", {"thinking": "hm"}), ("assistant", "newest", {})]))
    files = save(fmt, session, files)
    perform(session, ("append", [("user", "last", {})]))
    files = save(fmt, session, files)
    files = outside(fmt, files, by_system(fmt, *session.messages()[:2], *extra).decode())
    decoded = load(fmt, files)
    assert decoded.incomplete
    assert texts(decoded.session) == ["text 1", "text 2", "newer", "newest", "last", *(one.text() for one in extra)]
    assert decoded.session.messages()[2].rest == {"thinking": "hm"}
    files = taken_in(fmt, decoded, files)
    again = load(fmt, files)
    assert again.incomplete, "until the file is written, it lacks messages"
    assert plain(again.session) == plain(decoded.session)
    mended = save(fmt, again.session, files)
    assert not load(fmt, mended).incomplete
    assert plain(load(fmt, mended).session) == plain(decoded.session)


@each
def test_the_very_version_from_before_is_an_old_copy_too(fmt: ModuleType) -> None:
    """The bytes of the save before the last one, put back with no crash, cost nothing that was saved since."""
    session = session_of(message(1))
    old = save(fmt, session)
    perform(session, ("append", [("assistant", "newer", {"metadata": {"k": 1}})]))
    perform(session, ("update", {"name": "new", "summary": "sum"}))
    files = save(fmt, session, old)
    decoded = load(fmt, {**files, fmt.main_path(ID): old[fmt.main_path(ID)]})
    assert decoded.incomplete
    assert plain(decoded.session) == plain(session)


@each
def test_an_older_state_of_a_stream_is_no_edit(fmt: ModuleType) -> None:
    """A system that loaded a reply while it was being written, and saves it so, does not cut it short."""
    session = session_of(message(1))
    perform(session, ("begin", "Hel"))
    files = save(fmt, session)
    half = session.messages()
    perform(session, ("extend", "lo wor"))
    files = save(fmt, session, files)
    perform(session, ("extend", "ld"))
    perform(session, ("finish", {"tokens": 3}))
    files = save(fmt, session, files)
    files = outside(fmt, files, by_system(fmt, *half, message(9, content="theirs")).decode())
    decoded = load(fmt, files)
    assert texts(decoded.session) == ["text 1", "Hello world", "theirs"]
    reply = decoded.session.messages()[1]
    assert (reply.status, reply.metadata) == ("done", {"tokens": 3})
    assert decoded.incomplete


@each
def test_an_edited_text_keeps_id_seq_and_what_lies_beside(fmt: ModuleType) -> None:
    """An edit in the file is the user's will; only what it touched changes."""
    blocks = [{"type": "text", "text": "draft"}, {"type": "image", "data": "x"}]
    calls = [{"id": "c", "name": "n", "arguments": "{raw"}]
    session = session_of(
        message(1), message(2, "assistant", blocks, thinking="hm", toolCalls=calls), message(3), tags=["t"]
    )
    session.state = {"plan": [1]}
    files = save(fmt, session)
    files = taken_in(fmt, load(fmt, files), files)
    decoded = load(fmt, outside(fmt, files, main_of(fmt, files).replace('"draft"', '"corrected"')))
    edited = decoded.session.messages()[1]
    assert (edited.id, edited.seq, edited.content) == ("id-2", 2, "corrected")
    assert (edited.rest["thinking"], edited.rest["toolCalls"]) == ("hm", calls)
    assert (decoded.session.tags, decoded.session.state) == (["t"], {"plan": [1]})
    assert (decoded.renumbered, decoded.incomplete, decoded.through) == (True, False, session.seq)


@each
def test_edited_tool_calls_count(fmt: ModuleType) -> None:
    """Where the exact form of a field is next to, an edit of what the file shows of it wins."""
    calls = [{"id": "c", "name": "grep", "arguments": {"empty": {}, "pattern": "x"}}]
    files = save(fmt, session_of(message(1, "assistant", toolCalls=calls, thinking="hm")))
    assert load(fmt, files).session.messages()[0].tool_calls == calls
    edited = load(fmt, outside(fmt, files, main_of(fmt, files).replace('"grep"', '"rg"'))).session.messages()[0]
    assert [call["name"] for call in edited.tool_calls] == ["rg"]
    assert edited.rest["thinking"] == "hm"


@each
def test_what_is_not_understood_stays_where_it_stood(fmt: ModuleType) -> None:
    """Comments, unknown keys, and elements that are not messages survive every rewrite, in their places."""
    session = session_of(message(1), message(2, "assistant"), message(3))
    text = main_of(fmt, save(fmt, session))
    text = text.replace("\n (:", "\n (;; first\n  :future (1 . 2) :").replace(
        "(:version 1", "(:version 1\n :unknown [a] ; why\n" if fmt is agent_q else "(:version 1\n :unknown (a) ; why\n"
    )
    text = (
        text.replace(":content", ":zzz |a\\ b| :content")
        if fmt is sibyl
        else text.replace(":content", ":zzz a\\ b :content")
    )
    first, second = text.index("(:role" if fmt is sibyl else '(:id "id-1"'), text.index("text 2")
    text = text[:first] + "stray ; before\n  " + text[first:]
    second = text.rindex("(", 0, text.index("text 2"))
    text = text[:second] + "(no message) ;; behind the first\n  " + text[second:] + "; end"
    files = outside(fmt, {}, text)
    decoded = load(fmt, files)
    assert [(one.line is not None, one.fatal) for one in decoded.problems] == [(True, False), (True, False)]
    files = taken_in(fmt, decoded, files)
    session = decoded.session
    assert [write.path for write in fmt.encode(session, files)] in ([], [SIDE]), "nothing has changed"
    perform(session, ("append", [("user", "fourth", {})]))
    perform(session, ("update", {"summary": "s", "name": "n"}))
    files = save(fmt, session, files)
    for kept in ("stray ; before\n", "(no message) ;; behind the first\n", "; why\n", ":unknown", "a\\ b", "; end"):
        assert kept in main_of(fmt, files), kept
    assert main_of(fmt, files).count(":zzz") == 3
    assert plain(load(fmt, files).session) == plain(session)
    perform(session, ("truncate", 1))
    files = save(fmt, session, files)
    assert texts(load(fmt, files).session) == ["text 1"]
    for kept in ("stray ; before\n", "(no message) ;; behind the first\n", "; why\n", "; end"):
        assert kept in main_of(fmt, files), kept
    perform(session, ("clear", None))
    files = save(fmt, session, files)
    assert texts(load(fmt, files).session) == []
    assert "(no message)" in main_of(fmt, files)


@each
def test_a_session_without_messages_can_be_filled_and_emptied(fmt: ModuleType) -> None:
    """`:messages nil` becomes a list and nil again."""
    session = session_of()
    files = empty = save(fmt, session)
    assert ":messages nil" in main_of(fmt, files)
    perform(session, ("append", [("user", "one", {}), ("user", "two", {})]))
    files = save(fmt, session, files)
    assert plain(load(fmt, files).session) == plain(session)
    perform(session, ("clear", None))
    files = save(fmt, session, files)
    assert main_of(fmt, files).count("\n") <= main_of(fmt, empty).count("\n") + 1
    assert plain(load(fmt, files).session) == plain(session)


@each
def test_files_with_crlf_a_mark_or_no_newline(fmt: ModuleType) -> None:
    """How lines end, a byte order mark, and a missing last newline are read, and kept."""
    session = session_of(message(1, content="a\nb"), message(2, content="c\r\nd"), name="n")
    text = main_of(fmt, save(fmt, session)).removesuffix("\n")
    for mark, newline in [("\ufeff", "\n"), ("", "\r\n"), ("\ufeff", "\r\n")]:
        changed = (mark + text.replace("\r\n", "\0").replace("\n", newline).replace("\0", "\r\n")).encode()
        files = {fmt.main_path(ID): changed}
        decoded = load(fmt, files)
        if fmt is agent_q or newline == "\n":
            assert texts(decoded.session) == ["a\nb", "c\r\nd"]
        files = taken_in(fmt, decoded, files)
        assert [write.path for write in fmt.encode(decoded.session, files)] in ([], [SIDE])
        decoded.session.add_message(message(3, content="e\nf"))
        files = save(fmt, decoded.session, files)
        data = files[fmt.main_path(ID)]
        assert data.startswith(mark.encode())
        assert data.endswith(b")")
        if newline == "\r\n" and fmt is agent_q:
            assert data.count(b"\r\n") == data.count(b"\n")
        assert plain(load(fmt, files).session) == plain(decoded.session)


@each
def test_renaming_touches_the_name_only(fmt: ModuleType) -> None:
    """A new name is where the system looks for it, or only in the sidecar where it has no place for one."""
    session = session_of(message(1))
    files = save(fmt, session)
    perform(session, ("update", {"name": "new\nname"}))
    changed = save(fmt, session, files)
    difference = [
        line
        for line in difflib.ndiff(main_of(fmt, files).splitlines(), main_of(fmt, changed).splitlines())
        if line[0] in "+-"
    ]
    if fmt is sibyl:
        assert difference == []
    else:
        assert [line for line in difference if "updated-at" not in line] == [
            "+ ;; Name: new name",
            "-  :name nil",
            '+  :name "new',
            '+ name"',
        ]
    perform(session, ("update", {"name": None}))
    assert "Name:" not in main_of(fmt, save(fmt, session, changed))
    assert plain(load(fmt, save(fmt, session, changed)).session) == plain(session)


@each
def test_another_id_inside_is_a_warning(fmt: ModuleType) -> None:
    """The file's name is the id; one that says otherwise is named with its line, and left."""
    files = save(fmt, session_of(message(1)))
    text = main_of(fmt, files).replace(f'"{ID}"', '"session-other"')
    decoded = load(fmt, {fmt.main_path(ID): text.encode()})
    assert [(one.path, one.fatal) for one in decoded.problems] == [(fmt.main_path(ID), False)]
    assert text.splitlines()[(decoded.problems[0].line or 0) - 1].strip() == ':id "session-other"'


BAD = [
    b"", b"\0" * 100, b"\n\n", b";; only a comment\n", b"nil", b"()", b"42", b'"text"', b"(:version 1", b'(:version 1 :id "x', b"(:foo 1)",
    b"(1 2 . 3)",
    b"(:version 2 :id \"x\" :messages nil)", b"(:messages (#.(run-program \"x\")))", b"(:messages #1=(a . #1#))", b"(" * 100_000, b"\xff\xfe\x00(",
    b"(:id \"x\" :messages 5)", b"(:id \"x\" :messages (a . b))", b"\x7fELF\x02\x01\x01\0\0(((", b"(:messages (#s(hash-table)))",
]  # fmt: skip


@each
@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
def test_bad_files(fmt: ModuleType, content: bytes) -> None:
    """What cannot be read is a fatal problem with path and line, and is never written over."""
    files = {fmt.main_path(ID): content}
    fatal = fmt.decode(ID, files).fatal
    assert fatal is not None
    assert (fatal.path, fatal.line or 0) >= (fmt.main_path(ID), 1)
    assert fmt.encode(session_of(message(1)), files) == []
    assert fmt.adopt_numbering(fmt.decode(ID, files), files) == []


@each
def test_a_message_list_of_garbage_has_few_problems(fmt: ModuleType) -> None:
    """A list of a million things that are not messages costs no million problems."""
    content = b'(:id "x" :messages (' + b"x " * 100_000 + b"))"
    decoded = fmt.decode(ID, {fmt.main_path(ID): content})
    assert len(decoded.session) == 0
    assert 1 <= len(decoded.problems) <= 110


@each
def test_a_file_that_is_not_there_is_a_blank_session(fmt: ModuleType) -> None:
    """Before its first save a session has no files; the journal has it all."""
    decoded = load(fmt, {})
    assert decoded.session.is_blank
    assert (decoded.through, decoded.session.seq) == (0, 0)


@each
def test_a_newer_or_damaged_sidecar(fmt: ModuleType) -> None:
    """A sidecar of a newer version stops everything; a damaged one is a warning, and the file is still a session."""
    files = save(fmt, session_of(message(1)))
    newer = {**files, SIDE: b'{"id": "x", "seq": 1, "version": 2}'}
    assert fmt.decode(ID, newer).fatal is not None
    assert fmt.encode(session_of(message(1)), newer) == []
    for damage in (
        b"",
        b"{",
        b"[]",
        b'{"id":"x","seq":1,"entries":[{"id":"a","seq":1,"copy":{"role":5}}]}',
        b'{"id":"x","seq":1,"info":{"tags":3}}',
    ):
        decoded = load(fmt, {**files, SIDE: damage})
        assert [one.path for one in decoded.problems] == [SIDE]
        assert texts(decoded.session) == ["text 1"]


@each
def test_update_leaves_the_main_file_to_encode(fmt: ModuleType) -> None:
    """Changes that the main file shows, and files that are not as the sidecar knows them, need a whole save."""
    session = session_of(message(1))
    files = save(fmt, session)
    size = len(files[fmt.main_path(ID)])
    at = timestamp(1_768_200_000_000)
    seen = "name" if fmt is agent_q else "summary"
    for change in (
        Updated(seq=2, at=at, fields={seen: "x"}),
        Extended(seq=2, at=at, message_id="id-1", offset=6, text="x"),
        Finished(seq=2, at=at, message_id="id-1", status="done"),
    ):
        assert fmt.update(session, Tail(True, size), files, [change]) is None
    quiet = Updated(seq=2, at=at, fields={"tags": ["x"]})
    assert fmt.update(session, Tail(True, size + 1), files, [quiet]) is None
    assert fmt.update(session, Tail(False), files, [quiet]) is None
    assert fmt.update(session, Tail(True, size), {}, [quiet]) is None
    assert fmt.update(session, Tail(True, size), files, [quiet]) is not None


def test_agent_q_folder() -> None:
    """Only `session-*.el` are sessions; an id that begins otherwise gets a file that the system lists too, never `index.el`."""
    names = [
        "session-20260111-143022.el",
        "index.el",
        "init.el",
        "session-1.el~",
        "sub/session-2.el",
        "session-あ.el",
        "session-@index.el",
        "session-.el",
    ]
    found = agent_q.find(names)
    assert found == {
        "session-20260111-143022": "session-20260111-143022.el",
        "session-%E3%81%82": "session-あ.el",
        "index": "session-@index.el",
    }
    for local_id, path in found.items():
        assert agent_q.main_path(local_id) == path
    assert agent_q.matches(names, lambda _: b";; -*- mode -*-\n;; Agent-Q Session\n") >= 90
    assert agent_q.matches(["index.el", "a.jsonl"], lambda _: b"") == 0
    assert sibyl.matches(names, lambda _: b"") == 0


def test_sibyl_folder() -> None:
    """Every folder with a `session.lisp` is a session, named by the folder."""
    names = ["session-1", "session-1/session.lisp", "日本/session.lisp", "x/other.lisp", "session.lisp", "notes.txt"]
    assert sibyl.find(names) == {"session-1": "session-1/session.lisp", "%E6%97%A5%E6%9C%AC": "日本/session.lisp"}
    assert sibyl.main_path("%E6%97%A5%E6%9C%AC") == "日本/session.lisp"
    assert sibyl.matches(names, lambda _: b"(:VERSION 1 :MESSAGES NIL)") >= 90
    assert sibyl.matches(["a.el"], lambda _: b"") == 0


def test_system_messages_and_thinking_are_never_in_sibyls_file() -> None:
    """They come back nevertheless, in their places, also after the system wrote the file."""
    session = session_of(
        message(1, "system", "be brief"), message(2), message(3, "assistant", "ok", thinking="secret thought")
    )
    files = save(sibyl, session)
    assert b"brief" not in files[sibyl.main_path(ID)]
    assert b"secret" not in files[sibyl.main_path(ID)]
    rewritten = by_system(sibyl, message(2), message(3, "assistant", "ok"), message(4))
    decoded = load(sibyl, {**files, sibyl.main_path(ID): rewritten})
    assert texts(decoded.session) == ["be brief", "text 2", "ok", "text 4"]
    assert decoded.session.messages()[2].rest == {"thinking": "secret thought"}


def test_emacs_times_of_every_kind() -> None:
    """Time lists of two to four integers, (TICKS . HZ), seconds, and nil are read."""
    for printed, expected in [
        ("(26979 46078 123000 0)", "2026-01-11T14:30:22.123Z"),
        ("(26979 46078 123)", "2026-01-11T14:30:22.000Z"),
        ("(26979 46078)", "2026-01-11T14:30:22.000Z"),
        ("(1768141822123 . 1000)", "2026-01-11T14:30:22.123Z"),
        ("1768141822", "2026-01-11T14:30:22.000Z"),
        ("1768141822.5", "2026-01-11T14:30:22.500Z"),
        ('"2026-01-11T14:30:22Z"', "2026-01-11T14:30:22.000Z"),
    ]:
        text = f'(:id "{ID}" :messages ((:role user :content "x" :timestamp {printed}) (:role user :content "y" :timestamp nil)))'
        decoded = load(agent_q, {agent_q.main_path(ID): text.encode()})
        assert [one.timestamp for one in decoded.session.messages()] == [expected, expected]
        assert (decoded.session.created_at, decoded.session.updated_at) == (expected, expected)


@each
def test_a_session_larger_than_the_readers_limit_is_whole(fmt: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would make the file unreadable is not shown in it: the data first, then the messages; the sidecar has them."""
    monkeypatch.setattr("sessiond.formats.sexp.MAX_SEXP_NODES", 500)
    monkeypatch.setattr("sessiond.formats.lisp_plan.MAX_SEXP_NODES", 500)
    calls = [{"id": "c", "name": "n", "arguments": {"many": list(range(1000))}}]
    session = session_of(message(1), message(2, "assistant", toolCalls=calls, metadata={"m": [1] * 1000}))
    files = save(fmt, session)
    assert "text 2" in main_of(fmt, files)
    assert plain(load(fmt, files).session) == plain(session)
    perform(session, ("append", [("user", f"more {n}", {}) for n in range(100)]))
    files = save(fmt, session, files)
    assert "text 2" in main_of(fmt, files)
    assert "more 1" not in main_of(fmt, files)
    assert plain(load(fmt, files).session) == plain(session)
    assert fmt.encode(session, files) == []
