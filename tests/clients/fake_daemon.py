"""A daemon with given answers, on standard input and output, for cases in which the real one needs a broken machine.

    fake_daemon.py ANSWERS [LOG]

ANSWERS is a JSON object: method -> {"result": ...} or {"error": ...} as on the wire, or null for no answer at all; the
answer to other methods is {}. `initialize` gets a valid answer unless it is named. Every message goes to LOG, one per line.
"""

from __future__ import annotations

import json
import sys
from typing import Any

WELCOME = {"result": {"capabilities": {"experimental": {"sessiond": {"protocolVersion": 1}}}}}


def read() -> dict[str, Any] | None:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def write(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def main() -> None:
    answers = {"initialize": WELCOME, **json.loads(sys.argv[1])}
    while (message := read()) is not None:
        if len(sys.argv) > 2:
            with open(sys.argv[2], "a", encoding="utf-8") as log:
                log.write(json.dumps(message) + "\n")
        answer = answers.get(message.get("method"), {"result": {}})
        if "id" in message and answer is not None:
            write({"id": message["id"], **answer})


if __name__ == "__main__":
    main()
