"""The conversation: the open session, what is said in it, and how it catches up after the daemon was gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from sessiond.cli.paths import label
from sessiond.endpoint import Places, places
from sessiond.errors import SessiondError, SessionNotFound
from sessiond_repl.agent import Turn
from sessiond_repl.connection import Connection
from sessiond_repl.link import Link
from sessiond_repl.view import Screen, View

SHOWN_MESSAGES = 20
"""How many messages are shown when a session is opened; `/older` shows more."""
PAGE_MESSAGES = 200
DRAFT = "draft:repl"
Ask = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Chat:
    """One session at a time, on one screen. A SessiondError means that a text could not be kept; the caller still has it."""

    def __init__(self, screen: Screen, agent: str | None, where: Places | None = None) -> None:
        self.screen = screen
        self.agent = agent
        self.link = Link(where or places(), self._heard, self._attach, self._link_changed)
        self.view = View(screen, {})
        self.draft = ""
        """What was typed but not sent when the session was last open, here or elsewhere."""
        self.homeless = ""
        """What was said in a session that somebody had deleted: it is put into the input of the next one."""
        self.history: list[str] = []
        """What the user said in this session, oldest first; only the newest page."""
        self.oldest = 0
        """Seq of the oldest message on the screen; 0 if there are no older ones."""
        self.turn: Turn | None = None
        self.failed = False
        """Whether anything the user asked for has failed."""
        self.repaint: Callable[[], None] = lambda: None
        self._unsure = ("", "", "")
        """Session, text and message id of the last message that is not known to be durable."""
        self._turns: asyncio.Task[None] | None = None
        self._turn_wanted = False
        self._holding = 0
        self._held: list[tuple[str, dict[str, Any]]] = []
        """Notifications that wait while the answer before them is being processed."""
        self._refresh: asyncio.Task[None] | None = None

    @property
    def session_id(self) -> str:
        return self.view.session_id

    async def call(self, method: str, **params: Any) -> Any:
        return await self.link.call(method, params)

    # Which session

    async def begin(self, session_id: str | None) -> None:
        """Connect, and open that session; None: a new one."""
        await self.link.start()
        if session_id is None:
            await self.new()
        else:
            await self.open(session_id)

    async def new(self, name: str | None = None) -> None:
        """Make a new session and switch to it."""
        self._holding += 1
        try:
            made = await self.call("session/new", cwd=label(os.getcwd()), name=name)
            self._enter(made["session"])
            self.screen.info(f"new session {self.session_id}")
        finally:
            self._release()

    async def open(self, session_id: str) -> None:
        """Switch to that session and show its newest messages. SessionNotFound and others."""
        self._holding += 1
        try:
            opened = await self.call("session/open", sessionId=session_id, last=PAGE_MESSAGES)
            self._enter(opened["session"])
            self._show_opened(opened)
        finally:
            self._release()

    def _show_opened(self, opened: dict[str, Any]) -> None:
        info, messages = opened["session"], opened["messages"]
        shown = messages[-SHOWN_MESSAGES:]
        count = f"{info['messageCount']} messages"
        self.screen.info("  ".join(filter(None, (f"session {self.session_id}", info["name"], count, *info["tags"]))))
        for warning in opened["warnings"]:
            self.screen.error(f"{warning['path']}:{warning['line'] or ''} {warning['message']}")
        if len(shown) < info["messageCount"]:
            self.screen.info(f"{info['messageCount'] - len(shown)} older messages: /older")
            self.oldest = shown[0]["seq"] if shown else 0
        self.view.messages(shown)
        said = (message["content"] for message in messages if message["role"] == "user")
        self.history = [text for text in said if isinstance(text, str)]
        draft = opened["state"].get(DRAFT)
        self.draft = draft if isinstance(draft, str) else ""

    def _enter(self, info: dict[str, Any]) -> None:
        self.view = View(self.screen, info)
        self.view.cursor.jump(info["seq"])
        self.draft, self.history, self.oldest = "", [], 0
        self.repaint()

    async def go_on(self, enter: Callable[[], Awaitable[None]]) -> None:
        """Save this session, then switch to the one that `enter` opens. If that fails, this one stays open."""
        left = self.session_id
        await self.stop_turn()
        with contextlib.suppress(SessionNotFound):  # somebody deleted it, so nothing is left to save or close
            await self.save()
        await enter()
        with contextlib.suppress(SessionNotFound):
            await self.close(left)

    async def save(self) -> dict[str, Any] | None:
        """Save the session. Returns its file: `{path, bytes}`; None if there was nothing to save."""
        saved = (await self.call("session/save", sessionId=self.session_id))["saved"]
        return saved[0] if saved else None

    async def close(self, session_id: str) -> None:
        """Stop following that session. It is saved if nobody else has it open."""
        if session_id != self.session_id:
            await self.call("session/close", sessionId=session_id)

    async def leave(self) -> None:
        """Leave: stop what is running and save the session."""
        await self.stop_turn()
        try:
            if self.link.online:
                await self.call("session/close", sessionId=self.session_id)
        except SessionNotFound:
            pass  # the deletion was already reported
        except SessiondError as error:
            self.fail(error)
        finally:
            await self.link.close()

    # What is said

    async def say(self, text: str) -> None:
        """Add a message from the user. Durable when this returns; SessiondError if it could not be kept. The same text said
        again after a failure or cancellation gets the same id, so it is added only once even if it was durable after all.
        """
        session_id, unsure, message_id = self._unsure
        if (session_id, unsure) != (self.session_id, text):
            message_id = f"m-{uuid.uuid4()}"
        self._unsure = (self.session_id, text, message_id)
        self.view.own.add(message_id)
        try:
            await self.append(self.view, {"id": message_id, "role": "user", "content": text})
        except SessionNotFound:
            self.homeless = text
            raise
        self.homeless = ""
        self._unsure = ("", "", "")
        self.history.append(text)
        if self.agent is not None:
            self._turn_wanted = True
            if self._turns is None or self._turns.done():
                self._turns = asyncio.create_task(self._take_turns(self.agent))

    async def append(self, view: View, message: dict[str, Any]) -> int:
        """Keep one of our messages, which has an id. Returns its seq."""
        answer = await self.call("session/append", sessionId=view.session_id, messages=[message])
        if view.cursor.take([answer["seq"]]):
            view.info["messageCount"] += 1
        self.repaint()
        return int(answer["seq"])

    async def _take_turns(self, command: str) -> None:
        while self._turn_wanted:
            self._turn_wanted = False
            self.turn = Turn(self, self.view, command)
            self.repaint()
            try:
                if await self.turn.run() == "error":
                    self.failed = True
            except (SessiondError, OSError) as error:
                self.fail(error)
            finally:
                self.turn = None
                self.repaint()

    async def turns_over(self) -> None:
        """Wait until the agent has answered everything that was said."""
        if self._turns is not None:
            await self._turns

    def interrupt(self) -> bool:
        """Stop the agent's reply, if there is one."""
        self._turn_wanted = False
        if self.turn is None:
            return False
        self.turn.interrupt()
        return True

    async def stop_turn(self) -> None:
        self.interrupt()
        await self.turns_over()

    def fail(self, error: Exception) -> None:
        """Show what went wrong."""
        self.failed = True
        hint = getattr(error, "hint", None)
        self.screen.error(f"{error}; {hint}" if hint else str(error))

    # What others do

    def _heard(self, method: str, params: dict[str, Any]) -> None:
        if self._holding:
            self._held.append((method, params))
            return
        if params.get("sessionId", (params.get("session") or {}).get("sessionId")) != self.view.info.get("sessionId"):
            return
        if method == "session/changed":
            client = params.get("origin", {}).get("client", "")
            self.view.apply(params["changes"], "" if client == "unknown" else client)
            if any(change["kind"] == "truncated" for change in params["changes"]):
                self._catch_up_soon()  # only the daemon knows how many messages are left
            self.repaint()
        elif method in ("session/resync", "session/reloaded"):
            if method == "session/reloaded":
                self.screen.info("the session's file was changed by another program")
            self._catch_up_soon()
        elif method == "session/deleted":
            self.screen.error("this session was deleted; /new starts another one")

    def _release(self) -> None:
        self._holding -= 1
        if self._holding:
            return
        held, self._held = self._held, []
        for method, params in held:
            self._heard(method, params)

    def _link_changed(self) -> None:
        self.repaint()

    def _catch_up_soon(self) -> None:
        if self._refresh is None or self._refresh.done():
            self._refresh = asyncio.create_task(self._catch_up_now())

    async def _catch_up_now(self) -> None:
        try:
            await self.catch_up(self.link.call)
        except SessiondError as error:
            self.fail(error)

    async def _attach(self, connection: Connection) -> None:
        """Catch up on every new connection. Only a ConnectionError means that this must be tried again."""
        try:
            await self.catch_up(connection.call)
        except SessionNotFound as error:
            if self.view.info["messageCount"] or self.view.info["name"]:
                self.fail(error)
            else:  # it was empty, so the daemon dropped it while no client had it open
                store, _, local_id = self.session_id.rpartition("/")
                made = await connection.call("session/new", {"sessionId": local_id, "store": store or None})
                self._enter(made["session"])
        except SessiondError as error:
            self.fail(error)

    async def catch_up(self, ask: Ask) -> None:
        """Open the session from the last known seq, and show once what happened meanwhile."""
        view = self.view
        if not view.info:
            return
        self._holding += 1
        try:
            since = view.cursor.seq
            opened = await ask("session/open", {"sessionId": view.session_id, "since": since})
            info = opened["session"]
            if opened["changes"] is not None and not opened["hasMore"]:
                view.apply(opened["changes"])
            else:
                await self._read_again(ask, view, 0 if info["seq"] < since else view.read_from)
            view.cursor.jump(info["seq"])
            view.updated(info)
        finally:
            self._release()
            self.repaint()

    async def _read_again(self, ask: Ask, view: View, since: int) -> None:
        more = True
        while more:
            page = await ask("session/read", {"sessionId": view.session_id, "since": since, "limit": PAGE_MESSAGES})
            view.reread(page["messages"])
            more = page["hasMore"]
            since = page["messages"][-1]["seq"] if more else since
