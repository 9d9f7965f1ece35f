"""The service as clients see it: each result is the plain object that it is on the wire."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from sessiond.service.sessions import Service

_USE_CASES = (
    "new", "open", "append", "read", "update", "clear", "truncate", "restore", "fork", "save", "note_append", "note_list",
    "state_get", "list", "search", "export", "import_", "adopt", "move",
)  # fmt: skip


class WireService(Service):
    """Tests compare what clients would receive, and not our types."""


def _plain(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    async def plain(*args: Any, **named: Any) -> Any:
        return msgspec.to_builtins(await method(*args, **named), builtin_types=(msgspec.Raw,))

    return plain


for _name in _USE_CASES:
    setattr(WireService, _name, _plain(getattr(Service, _name)))
