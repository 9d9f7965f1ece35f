"""`session/search`, mode semantic: hits by meaning and hits by words, merged by reciprocal rank.

A separate process makes and compares the vectors (`semantic_worker.py`); it is started when first needed. This is the
daemon's side: the process, and the result that is made from both lists. The order of all hits is found once, for the first
page, and kept for the cursor; so `total` counts them exactly. Nearness in meaning has no limit, so only the `MEANT` best of
those hits are included.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import sqlite3
import subprocess
import time
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os.path import dirname, join

import msgspec

from sessiond import pipes
from sessiond.errors import Unavailable
from sessiond.index import cursors
from sessiond.index.filters import CheckedFilter, page_limit, parse_filter
from sessiond.index.hits import Snippet, hits_of
from sessiond.index.match import Matcher
from sessiond.index.plan import plans
from sessiond.index.query import PhraseTerm, Query, parse, wording
from sessiond.index.readers import Readers, Ticket
from sessiond.index.search import most_relevant
from sessiond.index.snippets import SNIPPET_CHARS
from sessiond.index.values import Hit, SearchPage, SearchQuery
from sessiond.limits import Limits
from sessiond.model.values import JsonObject
from sessiond.ready import ready

MEANT = 200
"""How many passages that are near only in meaning are hits."""
RANK_CONSTANT = 60
"""For reciprocal rank fusion: a hit scores 1 / (60 + rank) in each list that it is in."""
START_S = 20.0
"""How long after feeding the process is started, unless a query comes before: a daemon that is used only briefly does not
need it.
"""
TELL_S = 1.0
"""A running process is told after this delay, once for everything fed meanwhile."""
_BEGIN_S = 4.0
"""How long a query waits for a process that is starting; after that it returns what the words find, as `incomplete`."""
_BEGUN_S = 60.0
"""A process that has not sent anything after this time hangs."""
_END_S = 2.0
_WORKER = join(dirname(os.path.abspath(__file__)), "semantic_worker.py")
_FIELDS = 5
"""How many numbers are kept for a hit: document, score in millionths, and the near passage (text, start, end), or -1."""

_log = logging.getLogger(__name__)


class _Position(msgspec.Struct, array_like=True):
    held: cursors.Int64
    at: cursors.Int64


class _Answer(msgspec.Struct):
    """The worker's answer. `found`: document, cosine, and the place of its nearest passage."""

    id: int = 0
    found: list[tuple[int, float, int, int, int]] = []
    behind: bool = False
    left_out: list[str] = []
    error: str | None = None


ready(_Position, _Answer)


