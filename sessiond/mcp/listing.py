"""The tool `list`, and the pages of sessions that resources are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from sessiond.client import requests
from sessiond.client.types import SessionInfo
from sessiond.mcp.memory import Memory, line_of, session_of
from sessiond.mcp.pages import ToolPage, visible_page
from sessiond.mcp.quoting import NOTICE
from sessiond.mcp.scope import folder_of, is_in, tool_of
from sessiond.mcp.shapes import ListCall, ListedSession, ListOutput
from sessiond.mcp.times import moment_of

_NEWEST_FIRST = "-updatedAt"


async def list_sessions(memory: Memory, call: ListCall) -> ListOutput:
    """A page of sessions, those that changed last first."""
    asked = msgspec.structs.replace(call, cursor="", limit=1)
    project = folder_of(call.project) if call.project else None
    wanted = {
        "tags": [call.tag] if call.tag else None,
        "name": call.name or None,
        "archived": True if call.archived else None,
        "since": moment_of("since", call.since),
        "until": moment_of("until", call.until),
    }

    def fits(info: SessionInfo) -> bool:
        return (project is None or is_in(info.cwd, project)) and (not call.tool or tool_of(info) == call.tool)

    page = await sessions(memory, wanted, fits, memory.cursors.place(asked, call.cursor), call.limit)
    return ListOutput(
        notice=NOTICE,
        sessions=page.items,
        next_cursor=memory.cursors.give(asked, page.place),
        incomplete=page.incomplete,
    )


async def sessions(
    memory: Memory, wanted: dict[str, Any], fits: Callable[[SessionInfo], bool], place: str | None, limit: int
) -> ToolPage[ListedSession]:
    """A page of sessions that may be shown and that fit."""

    async def fetch(place: str | None, limit: int) -> ToolPage[SessionInfo]:
        page = (await memory.client.answer(requests.list_(place, limit, _NEWEST_FIRST, wanted))).value
        return ToolPage(page.sessions, page.next_cursor, page.incomplete)

    async def show(infos: Sequence[SessionInfo]) -> list[ListedSession | None]:
        gate = memory.gate()
        visible = await gate.among(infos)
        return [
            session_of(gate, info, await memory.blanks.of(info)) if info.session_id in visible and fits(info) else None
            for info in infos
        ]

    checked: Callable[[Sequence[SessionInfo]], Awaitable[list[ListedSession | None]]] = show
    return await visible_page(fetch, checked, place, limit)


def text_of(call: ListCall, listed: ListOutput) -> str:
    """The result for a model that reads text."""
    number = len(listed.sessions)
    head = f"{number} session{'' if number == 1 else 's'}, those that changed last first"
    if not number:
        head = "No sessions. Leave out some of the filters."
    if listed.next_cursor:
        head += f"; for more, call list again with cursor={listed.next_cursor}"
    if listed.incomplete:
        head += " (the index is being built: there may be more later)"
    parts = [NOTICE, head, "\n".join(map(line_of, listed.sessions))]
    return "\n\n".join(filter(None, parts))
