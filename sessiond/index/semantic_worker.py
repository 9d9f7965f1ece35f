"""The process of mode semantic: keeps the vectors in step with the index, and finds the nearest. `semantic.py` starts it and
talks to it by JSON lines on standard input and output; it ends when its input ends.

The model's memory, imports and failures remain outside the daemon. Nothing leaves this process: calls that could open a
connection are refused. It makes vectors in batches and reads its input in between, so a query never waits for more than one
batch.

    at first, once the model is loaded                         -> {"awake": true}
    {"changed": true, "gone": bool}                            no answer: something was fed into the index, or taken out
    {"id", "text", "wheres": [[sql, params], ...], "most"}     -> {"id", "found": [[doc, cosine, text, start, stop], ...], "behind", "left_out"}
    whatever fails for good                                    -> {"error"}, and it ends
"""

from __future__ import annotations

import json
import logging
import os
import select
import sqlite3
import sys
import threading
import time
from array import array
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

IDLE_S = 600.0
"""After this long without work it ends; the daemon starts another when it needs one."""
BATCH = 64
"""How many documents get vectors between two reads of the input."""
FLOOR = 0.12
"""Passages with a smaller cosine than this to the query are not found: unrelated texts are around 0."""
_PATIENCE_S = 0.5
"""How long a query waits for vectors that are still to be made."""
_RETRY_S = 5.0
_OF_ALL = (sqlite3.Error, OSError, MemoryError)
"""What says nothing of a single document."""
_REFUSED = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "socket.sendmsg",
    "socket.bind",
)


def refuse_network(event: str, _arguments: tuple[Any, ...]) -> None:
    """An audit hook: nothing in here may use the network."""
    if event in _REFUSED:
        raise PermissionError(f"{event}: search by meaning does not use the network")


class WaitingDocuments:
    """Documents without vectors, as 32 bytes each: as tuples a million of them take 200 MB for as long as that lasts."""

    def __init__(self, rows: Iterable[tuple[int, int, int, int]]) -> None:
        self._fields = array("q", chain.from_iterable(rows))

    def __len__(self) -> int:
        return len(self._fields) // 4

    def some(self, first: int, count: int) -> list[tuple[int, int, int, int]]:
        """(id, chunk, start, size)"""
        fields = iter(self._fields[4 * first : 4 * (first + count)])
        return list(zip(fields, fields, fields, fields, strict=True))


class Docs:
    """The index, read-only. `instance` identifies it; another file in its place has another one."""

    def __init__(self, path: str) -> None:
        from sessiond.index.functions import define_functions

        uri = f"file:{quote(os.fsencode(path))}?mode=ro"
        self._db = sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA query_only = ON")
        define_functions(self._db)
        self._path = path
        self._file = _identity(path)
        self.instance: str = self._db.execute("SELECT value FROM meta WHERE key = 'instance'").fetchone()[0]
        self._chunk: tuple[int, bytes] = (-1, b"")

    def current(self) -> bool:
        return _identity(self._path) == self._file

    def close(self) -> None:
        self._db.close()

    def after(self, chunk: int) -> WaitingDocuments:
        """All documents in later chunks: every new or changed one goes into a new chunk, so these are the ones without
        vectors. In the order of their chunks.
        """
        sql = "SELECT id, chunk, start, size FROM doc WHERE chunk > ? ORDER BY chunk, start"
        return WaitingDocuments(self._db.execute(sql, (chunk,)))

    def texts(self, chunk: int, start: int, size: int) -> list[tuple[str, str]]:
        """Empty if the chunk is gone: its documents have moved to later ones."""
        from sessiond.index.chunks import decompress, unpack

        if self._chunk[0] != chunk:
            row = self._db.execute("SELECT data FROM chunk WHERE id = ?", (chunk,)).fetchone()
            if row is None:
                return []
            self._chunk = (chunk, decompress(row[0]))
        return unpack(self._chunk[1][start : start + size])[1]

    def ids(self) -> Iterator[int]:
        return (doc for (doc,) in self._db.execute("SELECT id FROM doc"))

    def sessions(self, docs: list[int]) -> list[str]:
        """The ids of the sessions that have these documents."""
        sql = "SELECT DISTINCT id FROM session WHERE no IN (SELECT session FROM doc WHERE doc.id IN (SELECT value FROM json_each(?)))"
        return [one for (one,) in self._db.execute(sql, (json.dumps(docs),))] if docs else []

    def wanted(self, wheres: list[Any], among: list[int] | None = None) -> dict[int, int]:
        """Document -> its chunk, for those that one of the conditions admits."""
        found: dict[int, int] = {}
        for where, params in wheres:
            sql = f"SELECT doc.id, doc.chunk FROM doc WHERE ({where})"  # noqa: S608  (of plan.py)
            if among is None:
                found.update(self._db.execute(sql, params))
            else:
                sql += " AND doc.id IN (SELECT value FROM json_each(:among))"
                found.update(self._db.execute(sql, {**params, "among": json.dumps(among)}))
        return found


