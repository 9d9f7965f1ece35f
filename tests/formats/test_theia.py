"""Theia: the blob as its own service writes and reads it, also in Node, and old copies that lose nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.formats import theia
from sessiond.model.changes import Appended, Cleared, Extended, Finished, StateSet, Updated
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from tests.formats.lisp_sessions import NASTY, perform
from tests.formats.saving import ORG, load, operations, save, settle, show, steps, written
from tests.programs import need, run

CHAT = "pr-12"
MAIN = "pr-12.json"
AT = timestamp(1_768_142_400_000)
BLOB = (
    b'{"messages":[{"role":"user","content":"My secret code is 777.","x":{"y":1.50}},{"role":"assistant","content":"Noted."}],'
    b'"context":{"view":"diff"},"prData":null,"plan":{"steps":[{"id":1,"status":"done"}]},"pendingAction":null,"lastError":null,'
    b'"theme":"dark","savedAt":"2026-01-10T08:00:00.000Z"}'
)


def said(session: Session, *texts: str, role: str = "user", seq: int | None = None) -> Appended:
    first = (session.seq if seq is None else seq) + 1
    messages = [
        Message(id=f"m{first + n}", seq=first + n, role=role, content=text, timestamp=AT)
        for n, text in enumerate(texts)
    ]
    change = Appended.of(messages, AT)
    session.apply(change)
    return change


def adopted(blob: bytes = BLOB) -> tuple[Session, dict[str, bytes]]:
    decoded, files = settle(theia, {MAIN: blob}, CHAT)
    return decoded.session, files


def change(session: Session, files: dict[str, bytes], *changes: Any) -> dict[str, bytes]:
    for one in changes:
        if not isinstance(one, Appended):
            session.apply(one)
    return written(files, steps(theia, session, files, changes))


def test_an_adopted_blob_is_a_session_with_state() -> None:
    """Messages are messages, every other key is state, what is null is not there, `savedAt` is when it was updated."""
    session, files = adopted()
    assert [(one.seq, one.role, one.content, dict(one.rest)) for one in session.messages()] == [
        (1, "user", "My secret code is 777.", {"x": {"y": 1.5}}),
        (2, "assistant", "Noted.", {}),
    ]
    assert session.state == {
        "context": {"view": "diff"},
        "plan": {"steps": [{"id": 1, "status": "done"}]},
        "theme": "dark",
    }
    assert (session.updated_at, session.saved_at) == ("2026-01-10T08:00:00.000Z", "2026-01-10T08:00:00.000Z")
    assert files[MAIN] == BLOB
    assert show(load(theia, files, CHAT).session) == show(session)
    assert MAIN not in [write.path for write in theia.encode(session, files)]


def test_a_save_changes_only_what_changed() -> None:
    """Other keys keep their place and their bytes; a key that is gone is null."""
    session, files = adopted()
    after = change(
        session,
        files,
        said(session, "more"),
        StateSet(seq=4, at=AT, values={"plan": {"steps": []}, "context": None, "new": 1}),
    )
    assert after[MAIN] == BLOB.replace(
        b'"content":"Noted."}]', b'"content":"Noted."},{"role":"user","content":"more"}]'
    ).replace(b'{"view":"diff"}', b"null").replace(b'{"steps":[{"id":1,"status":"done"}]}', b'{"steps":[]}').replace(
        b'"2026-01-10T08:00:00.000Z"}', b'"2026-01-11T14:40:00.000Z","new":1}'
    )
    assert show(load(theia, after, CHAT).session) == show(session)


def test_a_name_or_a_tag_does_not_touch_the_blob() -> None:
    """What has no place in the blob is saved in the sidecar."""
    session, files = adopted()
    after = change(session, files, Updated(seq=3, at=AT, fields={"name": "n", "tags": ["t"]}))
    assert after[MAIN] == BLOB
    assert show(load(theia, after, CHAT).session) == show(session)


@pytest.mark.parametrize("indent", [2, 4, "\t"])
def test_a_blob_that_is_laid_out_stays_so(indent: int | str) -> None:
    """New values come in the style of the old, and nothing else moves."""
    blob = json.dumps(json.loads(BLOB), indent=indent, ensure_ascii=False).encode() + b"\n"
    session, files = adopted(blob)
    after = change(session, files, said(session, "more"), StateSet(seq=4, at=AT, values={"new": {"a": [1]}}))
    value = json.loads(after[MAIN])
    assert after[MAIN] == json.dumps(value, indent=indent, ensure_ascii=False).encode() + b"\n"
    assert value["new"] == {"a": [1]}


def test_an_old_copy_costs_nothing() -> None:
    """Theia writes from its memory what it had before the daemon's saves: messages and state of the daemon's come back."""
    session, files = adopted()
    files = change(
        session,
        files,
        said(session, "ours"),
        StateSet(seq=4, at=AT, values={"plan": {"steps": [2]}, "tab": 3, "theme": None}),
    )
    stale = {**files, MAIN: BLOB}
    decoded, merged = settle(theia, stale, CHAT)
    assert decoded.incomplete
    assert [one.content for one in decoded.session.messages()][-1] == "ours"
    assert decoded.session.state == session.state
    mended = written(merged, theia.encode(decoded.session, merged))
    assert json.loads(mended[MAIN])["plan"] == {"steps": [2]}
    assert not load(theia, mended, CHAT).incomplete


def test_an_old_copy_with_something_new_keeps_both() -> None:
    """Theia's new message and state on top of its old copy stand; what only the daemon had is put back before them."""
    session, files = adopted()
    files = change(session, files, said(session, "ours"), StateSet(seq=4, at=AT, values={"plan": {"steps": [2]}}))
    theirs = json.loads(BLOB)
    theirs["messages"].append({"role": "user", "content": "theirs"})
    theirs["context"] = {"view": "files"}
    decoded, merged = settle(theia, {**files, MAIN: json.dumps(theirs).encode()}, CHAT)
    assert [one.content for one in decoded.session.messages()] == ["My secret code is 777.", "Noted.", "ours", "theirs"]
    assert decoded.session.state == {**session.state, "context": {"view": "files"}}
    mended = written(merged, theia.encode(decoded.session, merged))
    assert [one["content"] for one in json.loads(mended[MAIN])["messages"]] == [
        "My secret code is 777.",
        "Noted.",
        "ours",
        "theirs",
    ]


