"""Regex search: Python's re over everything, without disturbing other clients."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest

from sessiond.errors import Cancelled, InvalidParams
from sessiond.index import regex
from sessiond.index.regex_processes import WorkerReply, all_of
from sessiond.limits import Limits
from tests import inside
from tests.index.feeding import all_hits, info, key, message, note, opened, search

TEXTS = ["Hello World", "hello\nworld", "foo_bar(12)", "日本語 text", "", "aaa", "tab\there", "ünï", "x" * 5000 + "end"]
CATASTROPHE = "(a+)+$"


PATTERNS = [
    "world",
    "(?i)WORLD",
    r"^world",
    r"(?m)^world",
    r"\w+_\w+\(\d+\)",
    "[日月]",
    "x*",
    "a{3}",
    r"\bend\Z",
    "(?<=o )W",
    "ï",
    "$^",
]


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_as_python(tmp_path: Path, pattern: str) -> None:
    """Exactly the messages, notes and names in whose texts `re.search` finds it, names first, then the newest; pages make the whole."""
    async with opened(tmp_path) as index:
        index.put_info(info("s", name="My world"))
        index.add_messages("s", [message(seq + 1, text) for seq, text in enumerate(TEXTS)])
        index.add_note("s", note(50, "head", "note world"))
        await index.settled()
        expected = [("s", seq + 1) for seq, text in enumerate(TEXTS) if text and re.search(pattern, text)]
        if re.search(pattern, "head") or re.search(pattern, "note world"):
            expected.append(("s", 50))
        if re.search(pattern, "My world"):
            expected.append(("s", None))
        hits = await all_hits(index, pattern, limit=2, mode="regex")
        assert [key(hit) for hit in hits] == expected[::-1]
        assert (await search(index, pattern, mode="regex")).total == len(expected)
        for hit in hits:
            assert all(hit.snippet[start:end] for start, end in hit.ranges)
            if not re.search(pattern, ""):
                assert hit.ranges


async def test_what_is_searched(tmp_path: Path) -> None:
    """Tool calls and results are searched, thoughts are not; filters hold, deleted sessions are never found."""
    async with opened(tmp_path) as index:
        for session_id, fields in (("a", {}), ("b", {"archived": True}), ("c", {"deleted": True})):
            index.put_info(info(session_id, **fields))
            index.add_messages(
                session_id,
                [
                    message(
                        1, "x", "assistant", toolCalls=[{"id": "1", "name": "run", "arguments": {"cmd": "needle"}}]
                    ),
                    message(2, "needle", "tool"),
                    message(3, "x", thinking="needle"),
                ],
            )
        await index.settled()

        async def found(**wanted: object) -> set[tuple[str, int | None]]:
            return {key(hit) for hit in (await search(index, "need[l]e", mode="regex", filter=wanted)).hits}

        assert await found() == {("a", 1), ("a", 2)}
        assert await found(role="tool") == {("a", 2)}
        assert await found(archived=True) == {("b", 1), ("b", 2)}
        assert await found(deleted=True) == set()
        assert await found(sessionId="b") == set()


@pytest.mark.parametrize(
    ("pattern", "position"), [("a(b", 1), ("日[", 1), ("*", 0), ("(?P<x>a)(?P<x>b)", 12), ("a{2,1}", 1), (r"\p{L}", 0)]
)
async def test_bad_pattern_says_where(tmp_path: Path, pattern: str, position: int) -> None:
    """An invalid pattern is invalidParams with its position in code points."""
    async with opened(tmp_path) as index:
        with pytest.raises(InvalidParams) as caught:
            await search(index, pattern, mode="regex")
        with pytest.raises(re.error) as said:
            re.compile(pattern)
        assert caught.value.data == {"field": "query", "position": said.value.pos}


async def test_catastrophe_ends_and_disturbs_nobody(tmp_path: Path) -> None:
    """A catastrophic pattern ends as cancelled at its limit, and other searches and the loop continue as if it were not there."""
    async with opened(tmp_path, Limits(regex_s=2)) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(1, "a" * 60 + "!")])
        await index.settled()
        running = asyncio.create_task(search(index, CATASTROPHE, mode="regex"))  # by itself it would end in years
        answered = 0
        while not running.done():
            assert (await search(index, "x")).total == 0
            answered += 1
            await asyncio.sleep(0)
        with pytest.raises(Cancelled):
            await running
        assert answered > 20


async def test_cancelling_stops_the_work(tmp_path: Path) -> None:
    """A cancelled request's process is gone, long before its limit."""
    async with opened(tmp_path, Limits(regex_s=3600)) as index:  # closing waits for every process
        index.put_info(info("s"))
        index.add_messages("s", [message(1, "a" * 60 + "!")])
        await index.settled()
        running = asyncio.create_task(search(index, CATASTROPHE, mode="regex"))
        while not any(children.read_text().split() for children in Path("/proc/self/task").glob("*/children")):
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_shares_make_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes find what one finds, in the same order, on every page; each document once."""
    async with opened(tmp_path) as index:
        index.put_info(info("s", name="fish"))
        for seq in range(1, 160):
            index.add_messages("s", [message(seq, f"{seq} " + ("fish " if seq % 2 else "fowl ") * 1800)])
        await index.settled()
        whole = await all_hits(index, "f.sh", limit=7, mode="regex")
        monkeypatch.setattr(regex, "_SHARED_CHUNKS", 1)
        monkeypatch.setattr(regex, "_SHARES", 3)
        assert await all_hits(index, "f.sh", limit=7, mode="regex") == whole
        assert len(whole) == 81


def test_what_was_written_anew_meanwhile_is_one_hit() -> None:
    """A document that one share saw before and another after a change."""
    answers = [
        WorkerReply(ids=[[9], [5, 3]], shown={5: ("old", [])}),
        WorkerReply(ids=[[], [6, 5]], shown={6: ("x", [])}),
    ]
    ids, shown = all_of(answers)
    assert ids == [9, 6, 5, 3]
    assert shown.keys() == {5, 6}


async def test_a_process_is_kept_for_the_next_request(tmp_path: Path) -> None:
    """Until it was not used for a while; one that is gone, or was killed for its time, is replaced."""
    async with opened(tmp_path, Limits(regex_s=3600)) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(1, "a" * 60 + "!")])
        await index.settled()

        async def asked() -> int:
            assert (await search(index, "a!", mode="regex")).total == 1
            [process] = inside.idle_regex_processes(index)
            return process.pid

        first = await asked()
        assert await asked() == first
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        second = await asked()
        assert second != first
        running = asyncio.create_task(search(index, CATASTROPHE, mode="regex"))
        while inside.idle_regex_processes(index):
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        third = await asked()
        assert third != second
        await asyncio.to_thread(inside.end_idle_regex_processes, index)
        with pytest.raises(ProcessLookupError):
            os.kill(third, 0)


async def test_text_search_ends_at_its_limit(tmp_path: Path) -> None:
    """A text search that takes longer than its limit ends as cancelled."""
    async with opened(tmp_path, Limits(search_s=1e-9)) as index:
        with pytest.raises(Cancelled):
            await search(index, "x")
