"""Files of each version of the Lisp formats, which are never edited: they must be read and written for ever as they were."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from sessiond.formats import agent_q, sibyl
from sessiond.formats.sidecar import sidecar_path
from sessiond.model.message import Message, Note
from sessiond.model.session import Session
from tests.formats.lisp_sessions import load, plain, save, written

GOLDEN = Path(__file__).parent / "golden"
ID = "session-20260111-143022"
each = pytest.mark.parametrize("fmt", [agent_q, sibyl], ids=lambda fmt: str(fmt.name))


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Agent-Q's header has local time."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def golden(fmt: ModuleType, kind: str) -> tuple[dict[str, bytes], dict[str, object]]:
    folder = GOLDEN / fmt.name / kind
    files = {path: (folder / path).read_bytes() for path in fmt.paths(ID) if (folder / path).exists()}
    return files, json.loads((folder / "expected.json").read_text("utf-8"))


def session_from(expected: dict[str, object]) -> Session:
    session = Session(ID, str(expected["created_at"]))
    for key, value in expected.items():
        if key not in ("messages", "notes"):
            setattr(session, key, value)
    for wire in expected["messages"]:  # type: ignore[attr-defined]
        session.add_message(Message.from_wire(wire))
    for wire in expected["notes"]:  # type: ignore[attr-defined]
        session.add_note(Note.from_wire(wire))
    session.saved_at = "2026-01-11T14:30:28.000Z"
    return session


@each
def test_what_was_written_is_read_and_written_the_same(fmt: ModuleType) -> None:
    """The files of a session are the golden ones to the byte, and they are that session."""
    files, expected = golden(fmt, "written")
    assert plain(load(fmt, files).session) == expected
    assert fmt.encode(load(fmt, files).session, files) == []
    assert save(fmt, session_from(expected)) == files


@each
def test_what_its_system_wrote_is_read_the_same(fmt: ModuleType) -> None:
    """A file of the system, with all its peculiarities, is the session that it always was; saving it adds a sidecar and no more."""
    files, expected = golden(fmt, "adopted")
    decoded = load(fmt, files)
    assert plain(decoded.session) == expected
    adopted = written(files, fmt.adopt_numbering(decoded, files))
    assert sorted(adopted) == sorted([fmt.main_path(ID), sidecar_path(ID)])
    again = load(fmt, adopted)
    assert plain(again.session) == expected
    assert not again.renumbered
    assert all(write.path == sidecar_path(ID) for write in fmt.encode(again.session, adopted))


@each
def test_an_append_to_a_golden_file_leaves_every_byte_before_it(fmt: ModuleType) -> None:
    """What the system wrote stays to the byte when a message follows."""
    files, _ = golden(fmt, "adopted")
    session = load(fmt, files).session
    session.add_message(Message(id="new", seq=9, role="user", content="new", timestamp="2026-01-11T15:00:00.000Z"))
    main = files[fmt.main_path(ID)].decode()
    after = save(fmt, session, files)[fmt.main_path(ID)].decode()
    last = "no id, no time" if fmt is agent_q else "Done."
    assert after.startswith(main[: main.index(last)])


@each
def test_the_worked_bytes_of_the_documents_are_what_is_written(fmt: ModuleType) -> None:
    """The example in the format's page is a file, to the byte, that the format writes."""
    page = (Path(__file__).parents[2] / "docs" / "formats" / f"{fmt.name}.md").read_text("utf-8")
    example = page.partition("lisp\n")[2].partition("```")[0].encode()
    session = load(fmt, {fmt.main_path(ID): example}).session
    assert save(fmt, session)[fmt.main_path(ID)] == example
