"""Files in which one value has another type than the tool would write: an importer reports it, keeps it, or passes it over,
and raises nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from collected import Stream, read
from older_sources import OLDER
from sources import FILES, TEXTS

from sessiond.importers import registry
from sessiond.importers.record import open_source
from sessiond.importers.tool import Tool
from tests.fuzz.odd import places, put
from tests.suite.explore import EVERYTHING

ODD: tuple[Any, ...] = (None, 5, "odd", [5], {"odd": 1}, True, [], {}, -1.5, [None], [[]], [{}])


def variants(text: str) -> Iterator[str]:
    """A JSON document with one odd value, in each place. Not JSON: none."""
    with suppress(ValueError):
        value = json.loads(text)
        for nth, path in enumerate(places(value)):
            for odd in ODD if EVERYTHING else (ODD[nth % len(ODD)],):
                yield json.dumps(put(value, path, odd))


def documents(file: Path) -> Iterator[None]:
    """Write a file again and again, each time with one odd value. At the end it is as it was."""
    whole = file.read_text()
    if file.suffix in (".jsonl", ".ndjson"):
        lines = whole.splitlines()
        for nth, line in enumerate(lines):
            for text in variants(line):
                file.write_text("\n".join([*lines[:nth], text, *lines[nth + 1 :]]) + "\n")
                yield
    else:
        for text in variants(whole):
            file.write_text(text)
            yield
    file.write_text(whole)


def rows(file: Path, others: Callable[[str], Iterator[str]]) -> Iterator[str]:
    """The same for the JSON in a database: each text in turn is each of the `others`, which are yielded with their place."""
    with closing(sqlite3.connect(file)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            cursor = db.execute(f"SELECT rowid, * FROM {table}")  # the test's own tables
            columns = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                for column, value in zip(columns[1:], row[1:], strict=True):
                    text = value.decode("utf-8", "ignore") if isinstance(value, bytes) else value
                    for other in others(text) if isinstance(text, str) and text[:1] in ("[", "{") else ():
                        put = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                        db.execute(put, (other, row[0]))
                        db.commit()
                        yield f"{table}.{column}: {other}"
                        db.execute(put, (value, row[0]))
                        db.commit()


JSON = FILES | {name: (name, write) for name, write in OLDER.items() if name not in ("aider", "gptel")}


@pytest.mark.parametrize("name", JSON)
def test_an_odd_value_raises_nothing(tmp_path: Path, name: str) -> None:
    """In any file of the source, wherever it is; what comes out can be stored."""
    tool, write = JSON[name]
    path = write(tmp_path)
    expected = len(read(path).messages)
    tried = 0
    for file in sorted(one for one in tmp_path.rglob("*") if one.is_file()):
        for _ in rows(file, variants) if file.read_bytes().startswith(b"SQLite") else documents(file):
            Stream(registry.BY_NAME[tool].read(str(path), open_source))
            tried += 1
    assert tried > 5
    assert len(read(path).messages) == expected


@pytest.mark.parametrize("tool", TEXTS)
def test_a_text_that_is_cut_anywhere_raises_nothing(tmp_path: Path, tool: str) -> None:
    """Each beginning of a text is a session; agent-shell's, once its header is complete."""
    path = TEXTS[tool](tmp_path)
    whole = path.read_text()
    header = whole.index("\n---\n") + 4 if tool == "agent-shell" else 0
    for end in range(30, len(whole), 1 if EVERYTHING else 7):
        path.write_text(whole[:end])
        assert len(Stream(registry.BY_NAME[tool].read(str(path), open_source)).starts) == (end >= header)


@pytest.mark.parametrize("name", [*FILES, *TEXTS])
def test_a_folder_holds_one_source(tmp_path: Path, name: str) -> None:
    """Of all files that a tool writes for a session one is imported, and by the tool's importer."""
    tool, write = FILES[name] if name in FILES else (name, TEXTS[name])
    path = write(tmp_path)
    found = [one for one in registry.walk(str(tmp_path)) if isinstance(one, registry.Found)]
    assert [(one.importer, one.path) for one in found] == [(tool, str(path))]


def test_every_tool_has_a_source_here() -> None:
    """All importers that extend `Tool` are tried, so that a new one is."""
    tools = {one.name for one in registry.IMPORTERS if isinstance(one, Tool)}
    assert tools == {tool for tool, _ in FILES.values()} | TEXTS.keys()
