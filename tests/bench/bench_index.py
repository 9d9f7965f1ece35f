"""What searching costs: `python -m tests.bench.bench_index [messages] [sessions] [--write docs/performance.md]`.

A daemon meets a folder of sessions that it has never seen (100,000 messages in 2,000 sessions by default) and indexes them
while another client works; then all queries go over the socket, warm, compared with `ripgrep` over the same files if it is
installed. Not a test; prints a table. The text is generated, the same every time: half prose, a quarter code with
identifiers, a quarter Japanese, about 60 words a message.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sessiond.formats import jsonl
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import timestamp
from tests.bench.report import MB, cpu_seconds, peak_of_all, until_quiet, write_section
from tests.home import Client, Home

ROUNDS = 30
MOST_AIMED = 100_000
"""The aims for common words are for this many messages; of more the curve is shown."""
RARE = 20
"""Messages that hold the rare word, however many there are."""
LITERAL = "<= 3 x ripgrep, <= 5 s"
"""For patterns with a literal of three characters, however many messages there are."""
_START_MS = 1_750_000_000_000
_SYLLABLES = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "ing")]
_KANJI = "日本語漢字検索文章会話記録時間場所問題解決方法結果説明確認変更追加削除保存読込設定環境実行"
_KANA = "のをにはがとでもからまでよりですますしたするあるいるこれそれどれないよう"


class Words:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.words = [
            "".join(self._random.choices(_SYLLABLES, k=self._random.choice((1, 2, 2, 3)))) for _ in range(30_000)
        ]
        self._weights = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(self.words))))

    def prose(self) -> str:
        return " ".join(self._random.choices(self.words, cum_weights=self._weights, k=60)) + "."

    def code(self) -> str:
        lines = []
        for _ in range(8):
            a, b, c, d = self._random.choices(self.words, cum_weights=self._weights, k=4)
            lines.append(f"    {a}{b.title()} = self.{c}_{d}('src/{a}/{c}.py', {self._random.randrange(1000)})  # {b}")
        return "\n".join(lines)

    def japanese(self) -> str:
        pieces = (
            "".join(self._random.choices(_KANJI, k=2)) + "".join(self._random.choices(_KANA, k=3)) for _ in range(25)
        )
        return "、".join(pieces) + "。"

    def message(self, seq: int, number: int, *, rare: bool = False) -> Message:
        text = (self.prose, self.code, self.prose, self.japanese)[number % 4]()
        if rare:
            text += " quixotic"
        role = ("user", "assistant", "tool", "assistant")[seq % 4]
        return Message(
            id=f"m-{number:020x}", seq=seq, role=role, content=text, timestamp=timestamp(_START_MS + number * 1000)
        )


def write_sessions(folder: Path, messages: int, sessions: int) -> int:
    """Session files as the default store has them. How many bytes of text are in them."""
    words, size, number = Words(7), 0, itertools.count()
    for one in range(sessions):
        session = Session(f"session-{one}", timestamp(_START_MS + one * 61_000))
        session.name = f"session number {one}"
        for seq in range(1, messages // sessions + 1):
            count = next(number)
            message = words.message(seq, count, rare=count % (messages // RARE) == 7)
            size += len(str(message.content).encode())
            session.add_message(message)
            session.seq = seq
            session.touch(message.timestamp)
        for write in jsonl.encode(session, {}):
            path = folder / write.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(write.data)
    return size


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def indexed(home: Home, begun: float) -> tuple[float, float, list[float]]:
    """Seconds until a search is complete, the CPU seconds, and how long another client's requests took meanwhile, in ms."""
    assert home.process is not None
    client, watcher = home.client(), home.client()
    waiting = watcher.send("session/search", {"query": "quixotic", "limit": 1})
    client.call("session/new", sessionId="other", messages=[{"role": "user", "content": "hello"}])
    times: list[float] = []
    for number in itertools.count():
        asked = time.perf_counter()
        if number % 2:
            client.call("session/read", sessionId="other", last=20)
        else:
            client.call("session/append", sessionId="other", messages=[{"role": "user", "content": f"word {number}"}])
        times.append((time.perf_counter() - asked) * 1000)
        time.sleep(0.02)
        if number % 20 == 0:
            if not watcher.answer(waiting)["result"].get("incomplete"):
                return time.perf_counter() - begun, cpu_seconds(home.process.pid), times
            waiting = watcher.send("session/search", {"query": "quixotic", "limit": 1})
    raise AssertionError


