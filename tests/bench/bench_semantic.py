"""Figures of search by meaning: `python tests/bench/bench_semantic.py [--write] [messages ...]` from the project's root;
20,000 and 100,000 by default. `--write`: also into docs/performance.md. Not a test.

The text is that of bench_index.py, the same every time; if SESSIOND_CORPUS (or ../shared/corpus) exists, it also measures on
real passages how much of an exact comparison the search finds. CPU time is counted because a busy machine does not change
it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import numpy as np

from sessiond.index.embedding import Model
from sessiond.index.index import Index
from sessiond.index.passages import passages
from sessiond.index.values import IndexedInfo, SearchPage, SearchQuery
from sessiond.index.vectors import Row, VectorStore
from sessiond.limits import Limits
from sessiond.model.values import timestamp
from tests import inside
from tests.bench.bench_index import Words
from tests.bench.report import MB, cpu_seconds, write_section

ROUNDS = 20
ROOT = Path(__file__).resolve().parents[2]


async def asked(index: Index, query: str, **fields: object) -> SearchPage:
    return await index.search(SearchQuery(query=query, mode="semantic", **fields))  # type: ignore[arg-type]


def info(session: int) -> IndexedInfo:
    at = timestamp(1_750_000_000_000 + session * 61_000)
    return IndexedInfo(session_id=f"session-{session}", name=f"number {session}", created_at=at, updated_at=at)


async def whole(count: int) -> list[str]:
    """Feeding, making the vectors, asking: as the daemon does it. Rows of a table."""
    words, number = Words(7), itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        index = Index(os.path.join(folder, "index.db"), Limits())
        await index.open()
        for session in range(count // 50):
            index.put_session(info(session), [words.message(seq + 1, next(number)) for seq in range(50)], [])
            await index.room()
        await index.settled()
        index.incomplete = False
        begun = time.perf_counter()
        page = await asked(index, "warm up")
        while page.incomplete:
            page = await asked(index, "warm up")
        spent = time.perf_counter() - begun
        pid = inside.semantic_worker(index)._process.pid
        rows = [
            f"| {count:,} messages made into vectors | {count / cpu_seconds(pid):,.0f} a second of CPU, {count / spent:,.0f} a second |"
        ]
        questions = [words.prose()[:60] for _ in range(ROUNDS)]
        asked_of = (("everything", {}), ("one session", {"filter": {"sessionId": "session-7"}}))
        rows += [
            f"| {count:,}: a question of {label}, {mode} | {await question(index, pid, questions, mode, fields)} |"
            for label, fields in asked_of
            for mode in ("semantic", "text")
        ]
        memory = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MB
        await index.close()
        size = os.path.getsize(os.path.join(folder, "vectors.db")) / MB
        return [*rows, f"| {count:,}: memory of the process, size of `vectors.db` | {memory:.0f} MB, {size:.0f} MB |"]


async def question(index: Index, pid: int, questions: list[str], mode: str, fields: dict[str, object]) -> str:
    times = []
    cpu = cpu_seconds(pid) + time.process_time()
    for text in questions:
        begun = time.perf_counter()
        await index.search(SearchQuery(query=text, mode=mode, **fields))  # type: ignore[arg-type]
        times.append((time.perf_counter() - begun) * 1000)
    cpu = (cpu_seconds(pid) + time.process_time() - cpu) / len(questions) * 1000
    return f"{cpu:.1f} ms of CPU; p50 {statistics.median(times):.1f} ms"


def real_texts() -> Iterator[str]:
    corpus = Path(os.environ.get("SESSIOND_CORPUS", ROOT.parent / "shared" / "corpus"))
    for path in sorted(corpus.rglob("*.jsonl")):
        for line in path.read_text(errors="replace").splitlines():
            try:
                stack = [json.loads(line)]
            except ValueError:
                continue
            while stack:
                item = stack.pop()
                if isinstance(item, str) and len(item) > 40 and " " in item:
                    yield item[:20_000]
                elif isinstance(item, (dict, list)):
                    stack.extend(item.values() if isinstance(item, dict) else item)


def recall() -> list[str]:
    """How many of the 20 nearest by exact comparison are among the 20 found, on real passages."""
    texts = list(dict.fromkeys(text[p.start : p.end] for text in real_texts() for p in passages([("text", text)])))
    if len(texts) < 3000:
        return []
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        store = VectorStore(os.path.join(folder, "vectors.db"), "bench")
        for first in range(0, len(texts), 512):
            some = texts[first : first + 512]
            rows = [Row(first + n, 1, 0, 0, len(text)) for n, text in enumerate(some)]
            store.put([row.doc for row in rows], rows, model.embed(some), 1)
        db = sqlite3.connect(os.path.join(folder, "vectors.db"))
        matrix = np.frombuffer(b"".join(v for (v,) in db.execute("SELECT vector FROM passage ORDER BY doc")), np.int8)
        db.close()
        every = matrix.reshape(-1, 256).astype(np.float32)
        every /= np.linalg.norm(every, axis=1, keepdims=True).clip(1)
        found = []
        for text in texts[:: max(1, len(texts) // 100)]:
            [vector] = model.embed([text[:80]])
            exact = set(np.argsort(-(every @ vector.astype(np.float32)), kind="stable")[:20].tolist())
            found.append(len(exact & {near.row.doc for near in store.nearest(vector)[:20]}) / 20)
        store.close()
    return [f"| of the 20 nearest of {len(texts):,} real passages are found | {statistics.mean(found):.1%} |"]


def main() -> None:
    counts = [int(argument) for argument in sys.argv[1:] if argument != "--write"] or [20_000, 100_000]
    rows = ["| what | how much |", "| --- | --- |", *recall()]
    for count in counts:
        rows += asyncio.run(whole(count))
    print("\n".join(rows))
    if "--write" in sys.argv:
        write_section(
            ROOT / "docs" / "performance.md", "semantic", "Search by meaning (`tests/bench/bench_semantic.py`)", rows
        )


if __name__ == "__main__":
    main()
