"""The process that prepares messages for the index while there are many: requests on standard input, answers in the same
order on standard output. Started, fed and ended by `preparer.py`.

    request   `prepared.requested`; answer `prepared.answered`; each a frame of `sessiond.pipes`

It keeps no state and touches no files. It ends when its input ends, so also when the daemon dies.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sessiond.index.prepared import answered, prepare_requested
from sessiond.pipes import read_frame, write_frame

NICE = 15


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the daemon handles Ctrl-C in a terminal
    os.nice(NICE)
    gc.disable()  # its objects have no cycles, and are freed with the answer
    requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    # On a thread, so that the daemon can always write: it may be waiting to write while an answer waits to be read. It
    # never has more than a few requests under way.
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    try:
        while (request := requests.get()) is not None:
            write_frame(sys.stdout.buffer, answered(prepare_requested(request)))
    except BrokenPipeError:
        os._exit(1)  # nobody reads any longer; closing standard output would only raise again


def _read(requests: queue.SimpleQueue[bytes | None]) -> None:
    while (request := read_frame(sys.stdin.buffer)) is not None:
        requests.put(request)
    requests.put(None)


if __name__ == "__main__":
    main()
