"""The process that prepares messages for the index while there are many: requests on standard input, answers in the same
order on standard output. Started, fed and ended by `preparer.py`.

    frame     length (4 bytes, little endian) and so many bytes
    request   `prepared.to_worker`, answer `prepared.in_worker`

It holds nothing and touches no file. When its input ends it ends: that is also what happens when the daemon dies.
"""

from __future__ import annotations

import os
import queue
import signal
import struct
import sys
import threading
from typing import IO

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sessiond.index.prepared import in_worker

_LENGTH = struct.Struct("<I")
NICE = 5


def read_frame(file: IO[bytes]) -> bytes | None:
    """The next frame's bytes; None at the end, also where the end cuts a frame."""
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = file.read(length)
    return data if len(data) == length else None


def write_frame(file: IO[bytes], data: bytes) -> None:
    file.write(_LENGTH.pack(len(data)))
    file.write(data)
    file.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the daemon's business
    os.nice(NICE)
    requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    # On a thread, so that the daemon can always write: it may be waiting to write while an answer waits to be read. It
    # never has more than a few requests under way.
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    try:
        while (request := requests.get()) is not None:
            write_frame(sys.stdout.buffer, in_worker(request))
    except BrokenPipeError:
        os._exit(1)  # nobody reads any more; closing standard output would only say so again


def _read(requests: queue.SimpleQueue[bytes | None]) -> None:
    while (request := read_frame(sys.stdin.buffer)) is not None:
        requests.put(request)
    requests.put(None)


if __name__ == "__main__":
    main()