class SemanticSearch:
    """Call `search`, `changed` and `close` on the loop. `is_behind`: whether whole sessions are still being indexed."""

    def __init__(
        self, index_path: str, limits: Limits, readers: Readers, held: cursors.HitOrders, is_behind: Callable[[], bool]
    ) -> None:
        self._limits = limits
        self._is_behind = is_behind
        self._readers = readers
        self._held = held
        self._worker = _Process(index_path, join(dirname(index_path), "vectors.db"))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="index-semantic")
        self._timer: asyncio.TimerHandle | None = None
        self._gone = False
        self.left_out: list[str] = []
        """Sessions of which something cannot be found by its meaning, as far as the last query showed."""

    def changed(self, *, gone: bool) -> None:
        """Something was fed into the index, or (`gone`) removed; returns at once."""
        self._gone = self._gone or gone
        if self._timer is None:
            delay = TELL_S if self._worker.running else START_S
            self._timer = asyncio.get_running_loop().call_later(delay, self._due)

    def _due(self) -> None:
        if self._is_behind():  # leave processors and memory to the import
            self._timer = asyncio.get_running_loop().call_later(START_S, self._due)
        else:
            self._tell()

    def _tell(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gone, self._gone = self._gone, False
            self._thread.submit(self._worker.tell, gone)

    async def search(self, request: SearchQuery) -> SearchPage:
        """One page. InvalidParams as in `search_text`; Cancelled after `search_s`; Unavailable if the process fails;
        IndexUnusable and sqlite3.Error if the index is damaged.
        """
        ticket = Ticket(self._limits.search_s)
        limit = page_limit(request.limit, self._limits.default_list_page, self._limits.list_page)
        wanted = parse_filter(request.filter, search=True)
        query = parse(request.query)
        digest = cursors.request_digest("semantic", request.query, wanted)
        instance, wheres, said = await self._readers.run(
            lambda db: _prepare(db, query, wanted, first=request.cursor is None), ticket
        )
        behind = False
        if request.cursor is None:
            answer = await self._near(request.query, wheres, ticket)
            behind, self.left_out = answer.behind, answer.left_out
            position, order = _Position(0, 0), fused(said, answer.found)
        else:
            position = cursors.decode(request.cursor, instance, digest, _Position)
            order = self._held.get(position.held)
        total = len(order) // _FIELDS
        if position.at and not 0 < position.at < total:
            raise cursors.stale()
        end = min(position.at + limit, total)
        page = [order[n * _FIELDS : (n + 1) * _FIELDS] for n in range(position.at, end)]
        hits = await self._readers.run(lambda db: _hits(db, page, wanted, query), ticket)
        cursor = None
        if end < total:
            cursor = cursors.encode(instance, digest, _Position(position.held or self._held.keep(order), end))
        return SearchPage(hits=hits, total=total, next_cursor=cursor, incomplete=behind)

    async def _near(self, query: str, wheres: list[object], ticket: Ticket) -> _Answer:
        text = wording(query)
        if not text or not wheres:
            return _Answer()
        asked = {"text": text, "wheres": wheres, "most": MEANT}
        self._tell()  # so that earlier changes are searched
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._worker.ask, asked, ticket)
        except asyncio.CancelledError:
            ticket.give_up()
            raise

    def close(self) -> None:
        """Blocks until the process has ended."""
        if self._timer is not None:
            self._timer.cancel()
        self._thread.submit(self._worker.end)
        self._thread.shutdown(wait=True)


class _Process:
    """The worker, started when there is something to tell it. Everything except `running` runs on one thread."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._asked = 0
        self._started = 0.0
        self._awake = False
        """It has reported that the model is loaded."""

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def tell(self, gone: bool) -> None:
        """Something was fed or removed."""
        try:
            self._send({"changed": True, "gone": gone})
        except OSError as error:
            _log.warning("search by meaning: its process cannot be started: %s", error)

    def ask(self, request: JsonObject, ticket: Ticket) -> _Answer:
        """An empty answer with `behind` while the process is starting; Cancelled when the time is over; Unavailable if the
        process cannot be started or fails.
        """
        self._asked += 1
        try:
            self._send({"id": self._asked, **request})
        except OSError as error:
            raise self._failed(str(error)) from error
        starting_till = time.monotonic() + _BEGIN_S
        while True:
            if ticket.over():
                if ticket.ended_by_time:
                    self.kill()  # it hangs; the next query starts a fresh one
                raise ticket.ended()
            if not self._awake and time.monotonic() > starting_till:
                if time.monotonic() > self._started + _BEGUN_S:
                    raise self._failed(f"its process has not responded for {_BEGUN_S:g} s")
                return _Answer(behind=True)
            answer = self._receive(min(0.05, max(0.0, ticket.left_s)))
            if answer is not None:
                self._awake = True
                if answer.error is not None:
                    raise self._failed(answer.error)
                if answer.id == self._asked:
                    return answer

    def end(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()  # then it ends by itself
            self._process.wait(_END_S)
        except (OSError, subprocess.TimeoutExpired):
            _log.debug("the process of search by meaning is killed", exc_info=True)
        self.kill()

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:  # closes its pipes and waits for it
                self._buffer = b""

    def _failed(self, reason: str) -> Unavailable:
        _log.warning("search by meaning failed: %s", reason)
        self.kill()
        return Unavailable(
            f"search by meaning failed: {reason}", hint="search by words still works; the daemon's log says more"
        )

    def _send(self, message: JsonObject) -> None:
        line = json.dumps(message).encode() + b"\n"
        if not self.running:
            self._start()
        try:
            self._write(line)
        except BrokenPipeError:  # it has just ended by itself
            self._start()
            self._write(line)

    def _write(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def _receive(self, seconds: float) -> _Answer | None:
        """The next answer; waits at most this long. A process that ended without an answer has failed."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        if b"\n" not in self._buffer:
            poll = select.poll()  # `select` takes no descriptor above 1,023
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(seconds * 1000):
                return None
            chunk = os.read(descriptor, 65536)
            if not chunk:
                return _Answer(error=f"its process ended with {self._process.wait()}")
            self._buffer += chunk
        line, found, rest = self._buffer.partition(b"\n")
        if not found:
            return None
        self._buffer = rest
        return msgspec.json.decode(line, type=_Answer)

    def _start(self) -> None:
        self.kill()
        self._started, self._awake = time.monotonic(), False
        threads = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = pipes.start(
            _WORKER, *self._paths, env={**os.environ, **threads, "HF_HUB_OFFLINE": "1"}, own_session=True
        )


