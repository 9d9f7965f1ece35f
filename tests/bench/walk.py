"""How many of our own Python calls an append makes on the loop, from its bytes to its answer: a daemon counts itself.

python -m tests.bench.walk FOLDER
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from sessiond import config
from sessiond.clock import SystemClock
from sessiond.daemon.core import Daemon
from sessiond.endpoint import places
from sessiond.fs import RealFileSystem

_WARM = 50
_COUNTED = 200
_OURS = f"{os.sep}sessiond{os.sep}"


class _Count:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """A coroutine that goes on counts as a call, too."""
        if event == "call" and _OURS in frame.f_code.co_filename:
            self.calls += 1


async def count(home: Path) -> float:
    """Calls per append of a message of 500 characters to a session that is open."""
    where, fs = places({"SESSIOND_HOME": str(home)}), RealFileSystem()
    for folder in (where.data, where.run, where.log, where.cache, where.config):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    daemon = Daemon(fs, where, config.load(fs, where, flags={}), SystemClock())
    await daemon.start()
    reader, writer = await asyncio.open_unix_connection(daemon._unix.path)

    async def call(method: str, params: dict[str, Any], counting: _Count | None = None) -> None:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        writer.write(json.dumps(request).encode() + b"\n")
        sys.setprofile(counting)
        answer = await reader.readline()
        sys.setprofile(None)
        assert "result" in json.loads(answer), answer

    append = {"sessionId": "a", "messages": [{"role": "user", "content": "x" * 500}]}
    await call("session/new", {"sessionId": "a"})
    for _ in range(_WARM):
        await call("session/append", append)
    counting = _Count()
    for _ in range(_COUNTED):
        await call("session/append", append, counting)
    writer.close()
    await daemon.close()
    return counting.calls / _COUNTED


if __name__ == "__main__":
    print(f"{asyncio.run(count(Path(sys.argv[1]))):.1f}")
