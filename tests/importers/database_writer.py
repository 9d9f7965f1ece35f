"""A tool that writes to its database, in a process of its own: commands on standard input, answers on standard output.

Each transaction writes the same number into both tables, so a reader who sees two numbers saw two states. It waits for no
lock: whatever keeps it waiting is answered as an error.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

PADDING = "x" * 500
SCHEMA = """
CREATE TABLE first (id INTEGER PRIMARY KEY, number INTEGER, words TEXT);
CREATE TABLE second (id INTEGER PRIMARY KEY, number INTEGER, words TEXT);
"""
CHECKPOINTS = ("PASSIVE", "FULL", "RESTART", "TRUNCATE")


class Writer:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._answer() == []

    def __call__(self, *statements: str) -> list[Any]:
        """Run them; the last one's first row. RuntimeError: it was kept from it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(statements) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> list[Any]:
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, str):
            raise RuntimeError(answer)
        assert isinstance(answer, list)
        return answer

    def write(self, number: int) -> None:
        """One transaction, on pages all over the file."""
        self(
            "BEGIN IMMEDIATE",
            *(f"UPDATE {table} SET number = {number}" for table in ("first", "second")),
            *(f"INSERT INTO {table} (number, words) VALUES ({number}, '{PADDING}')" for table in ("first", "second")),
            "COMMIT",
        )

    def close(self) -> None:
        """As a tool ends that is left: it moves its log into the file, if it may."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._ended()

    def kill(self) -> None:
        self._process.kill()
        self._ended()

    def _ended(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def made(path: Path, rows: int = 40, mode: str = "WAL") -> Writer:
    """A writer of a new database."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = Writer(path)
    writer("PRAGMA wal_autocheckpoint = 0", f"PRAGMA journal_mode = {mode}", *SCHEMA.strip().split("\n"))
    for _ in range(rows):
        writer(*(f"INSERT INTO {table} (number, words) VALUES (0, '{PADDING}')" for table in ("first", "second")))
    return writer


def _main() -> None:
    connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
    print("[]", flush=True)
    for line in sys.stdin:
        try:
            for statement in json.loads(line):
                row = connection.execute(statement).fetchone()
            print(json.dumps(row or []), flush=True)
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            print(json.dumps(str(error)), flush=True)
    connection.close()


if __name__ == "__main__":
    _main()