class Worker:
    def __init__(self, index_path: str, vectors_path: str) -> None:
        from sessiond.index.embedding import Model
        from sessiond.misfits import Misfits

        self._index_path = index_path
        self._vectors_path = vectors_path
        self._model = Model()
        self._left_out = Misfits(logging.getLogger(__name__), "has no vectors")
        """Documents, by number, that cannot be found by their meaning."""
        self._stale = self._gone = True
        """Something was fed or removed since the last look at the index."""
        self._open()

    def _open(self) -> None:
        from sessiond.index.vectors import VectorStore

        self._docs = Docs(self._index_path)
        self._vectors = VectorStore(self._vectors_path, self._docs.instance)
        self._work: Iterator[None] = iter(())
        self.changed(gone=True)

    def changed(self, *, gone: bool) -> None:
        self._stale = True
        self._gone = self._gone or gone

    def follow(self) -> None:
        """Notice if the index was replaced."""
        if not self._docs.current():
            self._docs.close()
            self._vectors.close()
            self._open()

    def step(self) -> bool:
        """Make some vectors. Returns whether more are left to make."""
        self.follow()
        if next(self._work, self) is None:
            return True
        if self._stale:
            self._stale = False
            self._work = self._catch_up()
            return True
        return False

    def _catch_up(self) -> Iterator[None]:
        waiting = self._docs.after(self._vectors.chunk)
        for first in range(0, len(waiting), BATCH):
            self._embed(waiting.some(first, BATCH), last=first + BATCH >= len(waiting))
            yield
        if self._gone:
            self._gone = False
            self._vectors.drop(self._vectors.docs_beside(self._docs.ids()))

    def _embed(self, waiting: list[tuple[int, int, int, int]], *, last: bool) -> None:
        from sessiond.index.passages import passages
        from sessiond.index.vectors import Row

        rows, texts = [], []
        for doc, chunk, start, size in waiting:
            with self._left_out.apart(str(doc), *_OF_ALL):
                found = self._docs.texts(chunk, start, size)
                own = [(Row(doc, chunk, *one), found[one.text][1][one.start : one.end]) for one in passages(found)]
                rows += [row for row, _ in own]
                texts += [text for _, text in own]
        # The last chunk may continue in the next batch.
        done = waiting[-1][1] - (0 if last else 1)
        self._vectors.put([one[0] for one in waiting], rows, self._embedded(rows, texts), done)

    def _embedded(self, rows: list[Any], texts: list[str]) -> Any:
        """The vectors of the texts. One that has none gets that of an empty text, which is near nothing."""
        try:
            return self._model.embed(texts)
        except _OF_ALL:
            raise
        except Exception:  # one of them, or the model: then this raises as well
            empty = self._model.embed([""])
        import numpy as np

        vectors = [empty] * len(texts)
        for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
            with self._left_out.apart(str(row.doc), *_OF_ALL):
                vectors[number] = self._model.embed([text])
        return np.concatenate(vectors)

    def search(self, request: dict[str, Any]) -> dict[str, object]:
        ends = time.monotonic() + _PATIENCE_S
        behind = True
        try:
            while behind and time.monotonic() < ends:
                behind = self.step()
        except sqlite3.OperationalError:  # a full disk, a lock: the present vectors can be searched
            self.changed(gone=True)
        [vector] = self._model.embed([request["text"]])
        wheres, most = request["wheres"], request["most"]
        near = self._vectors.nearest(vector)
        best = self._best(near, self._docs.wanted(wheres, [one.row.doc for one in near]))
        if len(best) < most and len(self._vectors) > len(near):
            # The filter leaves few of the nearest: search among those that it admits.
            wanted = self._docs.wanted(wheres)
            best = self._best(self._vectors.nearest(vector, only=wanted), wanted)
        found = [[doc, cosine, row.text, row.start, row.stop] for doc, (row, cosine) in best.items()][:most]
        left_out = self._docs.sessions([int(doc) for doc in self._left_out.names()])
        return {"id": request["id"], "found": found, "behind": behind, "left_out": left_out}

    @staticmethod
    def _best(near: list[Any], wanted: dict[int, int]) -> dict[int, Any]:
        """Document -> its nearest passage, best first, for those that are wanted and have not changed since."""
        best: dict[int, object] = {}
        for one in near:
            if one.cosine >= FLOOR and wanted.get(one.row.doc) == one.row.chunk and one.row.doc not in best:
                best[one.row.doc] = one
        return best


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


class LineBuffer:
    """Reads lines from a file descriptor, and never more than is there."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self.ended = False

    def next(self, seconds: float) -> bytes | None:
        """The next line; waits at most this long."""
        ends = time.monotonic() + seconds
        while b"\n" not in self._buffer and not self.ended:
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, ends - time.monotonic()))
            if not ready:
                return None
            chunk = os.read(self._descriptor, 65536)
            self.ended = not chunk
            self._buffer += chunk
        line, found, self._buffer = self._buffer.partition(b"\n")
        return line if found else None


def _be_nice() -> None:
    """Lower the priority of this thread only, if the system can; otherwise of the process."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
    else:
        os.nice(10)


def serve(worker: Worker, lines: LineBuffer, answer: Any) -> None:
    """Serve until the input ends, or there was no work for IDLE_S."""
    pause = 0.0
    # Only one thread works at a time: this one answers, the other has all the time it needs.
    background = ThreadPoolExecutor(1, initializer=_be_nice)
    while not lines.ended:
        line = lines.next(pause)
        if line is not None:
            request = json.loads(line)
            if "changed" in request:
                worker.changed(gone=request["gone"])
            else:
                answer(worker.search(request))
        elif pause == IDLE_S:
            return
        try:
            pause = 0.0 if background.submit(worker.step).result() else IDLE_S
        except sqlite3.OperationalError:  # a full disk, a lock
            worker.changed(gone=True)
            pause = _RETRY_S


def main() -> None:
    sys.addaudithook(refuse_network)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not look like an answer

    def answer(message: dict[str, object]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    try:
        worker = Worker(sys.argv[1], sys.argv[2])
        answer({"awake": True})
        serve(worker, LineBuffer(0), answer)
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        raise


if __name__ == "__main__":
    main()
