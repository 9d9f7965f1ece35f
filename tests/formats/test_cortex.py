"""cortex: its own lines, ours next to them, and its own adapter in Node, both ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.formats import cortex
from sessiond.model.changes import Appended, Change, Created, Extended, Finished, Truncated, Updated
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from tests.formats.lisp_sessions import NASTY
from tests.formats.saving import ORG, load, save, settle, show, steps, written
from tests.programs import need, run

AGENT = "helper"
MAIN = "transcripts/helper/transcript.jsonl"
AT = timestamp(1_700_000_001_000)
THREE = (
    b'{"role":"user","content":"Hello","timestamp":1700000001000}\n'
    b'{"role":"assistant","content":"Hi there!","timestamp":1700000002000}\n'
    b'{"role":"user","content":"And?","timestamp":1700000003000}\n'
)


def begin(agent: str = AGENT) -> tuple[Session, list[Change]]:
    created = Created(seq=0, at=AT, info={"createdAt": AT})
    session = Session(agent, AT)
    session.apply(created)
    return session, [created]


def said(session: Session, *texts: str, role: str = "user", status: str | None = None) -> Appended:
    seq = session.seq
    messages = [
        Message(id=f"m{seq + n}", seq=seq + n, role=role, content=text, timestamp=AT, status=status)
        for n, text in enumerate(texts, 1)
    ]
    change = Appended.of(messages, AT)
    session.apply(change)
    return change


def test_an_adopted_transcript_is_a_session() -> None:
    """Lines of cortex' own are messages with seqs from 1 and ids that stay; the file is not touched."""
    decoded, files = settle(cortex, {MAIN: THREE}, AGENT)
    messages = decoded.session.messages()
    assert [(one.seq, one.role, one.content, one.timestamp) for one in messages][1] == (
        2,
        "assistant",
        "Hi there!",
        "2023-11-14T22:13:22.000Z",
    )
    assert (decoded.session.created_at, decoded.session.updated_at) == (messages[0].timestamp, messages[-1].timestamp)
    assert files[MAIN] == THREE
    again = load(cortex, files, AGENT)
    assert not again.renumbered
    assert show(again.session) == show(decoded.session)
    without = load(cortex, {MAIN: THREE}, AGENT)
    assert [one.id for one in without.session.messages()] == [one.id for one in messages]


@pytest.mark.parametrize("files", [{}, {MAIN: b""}, {MAIN: b"\n \r\n"}, {MAIN: b"\xef\xbb\xbf"}])
def test_no_file_and_an_empty_one_are_an_empty_session(files: dict[str, bytes]) -> None:
    """Nothing there is a fresh start, no problem."""
    decoded = cortex.decode(AGENT, files)
    assert (len(decoded.session), decoded.problems) == (0, [])


def test_a_malformed_line_is_a_warning_and_stays() -> None:
    """Path and line are named, the rest is read, and a rewrite leaves the line where it stood."""
    lines = THREE.split(b"\n")
    odd = b"\n".join(
        [lines[0], b'{"role":"user","content', b"[1]", b'{"content":"x"}', lines[1], b"\0\0\0", *lines[2:]]
    )
    decoded, files = settle(cortex, {MAIN: odd}, AGENT)
    assert [(one.path, one.line) for one in decoded.problems] == [(MAIN, 2), (MAIN, 3), (MAIN, 4), (MAIN, 6)]
    assert len(decoded.session) == 3
    cut = Truncated(seq=4, at=AT, after_seq=1)
    decoded.session.apply(cut)
    after = written(files, steps(cortex, decoded.session, files, [cut]))
    assert after[MAIN] == b"\n".join([lines[0], b'{"role":"user","content', b"[1]", b'{"content":"x"}', b"\0\0\0", b""])


