"""Figures of the index: `python tests/bench/bench_index.py [messages] [sessions]` from the project's root. No test;
prints a table.

The text is made, the same every time: half prose, a quarter code with identifiers, a quarter Japanese, about 60 words a
message.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sessiond.index.index import Index
from sessiond.index.values import IndexedInfo, ListQuery, SearchQuery
from sessiond.limits import Limits
from sessiond.model.message import Message
from sessiond.model.values import timestamp

ROUNDS = 30
_START_MS = 1_750_000_000_000
_SYLLABLES = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "ing")]
_KANJI = "日本語漢字検索文章会話記録時間場所問題解決方法結果説明確認変更追加削除保存読込設定環境実行"
_KANA = "のをにはがとでもからまでよりですますしたするあるいるこれそれどれないよう"


class Words:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = [
            "".join(self._random.choices(_SYLLABLES, k=self._random.choice((1, 2, 2, 3)))) for _ in range(30_000)
        ]
        self._weights = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(self._words))))

    def prose(self) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=60)) + "."

    def code(self) -> str:
        lines = []
        for _ in range(8):
            a, b, c, d = self._random.choices(self._words, cum_weights=self._weights, k=4)
            lines.append(f"    {a}{b.title()} = self.{c}_{d}('src/{a}/{c}.py', {self._random.randrange(1000)})  # {b}")
        return "\n".join(lines)

    def japanese(self) -> str:
        pieces = (
            "".join(self._random.choices(_KANJI, k=2)) + "".join(self._random.choices(_KANA, k=3)) for _ in range(25)
        )
        return "、".join(pieces) + "。"

    def message(self, seq: int, number: int) -> Message:
        text = (self.prose, self.code, self.prose, self.japanese)[number % 4]()
        if number % 5000 == 7:
            text += " quixotic"
        role = ("user", "assistant", "tool", "assistant")[seq % 4]
        return Message(
            id=f"m-{number:020x}", seq=seq, role=role, content=text, timestamp=timestamp(_START_MS + number * 1000)
        )


def info(session: int, count: int) -> IndexedInfo:
    at = timestamp(_START_MS + session * 61_000)
    name = f"session number {session}"
    return IndexedInfo(
        session_id=f"session-{session}",
        name=name,
        created_at=at,
        updated_at=at,
        message_count=count,
        fingerprint=f"f{session}",
    )


async def timed(label: str, ask: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> None:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        await ask()
        times.append((time.perf_counter() - begun) * 1000)
    print(f"{label:44} p50 {statistics.median(times):8.2f} ms   max {max(times):8.2f} ms")


async def longest_delay(until: asyncio.Event) -> float:
    """The longest that the loop kept somebody waiting, in ms."""
    longest = 0.0
    while not until.is_set():
        begun = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - begun - 0.001)
    return longest * 1000


async def feed(index: Index, messages: int, sessions: int) -> None:
    words = Words(7)
    per = messages // sessions
    size = spent = cpu = delay = 0.0
    number = itertools.count()
    for first in range(0, sessions, 200):
        some = range(first, min(first + 200, sessions))
        made = [(info(session, per), [words.message(seq + 1, next(number)) for seq in range(per)]) for session in some]
        size += sum(len(str(message.content).encode()) for _, batch in made for message in batch)
        done = asyncio.Event()
        watch = asyncio.create_task(longest_delay(done))
        begun, cpu_begun = time.perf_counter(), time.process_time()
        for one, batch in made:
            index.put_session(one, batch, [])
            await index.room()
        await index.settled()
        spent += time.perf_counter() - begun
        cpu += time.process_time() - cpu_begun
        done.set()
        delay = max(delay, await watch)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{messages} messages in {sessions} sessions, {size / 1e6:.1f} MB of text; memory at most {memory:.0f} MB")
    print(
        f"fed {messages / spent:,.0f} messages/s, {cpu / messages * 1e6:.0f} us of CPU each; loop delayed at most {delay:.0f} ms"
    )
    Figures.size = size


class Figures:
    size = 0.0
    """Bytes of text that were fed."""


async def ask(index: Index) -> None:
    def search(query: str, mode: str = "text") -> Callable[[], Awaitable[object]]:
        return lambda: index.search(SearchQuery(query=query, mode=mode))

    words = Words(7)
    common, next_common = words._words[:2]
    for label, query in (
        ("rare word", "quixotic"),
        ("common word", common),
        ("two common words", f"{common} {next_common}"),
        ("prefix of one letter", f"{common[0]}*"),
        ("two Japanese characters", "検索"),
        ("one Japanese character", "の"),
        ("phrase", f'"{common} {next_common}"'),
        ("nothing", "zzzzzz"),
        ("common word of one role", f"{common} role:user"),
        ("common word without a rare one", f"{common} -quixotic"),
        ("only a filter", "role:tool"),
    ):
        total = (await index.search(SearchQuery(query=query))).total
        await timed(f"search: {label} ({total} hits)", search(query))
    await timed("regex: a literal", search("quixotic", "regex"), 3)
    await timed("regex: a pattern", search(r"\w+_\w+\('src/[a-z]+", "regex"), 3)
    await timed("list: first page", lambda: index.list(ListQuery()))
    await timed("list: by name, of a filter", lambda: index.list(ListQuery(sort="name", filter={"name": "99"})))


async def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    sessions = int(sys.argv[2]) if len(sys.argv) > 2 else max(1, messages // 50)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "index.db")
        index = Index(path, Limits())
        await index.open()
        await feed(index, messages, sessions)
        await ask(index)
        begun = time.perf_counter()
        one = [Words(3).message(10**6, 10**6)]
        index.add_messages("session-1", one)
        await index.settled()
        print(f"{'one message, fed to found':44}     {(time.perf_counter() - begun) * 1000:8.2f} ms")
        await index.close()
        file = os.path.getsize(path)
        print(f"the file: {file / 1e6:.1f} MB, {file / Figures.size:.2f} x the text")


if __name__ == "__main__":
    asyncio.run(main())