def test_what_theia_has_had_it_may_remove() -> None:
    """A message or a key that was in a version of Theia's and is not in the next is gone."""
    session, files = adopted()
    files = change(session, files, said(session, "ours"), StateSet(seq=4, at=AT, values={"tab": 3}))
    kept = json.loads(files[MAIN])
    kept["lastError"] = "x"
    decoded, files = settle(theia, {**files, MAIN: json.dumps(kept).encode()}, CHAT)
    assert decoded.renumbered
    kept["messages"].pop()
    del kept["tab"]
    decoded = load(theia, {**files, MAIN: json.dumps(kept).encode()}, CHAT)
    assert [one.content for one in decoded.session.messages()] == ["My secret code is 777.", "Noted."]
    assert "tab" not in decoded.session.state
    assert not decoded.incomplete


def test_what_is_no_message_stays_where_it_stood() -> None:
    """An element that cannot be a message is a warning with its line, and is after the same message in the next save."""
    blob = b'{"messages":[\n1,\n{"role":"user","content":"a"},\n{"role":"user"},\n{"role":"user","content":"b"}\n]}'
    decoded, files = settle(theia, {MAIN: blob}, CHAT)
    assert [one.line for one in decoded.problems] == [2, 4]
    after = change(decoded.session, files, said(decoded.session, "c"))
    assert [one if one == 1 else one.get("content") for one in json.loads(after[MAIN])["messages"]] == [
        1,
        "a",
        None,
        "b",
        "c",
    ]
    cleared = change(decoded.session, after, Cleared(seq=4, at=AT))
    assert json.loads(cleared[MAIN])["messages"] == [1, {"role": "user"}]