@pytest.mark.parametrize(
    ("before", "joint"), [(THREE, b""), (THREE.rstrip(b"\n"), b"\n"), (THREE.replace(b"\n", b"\r\n"), b"")]
)
def test_an_append_goes_behind_what_is_there(before: bytes, joint: bytes) -> None:
    """With or without a newline at the end, with CRLF too, the old bytes stay and the new line is a line of its own."""
    decoded, files = settle(cortex, {MAIN: before}, AGENT)
    change = said(decoded.session, "more")
    after = written(files, steps(cortex, decoded.session, files, [change]))
    assert (
        after[MAIN]
        == before + joint + b'{"role":"user","content":"more","timestamp":1700000001000,"id":"m4","seq":4}\n'
    )
    assert show(load(cortex, after, AGENT).session) == show(decoded.session)


def test_a_reply_is_written_when_it_is_finished() -> None:
    """While it grows it waits next to the file; the line comes once, whole; a later change of it stays beside."""
    session, changes = begin()
    changes += [said(session, "q"), said(session, "Hel", role="assistant", status="streaming")]
    files = written({}, steps(cortex, session, {}, changes))
    assert files[MAIN].count(b"\n") == 1
    grown = [
        Extended(seq=3, at=AT, message_id="m2", offset=3, text="lo"),
        Finished(seq=4, at=AT, message_id="m2", status="interrupted", metadata={"k": 1}),
    ]
    for one in grown:
        session.apply(one)
    files = written(files, steps(cortex, session, files, grown))
    assert json.loads(files[MAIN].split(b"\n")[1])["content"] == "Hello"
    again = [
        Extended(seq=5, at=AT, message_id="m2", offset=5, text=" you"),
        Finished(seq=6, at=AT, message_id="m2", status="done"),
    ]
    for one in again:
        session.apply(one)
        after = written(files, steps(cortex, session, files, [one]))
        assert after[MAIN] == files[MAIN]
        files = after
        assert show(load(cortex, files, AGENT).session) == show(session)


def test_what_cortex_appends_meanwhile_is_merged() -> None:
    """A line from outside is a message after all others; ours and its text remain as they are."""
    session, changes = begin()
    changes.append(said(session, "one"))
    files = written({}, steps(cortex, session, {}, changes))
    files[MAIN] += THREE
    decoded, files = settle(cortex, files, AGENT)
    assert [(one.seq, one.content) for one in decoded.session.messages()] == [
        (1, "one"),
        (2, "Hello"),
        (3, "Hi there!"),
        (4, "And?"),
    ]
    assert decoded.holds(changes[-1])


def test_what_somebody_took_out_stays_out() -> None:
    """A line that was removed is gone, one that was edited says the new words under its id."""
    session, changes = begin()
    changes += [said(session, "one", "two", "three")]
    files = written({}, steps(cortex, session, {}, changes))
    lines = files[MAIN].split(b"\n")
    files[MAIN] = b"\n".join([lines[0].replace(b"one", b"uno"), *lines[2:]])
    decoded = load(cortex, files, AGENT)
    assert [(one.id, one.seq, one.content) for one in decoded.session.messages()] == [
        ("m1", 1, "uno"),
        ("m3", 3, "three"),
    ]


def test_a_line_that_was_copied_is_a_message_of_its_own() -> None:
    """The same id and seq twice in the file never are the same twice in the session."""
    session, changes = begin()
    changes.append(said(session, "one"))
    files = written({}, steps(cortex, session, {}, changes))
    files[MAIN] += files[MAIN]
    decoded, files = settle(cortex, files, AGENT)
    assert [(one.seq, one.content) for one in decoded.session.messages()] == [(1, "one"), (2, "one")]
    assert show(load(cortex, files, AGENT).session) == show(decoded.session)


def test_names_of_agents() -> None:
    """An agent's name that is not an id stands percent-encoded on the wire and names its folder; its sidecar's name stays short."""
    long = "エージェント" * 10
    found = cortex.find(
        [
            "transcripts",
            "transcripts/a",
            "transcripts/a/transcript.jsonl",
            f"transcripts/{long}/transcript.jsonl",
            "x.jsonl",
        ]
    )
    assert found["a"] == "transcripts/a/transcript.jsonl"
    (other,) = [one for one in found if one != "a"]
    assert cortex.main_path(other) == f"transcripts/{long}/transcript.jsonl"
    assert len(cortex.paths(other)[-1].rpartition("/")[2].encode()) < 250


