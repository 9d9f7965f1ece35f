"""Struct types are ready before threads use them."""

from __future__ import annotations

import subprocess
import sys

_MANY_AT_ONCE = """
import threading
from sessiond.formats import amacs
from sessiond.formats.sidecar import Sidecar
import msgspec, sys
sys.setswitchinterval(1e-6)
side = Sidecar(id="a", seq=1, main={"tick": 1, "notes": [{"id": "n", "seq": 1}]})
start = threading.Barrier(48)
def use():
    start.wait()
    amacs._memory(side)
threads = [threading.Thread(target=use) for _ in range(48)]
[one.start() for one in threads]
[one.join() for one in threads]
"""


def test_many_threads_may_read_the_first_amacs_chat_at_once() -> None:
    """Daemons ended by SIGSEGV right after their start, when several chats were opened in one write."""
    for _ in range(12):
        done = subprocess.run([sys.executable, "-c", _MANY_AT_ONCE], capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
