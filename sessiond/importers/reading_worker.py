"""The process that reads foreign files for a large import: requests on standard input, batches of events on standard output.
Started and ended by `importers/reader.py`.

    request   [importer, path]
    answer    [bytes read so far of this file, [event, ...], null], where event = [kind, field, ...]; after the last event,
              without events, [bytes, [], null] or [bytes, [], [errno or null, what was wrong]]

Frames of `sessiond.pipes`, in MessagePack. The process writes no file. It ends when its input ends or its output is closed,
which is also what happens when the daemon dies.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import msgspec

from sessiond.importers.reading import Counter, SourceReading
from sessiond.importers.record import (
    Event,
    Ignored,
    InfoUpdate,
    MessageRecord,
    SessionEnd,
    SessionStart,
    SkippedLine,
    Unknown,
)
from sessiond.pipes import read_frame, write_frame

KINDS: tuple[type[Event], ...] = (SessionStart, MessageRecord, InfoUpdate, SessionEnd, SkippedLine, Ignored, Unknown)
NICE = 15
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


def packed(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Events as the answer holds them."""
    return [(_NUMBERS[type(event)], *msgspec.structs.astuple(event)) for event in events]


def unpacked(rows: Iterable[list[Any]]) -> list[Event]:
    """The inverse of `packed`, after a trip through MessagePack."""
    return [KINDS[row[0]](*row[1:]) for row in rows]


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the daemon handles Ctrl-C in a terminal
    os.nice(NICE)
    encode = msgspec.msgpack.Encoder().encode
    try:
        while (request := read_frame(sys.stdin.buffer)) is not None:
            for answer in _answers(*msgspec.msgpack.decode(request)):
                write_frame(sys.stdout.buffer, encode(answer))
    except BrokenPipeError:
        os._exit(1)  # the reader is gone; closing standard output would only fail again


def _answers(importer: str, path: str) -> Iterable[tuple[int, list[Any], Any]]:
    counter = Counter()
    try:
        reading = SourceReading(importer, path, counter)
        while batch := reading.batch():
            yield counter.bytes, packed(batch), None
    except OSError as error:
        yield counter.bytes, [], (error.errno, error.strerror or str(error))
    except Exception as error:  # our own bug, with one file: the other files follow
        yield counter.bytes, [], (None, repr(error))
    else:
        yield counter.bytes, [], None


if __name__ == "__main__":
    main()
