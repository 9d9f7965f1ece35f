"""Prints what happens in all sessions, live, until it is interrupted.

python examples/watch.py
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from sessiond.client import Appended, Deleted, Extended, Finished, Reread, aconnect


async def main() -> None:
    async with await aconnect(name="watch") as sessiond, await sessiond.changes() as changes:
        print("watching", flush=True)
        async for change in changes:
            match change:
                case Appended(messages=messages) | Reread(messages=messages):
                    lines = [f"{one.role}: {one.text}" for one in messages]
                case Extended(text=text):
                    lines = [f"... {text}"]
                case Finished(status=status):
                    lines = [f"({status})"]
                case Deleted():
                    lines = ["(deleted)"]
                case _:
                    lines = [f"({type(change).__name__.lower()})"]
            for line in lines:
                print(f"{change.session_id}  {line}", flush=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