def p50(ask: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """In ms, warm."""
    ask()
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        ask()
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


Row = tuple[str, float | None, float | None, str]
"""What, p50 in ms or None where it was cancelled, that of ripgrep, the aim."""


def questions(client: Client, folder: Path) -> Iterator[Row]:
    ripgrep = shutil.which("rg")

    def rg(*arguments: str) -> float | None:
        """Everything that is found is written, as a person would have it."""
        if ripgrep is None:
            return None
        command = [ripgrep, "--no-config", *arguments, str(folder)]
        return p50(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=False), 3)

    common, next_common = Words(7).words[:2]
    for label, query, pattern, aim in (
        ("rare word", "quixotic", ("-iwF", "quixotic"), "<= 5 ms"),
        ("common word, exact total", common, ("-iwF", common), "<= 20 ms"),
        ("two Japanese characters", "検索", ("-F", "検索"), "<= 20 ms"),
        ("one Japanese character", "の", ("-F", "の"), ""),
        ("two common words", f"{common} {next_common}", None, ""),
        ("phrase", f'"{common} {next_common}"', ("-iF", f"{common} {next_common}"), ""),
        ("prefix of two letters", f"{common[:2]}*", ("-i", rf"\b{common[:2]}"), ""),
        ("nothing", "zzzzzz", ("-iwF", "zzzzzz"), ""),
        ("common word of one role", f"{common} role:user", None, ""),
    ):
        total = client.call("session/search", query=query)["total"]
        ours = p50(lambda query=query: client.call("session/search", query=query))  # type: ignore[misc]
        yield f"{label} ({total:,} hits)", ours, rg(*pattern) if pattern else None, aim
    for label, query, aim in (
        ("regex: a word", "quixotic", LITERAL),
        ("regex: words in a row", r"self\.\w+\('src/quixo", LITERAL),
        ("regex: any case", "(?i)QUIXOTIC", LITERAL),
        ("regex: three letters", "xot", LITERAL),
        ("regex: a literal in many", rf"{common}\w+ing\b", LITERAL),
        ("regex: nothing to go by", r"\w{30,}", "<= 5 s"),
    ):
        answer = client.answer(client.send("session/search", {"query": query, "mode": "regex"}))
        if "error" in answer:
            yield f"{label} ({answer['error']['message']})", None, rg("-e", query), aim
            continue
        asked = {"query": query, "mode": "regex"}
        ours = p50(lambda asked=asked: client.call("session/search", **asked), 5)  # type: ignore[misc]
        yield f"{label} ({answer['result']['total']:,} hits)", ours, rg("-e", query), aim
    yield "list, first page", p50(lambda: client.call("session/list", limit=50)), None, "<= 2 ms"


def made(kept: Path, messages: int, sessions: int) -> tuple[Path, int]:
    """The folder of the sessions, and how many bytes of text they have. They are made once."""
    folder, note = kept / f"{messages}-{sessions}", kept / f"{messages}-{sessions}.size"
    if not note.exists():
        shutil.rmtree(folder, ignore_errors=True)
        note.write_text(str(write_sessions(folder, messages, sessions)))
    return folder, int(note.read_text())


def measure(messages: int, sessions: int, kept: Path | None) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="sessiond-bench-") as scratch:
        path = Path(scratch)
        folder = path / "data" / "sessions"
        if kept is None:
            size = write_sessions(folder, messages, sessions)
        else:
            source, size = made(kept, messages, sessions)
            shutil.copytree(source, folder)
        os.sync()  # or the disk has them to write while others are measured
        begun = time.perf_counter()
        with Home(path) as home:
            assert home.process is not None
            seconds, cpu, others = indexed(home, begun)
            memory = peak_of_all(home.process.pid)
            waited = until_quiet(home.process.pid)
            rows = list(questions(home.client(), folder))
        file = sum(one.stat().st_size for one in (path / "cache").glob("index.sqlite3*"))
    lines = [
        f"{messages:,} messages in {sessions:,} sessions, {size / MB:.0f} MB of text.", "",
        "| what | sessiond | ripgrep | ratio | aim |", "| --- | --- | --- | --- | --- |",
        f"| indexed, from files never seen to a complete search | {messages / seconds:,.0f} messages/s, {cpu / messages * 1e6:.0f} us of CPU each: {2 * messages / cpu:,.0f}/s if two cores were free | | | >= 20,000/s |",
        f"| memory at the peak, all processes | {memory / MB:.0f} MB | | | < 300 MB |",
        f"| another client's appends and reads meanwhile | median {statistics.median(others):.1f} ms, p99 {percentile(others, 0.99):.1f} ms, slowest {max(others):.1f} ms | | | <= 50 ms |",
        f"| then its words are put together, and searched meanwhile | {waited:.0f} s | | | |",
        f"| the index file | {file / size:.2f} x the text | | | <= 1.5 |",
    ]  # fmt: skip
    for label, ours, theirs, aim in rows:
        against = "" if theirs is None else f"{theirs:.1f} ms"
        shown = "" if messages > MOST_AIMED and label.startswith(("common", "two")) else aim
        took = "cancelled" if ours is None else f"{ours:.2f} ms"
        lines.append(f"| {label}, p50 | {took} | {against} | {_ratio(ours, theirs)} | {shown} |")
    return lines


def _ratio(ours: float | None, theirs: float | None) -> str:
    if ours is None or theirs is None:
        return ""
    return f"{theirs / ours:.1f} x faster" if theirs >= ours else f"{ours / theirs:.1f} x slower"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("messages", type=int, nargs="?", default=100_000)
    parser.add_argument("sessions", type=int, nargs="?", default=0)
    parser.add_argument("--write", type=Path)
    parser.add_argument(
        "--kept", type=Path, help="a folder where the sessions are kept for later runs, which copy them"
    )
    parser.add_argument("--prepare", action="store_true", help="only make the sessions in that folder")
    options = parser.parse_args()
    sessions = options.sessions or max(1, options.messages // 50)
    if options.prepare:
        made(options.kept, options.messages, sessions)
        return
    lines = measure(options.messages, sessions, options.kept)
    print("\n".join(lines))
    if options.write:
        name = f"tests.bench.bench_index {options.messages}"
        write_section(options.write, name, f"Finding among {options.messages:,} messages", lines)


if __name__ == "__main__":
    main()