@pytest.mark.parametrize(
    ("blob", "line"),
    [
        (b"", 1),
        (b" \n", 1),
        (b"[]", 1),
        (b'{"messages":\n{}}', 2),
        (b'{"a":1,\n"b":', 2),
        (b'{"a":"\xff"}', 1),
        (b'{"a":"\\ud800"}', 1),
        (b'{"a":NaN}', 1),
        (b"[" * 100_000, 1),
        (b'{"a":' * 100_000, 1),
    ],
)
def test_what_is_no_blob_is_a_bad_file(blob: bytes, line: int) -> None:
    """It is named with its line, and never written over."""
    decoded = theia.decode(CHAT, {MAIN: blob})
    assert decoded.fatal is not None
    assert (decoded.fatal.path, decoded.fatal.line) == (MAIN, line)
    session = Session(CHAT, AT)
    said(session, "x", seq=0)
    assert theia.encode(session, {MAIN: blob}) == []


def test_it_knows_its_folder() -> None:
    """Blobs are told from other JSON by their keys."""
    assert theia.matches([MAIN], lambda _: BLOB[:4096]) == 95
    assert theia.matches([MAIN], lambda _: b'{ "messages": [') == 50
    assert theia.matches(["package.json"], lambda _: b'{"name": "x"}') == 0
    assert theia.find([MAIN, ".sessiond/x.json", ".x.json", "a/b.json", ".json"]) == {CHAT: MAIN}


# The system's own service


def calls(node: str, file: Path, *wanted: list[Any]) -> list[Any]:
    asked = file.parent / "calls.txt"
    asked.write_text(json.dumps(wanted))
    service = Path(__file__).parent / "systems" / "theia.mjs"
    found: list[Any] = json.loads(run([node, str(service), str(file), str(asked)]))
    return found


def test_immortality(tmp_path: Path) -> None:
    """Say something, make a plan, hard-refresh: all is there, for Theia's service and for sessiond, in turns."""
    node = need("node")
    file = tmp_path / MAIN
    texts = [*NASTY, *ORG]
    state = {
        "messages": [{"role": "user", "content": text} for text in texts],
        "plan": {"steps": [{"name": "Create file secret.txt", "status": "pending"}]},
        "now": "2026-01-10T08:00:00.000Z",
    }
    calls(node, file, ["saveState", state])
    session, files = adopted(file.read_bytes())
    assert [one.content for one in session.messages()] == texts
    files = change(
        session,
        files,
        said(session, *texts, role="assistant"),
        StateSet(seq=500, at=AT, values={"plan": {"steps": texts}}),
    )
    file.write_bytes(files[MAIN])
    has, thawed = calls(node, file, ["hasSavedState"], ["loadState"])
    assert has is True
    assert [one["content"] for one in thawed["messages"]] == [*texts, *texts]
    assert thawed["plan"] == {"steps": texts}
    assert thawed["savedAt"] == AT
    thawed["messages"].append({"role": "user", "content": "after the refresh"})
    calls(node, file, ["saveState", {**thawed, "now": "2026-01-12T08:00:00.000Z"}])
    decoded, _ = settle(theia, {**files, MAIN: file.read_bytes()}, CHAT)
    assert [one.content for one in decoded.session.messages()] == [*texts, *texts, "after the refresh"]
    assert [one.id for one in decoded.session.messages()][:-1] == [one.id for one in session.messages()]
    assert decoded.session.updated_at == "2026-01-12T08:00:00.000Z"


def test_no_ceiling_and_many_sessions() -> None:
    """A state of more than five megabytes is one like any other, and sessions lie side by side."""
    session = Session(CHAT, AT)
    session.apply(StateSet(seq=1, at=AT, values={"context": "x" * 6_000_000}))
    files = {**save(theia, session), "other.json": BLOB}
    assert show(load(theia, files, CHAT).session) == show(session)
    assert theia.find(list(files)) == {CHAT: MAIN, "other": "other.json"}


