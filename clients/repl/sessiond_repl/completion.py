"""What Tab offers: commands; sessions with their name, time, count and tags; formats; tags of this session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from sessiond.cli.output import one_line
from sessiond.client import SessiondError, SessionInfo
from sessiond.words import local_time
from sessiond_repl.chat import Chat
from sessiond_repl.commands import COMMANDS, FORMATS

ANSWER_S = 1.0
"""A list that takes longer is left out: typing must not wait for it."""
OFFERED = 200


class Commands(Completer):
    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Unused: only the asynchronous method is called."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        line = document.text_before_cursor
        if not line.startswith("/") or "\n" in line:
            return
        name, blank, begun = line[1:].partition(" ")
        if not blank:
            for known, (_, about) in COMMANDS.items():
                if known.startswith(name):
                    yield Completion(f"/{known}", -len(line), display_meta=about)
        elif name == "load":
            for found in await self._sessions(begun):
                yield found
        else:
            last = begun.rpartition(" ")[2]
            for word in self._words(name):
                if word.startswith(last):
                    yield Completion(word, -len(last))

    def _words(self, name: str) -> Iterable[str]:
        if name == "export":
            return FORMATS.values()
        if name == "tag":
            return [f"-{tag}" for tag in self._chat.view.info.tags]
        return {"archive": ["off"], "sessions": ["--archived", "--deleted"]}.get(name, ())

    async def _sessions(self, begun: str) -> list[Completion]:
        """Sessions whose id or name contains what was typed."""
        try:
            async with asyncio.timeout(ANSWER_S):
                found = [info async for info in self._listed()]
        except (SessiondError, TimeoutError):
            return []
        wanted = begun.casefold()
        return [
            Completion(
                info.session_id,
                -len(begun),
                display_meta=one_line(
                    f"{info.name or ''}  {local_time(info.updated_at)}  {info.message_count} messages  "
                    + " ".join(info.tags)
                ),
            )
            for info in found
            if wanted in info.session_id.casefold() or wanted in (info.name or "").casefold()
        ]

    async def _listed(self) -> AsyncGenerator[SessionInfo, None]:
        """The newest sessions."""
        count = 0
        async for info in self._chat.sessiond.sessions():
            yield info
            count += 1
            if count == OFFERED:
                return
