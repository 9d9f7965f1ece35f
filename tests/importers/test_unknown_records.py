"""Unknown record kinds are counted or kept, in every importer and wherever they come: each object of each fixture that says its
kind is there once more, with a kind that no importer knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from older_sources import OLDER
from sources import FILES
from test_odd_values import rows

from sessiond.importers import registry
from sessiond.importers.record import open_source
from tests.importers.collected import Stream

Write = Callable[[Path], Path]
NEW = "ofNextWeek"
KINDS = ("type", "kind", "role", "subtype", "event", "content_type", "op", "sessionUpdate")
"""Members that say what an object is."""
IDS = ("id", "uuid", "messageId", "message_id", "call_id", "bubbleId")
ELSEWHERE = {
    "copilot-chat": 1,  # a result as it was shown; the one that the model got is imported
    "copilot-chat log": 1,
    "qwen": 1,  # what the model is sent after a compression, besides the summary: it is in the records before
    "vibe": 1,  # the tools that the model was offered
    "vibe store": 3,  # the same, and two messages of a chunk that the journal writes anew
}
"""Places that say again what is imported from another one, or nothing of the conversation. An unknown kind there is passed over."""
SOURCES: dict[str, tuple[str, Write]] = {**FILES, **{name: (name, write) for name, write in OLDER.items()}}


def renewed(record: Any) -> Iterator[Any]:
    """The record with an unknown kind, for each member that says its kind. It has ids of its own."""
    for key in KINDS:
        if isinstance(record, dict) and isinstance(record.get(key), str):
            ids = {one: f"{record[one]}-new" if isinstance(record[one], str) else 77 for one in IDS if record.get(one)}
            yield {**record, **ids, key: NEW}


def variants(value: Any) -> Iterator[Any]:
    """The value with one more object in one of its lists."""
    if isinstance(value, list):
        for nth, one in enumerate(value):
            for record in renewed(one):
                yield [*value[: nth + 1], record, *value[nth + 1 :]]
            for other in variants(one):
                yield [*value[:nth], other, *value[nth + 1 :]]
    elif isinstance(value, dict):
        for key, one in value.items():
            for other in variants(one):
                yield {**value, key: other}


def texts(text: str) -> Iterator[str]:
    with suppress(ValueError):
        yield from (json.dumps(one) for one in variants(json.loads(text)))


def documents(file: Path) -> Iterator[str]:
    """Write a file again and again. Yields what is new in it. At the end it is as it was."""
    whole = file.read_text()
    if file.suffix not in (".jsonl", ".ndjson"):
        for text in texts(whole):
            file.write_text(text)
            yield text
    else:
        lines = [json.loads(line) for line in whole.splitlines()]
        for many in variants(lines):
            text = "".join(json.dumps(one) + "\n" for one in many)
            file.write_text(text)
            yield text
    file.write_text(whole)


def is_told(stream: Stream, before: Stream) -> bool:
    """Whether the new kind is in what came in, or in what was counted or reported; or else its words are in a message more than
    before.
    """
    counted = [*stream.unknown, *stream.ignored, *(one.reason for one in stream.skipped)]
    if NEW in json.dumps([stream.messages, stream.info, counted]):
        return True
    return len(json.dumps(stream.messages)) > len(json.dumps(before.messages)) + len("-new")


@pytest.mark.parametrize("name", SOURCES)
def test_it_is_counted_or_kept(tmp_path: Path, name: str) -> None:
    """And no message is lost for it."""
    tool, write = SOURCES[name]
    path = write(tmp_path)
    before = Stream(registry.BY_NAME[tool].read(str(path), open_source))
    expected = sum(len(one) for one in before.messages.values())
    silent = []
    for file in sorted(one for one in tmp_path.rglob("*") if one.is_file()):
        for text in rows(file, texts) if file.read_bytes().startswith(b"SQLite") else documents(file):
            stream = Stream(registry.BY_NAME[tool].read(str(path), open_source))
            assert sum(len(one) for one in stream.messages.values()) >= expected, text
            if not is_told(stream, before):
                silent.append(text)
    assert len(silent) == ELSEWHERE.get(name, 0), silent
