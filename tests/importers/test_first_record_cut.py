"""A file that is seen while its first record is written gives no session of its own: the record names the session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from older_sources import OLDER
from sources import FILES

from sessiond.importers import registry
from sessiond.importers.record import SessionStart, open_source
from tests.importers.collected import lines, read, recognised
from tests.service.test_follow_equals_import import gemini_states, same

GROWING = {name: write for name, (_, write) in FILES.items()} | OLDER
"""Sources of each tool. Only their JSON Lines are cut here."""


async def test_gemini_at_each_byte_of_the_first_two_records(tmp_path: Path) -> None:
    """A cut header left an empty session with the file's name beside the real one."""
    whole = "".join(json.dumps(record) + "\n" for record in gemini_states()[-1]).encode()
    source = tmp_path / "source" / "session-2026-11-22T10-00-g1.jsonl"
    source.parent.mkdir()
    second = whole.index(b"\n", whole.index(b"\n") + 1)
    cuts = [*range(second + 2), len(whole)]
    following = await same(tmp_path, source, [lambda cut=cut: source.write_bytes(whole[:cut]) for cut in cuts])
    await following.close()


async def test_a_session_that_was_seen_before_its_first_message(tmp_path: Path) -> None:
    """Droid's first record has no time: the session began with its first message, not when it was looked at."""
    start = {"type": "session_start", "id": "d1", "title": "A talk", "cwd": "/w"}
    said = {"type": "message", "id": "m1", "timestamp": "2026-11-22T10:00:00.000Z", "message": {"role": "user", "content": "hi"}}  # fmt: skip
    source = tmp_path / "source" / "d1.jsonl"
    following = await same(tmp_path, source, [lambda: lines(source, start), lambda: lines(source, start, said)])
    [info] = (await following.service.list())["sessions"]
    assert info["createdAt"] == said["timestamp"]
    await following.close()


EMPTY = {
    "pi": ("p1.jsonl", [{"type": "session", "id": "p1", "timestamp": "2026-11-22T10:00:00.000Z", "cwd": "/w"}]),
    "codex": (
        "rollout-2026-11-22T10-00-00-c1.jsonl",
        [
            {
                "timestamp": "2026-11-22T10:00:00.000Z",
                "type": "session_meta",
                "payload": {
                    "id": "c1",
                    "timestamp": "2026-11-22T10:00:00.000Z",
                    "cwd": "/w",
                    "originator": "codex_cli_rs",
                },
            }
        ],
    ),
    "chatgpt": (
        "conversations.json",
        [
            [
                {
                    "title": "Empty",
                    "create_time": 1.0,
                    "mapping": {},
                    "current_node": None,
                    "conversation_id": "e",
                    "id": "e",
                }
            ]
        ],
    ),
}
"""Sources that say when a session began, and nothing that was said in it."""


@pytest.mark.parametrize("name", EMPTY)
async def test_a_session_in_which_nothing_was_said_stays_out(tmp_path: Path, name: str) -> None:
    """Tools begin a file for every window that is opened. The other tests of this file show that it comes in with its first word."""
    file, records = EMPTY[name]
    source = tmp_path / "source" / file
    assert recognised(_written(source, records)) == name
    following = await same(tmp_path, source, [lambda: lines(source, *records)])
    assert (await following.service.list())["sessions"] == []
    await following.close()


def _written(source: Path, records: list[Any]) -> Path:
    lines(source, *records)
    return source


@pytest.mark.parametrize("name", sorted(GROWING))
def test_no_first_record_that_is_cut_names_a_session(tmp_path: Path, name: str) -> None:
    """Whatever the tool, and wherever in the first records the file was looked at."""
    GROWING[name](tmp_path)
    for path in sorted(tmp_path.rglob("*.jsonl")):
        whole = path.read_bytes()
        expected = sessions_in(path)
        for cut in range(0, min(len(whole), 1200), 7):
            path.write_bytes(whole[:cut])
            assert sessions_in(path) <= expected, (path.name, cut)
        path.write_bytes(whole)


def sessions_in(path: Path) -> set[str]:
    found = registry.identify(str(path), None, named=True)
    if not isinstance(found, registry.Found) or found.importer == registry.NATIVE:
        return set()
    events = registry.BY_NAME[found.importer].read(str(path), open_source)
    return {event.suggested_id for event in events if isinstance(event, SessionStart)}


@pytest.mark.parametrize("name", ["pi", "copilot-cli"])
@pytest.mark.parametrize("left", [0, 40])
def test_a_session_without_its_first_record_comes_in(tmp_path: Path, name: str, left: int) -> None:
    """The record is missing, or only its beginning is there: the name of the file or folder says which session it was, what was
    said comes in, and a warning says what is missing.
    """
    GROWING[name](tmp_path)
    path = next(tmp_path.rglob("*.jsonl"))
    whole = read(path)
    first, _, others = path.read_bytes().partition(b"\n")
    path.write_bytes((first[:left] + b"\n" if left else b"") + others)
    assert recognised(path) == name
    stream = read(path, name)
    assert stream.told() == whole.told()
    assert [one.reason.partition(";")[0] for one in stream.repaired] == ["the session's first record is missing"]
    assert set(stream.starts) <= {*whole.starts, path.parent.name}
