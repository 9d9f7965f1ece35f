"""The process that reads foreign files for a large import: requests on standard input, batches of events on standard output.
Started and ended by `importers/reader.py`.

    request   [importer, path, whether it grows]
    answer    `WorkerResponse`: events as they came; after the last one an answer without events, which says what was wrong, if
              anything was, and has the file's growth, pickled: both processes have the same program

Frames of `sessiond.pipes`, in MessagePack. The process writes no file. It ends when its input ends or its output is closed,
which is also what happens when the daemon dies.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
from collections.abc import Generator
from contextlib import closing

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import msgspec

from sessiond.importers.reading import Counter, SourceReading
from sessiond.importers.record import Event
from sessiond.pipes import read_frame, write_frame

NICE = 15
SEARCHED = 50_000
"""New objects before Python searches for cycles, which only errors make."""


class WorkerResponse(msgspec.Struct, array_like=True, gc=False):
    """`size`: bytes read so far of this file. `wrong`: the number of an error of the system, if it was one, and a text."""

    size: int
    events: list[Event]
    wrong: tuple[int | None, str] | None = None
    growth: bytes | None = None


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(WorkerResponse).decode


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the daemon handles Ctrl-C in a terminal
    os.nice(NICE)
    gc.set_threshold(SEARCHED)  # events have no cycles, and are freed with the answer
    try:
        while (request := read_frame(sys.stdin.buffer)) is not None:
            with closing(_answers(*msgspec.msgpack.decode(request))) as answers:
                for answer in answers:
                    write_frame(sys.stdout.buffer, encode(answer))
    except BrokenPipeError:
        os._exit(1)  # the reader is gone; closing standard output would only fail again


def _answers(importer: str, path: str, grows: bool) -> Generator[WorkerResponse]:
    counter = Counter()
    try:
        reading = SourceReading(importer, path, counter, grows=grows)
        with closing(reading):  # even if nobody takes all of it: it may have a copy in the folder for temporary files
            while batch := reading.batch():
                yield WorkerResponse(counter.bytes, batch)
    except OSError as error:
        yield WorkerResponse(counter.bytes, [], (error.errno, error.strerror or str(error)))
    except Exception as error:  # our own bug, with one file: the other files follow
        yield WorkerResponse(counter.bytes, [], (None, repr(error)))
    else:
        growth = None if reading.growth is None else pickle.dumps(reading.growth)
        yield WorkerResponse(counter.bytes, [], growth=growth)


if __name__ == "__main__":
    main()