@settings(max_examples=60, deadline=None)
@given(rounds=st.lists(st.lists(operations, max_size=4) | st.sampled_from(["read", "write", "say"]), max_size=8))
def test_a_writer_with_an_old_memory_loses_nothing(rounds: list[Any]) -> None:
    """Theia reads now and then, writes back what it has in mind, with or without a message of its own: nothing of the daemon's is lost."""
    session, files = adopted()
    mind = json.loads(BLOB)
    for number, step in enumerate(rounds):
        if isinstance(step, list):
            step = [one for one in step if one[0] not in ("truncate", "clear")]
            changes = [change for operation in step if (change := perform(session, operation))]
            files = written(files, steps(theia, session, files, changes)) if changes else files
        elif step == "read":
            mind = json.loads(files[MAIN])
            continue
        else:
            if step == "say":
                mind["messages"].append({"role": "user", "content": f"theirs {number}"})
            decoded, merged = settle(theia, {**files, MAIN: json.dumps(mind).encode()}, CHAT)
            there = {one.id: one.wire() for one in decoded.session.messages()}
            assert [there.get(one.id) for one in session.messages()] == [one.wire() for one in session.messages()]
            assert len(there) == len(session) + (step == "say")
            assert decoded.session.state == session.state
            session = decoded.session
            files = written(merged, theia.encode(session, merged))
            mind = mind if step == "write" else json.loads(files[MAIN])
        assert show(load(theia, files, CHAT).session) == show(session)


def test_a_reply_that_is_carried_on_is_edited_where_it_stands() -> None:
    """Of an element whose message changed only those values are written that say something else; its other keys keep their bytes."""
    blob = BLOB.replace(b'"content":"Noted."}', b'"content":"No","status":"interrupted","x":1.50}')
    session, files = adopted(blob)
    reply = session.messages()[1].id
    ends = Finished(seq=4, at=AT, message_id=reply, status="done", metadata={"tokens": 7}, tool_calls=None)
    after = change(session, files, Extended(seq=3, at=AT, message_id=reply, offset=2, text="ted."), ends)
    assert b'{"role":"assistant","content":"Noted.","status":"done","x":1.50}' in after[MAIN]
    assert after[MAIN].startswith(blob[: blob.index(b'"content":"No"')])
    assert show(load(theia, after, CHAT).session) == show(session)


def test_what_an_element_has_no_place_for_leaves_it_alone() -> None:
    """A message's metadata is saved next to the blob, and not a byte of its element moves."""
    session, files = adopted()
    reply = session.messages()[1].id
    ends = Finished(seq=3, at=AT, message_id=reply, status="done", metadata={"tokens": 7}, tool_calls=None)
    after = change(session, files, ends)
    assert after[MAIN][: BLOB.index(b'"context"')] == BLOB[: BLOB.index(b'"context"')]
    [_, message] = load(theia, after, CHAT).session.messages()
    assert message.metadata == {"tokens": 7}


@pytest.mark.parametrize(
    ("files", "sure"),
    [
        ({"a.json": b'{"messages": [], "savedAt": "x"}'}, 95),
        ({"a.json": b"[1, 2]"}, 0),
        ({"a.json": b'\xef\xbb\xbf {"messages": [{}]}'}, 50),
        ({"a.json": b'{"other": 1}'}, 0),
        ({".hidden.json": b'{"savedAt": 1}', "b/c.json": b'{"savedAt": 1}', ".json": b'{"savedAt": 1}'}, 0),
        ({"a.json": b"5", "b.json": b'{"prData": null}'}, 95),
    ],
)
def test_a_folder_of_theias_is_recognised(files: dict[str, bytes], sure: int) -> None:
    """By what only its blobs have; other JSON is not recognised."""
    assert theia.matches(list(files), files.__getitem__) == sure


@pytest.mark.parametrize(
    "element",
    [b"5", b'{"content":"x"}', b'{"role":"","content":"x"}', b'{"role":"user"}', b'{"role":"user","content":{}}'],
)
def test_an_element_that_is_no_message_stays_and_is_told(element: bytes) -> None:
    """It costs itself only, and a save leaves it where it stands."""
    blob = BLOB.replace(b'{"role":"assistant","content":"Noted."}', element)
    decoded = load(theia, {MAIN: blob}, CHAT)
    assert [message.content for message in decoded.session.messages()] == ["My secret code is 777."]
    assert ["cannot be used" in problem.message for problem in decoded.problems] == [True]
    session, files = adopted(blob)
    after = change(session, files, said(session, "more"))
    assert element in after[MAIN]


def test_without_a_blob_there_is_no_session() -> None:
    """A sidecar alone is an empty session of no message, and nothing is numbered."""
    _, files = adopted()
    beside = {path: data for path, data in files.items() if path != MAIN}
    decoded = theia.decode(CHAT, beside)
    assert decoded.session.messages() == []
    assert theia.adopt_numbering(decoded, beside) == []
