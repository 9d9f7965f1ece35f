"""The Python client.

>>> from sessiond.client import connect
>>> with connect() as sessiond:
...     chat = sessiond.new(name="Lock order", tags=["work"])
...     _ = chat.append("user", "Which lock is taken first?")
...     with chat.stream("assistant") as reply:
...         for piece in ["The journal's, ", "always."]:
...             reply.write(piece)
...     for message in chat.messages():
...         print(f"{message.role}: {message.text}")
user: Which lock is taken first?
assistant: The journal's, always.

`connect` finds this user's daemon, or starts it. `aconnect` gives the same client for asyncio. The page `docs/python.md` tells
what holds after a lost connection, and which errors there are. Nothing here needs more than msgspec, and `connect` does not
import asyncio.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sessiond.client.aio.client import AsyncSessiond
    from sessiond.client.aio.feed import AsyncChanges
    from sessiond.client.aio.reply import AsyncReply
    from sessiond.client.aio.session import AsyncSession
    from sessiond.client.blocking import Sessiond
    from sessiond.client.changes import (
        ActivityChanged,
        Appended,
        Asked,
        Change,
        Cleared,
        Created,
        Deleted,
        Extended,
        Finished,
        Interrupted,
        Noted,
        OtherChange,
        Reread,
        StateSet,
        Truncated,
        Updated,
    )
    from sessiond.client.daemon_types import Adopted, BackedUp, Followed, HubStatus, Status
    from sessiond.client.failures import AnswerLost, Closed, NoAnswer
    from sessiond.client.feed import Changes
    from sessiond.client.reply import Reply
    from sessiond.client.requests import Answer
    from sessiond.client.session import Session
    from sessiond.client.types import (
        Activity,
        Answered,
        AppendedMessage,
        Choice,
        Exported,
        FileWarning,
        Hit,
        HitPage,
        Imported,
        Message,
        NewMessage,
        Note,
        Parent,
        Progress,
        Question,
        SavedFile,
        SessionInfo,
        Snapshot,
        ToolCall,
    )
    from sessiond.client.usage import ModelUsage, TokenTotals, UsageReport, UsageRow
    from sessiond.errors import (
        AlreadyExists,
        BadFile,
        Cancelled,
        Conflict,
        DaemonUnreachable,
        Indeterminate,
        InvalidParams,
        ReadOnly,
        SessiondError,
        SessionNotFound,
        TooLarge,
        Unauthorized,
        Unavailable,
    )


__all__ = [
    "Activity",
    "ActivityChanged",
    "Adopted",
    "AlreadyExists",
    "Answer",
    "AnswerLost",
    "Answered",
    "Appended",
    "AppendedMessage",
    "Asked",
    "AsyncChanges",
    "AsyncReply",
    "AsyncSession",
    "AsyncSessiond",
    "BackedUp",
    "BadFile",
    "Cancelled",
    "Change",
    "Changes",
    "Choice",
    "Cleared",
    "Closed",
    "Conflict",
    "Created",
    "DaemonUnreachable",
    "Deleted",
    "Exported",
    "Extended",
    "FileWarning",
    "Finished",
    "Followed",
    "Hit",
    "HitPage",
    "HubStatus",
    "Imported",
    "Indeterminate",
    "Interrupted",
    "InvalidParams",
    "Message",
    "ModelUsage",
    "NewMessage",
    "NoAnswer",
    "Note",
    "Noted",
    "OtherChange",
    "Parent",
    "Progress",
    "Question",
    "ReadOnly",
    "Reply",
    "Reread",
    "SavedFile",
    "Session",
    "SessionInfo",
    "SessionNotFound",
    "Sessiond",
    "SessiondError",
    "Snapshot",
    "StateSet",
    "Status",
    "TokenTotals",
    "TooLarge",
    "ToolCall",
    "Truncated",
    "Unauthorized",
    "Unavailable",
    "Updated",
    "UsageReport",
    "UsageRow",
    "aconnect",
    "connect",
]

TIMEOUT_S = 30.0
"""How long a call waits for the daemon, connecting included, unless it says otherwise."""
INFINITE = float("inf")

_WHERE = {
    "sessiond.client.aio.client": "AsyncSessiond",
    "sessiond.client.aio.feed": "AsyncChanges",
    "sessiond.client.aio.reply": "AsyncReply",
    "sessiond.client.aio.session": "AsyncSession",
    "sessiond.client.blocking": "Sessiond",
    "sessiond.client.changes": "ActivityChanged Appended Asked Change Cleared Created Deleted Extended Finished "
    "Interrupted Noted OtherChange Reread StateSet Truncated Updated",
    "sessiond.client.daemon_types": "Adopted BackedUp Followed HubStatus Status",
    "sessiond.client.failures": "AnswerLost Closed NoAnswer",
    "sessiond.client.feed": "Changes",
    "sessiond.client.reply": "Reply",
    "sessiond.client.requests": "Answer",
    "sessiond.client.session": "Session",
    "sessiond.client.types": "Activity Answered AppendedMessage Choice Exported FileWarning Hit HitPage Imported Message NewMessage Note Parent "
    "Progress Question SavedFile SessionInfo Snapshot ToolCall",
    "sessiond.client.usage": "ModelUsage TokenTotals UsageReport UsageRow",
    "sessiond.errors": "AlreadyExists BadFile Cancelled Conflict DaemonUnreachable Indeterminate InvalidParams ReadOnly "
    "SessionNotFound SessiondError TooLarge Unauthorized Unavailable",
}
"""Module -> the public names that it defines. They are imported when somebody names them: `connect` costs next to nothing."""


def connect(
    address: str | None = None,
    *,
    token: str | None = None,
    token_file: str | None = None,
    home: str | None = None,
    start: bool = True,
    name: str = "python",
    timeout_s: float = TIMEOUT_S,
    attempts: float = INFINITE,
) -> Sessiond:
    """A client of this user's daemon, which is started where none runs and `start` is true; or of one that listens on TCP.

    `address`: `HOST:PORT` for TCP, then with `token`, or with `token_file`, which is read for each connection. `home`: another
    SESSIOND_HOME. `name`: what others see as the origin of changes. `timeout_s`: for each call; `math.inf` waits for as long as it takes, but not
    longer than usual for a daemon to start. `attempts`: after how many connections that ended a request fails with AnswerLost.

    DaemonUnreachable, NoAnswer, Unauthorized, InvalidParams for an invalid address.
    """
    from sessiond.client.blocking import Sessiond
    from sessiond.client.dialing import target

    return Sessiond(
        target(address, token=token, token_file=token_file, home=home, start=start), name, timeout_s, attempts
    )


async def aconnect(
    address: str | None = None,
    *,
    token: str | None = None,
    token_file: str | None = None,
    home: str | None = None,
    start: bool = True,
    name: str = "python",
    timeout_s: float = TIMEOUT_S,
    attempts: float = INFINITE,
) -> AsyncSessiond:
    """Connect as `connect` does, for asyncio: `async with await aconnect() as sessiond: ...`."""
    from sessiond.client.aio.client import AsyncSessiond
    from sessiond.client.dialing import target

    to = target(address, token=token, token_file=token_file, home=home, start=start)
    return await AsyncSessiond.reached(to, name, timeout_s, attempts)


def __getattr__(name: str) -> Any:
    for module, names in _WHERE.items():
        if name in names.split():
            import importlib

            found = globals()[name] = getattr(importlib.import_module(module), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
