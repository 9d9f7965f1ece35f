"""Has the vocabulary read by a process (`vocabulary_worker.py`) while the daemon rests, once much was written since the last
time. The writing thread asks for it, and writes what it gets.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from sessiond import pipes
from sessiond.index.chunks import library
from sessiond.index.documents import much_is_new

_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vocabulary_worker.py")

_log = logging.getLogger(__name__)


class BuiltVocabulary(msgspec.Struct):
    """Rows of the table, the newest chunk whose words they have, and the `late_words` for which they were asked for."""

    rows: list[bytes]
    covered: int
    late_words: int


class VocabularyBuilder:
    """Used by one thread. `on_ready` is called on another one."""

    def __init__(self, path: str, on_ready: Callable[[], None]) -> None:
        self._path = path
        self._on_ready = on_ready
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._built: BuiltVocabulary | None = None
        self._over = threading.Event()
        self._asked_at = 0
        """The newest chunk when it was last tried without success so far."""

    def due(self, covered: int, last_chunk: int) -> bool:
        """Return whether the vocabulary should be read, as soon as nothing else is to be done."""
        return self._thread is None and much_is_new(max(covered, self._asked_at), last_chunk)

    def start(self, last_chunk: int, late_words: int) -> None:
        """Returns at once. If it fails, it is not tried again before much more was written."""
        self._asked_at = last_chunk
        try:
            self._process = pipes.start(_WORKER, quote(os.fsencode(self._path)), library(), bare=True)
        except OSError as error:
            _log.warning("no process that reads the index's words could be started: %s", error)
            return
        self._over.clear()
        self._thread = threading.Thread(
            target=self._read, args=(self._process, late_words), name="index-vocabulary", daemon=True
        )
        self._thread.start()

    def take(self) -> BuiltVocabulary | None:
        """Return what was read, once."""
        if self._thread is None or not self._over.is_set():
            return None
        self._thread.join()
        self._thread = self._process = None
        built, self._built = self._built, None
        if built is not None:
            self._asked_at = 0
        return built

    def stop(self) -> None:
        """Nothing of what is being read is taken any longer, and it does not hold the file. Blocks for a moment."""
        if self._thread is not None and self._process is not None:
            self._process.kill()
            self._thread.join()
            self._thread = self._process = self._built = None
        self._asked_at = 0

    def _read(self, process: subprocess.Popen[bytes], late_words: int) -> None:
        assert process.stdout is not None
        rows: list[bytes] = []
        with process:
            while row := pipes.read_frame(process.stdout):
                rows.append(row)
            last = pipes.read_frame(process.stdout)
        if row is not None and last is not None:
            self._built = BuiltVocabulary(rows, int(last), late_words)
        self._over.set()
        self._on_ready()