def fused(said: Sequence[int], meant: Sequence[tuple[int, float, int, int, int]]) -> array[int]:
    """Both lists, best first, merged by reciprocal rank: `_FIELDS` numbers for each hit."""
    scores: dict[int, float] = {}
    for ranks in (said, [near[0] for near in meant]):
        for rank, doc in enumerate(ranks, 1):
            scores[doc] = scores.get(doc, 0.0) + 1 / (RANK_CONSTANT + rank)
    literal = set(said)
    passages = {near[0]: near[2:] for near in meant if near[0] not in literal}
    order: array[int] = array("q")
    for doc, score in sorted(scores.items(), key=lambda item: (-item[1], -item[0])):
        order.extend((doc, int(score * 1e6), *passages.get(doc, (-1, -1, -1))))
    return order


def _prepare(
    db: sqlite3.Connection, query: Query, wanted: CheckedFilter, *, first: bool
) -> tuple[str, list[object], list[int]]:
    """The index's instance; for the first page also the documents that the worker may find, as SQL, and the hits of text search."""
    instance: str = db.execute("SELECT value FROM meta WHERE key = 'instance'").fetchone()[0]
    if not first:
        return instance, [], []
    conditions = tuple(
        group for group in query.groups if not any(isinstance(atom, PhraseTerm) and not atom.negated for atom in group)
    )
    found = plans(db, Query(conditions, query.thinking, query.tools), wanted)
    asked = (
        plans(db, query, wanted)
        if query.groups or wanted.narrows or query.thinking or not query.tools
        else (None, None)
    )
    return instance, [[plan.where, plan.params] for plan in found if plan is not None], most_relevant(db, asked)


def _hits(db: sqlite3.Connection, page: list[array[int]], wanted: CheckedFilter, query: Query) -> list[Hit]:
    matcher = Matcher(query.texts())
    near = {item[0]: (item[2], item[3], item[4]) for item in page}

    def show(doc: int, texts: Sequence[tuple[str, str]]) -> Snippet:
        number, start, end = near[doc]
        if 0 <= number < len(texts):
            return _passage(texts[number][1], start, end), []
        return matcher.snippet(text for kind, text in texts if query.searches(kind))

    return hits_of(db, [(item[0], item[1] / 1e6) for item in page], wanted.shelf, show)


def _passage(text: str, start: int, end: int) -> str:
    """The beginning of a passage, as much as fits into a snippet."""
    piece = text[start:end].strip()
    if len(piece) > SNIPPET_CHARS:
        blank = max(
            piece.rfind(" ", SNIPPET_CHARS - 20, SNIPPET_CHARS), piece.rfind("\n", SNIPPET_CHARS - 20, SNIPPET_CHARS)
        )
        piece = piece[: blank if blank > 0 else SNIPPET_CHARS]
    return piece