def test_it_knows_its_folder() -> None:
    """A base folder with transcripts is cortex'."""
    assert cortex.matches([MAIN], lambda _: THREE) == 95
    assert cortex.matches(["a.jsonl"], lambda _: THREE) == 0


# The system's own adapter


def calls(node: str, base: Path, *wanted: list[Any]) -> dict[str, Any]:
    asked = base / "calls.json"
    asked.write_text(json.dumps(wanted))
    adapter = Path(__file__).parent / "systems" / "cortex.mjs"
    found: dict[str, Any] = json.loads(run([node, str(adapter), str(base), str(asked)]))
    return found


def put(base: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_bytes(content)


def test_restart_and_last_n_with_its_own_adapter(tmp_path: Path) -> None:
    """What the adapter appended is a session; what sessiond added the adapter loads, oldest first, the last N, other agents apart."""
    node = need("node")
    texts = [*NASTY, *ORG]
    sent = [{"role": "user", "content": text, "timestamp": 1_700_000_000_000 + n} for n, text in enumerate(texts)]
    calls(node, tmp_path, *[["appendMessage", AGENT, one] for one in sent], ["appendMessage", "other", sent[3]])
    decoded, files = settle(cortex, {MAIN: (tmp_path / MAIN).read_bytes()}, AGENT)
    assert [one.content for one in decoded.session.messages()] == texts
    changes = [said(decoded.session, *texts, role="assistant")]
    files = written(files, steps(cortex, decoded.session, files, changes))
    put(tmp_path, files)
    whole, last, other, nobody = calls(
        node,
        tmp_path,
        ["loadHistory", AGENT],
        ["loadHistory", AGENT, 3],
        ["loadHistory", "other"],
        ["loadHistory", "nobody"],
    )["answers"]
    assert [one["content"] for one in whole] == [*texts, *texts]
    assert whole[: len(sent)] == sent
    assert [list(one)[:3] for one in whole] == [["role", "content", "timestamp"]] * len(whole)
    assert last == whole[-3:]
    assert (other, nobody) == ([sent[3]], [])


def test_its_adapter_skips_a_malformed_line_and_reads_the_rest(tmp_path: Path) -> None:
    """A line cut short is a warning on both sides, and still there after the next append."""
    node = need("node")
    decoded, files = settle(cortex, {MAIN: THREE + b'{"role":"us'}, AGENT)
    assert [one.line for one in decoded.problems] == [4]
    put(tmp_path, written(files, steps(cortex, decoded.session, files, [said(decoded.session, "more")])))
    found = calls(node, tmp_path, ["loadHistory", AGENT])
    assert [one["content"] for one in found["answers"][0]] == ["Hello", "Hi there!", "And?", "more"]
    assert len(found["warnings"]) == 1
    assert ":4:" in found["warnings"][0]


def test_a_session_of_any_kind_is_strings_for_its_adapter(tmp_path: Path) -> None:
    """Blocks are shown as their text and kept exactly; roles, tool calls and foreign keys come along."""
    node = need("node")
    session, _ = begin()
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "data": "…"}, {"type": "text", "text": "b"}]
    session.add_message(
        Message(
            id="1", seq=1, role="tool", content=blocks, timestamp=AT, rest={"sessiond": 1, "toolCallId": "c", "x": None}
        )
    )
    session.apply(Updated(seq=2, at=AT, fields={"tags": ["t"]}))
    files = save(cortex, session)
    put(tmp_path, files)
    assert [one["content"] for one in calls(node, tmp_path, ["loadHistory", AGENT])["answers"][0]] == ["a\nb"]
    assert show(load(cortex, files, AGENT).session) == show(session)
