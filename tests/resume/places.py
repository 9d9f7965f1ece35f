"""Targets without their programs: a home, the database that llm would have, and opencode's import and export as files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from sessiond.importers.opencode_files import exported
from sessiond.importers.record import Event, open_source
from sessiond.resume.opencode import Document, OpenCodeTarget
from sessiond.resume.target import SessionCopy, Target, Written
from sessiond.resume.targets import NAMES, OWN, target

TARGETS = [name for name in NAMES if name != OWN]
LLM = """
CREATE TABLE messages (hash TEXT PRIMARY KEY, parent_hash TEXT, role TEXT, provider_metadata TEXT);
CREATE TABLE parts (id INTEGER PRIMARY KEY, message_hash TEXT, position INTEGER, type TEXT, tool_name TEXT, text TEXT, payload TEXT);
CREATE TABLE threads (id TEXT PRIMARY KEY, name TEXT, tip_message_hash TEXT, forked_from TEXT, datetime_utc TEXT);
CREATE TABLE turns (id TEXT PRIMARY KEY, thread_id TEXT, parent_message_hash TEXT, tip_message_hash TEXT, model TEXT, datetime_utc TEXT);
"""


class WithoutProgram(OpenCodeTarget):
    """What opencode would be given, and gives back as it got it."""

    def write(self, copy: SessionCopy) -> Written:
        document = Document(copy, {"providerID": "fake", "modelID": "fake"})
        path = Path(self.home) / f"{document.id}.json"
        path.write_bytes(msgspec.json.encode(document.whole))
        return Written(document.id, str(path))

    def read(self, written: Written) -> Iterator[Event]:
        yield from exported(written.path, open_source)

    def remove(self, written: Written) -> None:
        Path(written.path).unlink()


def in_home(name: str, home: Path) -> Target:
    """The target in a home that is made for it."""
    if name == "opencode":
        return WithoutProgram(str(home), {})
    if name == "llm":
        folder = home / ".config" / "io.datasette.llm"
        folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(folder / "logs.db")) as database:
            if not database.execute("SELECT name FROM sqlite_master").fetchall():
                database.executescript(LLM)
    return target(name, str(home), {})


_PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
_LS = {"id": "c1", "name": "ls", "arguments": {"path": "."}}
EDITED = [
    {"timestamp": "2026-01-01T00:00:00.000Z", **one}
    for one in (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, _PICTURE]},
        {"role": "assistant", "content": "Let me look.", "thinking": "hm", "toolCalls": [_LS]},
        {"role": "tool", "content": [{"type": "text", "text": "apple.txt"}, _PICTURE], "toolCallId": "c1"},
        {"role": "assistant", "content": "An apple."},
        {"role": "user", "content": "And behind it?"},
        {"role": "assistant", "content": "", "toolCalls": [{**_LS, "id": "c2"}]},
        {"role": "user", "content": "Stop."},
    )
]
"""An editor's session: a prompt of the system's, pictures, thinking, a call with its result, and one that was cut off."""
