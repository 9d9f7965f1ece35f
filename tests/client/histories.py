"""Random lives of two writers and a watcher while the daemon is killed, stopped and cut off, and the count of the results.

What every life must show: a message that was acknowledged is in the session's file once, under its seq, with its whole text;
and the watcher is told of every change once and in order, or of a stretch whose details are unknown (`Reread`), which begins
where it was.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sessiond.client import Appended, Change, Extended, Finished, NewMessage, Reread, aconnect, connect
from sessiond.client.changes import first_seq
from tests.client.proxy import Proxy
from tests.killing import in_file
from tests.zygote import ForkedHome, Zygote

SESSION = "both"
FAULTS = ("kill", "kill", "cut", "cut", "tear", "tear", "stop", "delay", "quiet")
CONFIG = """\
[autosave]
idle_s = 0.05
interval_s = 0.3
[limits]
segment_bytes = 65536
journal_bytes = 262144
reserve_bytes = 4096
"""


class Kept:
    """What was acknowledged to one writer: id -> (seq, text)."""

    def __init__(self) -> None:
        self.messages: dict[str, tuple[int, str]] = {}
        self.last_seq = 0

    def take(self, message_id: str, seq: int, text: str) -> None:
        assert message_id not in self.messages
        self.messages[message_id] = (seq, text)
        self.last_seq = max(self.last_seq, seq)


def steps(writer: str, seed: str, enough: threading.Event) -> Iterator[tuple[str, Any]]:
    """The steps of one writer, until there are enough."""
    rng = random.Random(f"{seed} {writer}")
    for number in itertools.count():
        if enough.is_set():
            return
        kind = rng.choice(("append", "append", "append", "several", "stream", "update", "state", "note"))
        text = f"{writer}-{number}"
        match kind:
            case "several":
                yield kind, [f"{text}.{part}" for part in range(rng.randint(2, 4))]
            case "stream":
                yield kind, [f"{text} ", *("ü" * rng.randint(1, 9) for _ in range(rng.randint(1, 40)))]
            case "append":
                yield kind, text + " " + "x" * rng.choice((0, 20, 5000))
            case _:
                yield kind, text


def write(address: str, plan: Iterator[tuple[str, Any]], kept: Kept) -> None:
    with connect(address, token="", name="writer", timeout_s=60) as sessiond:
        chat = sessiond.session(SESSION)
        for kind, what in plan:
            match kind:
                case "append":
                    done = chat.append("user", what)
                    kept.take(done.id, done.seq, what)
                case "several":
                    answers = chat.append_all([NewMessage(role="user", content=text) for text in what])
                    for one, text in zip(answers, what, strict=True):
                        kept.take(one.id, one.seq, text)
                case "stream":
                    with chat.stream("assistant") as reply:
                        for piece in what:
                            reply.write(piece)
                    kept.take(reply.id, reply.seq, "".join(what))
                case "update":
                    assert chat.update(summary=what).seq
                case "state":
                    chat.set_state({what: 1})
                case "note":
                    assert chat.note("heading", what).content == what


async def awrite(address: str, plan: Iterator[tuple[str, Any]], kept: Kept) -> None:
    async with await aconnect(address, token="", name="writer", timeout_s=60) as sessiond:
        chat = sessiond.session(SESSION)
        for kind, what in plan:
            match kind:
                case "append":
                    done = await chat.append("user", what)
                    kept.take(done.id, done.seq, what)
                case "several":
                    answers = await chat.append_all([NewMessage(role="user", content=text) for text in what])
                    for one, text in zip(answers, what, strict=True):
                        kept.take(one.id, one.seq, text)
                case "stream":
                    async with await chat.stream("assistant") as reply:
                        for piece in what:
                            await reply.write(piece)
                    kept.take(reply.id, reply.seq, "".join(what))
                case "update":
                    assert (await chat.update(summary=what)).seq
                case "state":
                    await chat.set_state({what: 1})
                case "note":
                    assert (await chat.note("heading", what)).content == what


END = "the end of this life"


def watch(address: str, seen: list[Change], ready: threading.Event) -> None:
    with (
        connect(address, token="", name="watcher", timeout_s=60) as sessiond,
        sessiond.session(SESSION).changes(since=0) as changes,
    ):
        ready.set()
        for change in changes:
            seen.append(change)
            if _is_end(change):
                return


async def awatch(address: str, seen: list[Change], ready: threading.Event) -> None:
    async with (
        await aconnect(address, token="", name="watcher", timeout_s=60) as sessiond,
        await sessiond.session(SESSION).changes(since=0) as changes,
    ):
        ready.set()
        async for change in changes:
            seen.append(change)
            if _is_end(change):
                return


def _is_end(change: Change) -> bool:
    return isinstance(change, Appended | Reread) and any(one.text == END for one in change.messages)


class Life:
    """One home. `live` runs it to its end; `wrong` is then empty or says what was wrong."""

    def __init__(self, zygote: Zygote, seed: str, *, kills: bool, of_asyncio: bool) -> None:
        self.seed = seed
        self.folder = Path(tempfile.mkdtemp(prefix="sd-"))
        self.home = ForkedHome(zygote, self.folder, CONFIG)
        self.rng = random.Random(seed)
        self.faults = 3 * [fault for fault in FAULTS if kills or fault != "kill"]
        self.rng.shuffle(self.faults)
        self.of_asyncio = of_asyncio
        self.enough = threading.Event()
        self.kept = [Kept(), Kept()]
        self.seen: list[Change] = []
        self.failures: list[str] = []

    def live(self) -> None:
        self.home.start()
        self.home.client().call("session/new", sessionId=SESSION, name="both")
        with Proxy(self.home.socket_path) as proxy:
            ready = threading.Event()
            watcher = self._thread(watch, awatch, proxy.address, self.seen, ready)
            assert ready.wait(60) or self.failures, f"{self.seed}: the watcher does not begin"
            writers = [
                self._thread(write, awrite, proxy.address, steps(name, self.seed, self.enough), kept)
                for name, kept in zip("ab", self.kept, strict=True)
            ]
            for fault in self.faults:
                self._meet(fault, proxy)
            proxy.delay_s = 0.0
            self.enough.set()
            for writer in writers:
                writer.join(60)
                assert not writer.is_alive(), f"{self.seed}: a writer never ends"
            self.home.client().call("session/append", sessionId=SESSION, messages=[{"role": "user", "content": END}])
            watcher.join(60)
            assert not watcher.is_alive(), f"{self.seed}: the watcher never saw the end, but {self.seen[-1:]}"
        self.home.stop()

    def _thread(self, blocking: Any, of_asyncio: Any, *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                if self.of_asyncio:
                    asyncio.run(of_asyncio(*arguments))
                else:
                    blocking(*arguments)
            except BaseException as error:
                self.failures.append(f"{blocking.__name__}: {error!r}")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def _meet(self, fault: str, proxy: Proxy) -> None:
        """The seed decides what happens and when; the pauses do not wait for anything."""
        time.sleep(self.rng.uniform(0.01, 0.08))
        match fault:
            case "kill":
                self.home.kill()
                self.home.forget_clients()
                self.home.start()
            case "cut":
                proxy.cut()
            case "tear":
                proxy.tear()
            case "delay":
                proxy.delay_s = self.rng.choice((0.0, 0.0, 0.002, 0.01))
            case "stop":
                assert self.home.process is not None
                self.home.process.send_signal(signal.SIGSTOP)
                time.sleep(self.rng.uniform(0.0, 0.1))
                self.home.process.send_signal(signal.SIGCONT)

    def wrong(self) -> list[str]:
        return [*self.failures, *self._wrong_on_disk(), *self._wrong_changes()]

    def _wrong_on_disk(self) -> list[str]:
        messages = in_file(self.folder / "data" / "sessions" / f"{SESSION}.jsonl")
        found = {one["id"]: one for one in messages}
        wrong = []
        if len(found) != len(messages):
            wrong.append("the file has an id twice")
        acknowledged = {message_id: it for kept in self.kept for message_id, it in kept.messages.items()}
        for message_id, (seq, text) in acknowledged.items():
            one = found.get(message_id)
            if one is None:
                wrong.append(f"lost: {text[:40]!r}")
            elif (one["seq"], one["content"]) != (seq, text):
                wrong.append(f"{message_id} was acknowledged as {seq} {text!r}, and is {one['seq']} {one['content']!r}")
            elif one.get("status", "done") != "done":
                wrong.append(f"{message_id} is {one['status']}")
        texts = Counter(one["content"] for one in messages)
        wrong += [f"{times} times: {text[:40]!r}" for text, times in texts.items() if times > 1]
        # Whatever is there was acknowledged: every writer came to its end.
        wrong += [
            f"nobody wrote {one!r}" for one in messages if one["id"] not in acknowledged and one["content"] != END
        ]
        return wrong

    def _wrong_changes(self) -> list[str]:
        wrong, known, unsure = [], 0, False
        texts: dict[str, str] = {}
        for change in self.seen:
            if isinstance(change, Reread):
                unsure = True
                if change.since != known:
                    wrong.append(f"after seq {known} a stretch since {change.since}")
                texts |= {one.id: one.text for one in change.messages}
                known = change.seq
                continue
            if first_seq(change) != known + 1:
                wrong.append(f"after seq {known} came {change}")
            known = change.seq
            if isinstance(change, Appended):
                texts |= {one.id: one.text for one in change.messages}
            elif isinstance(change, Extended):
                if not unsure and len(texts[change.message_id]) != change.offset:
                    wrong.append(f"{change} does not follow {texts[change.message_id]!r}")
                texts[change.message_id] = texts.get(change.message_id, "")[: change.offset] + change.text
            elif isinstance(change, Finished) and change.message_id not in texts:
                wrong.append(f"{change} of a message that was never told")
        if not unsure:
            for kept in self.kept:
                for message_id, (_, text) in kept.messages.items():
                    if texts.get(message_id) != text:
                        wrong.append(f"the watcher has {texts.get(message_id)!r} of {text!r}")
        return wrong

    @property
    def rereads(self) -> int:
        return sum(isinstance(change, Reread) for change in self.seen)

    def remove(self) -> None:
        self.home.stop()
        shutil.rmtree(self.folder)
