"""What amacs, cortex, theia and jsonl write, to the byte, and how they read files of others: one folder for each case, never
edited.

A format's output changes in steps, with a folder for each: `written`, `written-2`, and so on. We write the last one, and
read them all.
"""

from __future__ import annotations

import json as std_json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sessiond.formats import amacs, cortex, jsonl, theia
from sessiond.model.changes import (
    Appended,
    Change,
    Created,
    Extended,
    Finished,
    Noted,
    StateSet,
    Updated,
)
from sessiond.model.message import Note
from sessiond.model.session import Session
from tests.formats.saving import settle, show, steps, written

GOLDEN = Path(__file__).parent / "golden"
DOCS = Path(__file__).parents[2] / "docs" / "formats"
FORMATS = {"amacs": amacs, "cortex": cortex, "theia": theia, "jsonl": jsonl}
each = pytest.mark.parametrize("name", sorted(FORMATS))
AT = "2026-01-11T14:30:22.000Z"


def golden(name: str, case: str) -> tuple[ModuleType, dict[str, bytes], dict[str, Any]]:
    folder = GOLDEN / name / case
    expected = std_json.loads((folder / "expected.json").read_text())
    fmt = FORMATS[name]
    names = fmt.paths(expected["id"])
    return fmt, {path: (folder / path).read_bytes() for path in names if (folder / path).exists()}, expected


def written_cases(name: str) -> list[str]:
    """The oldest first."""
    found = [folder.name for folder in (GOLDEN / name).glob("written*")]
    return sorted(found, key=lambda case: int(case.removeprefix("written").removeprefix("-") or 1))


def turn(seq: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": f"m{seq}",
        "seq": seq,
        "role": role,
        "content": content,
        "timestamp": f"2026-01-11T14:30:{22 + seq}.000Z",
        **more,
    }


def life() -> list[list[Change]]:
    """Three saves: a first exchange, a second one while its reply still grows, its end."""
    error = "What's causing the ownership error?"
    org_like = "* line 45\n#+begin_src rust\nlet x = y;\n#+end_src"
    first = [
        turn(1, "system", "Answer briefly."),
        turn(2, "user", error),
        turn(3, "assistant", org_like, metadata={"tokens": 12}),
    ]
    note = Note(
        id="n7", seq=7, heading="Parser Investigation", content="look at main.rs", thread="rust-debugging", tick=45,
        timestamp="2026-01-11T14:31:01.000Z",
    )  # fmt: skip
    second: list[Change] = [
        Appended(seq=4, at=AT, messages=[turn(4, "user", [{"type": "text", "text": "直して"}])]),
        Appended(seq=5, at=AT, messages=[turn(5, "assistant", "Do", status="streaming")]),
        Updated(seq=6, at="2026-01-11T14:31:00.000Z", fields={"tags": ["rust"]}),
        Noted.of(note),
        StateSet(seq=8, at="2026-01-11T14:31:02.000Z", values={"plan": {"steps": [{"id": 1, "status": "done"}]}}),
    ]
    third: list[Change] = [
        Extended(seq=9, at="2026-01-11T14:31:03.000Z", message_id="m5", offset=2, text="ne."),
        Finished(seq=10, at="2026-01-11T14:31:04.000Z", message_id="m5", status="done"),
    ]
    created = Created(seq=0, at=AT, info={"createdAt": AT, "name": "ownership"})
    return [[created, Appended(seq=3, at=AT, messages=first)], second, third]


@each
def test_the_bytes_are_the_golden_ones(name: str) -> None:
    """The same life gives the same files."""
    fmt, files, expected = golden(name, written_cases(name)[-1])
    session = Session(expected["id"], AT)
    made: dict[str, bytes] = {}
    for batch in life():
        for change in batch:
            session.apply(change)
        made = written(made, steps(fmt, session, made, batch))
    assert {path: content.decode() for path, content in made.items()} == {
        path: content.decode() for path, content in files.items()
    }


@pytest.mark.parametrize(("name", "case"), [(name, case) for name in sorted(FORMATS) for case in written_cases(name)])
def test_what_any_version_wrote_is_the_session(name: str, case: str) -> None:
    """Files of every step, those of now among them, are the same session, without a warning."""
    fmt, files, expected = golden(name, case)
    decoded = fmt.decode(expected["id"], files)
    assert {"id": expected["id"], **show(decoded.session), "warnings": []} == expected
    assert (decoded.problems, decoded.renumbered, decoded.incomplete) == ([], False, False)
    assert expected == golden(name, written_cases(name)[0])[2]


@each
def test_files_of_others_are_read_as_golden(name: str) -> None:
    """What the system itself wrote is the expected session with the expected warnings, and is not touched by reading it."""
    fmt, files, expected = golden(name, "adopted")
    decoded, numbered = settle(fmt, files, expected["id"])
    warnings = [[one.path, one.line, one.message] for one in decoded.problems]
    assert {"id": expected["id"], **show(decoded.session), "warnings": warnings} == expected
    assert {path: content for path, content in numbered.items() if not path.startswith(".sessiond/")} == files


@each
def test_the_document_shows_the_golden_bytes(name: str) -> None:
    """The worked bytes of a format's document are what is written."""
    fmt, files, expected = golden(name, written_cases(name)[-1])
    text = (DOCS / f"{name}.md").read_text()
    shown = [
        path for path in fmt.paths(expected["id"]) if path in files and (name != "theia" or not path.startswith("."))
    ]
    for path in shown:
        assert files[path].decode().rstrip("\n") in text, path
