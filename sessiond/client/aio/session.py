"""One session, for asyncio. Every method does what the one of the same name in `Session` does."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from sessiond.client import requests
from sessiond.client.aio.feed import AsyncChanges
from sessiond.client.aio.link import AsyncLink
from sessiond.client.aio.reply import AsyncReply, leave
from sessiond.client.follower import SessionFollower
from sessiond.client.hubs import OnHub
from sessiond.client.requests import OPENED_MESSAGES, PAGE_MESSAGES, Field
from sessiond.client.types import (
    Answered,
    AppendedMessage,
    Choice,
    Exported,
    Message,
    NewMessage,
    Note,
    SavedFile,
    SessionInfo,
    Snapshot,
    ToolCall,
)


class AsyncSession:
    """A session by its id. Making one asks nothing of the daemon; SessionNotFound comes from the first use.

    Every method may raise SessionNotFound, BadFile, Unavailable, DaemonUnreachable and NoAnswer, and those that change
    something ReadOnly and Indeterminate. `timeout_s` is for this one call; the client's own if None.
    """

    def __init__(self, link: AsyncLink, session_id: str) -> None:
        self._link = link
        self.id = session_id
        """`ID` in the default store, `STORE/ID` in another."""

    def __repr__(self) -> str:
        return f"AsyncSession({self.id!r})"

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            await self.close()

    # Reading

    async def info(self, *, timeout_s: float | None = None) -> SessionInfo:
        """The session as a list shows it."""
        return (await self._link.call(requests.update(self.id, {}), timeout_s)).session

    async def open(self, *, last: int | None = None, timeout_s: float | None = None) -> Snapshot:
        """Return the session as it is at this moment, with its newest `last` messages (at most 1000; None: 200). It stays in the
        daemon's memory until `close`. Follow it from here with `changes(since=snapshot.session.seq)`.
        """
        params = {"sessionId": self.id, "last": OPENED_MESSAGES if last is None else last}
        return await self._link.call(requests.open_(params), timeout_s)

    async def messages(
        self,
        *,
        last: int | None = None,
        since: int | None = None,
        before: int | None = None,
        timeout_s: float | None = None,
    ) -> list[Message]:
        """All messages, oldest first; only those with a seq greater than `since`; or only the newest `last`, and with `before` the
        newest of those with a smaller seq.
        """
        if last is not None:
            return await self._newest(last, before, timeout_s)
        found: list[Message] = []
        since, more = since or 0, True
        while more:
            page = await self._link.call(requests.read(self.id, since=since, limit=PAGE_MESSAGES), timeout_s)
            found += page.messages
            more = page.has_more and bool(page.messages)
            since = found[-1].seq if found else since
        return [one for one in found if before is None or one.seq < before]

    async def _newest(self, count: int, before: int | None, timeout_s: float | None) -> list[Message]:
        found: list[Message] = []
        more = True
        while more and len(found) < count:
            limit = min(count - len(found), PAGE_MESSAGES)
            older_than = found[0].seq if found else before
            which = {"last": limit} if older_than is None else {"before": older_than, "limit": limit}
            page = await self._link.call(requests.read(self.id, **which), timeout_s)
            found = page.messages + found
            more = page.has_more and bool(page.messages)
        return found

    async def changes(
        self, *, since: int | None = None, on_hub: OnHub | None = None, answers: bool = False
    ) -> AsyncChanges:
        """Live changes, made by anybody, this client included. They begin after the change `since` (0: from the first), or
        with the first one after this call.

        An iterator over a connection of its own: append while you iterate, or iterate in another task.
        After a lost connection or a restart of the daemon it goes on where it was: no change is missed, none comes twice.
        `on_hub` and `answers` are as for `Session.changes`.
        """
        changes = AsyncChanges(self._link, [SessionFollower(self.id, since, answers=answers)], on_hub=on_hub)
        try:
            await changes.attend()
        except BaseException:
            changes.close()
            raise
        return changes

    # Messages

    async def append(
        self,
        role: str,
        content: str | list[Any],
        *,
        id: str | None = None,
        tool_calls: list[ToolCall] | None = None,
        tool_call_id: str | None = None,
        thinking: str | None = None,
        thread: str | None = None,
        metadata: dict[str, Any] | None = None,
        timestamp: str | None = None,
        expected_seq: int | None = None,
        timeout_s: float | None = None,
    ) -> AppendedMessage:
        """Append one message; returns when it is durable. After a lost connection it is sent again by its id, so it is there once.

        With `expected_seq` it raises Conflict unless that is the session's seq. Conflict also where the `id` has other content,
        TooLarge. After NoAnswer, calling it again with the same `id` is safe.
        """
        message = NewMessage(
            role=role,
            content=content,
            id=id,
            tool_calls=tool_calls,
            tool_call_id=tool_call_id,
            thinking=thinking,
            thread=thread,
            metadata=metadata,
            timestamp=timestamp,
        )
        return (await self.append_all([message], expected_seq=expected_seq, timeout_s=timeout_s))[0]

    async def append_all(
        self, messages: Iterable[NewMessage], *, expected_seq: int | None = None, timeout_s: float | None = None
    ) -> list[AppendedMessage]:
        """Append several messages, all of them or none, with consecutive seqs. As `append`; 10,000 at most (TooLarge)."""
        return (await self._link.call(requests.append(self.id, messages, expected_seq), timeout_s)).messages

    async def stream(
        self,
        role: str,
        content: str = "",
        *,
        id: str | None = None,
        metadata: dict[str, Any] | None = None,
        thread: str | None = None,
        timeout_s: float | None = None,
    ) -> AsyncReply:
        """Begin a message that grows: `async with await chat.stream("assistant") as reply: await reply.write("...")`.

        It is there from now on, with `content` as its beginning, and others see it grow. After a lost connection it goes on by
        offset. If this process ends, the daemon keeps what came as `interrupted`. Errors as for `append`.
        """
        message = requests.with_id(
            NewMessage(role=role, content=content, id=id, status="streaming", metadata=metadata, thread=thread)
        )
        try:
            kept = (await self.append_all([message], timeout_s=timeout_s))[0]
        except asyncio.CancelledError:
            # It may have been sent, and nobody gets the reply that would end it.
            leave(AsyncReply(self._link, self.id, str(message.id), 0, len(content)))
            raise
        return AsyncReply(self._link, self.id, kept.id, kept.seq, len(content))

    # What is known of it

    async def update(
        self,
        *,
        name: Field = UNSET,
        model: Field = UNSET,
        summary: Field = UNSET,
        cwd: Field = UNSET,
        tags: Iterable[str] | UnsetType = UNSET,
        archived: bool | UnsetType = UNSET,
        metadata: Mapping[str, Any] | UnsetType = UNSET,
        expected_seq: int | None = None,
        timeout_s: float | None = None,
    ) -> SessionInfo:
        """Change what is given and leave the rest; None empties a field. Conflict unless the seq is `expected_seq`, if given.

        With `expected_seq` a lost response raises AnswerLost.
        """
        fields: dict[str, Any] = {"name": name, "model": model, "summary": summary, "cwd": cwd, "archived": archived}
        fields |= {"metadata": metadata, "tags": tags if isinstance(tags, UnsetType) else list(tags)}
        return (await self._link.call(requests.update(self.id, fields, expected_seq), timeout_s)).session

    async def note(
        self,
        heading: str,
        content: str,
        *,
        thread: str | None = None,
        tick: int | None = None,
        id: str | None = None,
        timeout_s: float | None = None,
    ) -> Note:
        """Write a note under a heading, for the whole session or for one thread. Repeated by id like `append`."""
        request = requests.note_append(self.id, heading, content, thread=thread, tick=tick, id=id)
        return (await self._link.call(request, timeout_s)).note

    async def notes(self, *, thread: str | None = None, timeout_s: float | None = None) -> list[Note]:
        """Notes of the whole session, oldest first; with `thread` that thread's as well."""
        return (await self._link.call(requests.note_list(self.id, thread), timeout_s)).notes

    async def state(self, *keys: str, timeout_s: float | None = None) -> dict[str, Any]:
        """Values that tools keep beside the messages: all, or only those of `keys` that are there."""
        return (await self._link.call(requests.state_get(self.id, keys or None), timeout_s)).values

    async def set_state(
        self, values: Mapping[str, Any], *, expected_seq: int | None = None, timeout_s: float | None = None
    ) -> int:
        """Set values; a None removes its key. The session's seq afterwards. Conflict and AnswerLost as for `update`."""
        return (await self._link.call(requests.state_set(self.id, values, expected_seq), timeout_s)).seq

    # What goes on in it

    async def activity(
        self,
        state: str,
        *,
        waiting_for: str | None = None,
        text: str | None = None,
        process: int | None = None,
        tool_call_id: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Say what this program does in the session: `working`, `waiting` for a person, or `idle`.

        It is not kept in a file. It holds until this client says something else or its connection ends; with `process`, the id of
        a process, until that has ended. That a process works or is idle withdraws its questions; with `tool_call_id`, only the
        one about that call.
        """
        await self._link.call(requests.activity(self.id, state, waiting_for, text, process, tool_call_id), timeout_s)

    async def ask(
        self,
        text: str,
        *,
        choices: Iterable[Choice] | None = None,
        waiting_for: str | None = None,
        tool_call_id: str | None = None,
        process: int | None = None,
        timeout_s: float = math.inf,
    ) -> Answered:
        """Ask whoever looks at the session, in any client; returns the first answer. The session waits for a person
        meanwhile. Cancelling the task withdraws the question. With
        `process` it is also withdrawn (Cancelled) when something else is said of that process.
        """
        return await self._link.call(
            requests.ask(self.id, text, choices, waiting_for, tool_call_id, process), timeout_s
        )

    async def answer(
        self, question_id: str, choice: str | None = None, *, text: str | None = None, timeout_s: float | None = None
    ) -> bool:
        """Answer the question of the session's `activity`. False: it was answered before, or nobody asks it any more."""
        return (await self._link.call(requests.answer(self.id, question_id, choice, text), timeout_s)).accepted

    # The whole session

    async def clear(self, *, timeout_s: float | None = None) -> SessionInfo:
        """Empty messages and summary. The old content is in the trash. AnswerLost where nobody knows whether it was done."""
        return (await self._link.call(requests.clear(self.id), timeout_s)).session

    async def truncate(self, after_seq: int, *, expected_seq: int | None = None, timeout_s: float | None = None) -> int:
        """Remove messages with a seq greater than `after_seq`; returns how many. As `clear`. With `expected_seq` it raises
        Conflict unless that is the session's seq.
        """
        return (await self._link.call(requests.truncate(self.id, after_seq, expected_seq), timeout_s)).removed

    async def fork(
        self, *, at_seq: int | None = None, name: str | None = None, timeout_s: float | None = None
    ) -> AsyncSession:
        """A copy that goes its own way, of everything up to and with `at_seq`. AnswerLost as for `clear`."""
        info = (await self._link.call(requests.fork(self.id, at_seq, name), timeout_s)).session
        return AsyncSession(self._link, info.session_id)

    async def move(self, store: str, *, timeout_s: float | None = None) -> AsyncSession:
        """Move it to another store; returns it under its new id. AlreadyExists; AnswerLost as for `clear`."""
        info = (await self._link.call(requests.move(self.id, store), timeout_s)).session
        return AsyncSession(self._link, info.session_id)

    async def delete(self, *, permanent: bool = False, timeout_s: float | None = None) -> None:
        """Put it into the trash, or away for ever."""
        await self._link.call(requests.delete(self.id, permanent=permanent), timeout_s)

    async def save(self, *, timeout_s: float | None = None) -> SavedFile | None:
        """Bring its file up to date now. What was appended is durable without it. None: there is nothing to save yet."""
        saved = (await self._link.call(requests.save(self.id), timeout_s)).saved
        return saved[0] if saved else None

    async def export(
        self, format: str, path: str | None = None, *, overwrite: bool = False, timeout_s: float | None = None
    ) -> Exported:
        """Export it as `jsonl`, `json`, `markdown`, `org`, `html` or `text` to an absolute path; with None, into `content`.

        AlreadyExists where there is a file and `overwrite` is false; TooLarge for a content over 48 MiB.
        """
        return await self._link.call(requests.export(self.id, format, path, overwrite=overwrite), timeout_s)

    async def close(self, *, timeout_s: float | None = None) -> None:
        """Have the daemon save a session that this client made and let go of it. Nothing is lost without it; a program that
        makes many sessions should do it. The session may be used again afterwards.
        """
        await self._link.call(requests.close(self.id), timeout_s)
