"""One bad thing costs only itself: what an importer loops over is read so that an error of ours with one thing is told, and the
things after it are read.

Things are whatever a loop goes over: sessions and rows of a database, conversations and messages of a document.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import ParamSpec

from sessiond.importers.record import Event, SkippedLine

_P = ParamSpec("_P")
SPEAKS_OF_ALL = (OSError, sqlite3.Error)
"""Errors that say something about the whole source, not about the thing that was read."""


def alone(path: str, thing: str, events: Iterable[Event], line: int | None = None) -> Iterator[Event]:
    """The events of one thing, which begin to be made only here. Raises OSError, sqlite3.Error; any other error ends this thing.

    A session that ends so has no SessionEnd: it is kept as far as it was read. `thing` names it in the report.
    """
    try:
        yield from events
    except SPEAKS_OF_ALL:
        raise
    except Exception as error:  # a bug of ours, with what somebody wrote
        yield failed_on(path, thing, error, line)


def step(call: Callable[_P, object], *args: _P.args, **named: _P.kwargs) -> Iterator[Event]:
    """For `alone`: a step that gives no events."""
    call(*args, **named)
    yield from ()


def failed_on(path: str, thing: str, error: Exception, line: int | None = None) -> SkippedLine:
    """The report of an error of ours. The source does not count as read, so that it is tried again."""
    return SkippedLine(path, line, f"the importer failed on {thing}: {error!r}", failed=True)
