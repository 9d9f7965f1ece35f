"""Runs a life: a real daemon, sockets to which everything is sent without waiting, kills, starts and edits in between.

One thread serves all connections: in each turn every one with something left sends its next piece (a few requests, or a
`$/cancelRequest`), and input is read. Nothing sleeps; every wait has a deadline.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import selectors
import shutil
import socket
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.history.model import in_lines
from tests.history.values import Answer, Edit, History, Life, Op, Request, Round, Step, Story, Told
from tests.zygote import ForkedHome, Zygote

ROUND_S = 60.0
"""How long all answers of a round may take, on a machine that has other things to do."""
PIECE = 0.2
"""How often a piece ends after a request."""


class Link:
    """One connection of a story."""

    def __init__(self, name: str, sock: socket.socket, history: History) -> None:
        self.name = name
        self.sock = sock
        self.history = history
        self.heard = history.heard.setdefault(name, [])
        self.pieces: deque[bytes] = deque()
        self.waiting: dict[int, Op] = {}
        self.over = False
        self.sent = self.answered = 0
        """Pieces and answers; a piece is one request where all goes politely."""
        self._last = 0
        self._rest = b""
        sock.setblocking(False)

    def queue(self, ops: list[Op], rng: random.Random) -> None:
        """Have `ops` sent; each with a cancel after it where it is to be cancelled."""
        piece = b""
        for op in ops:
            self._last += 1
            message = {"jsonrpc": "2.0", "method": op.method, "params": op.params}
            if not op.notify:
                message["id"] = self._last
                self.waiting[self._last] = op
            piece += json.dumps(message).encode() + b"\n"
            if op.cancelled or op.apart or rng.random() < PIECE:
                self.pieces.append(piece)
                piece = b""
            if op.cancelled:
                cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": self._last}}
                self.pieces.append(json.dumps(cancel).encode() + b"\n")
        if piece:
            self.pieces.append(piece)

    def send(self) -> None:
        """One piece, or as much of it as there is room for."""
        piece = self.pieces.popleft()
        try:
            sent = self.sock.send(piece)
        except BlockingIOError:
            sent = 0
        except OSError:  # the daemon is gone
            self.pieces.clear()
            return
        if sent < len(piece):
            self.pieces.appendleft(piece[sent:])
        else:
            self.sent += 1

    def read(self) -> int:
        """Read what has arrived; returns how many answers that were."""
        try:
            data = self.sock.recv(1 << 18)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self.over = True
        *lines, self._rest = (self._rest + data).split(b"\n")
        return sum(self._take(json.loads(line)) for line in lines if line)

    def _take(self, message: dict[str, Any]) -> bool:
        if "method" in message:
            self.heard.append(Told(method=message["method"], params=message["params"]))
            return False
        op = self.waiting.pop(message["id"], None)
        if op is None:
            self.history.failures.append(f"{self.name}: an answer that nobody waits for: {message}")
            return False
        self.answered += 1
        op.answer = Answer(message.get("result"), message.get("error"))
        self.heard.append(Told(op=op))
        return True


class Runner:
    """`politely`: one request at a time, each after the answer to the one before, so that nothing can overtake."""

    def __init__(self, zygote: Zygote, plan: Life, *, politely: bool = False) -> None:
        self.plan = plan
        self.politely = politely
        self.folder = Path(tempfile.mkdtemp(prefix="sd-"))
        self.home = ForkedHome(zygote, self.folder, plan.config)
        self.rng = random.Random(f"{plan.seed} sends")
        self.histories = [History(plan.seed, story) for story in plan.stories]
        self.links: dict[tuple[int, str], Link] = {}
        self.run = 0
        """How many daemons there were before."""
        self.fresh = False
        """This daemon has served no round yet."""
        self.newest: dict[str, int] = {}

    def live(self) -> list[History]:
        """All that happened. The home is removed unless something already went wrong."""
        self.home.start()
        try:
            for number, step in enumerate(self.plan.steps):
                self._step(number, step)
            self._restart("kill" if self.plan.steps[-1].cut is not None else "")
            self._last_look()
            self._read_forks()
            self._restart("kill")
            self._last_look()
            self._stop()
        except _Hung as error:
            for one in self.histories:
                one.failures += [f"no answer: {op}" for op in error.ops if op in one.ops()]
        finally:
            self._hang_up()
            self.home.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.histories

    @property
    def polite(self) -> bool:
        """The first round makes what the others meet, so it is polite, too."""
        return self.politely or len(self.histories[0].rounds) == 1

    # Rounds

    def _step(self, number: int, step: Step) -> None:
        self._end_daemon(step.before)
        edits = [self._edit(one, story) for story in self.plan.stories for one in [story.edits.get(number, [])]]
        self._start_daemon(step.before)
        rounds = self._begin(cut=step.cut is not None)
        for one, made in zip(rounds, edits, strict=True):
            one.edits = made
        for history, one in zip(self.histories, rounds, strict=True):
            for client, asked in history.story.rounds[number].items():
                self._queue(history, one, client, asked)
        self._pump(step.cut)
        if step.cut is not None:
            self._kill()
        elif not self.plan.autosaves:
            for one in rounds:
                saved = {op.session for lane in one.lanes.values() for op in lane if op.method == "session/save"}
                one.files = {session: self._file(session) for session in saved if session is not None}
        for history in self.histories:
            self._learn(history.ops())

    def _begin(self, *, cut: bool = False) -> list[Round]:
        rounds = [Round(restarted=self.fresh and self.run > 0, cut=cut) for _ in self.histories]
        for history, one in zip(self.histories, rounds, strict=True):
            history.rounds.append(one)
        self.fresh = False
        return rounds

    def _queue(self, history: History, one: Round, client: str, asked: Iterable[Request]) -> None:
        link = self._link(history, client)
        number = len(history.rounds) - 1
        ops = [
            Op(
                link.name,
                number,
                place,
                request.method,
                self._params(request),
                cancelled=request.cancel,
                notify=request.notify and not self.polite,
                apart=request.apart or self.polite,
            )
            for place, request in enumerate(asked)
        ]
        one.lanes[client] = ops
        if self.polite:
            for op in ops:
                op.cancelled = False
        link.queue(ops, self.rng)

    def _params(self, request: Request) -> dict[str, Any]:
        """With the fields that count from what is known now."""
        newest = self.newest.get(request.params.get("sessionId", ""), 0)
        return {**request.params, **{key: max(0, newest + by) for key, by in request.relative.items()}}

    def _learn(self, ops: Iterable[Op]) -> None:
        for op in ops:
            result = op.answer.result if op.answer is not None else None
            if result is not None and op.session is not None and op.method != "session/fork":
                seq = result.get("seq", result.get("session", result.get("note", {})).get("seq"))
                self.newest[op.session] = self.newest.get(op.session, 0) if seq is None else seq

    def _link(self, history: History, client: str) -> Link:
        key = (history.story.number, client)
        if key not in self.links:
            self.links[key] = Link(f"{client}#{self.run}", self.home.connect(), history)
        return self.links[key]

    def _pump(self, cut: int | None = None) -> None:
        """Send all and read all answers, or `cut` of them. _Hung where they do not come in time."""
        deadline, answers = time.monotonic() + ROUND_S, 0
        with selectors.DefaultSelector() as selector:
            links = list(self.links.values())
            self.rng.shuffle(links)
            for link in links:
                selector.register(link.sock, _wish(link), link)
            while any(link.waiting or link.pieces for link in links) and (cut is None or answers < cut):
                for key, events in selector.select(1.0):
                    link = key.data
                    if events & selectors.EVENT_WRITE and link.pieces and not (self.polite and self._busy(link)):
                        link.send()
                    if events & selectors.EVENT_READ:
                        answers += link.read()
                    if link.over:
                        selector.unregister(link.sock)
                    elif key.events != _wish(link):
                        selector.modify(link.sock, _wish(link), link)
                if time.monotonic() > deadline or (cut is None and any(link.over for link in links)):
                    raise _Hung([op for link in links for op in link.waiting.values()])

    def _busy(self, link: Link) -> bool:
        """Somebody in this story waits for an answer."""
        return any(one.sent > one.answered for one in self.links.values() if one.history is link.history)

    # Daemons

    def _restart(self, before: str) -> None:
        self._end_daemon(before)
        self._start_daemon(before)

    def _end_daemon(self, before: str) -> None:
        if before == "stop":
            self._hang_up()
            self.home.stop()
        elif before == "kill":
            self._kill()

    def _start_daemon(self, before: str) -> None:
        if before:
            self.home.start()
            self.run += 1
            self.fresh = True

    def _kill(self) -> None:
        """kill -9, and read what was said before."""
        assert self.home.process is not None
        if self.home.process.poll() is None:
            self.home.kill()
        self._hang_up()

    def _hang_up(self) -> None:
        for link in self.links.values():
            link.sock.settimeout(ROUND_S)
            if self.home.process is not None and self.home.process.poll() is not None:
                while not link.over:
                    link.read()
            link.sock.close()
        self.links.clear()

    # Looking

    def _last_look(self) -> None:
        """Everybody who is connected reads all; one reads the rest, too. That also brings along what still was to be told."""
        rounds = self._begin()
        for history, one in zip(self.histories, rounds, strict=True):
            clients = sorted({client for number, client in self.links if number == history.story.number} | {"A"})
            for client in clients:
                asked = [self._looks(session, client == "A") for session in history.story.sessions]
                self._queue(history, one, client, [request for some in asked for request in some])
        self._pump()

    def _looks(self, session: str, closely: bool) -> list[Request]:
        about = {"sessionId": session}
        read = Request("session/read", {**about, "limit": 1000})
        if not closely:
            return [read]
        opened = Request("session/open", {**about, "last": 1000})
        return [opened, read, Request("note/list", about), Request("state/get", about)]

    def _read_forks(self) -> None:
        """The content of each fork. No other connection knows of it."""
        asked: list[tuple[Op, Op]] = []
        for history in self.histories:
            link = self._link(history, "A")
            for op in history.ops():
                if op.method == "session/fork" and op.answer is not None and op.answer.result is not None:
                    params = {"sessionId": op.answer.result["session"]["sessionId"], "limit": 1000}
                    asked.append((op, Op(link.name, len(history.rounds), 0, "session/read", params)))
                    link.queue([asked[-1][1]], self.rng)
        self._pump()
        for fork, read in asked:
            found = read.answer
            fork.copy = found.result["messages"] if found is not None and found.result is not None else []

    def _stop(self) -> None:
        """The daemon ends in good order: the files say it all."""
        rounds = self._begin()
        self._hang_up()
        self.home.stop()
        for history, one in zip(self.histories, rounds, strict=True):
            one.files = {session: self._file(session) for session in history.story.sessions}

    # Files

    def _path(self, session: str) -> Path:
        return self.folder / "data" / "sessions" / f"{session}.jsonl"

    def _file(self, session: str) -> list[dict[str, Any]] | None:
        try:
            return in_lines(self._path(session).read_text())
        except FileNotFoundError:
            return None

    def _edit(self, edits: list[Edit], story: Story) -> list[Edit]:
        """Those that could be made."""
        del story
        made = []
        for edit in edits:
            path = self._path(edit.session)
            with contextlib.suppress(FileNotFoundError):
                self._write(path, edit)
                made.append(edit)
        return made

    def _write(self, path: Path, edit: Edit) -> None:
        content = path.read_text()
        if edit.line is not None:
            with open(path, "a") as file:
                file.write(json.dumps(edit.line) + "\n")
            return
        kept = [line for line in content.splitlines(keepends=True) if json.loads(line).get("id") != edit.without]
        beside = path.with_suffix(".new")
        beside.write_text("".join(kept))
        os.replace(beside, path)


class _Hung(Exception):
    def __init__(self, ops: list[Op]) -> None:
        super().__init__(f"{len(ops)} requests without an answer")
        self.ops = ops


def _wish(link: Link) -> int:
    return selectors.EVENT_READ | (selectors.EVENT_WRITE if link.pieces else 0)


def live(zygote: Zygote, plan: Life, *, politely: bool = False) -> list[History]:
    """Run a life; what happened in each of its stories."""
    return Runner(zygote, plan, politely=politely).live()
