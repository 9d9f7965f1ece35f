"""Rounds of kill -9 under eight clients, and the count of their effect on acknowledged messages.

A life is one home over some rounds. In a round eight clients write to three sessions as fast as they get answers, one of
them a streamed reply; the daemon is killed at a random moment, sometimes while it is still starting; the next one is asked
for everything new. A client sends unanswered requests again, as real clients do.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.home import Client
from tests.zygote import ForkedHome, Zygote

CLIENTS = 8
SESSIONS = ("a", "b", "c")
ROUNDS_OF_A_LIFE = 40
CONFIG = """\
[autosave]
idle_s = 0.03
interval_s = 0.3
[limits]
segment_bytes = 65536
journal_bytes = 262144
reserve_bytes = 4096
"""
"""Small and hasty, so that kills meet saves, rotations and trims."""


@dataclass
class Figures:
    rounds: int = 0
    acked: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    changed: int = 0
    """Messages that are there, and say something else than what was acknowledged."""
    seeds: list[str] = field(default_factory=list)
    """Of the lives in which something was wrong."""

    @property
    def wrong(self) -> int:
        return self.lost + self.doubled + self.reordered + self.changed

    def add(self, other: Figures) -> None:
        for name in ("rounds", "acked", "lost", "doubled", "reordered", "changed", "seeds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, {self.acked} acknowledged, {self.lost} lost, {self.doubled} doubled, "
            f"{self.reordered} reordered, {self.changed} changed"
        )


class Known:
    """What must be in one session: what was acknowledged, and what was once served after a kill."""

    def __init__(self) -> None:
        self.seqs: dict[str, int] = {}
        self.texts: dict[str, str] = {}
        self.checked = 0
        """The seq up to which it was read already."""
        self.lock = threading.Lock()

    def acked(self, message_id: str, seq: int, text: str) -> None:
        with self.lock:
            self.seqs[message_id] = seq
            self.texts[message_id] = text

    def judge(self, messages: list[dict[str, Any]], since: int, figures: Figures) -> None:
        """`messages`: all that the daemon serves with a seq above `since`."""
        times = Counter(message["id"] for message in messages)
        figures.doubled += sum(count - 1 for count in times.values())
        found = {message["id"]: message for message in messages}
        for message_id, seq in self.seqs.items():
            if seq > since:
                figures.lost += message_id not in found
                if message_id in found:
                    figures.reordered += found[message_id]["seq"] != seq
                    # Of a stream more may have come than was acknowledged, never less.
                    figures.changed += not found[message_id]["content"].startswith(self.texts[message_id])
        order = [message["seq"] for message in messages]
        figures.reordered += sum(a >= b for a, b in itertools.pairwise(order))
        for writer in range(CLIENTS):
            numbers = [int(one.split("-")[1]) for one in (m["id"] for m in messages) if one.startswith(f"w{writer}-")]
            figures.reordered += sum(a >= b for a, b in itertools.pairwise(numbers))
        for message_id, message in found.items():
            if message_id not in self.seqs:
                self.acked(message_id, message["seq"], message["content"])
        self.checked = order[-1] if order else since


class Writer:
    """One client through all rounds of a life."""

    def __init__(self, number: int, known: dict[str, Known], rng: random.Random) -> None:
        self.number = number
        self.session = SESSIONS[number % len(SESSIONS)]
        self._known = known[self.session]
        self._rng = rng
        self._made = 0
        self._unanswered: list[dict[str, Any]] = []

    def run(self, client: Client) -> None:
        try:
            while True:
                if self.number == CLIENTS - 1:
                    self._stream(client)
                else:
                    self._append(client)
                if self._rng.random() < 0.02:
                    client.call("session/save", sessionId=self.session)
        except OSError:  # the daemon is gone, as it must be
            return

    def _append(self, client: Client) -> None:
        batch = self._unanswered or [self._message() for _ in range(self._rng.choice((1, 1, 1, 2, 3)))]
        self._unanswered = batch
        answer = client.call("session/append", sessionId=self.session, messages=batch)
        for message, told in zip(batch, answer["messages"], strict=True):
            self._known.acked(message["id"], told["seq"], message["content"])
        self._unanswered = []

    def _message(self, **more: Any) -> dict[str, Any]:
        self._made += 1
        message_id = f"w{self.number}-{self._made}"
        padding = "x" * self._rng.choice((0, 10, 200, 3000))
        return {"id": message_id, "role": "user", "content": f"{message_id} {padding}", **more}

    def _stream(self, client: Client) -> None:
        message = self._message(status="streaming")
        answer = client.call("session/append", sessionId=self.session, messages=[message])
        seq, text = answer["messages"][0]["seq"], message["content"]
        self._known.acked(message["id"], seq, text)
        for part in ("one ", "two ", "three"):
            client.call("session/extend", sessionId=self.session, messageId=message["id"], text=part, offset=len(text))
            text += part
            self._known.acked(message["id"], seq, text)
        client.call("session/finish", sessionId=self.session, messageId=message["id"])


def read(client: Client, session: str, since: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    more = True
    while more:
        page = client.call("session/read", sessionId=session, since=since, limit=1000)
        found += page["messages"]
        since = found[-1]["seq"] if found else since
        more = page["hasMore"]
    return found


def live(zygote: Zygote, seed: str, rounds: int, figures: Figures) -> None:
    """One home, `rounds` kills; all is added to `figures`. `seed` decides what is written and when the kill comes."""
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="sd-"))
    home = ForkedHome(zygote, folder, CONFIG)
    known = {session: Known() for session in SESSIONS}
    writers = [Writer(number, known, random.Random(f"{seed} {number}")) for number in range(CLIENTS)]
    before = figures.wrong
    home.start()
    for session in SESSIONS:
        home.client().call("session/new", sessionId=session, name=session)
    for _ in range(rounds):
        _round(home, writers, rng)
        client = home.client()
        for session, one in known.items():
            since = one.checked
            one.judge(read(client, session, since), since, figures)
        figures.rounds += 1
    for session, one in known.items():
        one.judge(read(home.client(), session, 0), 0, figures)
    home.stop()
    for session, one in known.items():
        one.judge(in_file(folder / "data" / "sessions" / f"{session}.jsonl"), 0, figures)
        figures.acked += len(one.seqs)
    if figures.wrong > before:
        figures.seeds.append(f"{seed} (kept in {folder})")
    else:
        shutil.rmtree(folder)


def _round(home: ForkedHome, writers: list[Writer], rng: random.Random) -> None:
    """Write, kill, start again; in every eighth round the start is killed too."""
    clients = [home.client() for _ in writers]
    threads = [
        threading.Thread(target=writer.run, args=(client,)) for writer, client in zip(writers, clients, strict=True)
    ]
    for thread in threads:
        thread.start()
    time.sleep(rng.uniform(0.005, 0.12))  # the moment of the kill, not a wait for anything
    home.kill()
    for thread in threads:
        thread.join()
    home.forget_clients()
    if rng.random() < 0.125:
        home.process = home.spawn()
        time.sleep(rng.uniform(0.0, 0.09))  # the same
        home.kill()
    home.start()


def in_file(path: Path) -> list[dict[str, Any]]:
    """The messages of a session's file as it is there, as the format has them: of several lines of one id the last counts,
    and the order is that of the seqs.
    """
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_bytes().split(b"\n"):
        if line:
            record = json.loads(line)
            if "role" in record:
                assert record["id"] not in found or record.get("seq") == found[record["id"]].get("seq")
                found[record["id"]] = record
    return sorted(found.values(), key=lambda message: int(message["seq"]))
