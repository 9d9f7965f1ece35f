"""The tool `search`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from sessiond.client import requests, types
from sessiond.client.types import SessionInfo
from sessiond.errors import SessionNotFound
from sessiond.exporters.redact import Redactor
from sessiond.exporters.turns import readable
from sessiond.mcp.memory import Memory, blanked
from sessiond.mcp.pages import ToolPage, visible_page
from sessiond.mcp.quoting import NOTICE, brief, inline, quoted
from sessiond.mcp.redaction import around, strings_of
from sessiond.mcp.scope import PRIVATE, folder_of, is_in, tool_of
from sessiond.mcp.shapes import FoundHit, SearchCall, SearchOutput
from sessiond.mcp.times import moment_of

Kind = Literal["message", "note", "name"]
_BEGINS_WITH_OR = re.compile(r"\s*OR(\s|\Z)")
_QUOTE_CHARS = 1000


async def search(memory: Memory, call: SearchCall) -> SearchOutput:
    """A page of hits that may be shown."""
    asked = msgspec.structs.replace(call, cursor="", limit=1)
    place = memory.cursors.place(asked, call.cursor)
    seen = _Sieve(memory, call)
    page = await visible_page(seen.fetch, seen.show, place, call.limit)
    return SearchOutput(
        notice=NOTICE, hits=page.items, next_cursor=memory.cursors.give(asked, page.place), incomplete=page.incomplete
    )


class _Sieve:
    """The hits of the daemon for a call, and which of them are shown."""

    def __init__(self, memory: Memory, call: SearchCall) -> None:
        self._memory = memory
        self._call = call
        self._project = folder_of(call.project) if call.project else None
        self._since, self._until = moment_of("since", call.since), moment_of("until", call.until)
        self._query = call.query if call.mode == "regex" else self._narrowed()
        self._filter = {"role": call.role or None, "session_id": call.session_id or None}

    def _narrowed(self) -> str:
        """The query with conditions that spare the daemon work. What is shown does not depend on them."""
        call = self._call
        conditions = ["-in:tools"] if not call.tools else []
        if not _BEGINS_WITH_OR.match(call.query) and any(map(str.isalnum, call.query)):
            conditions.append(f"-tag:{PRIVATE}")
            roots = (self._project,) if self._project else self._memory.scope.roots
            if roots and not any('"' in root for root in roots):
                conditions.append(" OR ".join(f'cwd:"{root}"' for root in roots))
            conditions += [f"after:{self._since}"] if self._since else []
            conditions += [f"before:{self._until}"] if self._until else []
        return " ".join([*conditions, call.query])

    async def fetch(self, place: str | None, limit: int) -> ToolPage[types.Hit]:
        asked = requests.search(self._query, place, limit, self._call.mode, self._filter)
        page = (await self._memory.client.answer(asked)).value
        return ToolPage(page.hits, page.next_cursor, page.incomplete)

    async def show(self, hits: Sequence[types.Hit]) -> list[FoundHit | None]:
        gate = self._memory.gate()
        infos = await gate.of(hit.session_id for hit in hits)
        if not self._memory.blanks.on:
            return [self._shown(hit, infos.get(hit.session_id), None, hit.snippet) for hit in hits]
        found: list[FoundHit | None] = []
        for hit in hits:
            info = infos.get(hit.session_id)
            if info is None or not self._fits(hit, info):
                found.append(None)
                continue
            redactor = await self._memory.blanks.of(info)
            assert redactor is not None
            found.append(self._shown(hit, info, redactor, await self._excerpt(hit, info, redactor)))
        still = await self._memory.gate().of(infos)  # after the messages were read
        return [one if one is not None and one.session_id in still else None for one in found]

    def _shown(
        self, hit: types.Hit, info: SessionInfo | None, redactor: Redactor | None, quote: str | None
    ) -> FoundHit | None:
        if info is None or quote is None or not self._fits(hit, info):
            return None
        kind: Kind = "message" if hit.message_id is not None else "name" if hit.seq is None else "note"
        name = None if info.name is None else brief(blanked(redactor, info.name))
        project = None if info.cwd is None else brief(blanked(redactor, info.cwd))
        return FoundHit(
            session_id=hit.session_id, kind=kind, seq=hit.seq, role=hit.role and brief(hit.role, 64), time=hit.timestamp,
            name=name, project=project, tool=brief(blanked(redactor, tool_of(info))), quote=readable(quote[:_QUOTE_CHARS]),
        )  # fmt: skip

    def _fits(self, hit: types.Hit, info: SessionInfo) -> bool:
        return (
            (self._project is None or is_in(info.cwd, self._project))
            and (not self._call.tool or tool_of(info) == self._call.tool)
            and (self._since is None or hit.timestamp >= self._since)
            and (self._until is None or hit.timestamp < self._until)
        )

    async def _excerpt(self, hit: types.Hit, info: SessionInfo, redactor: Redactor) -> str | None:
        """The words around a hit with private data blanked; None if what was found is among the blanked. The whole message is
        blanked, because half a key in a snippet does not look like one.
        """
        text = strings_of(blanked(redactor, await self._source(hit, info)))
        matched = [hit.snippet[begin:end] for begin, end in hit.ranges]
        if any(part not in text for part in matched):
            return None
        return around(text, text.find(matched[0]) if matched else 0)

    async def _source(self, hit: types.Hit, info: SessionInfo) -> object:
        if hit.seq is None:
            return info.name
        try:
            if hit.message_id is None:
                notes = await self._memory.client.session(info.session_id).notes()
                return [[one.heading, one.content] for one in notes if one.seq == hit.seq]
            asked = requests.read(info.session_id, since=hit.seq - 1, limit=1)
            found = (await self._memory.client.answer(asked)).plain["messages"]
        except SessionNotFound:
            return None
        fields = ("content", "toolCalls", "thinking")
        return [{key: one[key] for key in fields if key in one} for one in found if one["id"] == hit.message_id]


def text_of(call: SearchCall, found: SearchOutput) -> str:
    """The result for a model that reads text."""
    number = len(found.hits)
    head = f"{number} hit{'' if number == 1 else 's'}"
    if not number:
        head += ". Try fewer or other words, prefix*, or mode semantic."
    if found.next_cursor:
        head += f"; for more, call search again with cursor={found.next_cursor}"
    if found.incomplete:
        head += " (the index is being built: there may be more later)"
    parts = [NOTICE, head, *map(_lines, found.hits)]
    if number:
        parts.append("To see what was said around a hit, call read with its sessionId and around=SEQ.")
    return "\n\n".join(parts)


def _lines(hit: FoundHit) -> str:
    words = [hit.session_id, hit.kind if hit.seq is None else f"#{hit.seq}"]
    words += [inline(word) for word in (hit.role, hit.time, hit.name, hit.tool, hit.project) if word]
    return f"{' · '.join(words)}\n{quoted(hit.quote)}"
