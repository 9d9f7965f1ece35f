"""The process of mode regex alone: its answers to requests, on standard input and output."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiond import pipes
from sessiond.index import regex_worker
from sessiond.index.regex_processes import libraries
from tests.index.feeding import info, message, opened

EVERYTHING = ["SELECT id, chunk, start, size FROM doc WHERE 1", "ORDER BY id", {}]


def request(
    folder: Path, pattern: str, limit: int = 100, queries: Any = (EVERYTHING,), share: Any = (0, 1), last: int = 0
) -> dict[str, Any]:
    return {
        "path": str(folder / "index.db"),
        "libraries": libraries(),
        "pattern": pattern,
        "seconds": 30,
        "limit": limit,
        "share": share,
        "last": last,
        "queries": queries,
    }


def ask(
    folder: Path, pattern: str, limit: int = 100, queries: Any = (EVERYTHING,), share: Any = (0, 1), last: int = 0
) -> Any:
    """Its answer. (With `site`, unlike in the daemon, so that what it does is measured.)"""
    with pipes.start(regex_worker.__file__) as process:
        out, _ = process.communicate(
            json.dumps(request(folder, pattern, limit, queries, share, last)).encode(), timeout=60
        )
    assert process.returncode == 0
    answer = json.loads(out)
    return answer | {"ids": [doc for ids in answer["ids"] for doc in ids]} if "ids" in answer else answer


async def filled(folder: Path, *contents: Any) -> None:
    async with opened(folder) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(n, content) for n, content in enumerate(contents, 1)])
        await index.settled()


def edit(folder: Path, sql: str) -> None:
    with closing(sqlite3.connect(folder / "index.db")) as db:
        db.execute(sql)
        db.commit()


async def test_ids_of_all_that_match_and_the_first_as_they_are_shown(tmp_path: Path) -> None:
    """Snippets come for as many as a page shows, with every place in them that matches."""
    await filled(tmp_path, "one fish two fish", "no such", "red fish")
    answer = ask(tmp_path, "f.sh", limit=1)
    assert answer["ids"] == [1, 3]
    assert answer["shown"] == {"1": ["one fish two fish", [[4, 8], [13, 17]]]}
    assert ask(tmp_path, "f.sh", queries=[])["ids"] == []


async def test_the_words_of_a_pattern_narrow_what_is_looked_through(tmp_path: Path) -> None:
    """Whole words, parts of words, one of several; for words that never occur there is nothing to search."""
    await filled(tmp_path, "get the quixotic user", "unquixotically", "foo bar", "")
    for pattern, ids in (
        ("the quix", [1]),
        ("quixotic", [1, 2]),
        ("quixotic|foo bar", [1, 2, 3]),
        ("(?:quixotic|foo) ", [1, 3]),
        ("zzzz", []),
        ("zzzz|yyyy", []),
        (".", [1, 2, 3]),
    ):
        assert ask(tmp_path, pattern)["ids"] == ids, pattern


async def test_what_is_in_many_texts_narrows_nothing(tmp_path: Path) -> None:
    """Everything is looked through then, and the same is found."""
    await filled(tmp_path, *[f"a needle{n}" for n in range(regex_worker._FEW + 5)], "other")
    assert len(ask(tmp_path, "a needle")["ids"]) == regex_worker._FEW + 5


async def test_a_share_is_some_chunks_and_all_that_is_newer(tmp_path: Path) -> None:
    """All shares together are everything; what came after the newest chunk that was seen is in each."""
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        for n in range(1, 2 * regex_worker._BLOCK + 3):
            index.add_messages("s", [message(n, "fish " * 3000)])
            await index.settled()
    number = 2 * regex_worker._BLOCK + 2
    first, second = (ask(tmp_path, "fish", share=(n, 2), last=number)["ids"] for n in (0, 1))
    assert sorted(first + second) == list(range(1, number + 1)) and first and second
    first, second = (ask(tmp_path, "fish", share=(n, 2), last=number - 1)["ids"] for n in (0, 1))
    assert set(first) & set(second) == {number}


async def test_one_process_takes_one_request_after_the_other(tmp_path: Path) -> None:
    """An error ends nothing, and what was made for one request is not seen by the next."""
    await filled(tmp_path, "one fish", "two")
    lines = [json.dumps(request(tmp_path, pattern)) for pattern in (" fish", "(", "t.o", " fish")]
    with pipes.start(regex_worker.__file__) as process:
        out, _ = process.communicate("\n".join(lines).encode(), timeout=60)
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer.get("ids") for answer in answers] == [[[1]], None, [[2]], [[1]]]


async def test_words_that_are_cut_in_the_index_may_hold_anything(tmp_path: Path) -> None:
    """A word longer than FTS5 keeps is looked into."""
    await filled(tmp_path, "deadbeef" * 9000 + "needle", "nothing")
    assert ask(tmp_path, "needle")["ids"] == [1]


async def test_thoughts_are_not_searched(tmp_path: Path) -> None:
    """Calls are."""
    blocks = [{"type": "thinking", "thinking": "secret"}, {"type": "tool_use", "name": "shell", "input": {"cmd": "ls"}}]
    await filled(tmp_path, blocks)
    assert ask(tmp_path, "secret")["ids"] == []
    assert ask(tmp_path, "cmd")["ids"] == [1]


async def test_so_many_places_are_shown_and_no_more(tmp_path: Path) -> None:
    """A pattern that matches everywhere costs a snippet, not a list without end."""
    await filled(tmp_path, "a" * 400)
    [[snippet, ranges]] = ask(tmp_path, "a")["shown"].values()
    assert 0 < len(ranges) <= regex_worker._RANGES
    assert all(snippet[start:end] for start, end in ranges)


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "[z-a]", "(?P<a>x)(?P<a>y)", "x\\"])
async def test_a_pattern_that_is_none_is_an_error_with_its_place(tmp_path: Path, pattern: str) -> None:
    """In Python's own words, and where it sees it."""
    with pytest.raises(re.error) as seen:
        re.compile(pattern)
    assert ask(tmp_path, pattern) == {"error": seen.value.msg, "position": seen.value.pos}


async def test_a_pattern_too_large_to_be_compiled_is_an_error(tmp_path: Path) -> None:
    """It is not taken for a fault of the index, and ends nothing."""
    for pattern in ("a{99999999999999999999}", "(" * 5000 + ")" * 5000):
        answer = ask(tmp_path, pattern)
        assert answer.keys() == {"error", "position"}


@pytest.mark.parametrize("pattern", ["(?a)(?u)x", "(?L)x", "(?au)x"])
async def test_23_flags_that_exclude_each_other_are_an_error(tmp_path: Path, pattern: str) -> None:
    """Not a want of memory: Python says so in more than one way."""
    assert ask(tmp_path, pattern).keys() == {"error", "position"}


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM chunk", "UPDATE chunk SET data = x'0102'", "DROP TABLE chunk"],
    ids=["gone", "broken", "dropped"],
)
async def test_damage_is_told_as_damage(tmp_path: Path, damage: str) -> None:
    """The caller can have the index rebuilt."""
    await filled(tmp_path, "text")
    edit(tmp_path, damage)
    assert ask(tmp_path, "text").keys() == {"damage"}
