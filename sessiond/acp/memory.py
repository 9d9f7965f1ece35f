"""The process that asks the store for what is to be repeated. A process of its own: its parsing must not delay a message.

    python -m sessiond.acp.memory FOLDER     on stdin a job as a line of JSON, then the agent's lines if the job has some;
                                             on stdout a head as a line of JSON, then lines for the editor

job     {"do": "list", "cwd", "cursor"}      head: the result of `session/list`
        {"do": "load", "session"}            head: `context`, what the agent is to be told; lines: the updates
        {"do": "earlier", "session", "spool"}   lines: the updates of messages that other connections recorded
        {"do": "heal", "session"}            head: `healed`; lines: the updates if the agent left something out, else none

A problem is a head with `problem` and `code`. What an earlier connection said may still be on its way into the store: it is
waited for, and brought in, first.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import Any

import msgspec

from sessiond.acp.bounds import REPLAY_BYTES
from sessiond.acp.content import listed, mapped
from sessiond.acp.naming import PREFIX, name_of, names_of
from sessiond.acp.recorder import NAME, left_behind, settled
from sessiond.acp.replay import mended, newest, notifications, told, updates
from sessiond.client import aconnect
from sessiond.client.aio.client import AsyncSessiond
from sessiond.client.types import Message, SessionInfo
from sessiond.errors import SessiondError, SessionNotFound
from sessiond.folders import folder_key
from sessiond.limits import ACP_CONTEXT_CHARS

PAGE = 100
CALL_S = 30.0
NOT_FOUND = -32002


async def answered(
    client: AsyncSessiond, job: dict[str, object], lines: list[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    """The head and the lines of a job. SessiondError."""
    if job["do"] == "list":
        return await _list(client, job.get("cwd"), job.get("cursor")), []
    key = str(job["session"])
    info, messages, plan = await _found(client, key)
    if job["do"] == "earlier":
        before = [one for one in messages if not one.id.startswith(f"{job['spool']}-")]
        return {}, newest(notifications(key, updates(before)), REPLAY_BYTES)
    if job["do"] == "load":
        made = notifications(key, updates(messages, plan=plan))
        head = {"context": told(messages, ACP_CONTEXT_CHARS), "title": info.name}
        return head, newest(made, REPLAY_BYTES)
    stored = list(updates(messages, plan=plan))
    repeated = [mapped(mapped(mapped(msgspec.json.decode(line)).get("params")).get("update")) for line in lines]
    shown = mended(repeated, stored)
    if shown is None:
        return {"healed": False}, []
    return {"healed": True}, newest(notifications(key, shown), REPLAY_BYTES)


async def _found(client: AsyncSessiond, key: str) -> tuple[SessionInfo, list[Message], object]:
    """A session in which something was said. SessionNotFound."""
    for name in names_of(key):
        session = client.session(name)
        with contextlib.suppress(SessionNotFound):
            info = await session.info()
            if info.message_count:
                state = await session.state("acp.plan")
                return info, await session.messages(), state.get("acp.plan")
    raise SessionNotFound(f"nothing is recorded of the session {key}")


async def _list(client: AsyncSessiond, cwd: object, cursor: object) -> dict[str, object]:
    """Sessions that were recorded here, newest first. A cursor is how many came before."""
    begin = int(cursor) if isinstance(cursor, str) and cursor.isdecimal() else 0
    found: list[dict[str, object]] = []
    count = 0
    async for info in client.sessions(cwd=cwd if isinstance(cwd, str) else None):
        about = info.metadata.get("acp")
        if not info.session_id.startswith(PREFIX) or not isinstance(about, dict) or not info.message_count:
            continue
        if isinstance(cwd, str) and (info.cwd is None or folder_key(info.cwd) != folder_key(cwd)):
            continue
        count += 1
        if count <= begin:
            continue
        if len(found) == PAGE:
            return {"sessions": found, "nextCursor": str(begin + PAGE)}
        key = str(about.get("sessionId"))
        shown = key if name_of(key) == info.session_id else info.session_id
        found.append({"sessionId": shown, "cwd": info.cwd or "/", "title": info.name, "updatedAt": info.updated_at})
    return {"sessions": found}


async def _main(folder: str, job: dict[str, object], lines: list[bytes]) -> tuple[dict[str, object], list[bytes]]:
    try:
        async with await aconnect(name=NAME, timeout_s=CALL_S) as client:
            await left_behind(folder)
            await settled(folder)
            return await answered(client, job, lines)
    except SessionNotFound as error:
        return {"problem": error.message, "code": NOT_FOUND}, []
    except SessiondError as error:
        return {"problem": f"sessiond: {error.message}"}, []


def main(arguments: list[str]) -> int:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    first, *lines = sys.stdin.buffer.read().splitlines()
    head, made = asyncio.run(_main(arguments[0], mapped(msgspec.json.decode(first)), listed(lines)))
    out = sys.stdout.buffer
    out.write(msgspec.json.encode(head) + b"\n")
    out.writelines(made)
    out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
