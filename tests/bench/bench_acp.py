"""How long a message takes through `sessiond acp`, beside a bare pipe, in one run.

    python -m tests.bench.bench_acp [--messages N]

A peer that echoes stands at the end of both. Their round trips alternate, so that what else the machine does meets both. A
round trip passes the recorder twice.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

from tests.shell import Shell

_ECHO = [sys.executable, "-c", "import os\nwhile d := os.read(0, 65536): os.write(1, d)"]


def _message(n: int) -> bytes:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"word {n} "}}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
    return json.dumps(message).encode() + b"\n"


def _round(process: subprocess.Popen[bytes], message: bytes) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    began = time.perf_counter()
    process.stdin.write(message)
    process.stdin.flush()
    process.stdout.readline()
    return (time.perf_counter() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=5000)
    count = parser.parse_args().messages
    home = Shell()
    try:
        home("list")  # a daemon runs, as it does for whoever uses one
        bare = subprocess.Popen(_ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        recorded = home.start("acp", "--", *_ECHO)
        times: dict[str, list[float]] = {"bare pipe": [], "sessiond acp": []}
        for n in range(count + 200):
            for name, process in (("bare pipe", bare), ("sessiond acp", recorded)):
                took = _round(process, _message(n))
                if n >= 200:
                    times[name].append(took)
        for process in (bare, recorded):
            process.communicate(timeout=30)
    finally:
        home.close()
    middle = {name: statistics.median(all_) for name, all_ in times.items()}
    for name, all_ in times.items():
        worst = sorted(all_)[int(len(all_) * 0.99)]
        print(f"| {name} | {middle[name]:.3f} ms | {worst:.3f} ms |")
    extra = (middle["sessiond acp"] - middle["bare pipe"]) / 2
    print(f"one message: {extra:.3f} ms more ({middle['sessiond acp'] / middle['bare pipe']:.1f} times a round trip)")


if __name__ == "__main__":
    main()
