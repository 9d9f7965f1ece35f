"""Takes over conversations from JSON files of one's own. It may be stopped and run again: what is there already is not added twice.

    python examples/migrate.py FILE...

A file is {"title": "...", "turns": [{"who": "me", "said": "...", "at": "2026-01-11T14:30:22Z"}, ...]}.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

from sessiond.client import AlreadyExists, NewMessage, connect

ROLES = {"me": "user", "bot": "assistant"}


def main() -> None:
    with connect(name="migration") as sessiond:
        for path in map(Path, sys.argv[1:]):
            document = json.loads(path.read_text(encoding="utf-8"))
            messages = [
                NewMessage(
                    id=f"{path.stem}-{number}", role=ROLES[turn["who"]], content=turn["said"], timestamp=turn["at"]
                )
                for number, turn in enumerate(document["turns"])
            ]
            with suppress(AlreadyExists):  # an earlier run made it
                sessiond.new(id=path.stem, name=document["title"], tags=["migrated"])
            with sessiond.session(path.stem) as chat:
                for begin in range(0, len(messages), 1000):
                    chat.append_all(messages[begin : begin + 1000])
            print(f"{path.stem}: {len(messages)} messages")


if __name__ == "__main__":
    main()
