"""JSON of all types in all places: every importer, recogniser and decoder, the index and the exporters read it, or say what they
leave out. Nothing else is raised.

`SESSIOND_BUDGET=MINUTES` tries more; a life that fails is named by its seed.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import InvalidParams, TooLarge
from sessiond.exporters import FORMATS as EXPORTS
from sessiond.exporters import export
from sessiond.exporters.conversation import conversation
from sessiond.formats import registry as formats
from sessiond.importers import registry
from sessiond.importers.record import open_source
from sessiond.index import chunks
from sessiond.index.prepared import columns, prepare, usage_of
from sessiond.index.sessions import moment
from sessiond.index.text import searchable
from sessiond.model.message import Message, check_message
from sessiond.model.session import Session
from sessiond.model.values import check_json, strict_timestamp
from tests.fuzz.odd import text, written
from tests.suite.explore import SEED, tries

sys.path.append(str(Path(__file__).parents[1] / "importers"))
from collected import Stream
from older_sources import OLDER
from sources import FILES

TRIES = tries(few=30, usual=300)
SOURCES: dict[str, tuple[str, Callable[[Path], Path]]] = FILES | {
    name: (name, write) for name, write in OLDER.items() if name not in ("aider", "gptel")
}
GOLDEN = Path(__file__).parents[1] / "formats" / "golden"


def cells(file: Path) -> list[tuple[str, str, int, str]]:
    """Table, column, row and text of the JSON in a database."""
    found = []
    with closing(sqlite3.connect(file)) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = db.execute(f"SELECT rowid, * FROM {table}")  # the test's own tables
            names = [column[0] for column in cursor.description][1:]
            for row in cursor.fetchall():
                for name, value in zip(names, row[1:], strict=True):
                    said = value.decode("utf-8", "ignore") if isinstance(value, bytes) else value
                    if isinstance(said, str) and said[:1] in ("[", "{"):
                        found.append((table, name, row[0], said))
    return found


def put(file: Path, where: tuple[str, str, int, str], value: str) -> None:
    table, column, row, _ = where
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row))


def spoil(files: list[Path], chance: random.Random) -> Callable[[], None] | None:
    """Change one of the files into something odd, and return a function that restores it, or None if the files contain no JSON."""
    file = chance.choice(files)
    before = file.read_bytes()
    if before.startswith(b"SQLite"):
        found = cells(file)
        where = chance.choice(found) if found else None
        odd = None if where is None else text(where[3], chance, by_line=False)
        if where is None or odd is None:
            return None
        put(file, where, odd.encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
    else:
        odd = text(before.decode("utf-8", "replace"), chance, by_line=file.suffix in (".jsonl", ".ndjson"))
        if odd is None:
            return None
        file.write_text(odd)
    return lambda: file.write_bytes(before) and None


@pytest.mark.parametrize("name", SOURCES)
def test_importers(tmp_path: Path, name: str) -> None:
    """An importer reports what it cannot read, and nothing that it gives is refused by the service. Afterwards, the source is read as
    before. No recogniser fails on it.
    """
    tool, write = SOURCES[name]
    path = write(tmp_path)
    files = sorted(one for one in tmp_path.rglob("*") if one.is_file())
    whole = len(Stream(registry.BY_NAME[tool].read(str(path), open_source)).messages)
    for seed in range(SEED, SEED + TRIES):
        back = spoil(files, random.Random(f"{name} {seed}"))
        if back is None:
            continue
        try:
            Stream(registry.BY_NAME[tool].read(str(path), open_source))
            head = path.read_bytes()[: registry.HEAD_BYTES]
            for importer in registry.IMPORTERS:
                assert importer.recognise(str(path), head) >= 0, importer.name
        except BaseException as error:
            error.add_note(f"{name}, seed {seed}")
            raise
        back()
    assert len(Stream(registry.BY_NAME[tool].read(str(path), open_source)).messages) == whole


AT = "2026-01-11T14:30:22.000Z"
MESSAGES: list[dict[str, Any]] = [
    {"id": "m1", "role": "user", "content": "words", "timestamp": "2026-01-11T14:30:22.000Z"},
    {
        "id": "m2", "role": "assistant", "timestamp": "2026-01-11T14:30:23.000Z", "thinking": "a thought",
        "content": [
            {"type": "text", "text": "said"}, {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "t", "name": "run", "input": {"command": "ls", "deep": [{"a": "b"}]}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        ],
        "toolCalls": [{"id": "t", "name": "run", "arguments": "{\"command\": \"ls\"}", "result": "file"}],
        "metadata": {"tokens": {"input": 5, "output": 7, "cacheRead": 1, "cost": 0.5, "model": "m", "request": "r"}, "model": "m"},
    },
    {
        "id": "m3", "role": "tool", "timestamp": "2026-01-11T14:30:24.000Z", "toolCallId": "t",
        "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": False, "content": [{"type": "text", "text": "out"}]}],
        "metadata": {"toolCallIds": ["t"], "isError": False, "sidechain": False},
    },
]  # fmt: skip


def odd_message(seed: int) -> Message | None:
    """A message that the service takes; None: it refuses it, in words."""
    chance = random.Random(f"message {seed}")
    wire = json.loads(written(chance.choice(MESSAGES), chance))
    try:
        check_message(wire, "message")
        check_json(wire, "message")
        given = {key: value for key, value in wire.items() if value is not None}
        given["timestamp"] = strict_timestamp(given.get("timestamp", AT))
        return Message.from_wire({"id": "m", "status": "complete", **given, "seq": 1})
    except (InvalidParams, TooLarge):
        return None


def test_the_index_and_the_exporters() -> None:
    """Whatever the service takes has words, or none, and can be told: no message is left out of the index for an error of ours."""
    taken = 0
    session = Session("s", AT)
    for seed in range(SEED, SEED + 20 * TRIES):
        try:
            message = odd_message(seed)
            if message is None:
                continue
            taken += 1
            texts = searchable(message)
            columns(texts)
            chunks.unpack(chunks.pack(message.id, texts))
            usage_of(message)
            moment(message.timestamp)
            assert prepare([message]).bad == []
            conversation([message])
            for fmt in EXPORTS:
                "".join(export(session, [message], fmt)).encode("utf-8")
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert taken > TRIES


@pytest.mark.parametrize("name", formats.NAMES)
def test_decoders(name: str) -> None:
    """A decoder gives a session with problems, or says that the file cannot be used: as in `test_fuzz.py`, with valid JSON."""
    fmt: Any = formats.get(name)
    for seed in range(SEED, SEED + TRIES):
        chance = random.Random(f"{name} {seed}")
        case = chance.choice(sorted(one for one in (GOLDEN / name).iterdir() if one.is_dir()))
        local_id = json.loads((case / "expected.json").read_text()).get("id", "session-20260111-143022")
        there = {path: (case / path).read_bytes() for path in fmt.paths(local_id) if (case / path).exists()}
        victim = chance.choice(sorted(there))
        odd = text(there[victim].decode("utf-8", "replace"), chance, by_line=victim.endswith("jsonl"))
        if odd is None:
            continue
        try:
            decoded = fmt.decode(local_id, {**there, victim: odd.encode("utf-8", "surrogatepass")})
            if decoded.fatal is None:
                seqs = [message.seq for message in decoded.session.messages()]
                assert seqs == sorted(set(seqs))
                list(fmt.encode(decoded.session.snapshot(), {**there, victim: odd.encode("utf-8", "surrogatepass")}))
                decoded.session.info()
                assert prepare(decoded.session.messages()).bad == []
        except BaseException as error:
            error.add_note(f"{name}, seed {seed}: {victim}")
            raise
