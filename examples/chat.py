"""A chat loop. Each line that you type is a message, and the reply streams into the session while it is made.

    python examples/chat.py [SESSION]

Put your model in the place of `model`. Ctrl-C during a reply keeps what came, as `interrupted`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from sessiond.client import Message, connect


def model(messages: list[Message]) -> Iterator[str]:
    """A stub: it repeats the last message, word by word."""
    for word in messages[-1].text.split():
        yield word + " "


def main() -> None:
    with connect(name="chat") as sessiond:
        chat = sessiond.session(sys.argv[1]) if len(sys.argv) > 1 else sessiond.new(name="Chat", tags=["example"])
        print(f"session {chat.id}")
        for line in sys.stdin:
            chat.append("user", line.rstrip("\n"))
            messages = chat.messages(last=100)
            with chat.stream("assistant") as reply:
                for piece in model(messages):
                    reply.write(piece)
                    print(piece, end="", flush=True)
            print()


if __name__ == "__main__":
    main()
