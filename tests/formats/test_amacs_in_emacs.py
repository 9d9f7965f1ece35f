"""amacs' own code on its files, in Emacs: what it writes is adopted, it reads what sessiond writes, and Org sees only what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.formats import amacs
from sessiond.model.changes import Appended, Change, Created, Noted
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from tests.formats.lisp_sessions import NASTY
from tests.formats.saving import ORG, load, save, settle, show, steps, written
from tests.programs import need, run

HERE = Path(__file__).parent / "systems"
CHAT = "agent-chat"


@pytest.fixture(scope="module")
def emacs() -> str:
    return need("emacs")


def calls(emacs: str, folder: Path, *wanted: list[Any]) -> list[Any]:
    """Run functions of amacs.el; `@name` in an argument is a file of the folder."""
    asked = [
        [f"{folder}/{one[1:]}" if isinstance(one, str) and one.startswith("@") else one for one in call]
        for call in wanted
    ]
    (folder / ".calls").write_text(json.dumps(asked))
    run(
        [
            "timeout",
            "60",
            emacs,
            "-Q",
            "--batch",
            "-l",
            f"{HERE}/amacs.el",
            "-f",
            "amacs-main",
            f"{folder}/.calls",
            f"{folder}/.answers",
        ],
        env={"TZ": "UTC", "LC_ALL": "C.UTF-8", "HOME": str(folder)},
    )
    found: list[Any] = json.loads((folder / ".answers").read_text())
    return found


def put(folder: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def get(folder: Path) -> dict[str, bytes]:
    return {path: (folder / path).read_bytes() for path in amacs.paths(CHAT) if (folder / path).exists()}


def talk(*texts: tuple[str, str], start: int = 1) -> list[Message]:
    found = []
    for human, agent in texts:
        for role, text in (("user", human), ("assistant", agent)):
            at = timestamp(1_768_142_400_000 + start * 1000)
            found.append(Message(id=f"m{start}", seq=start, role=role, content=text, timestamp=at))
            start += 1
    return found


def session_of(messages: list[Message], notes: list[Note] | None = None) -> Session:
    session = Session(CHAT, timestamp(1_768_142_400_000))
    for message in messages:
        session.add_message(message)
    for note in notes or []:
        session.add_note(note)
    session.updated_at = max([session.created_at, *(message.timestamp for message in messages)])
    return session


def test_chat_persistence(emacs: str, tmp_path: Path) -> None:
    """Five exchanges that amacs wrote are there with ticks and times, and after a restart they are still the same."""
    wanted = [
        [
            "agent-chat-append-exchange",
            "@agent-chat.org",
            tick,
            f"問い {tick}\n\n- a\n- b",
            f"answer {tick}",
            f"2025-01-02T14:3{tick}:00Z",
        ]
        for tick in range(1, 6)
    ]
    calls(emacs, tmp_path, *wanted)
    decoded, files = settle(amacs, get(tmp_path), CHAT)
    messages = decoded.session.messages()
    assert [one.content for one in messages][:2] == ["問い 1\n\n- a\n- b", "answer 1"]
    assert [(one.seq, one.role, one.rest["tick"]) for one in messages[-2:]] == [(9, "user", 5), (10, "assistant", 5)]
    assert messages[-1].timestamp == "2025-01-02T14:35:00.000Z"
    assert files["agent-chat.org"] == get(tmp_path)["agent-chat.org"]
    assert show(load(amacs, files, CHAT).session) == show(decoded.session)


def test_scratchpad_persistence(emacs: str, tmp_path: Path) -> None:
    """Notes that amacs wrote are there with heading, thread and tick; a note of ours lands under its heading for amacs too."""
    calls(
        emacs,
        tmp_path,
        ["agent-chat-append-exchange", "@agent-chat.org", 42, "q", "a", "2025-01-02T14:30:00Z"],
        ["agent-scratchpad-append", "@scratchpad.org", "Working Notes", "Content here...", None, 42],
        ["agent-scratchpad-append", "@scratchpad.org", "Parser Notes", "rust\n", "rust-debugging", 45],
    )
    decoded, files = settle(amacs, get(tmp_path), CHAT)
    session = decoded.session
    assert [(one.heading, one.content, one.thread, one.tick) for one in session.notes] == [
        ("Working Notes", "Content here...", None, 42),
        ("Parser Notes", "rust", "rust-debugging", 45),
    ]
    notes = [
        Note(
            id="n1",
            seq=9,
            heading="Parser Notes",
            content="* more",
            thread="rust-debugging",
            tick=46,
            timestamp=session.updated_at,
        ),
        Note(
            thread=None,
            tick=None,
            id="n2",
            seq=10,
            heading="Parser Notes",
            content="global",
            timestamp=session.updated_at,
        ),
    ]
    changes: list[Change] = [Noted.of(note) for note in notes]
    for change in changes:
        session.apply(change)
    put(tmp_path, written(files, steps(amacs, session, files, changes)))
    (seen, mine, active) = calls(
        emacs,
        tmp_path,
        ["agent-scratchpad-load", "@scratchpad.org"],
        ["agent-scratchpad-append", "@scratchpad.org", "Parser Notes", "by amacs", "rust-debugging", 47],
        ["agent-scratchpad-load", "@scratchpad.org"],
    )
    assert [(one["heading"], one["thread"], one["tick"], one["content"]) for one in seen] == [
        ("Working Notes", None, 42, "Content here..."),
        ("Parser Notes", "rust-debugging", 45, "rust\n\n,* more"),
        ("Parser Notes", None, 42, "global"),
    ]
    assert mine == []
    assert "by amacs" in active[1]["content"]
    after, _ = settle(amacs, get(tmp_path), CHAT)
    assert [(one.id, one.content) for one in after.session.notes[-3:]] == [
        ("n1", "* more"),
        ("n2", "global"),
        (after.session.notes[-1].id, "by amacs"),
    ]


def test_thread_scoped_notes(emacs: str, tmp_path: Path) -> None:
    """A note of a thread is seen by amacs while that thread is active, and not in another."""
    notes = [
        Note(thread=None, tick=None, id="a", seq=3, heading="All", content="g", timestamp=timestamp(0)),
        Note(id="b", seq=4, heading="Rust", content="r", thread="rust-debugging", tick=3, timestamp=timestamp(0)),
    ]
    put(tmp_path, save(amacs, session_of(talk(("q", "a")), notes)))
    (loaded,) = calls(emacs, tmp_path, ["agent-scratchpad-load", "@scratchpad.org"])
    seen = {
        thread: [one["heading"] for one in loaded if one["thread"] in (None, thread)]
        for thread in ("other", "rust-debugging")
    }
    assert seen == {"other": ["All"], "rust-debugging": ["All", "Rust"]}


def test_both_write_in_turns(emacs: str, tmp_path: Path) -> None:
    """sessiond appends, amacs appends, sessiond appends: each reads all, and what was there stays byte for byte."""
    session = Session(CHAT, timestamp(0))
    changes: list[Change] = [Created(seq=0, at=timestamp(0), info={}), Appended.of(talk(("one", "uno")), timestamp(0))]
    for change in changes:
        session.apply(change)
    files = written({}, steps(amacs, session, {}, changes))
    put(tmp_path, files)
    calls(emacs, tmp_path, ["agent-chat-append-exchange", "@agent-chat.org", 2, "two", "dos", "2026-01-12T00:00:00Z"])
    decoded, files = settle(amacs, get(tmp_path), CHAT)
    put(tmp_path, files)
    session = decoded.session
    assert [(one.seq, one.content) for one in session.messages()] == [(1, "one"), (2, "uno"), (3, "two"), (4, "dos")]
    more = Appended.of(talk(("three", "tres"), start=5), timestamp(0))
    session.apply(more)
    after = written(files, steps(amacs, session, files, [more]))
    assert after["agent-chat.org"].startswith(files["agent-chat.org"])
    put(tmp_path, after)
    (history,) = calls(emacs, tmp_path, ["agent-chat-load-history", "@agent-chat.org"])
    assert [(one["tick"], one["human"], one["agent"]) for one in history] == [
        (1, "one", "uno"),
        (2, "two", "dos"),
        (3, "three", "tres"),
    ]


def test_no_text_is_structure(emacs: str, tmp_path: Path) -> None:
    """Whatever people and models write, Org sees headings and drawers of ours only, and Emacs evaluates nothing of it."""
    hostile = [text.replace("(error)", "(setq amacs-evaluated t)") for text in [*ORG, *NASTY]]
    hostile += [
        "Local Variables:\namacs-set: t\nEnd:",
        "# Local Variables:\n# amacs-set: t\n# End:",
        ",# LOCAL VARIABLES:\n,# amacs-set: t\n,# End:",
    ]
    texts = [(one, two) for one, two in zip(hostile, reversed(hostile), strict=True)]
    notes = [
        Note(
            tick=None,
            id=f"n{number}",
            seq=1000 + number,
            heading=text,
            content=text,
            thread=text[:20] or None,
            timestamp=timestamp(0),
        )
        for number, text in enumerate(hostile)
    ]
    notes.insert(
        0,
        Note(
            thread=None,
            tick=None,
            id="first",
            seq=999,
            heading="-*- eval: (setq amacs-evaluated t) -*-",
            content="x",
            timestamp=timestamp(0),
        ),
    )
    files = save(amacs, session_of(talk(*texts), notes))
    put(tmp_path, files)
    chat, pad, evaluated, evaluated_too, history = calls(
        emacs,
        tmp_path,
        ["amacs-structure", "@agent-chat.org"],
        ["amacs-structure", "@scratchpad.org"],
        ["amacs-visit", "@agent-chat.org"],
        ["amacs-visit", "@scratchpad.org"],
        ["agent-chat-load-history", "@agent-chat.org"],
    )
    expected = []
    for number in range(len(texts)):
        expected += [
            ["headline", 1, f"Tick {number + 1}"],
            ["property-drawer", 0, ""],
            ["headline", 2, "Human"],
            ["headline", 2, "Agent"],
        ]
    assert chat == expected
    assert [one[:2] for one in pad] == [["headline", 1], ["property-drawer", 0]] * (len(pad) // 2)
    assert (evaluated, evaluated_too) == ("(nil nil)", "(nil nil)")
    assert len(history) == len(texts)
    assert [one.content for one in load(amacs, files, CHAT).session.messages()] == [
        text for pair in texts for text in pair
    ]
    assert [one.content for one in load(amacs, files, CHAT).session.notes] == [note.content for note in notes]


def test_the_trap_works(emacs: str, tmp_path: Path) -> None:
    """The same words unescaped would have been structure, and would have been evaluated."""
    words = "#+begin_src x\n#+end_src\n:D:\n:END:\n%%(setq amacs-evaluated t)\nLocal Variables:\namacs-set: t\nEnd:\n"
    put(tmp_path, {"agent-chat.org": f"* Tick 1\n** Human\n{words}".encode()})
    structure, evaluated = calls(
        emacs, tmp_path, ["amacs-structure", "@agent-chat.org"], ["amacs-visit", "@agent-chat.org"]
    )
    assert {one[0] for one in structure} == {"headline", "src-block", "drawer", "diary-sexp"}
    assert evaluated == "(t t)"
