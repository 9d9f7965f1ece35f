"""A file that is looked at while its tool writes it gives the sessions that one import of the finished file gives, for every tool.

JSON Lines and texts are cut after each record and at random bytes; JSON documents are written again with each message, and are looked
at while they are written; sources of many files get them one by one.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from older_sources import OLDER
from sources import FILES, TEXTS
from test_databases_that_grow import DATABASES, quick

from tests.importers.collected import corpus
from tests.importers.growing import dated, document_versions, newest_first, record_ends
from tests.service.test_follow_equals_import import grow, same
from tests.suite.explore import EVERYTHING, SEED

__all__ = ["quick"]
LINES = (".jsonl", ".ndjson", ".md")
WRITERS: dict[str, Callable[[Path], Path]] = {name: write for name, (_, write) in FILES.items()} | OLDER | TEXTS
KEPT_APART = {
    "copilot-chat log": "a request that its log takes back stays, marked, once it was seen",
    "gptel": "Emacs saves a chat whole",
}
NEWEST_FIRST = ("MyActivity.json",)


def written(folder: Path, source: Path) -> tuple[list[Path], list[Path]]:
    """The files of a source that grow, and those that appear one by one."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    growing = [path for path in files if path.suffix in LINES]
    if growing or source.suffix != ".json":
        return growing, []
    parts = [path for path in files if path.parent != source.parent and path.is_relative_to(source.parent)]
    return ([], parts) if parts else ([source], [])


def file_states(folder: Path, source: Path, chance: random.Random | None) -> Iterator[Callable[[], object]]:
    """`chance` None: each record or message, otherwise random bytes as well. Files that do not grow are there from the beginning."""
    growing, parts = written(folder, source)
    whole = {path: path.read_bytes() for path in (*growing, *parts)}
    for path in whole:
        path.unlink()
    for path in parts:
        yield lambda path=path: path.write_bytes(whole[path])
    for path in growing:
        if path.suffix == ".json":
            grown = newest_first if path.name in NEWEST_FIRST else document_versions
            versions = [json.dumps(one).encode() for one in grown(json.loads(whole[path]))[:-1]]
            states = [one[:end] for one in versions for end in cuts(one, [], chance, 1)] + [whole[path]]
        else:
            states = [whole[path][:end] for end in cuts(whole[path], record_ends(whole[path]), chance, 12)]
        for state in states:
            yield lambda path=path, state=state: path.write_bytes(state)


def cuts(raw: bytes, ends: list[int], chance: random.Random | None, count: int) -> list[int]:
    some = [] if chance is None else [chance.randrange(len(raw)) for _ in range(count)]
    return sorted({*ends, *some, len(raw)})


@pytest.mark.parametrize("at_bytes", [False, True])
@pytest.mark.parametrize("name", sorted(WRITERS.keys() - KEPT_APART - DATABASES))
async def test_each_record(tmp_path: Path, name: str, at_bytes: bool) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    source = WRITERS[name](folder)
    chance = random.Random(f"{name} {SEED}") if at_bytes else None
    following = await same(tmp_path, source, dated(file_states(folder, source, chance), folder))
    assert (await following.service.list())["sessions"]
    await following.close()


REAL = ("aider", "claude-code", "cline", "codex", "pi")
CHUNK = (400 << 10, 100_000 if EVERYTHING else 60)
"""Bytes and records from the beginning of a real file."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tool", REAL)
async def test_each_record_of_real_files(tmp_path: Path, tool: str) -> None:
    for nth, found in enumerate(path for path in sorted(corpus(tool).iterdir()) if path.is_file()):
        folder = tmp_path / str(nth) / "source"
        folder.mkdir(parents=True)
        source = folder / found.name
        if found.suffix == ".json":
            source.write_bytes(found.read_bytes())
            states = file_states(folder, source, None)
        else:
            # Codex says one thing twice, as an event and as an item, in the same words; the corpus hides them under different ones.
            whole = re.sub(rb"REDACTED_(MESSAGE|TEXT)", b"REDACTED", found.read_bytes()[: CHUNK[0]])
            whole = whole[max(0, whole.find(b"# aider chat started")) :]
            ends = record_ends(whole)[: CHUNK[1]]
            states = grow(source, whole[: ends[-1]], ends)
        following = await same(tmp_path / str(nth), source, dated(states, folder))
        assert (await following.service.list())["sessions"]
        await following.close()
