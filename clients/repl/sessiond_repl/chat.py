"""The conversation: the open session, what is said in it, and what others do in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from sessiond.cli.activity import choices_in_words, in_words
from sessiond.cli.output import one_line
from sessiond.cli.paths import label
from sessiond.cli.status import hub_in_brief
from sessiond.client import (
    Activity,
    ActivityChanged,
    Appended,
    Asked,
    AsyncSession,
    AsyncSessiond,
    Change,
    Deleted,
    HubStatus,
    Interrupted,
    Message,
    Reread,
    SessiondError,
    SessionNotFound,
    Snapshot,
    StateSet,
    Truncated,
    aconnect,
)
from sessiond.config import DEFAULT_STORE
from sessiond.endpoint import Places, places
from sessiond_repl.agent import Turn
from sessiond_repl.live import Live
from sessiond_repl.view import NAME, Screen, View

T = TypeVar("T")

SHOWN_MESSAGES = 20
"""How many messages are shown when a session is opened; `/older` shows more."""
RECALLED_MESSAGES = 200
"""How many of the newest messages are looked through for what the user said."""
SEEN_S = 1.0
"""How long a command waits until what it changed is on the screen."""
TIMEOUT_S = 300.0
"""How long a request waits for a daemon that does not respond. Ctrl-C ends it earlier."""
LEAVE_S = 3.0
"""When we leave, saving the session may take this long."""
DRAFT = "draft:repl"


class Chat:
    """One session at a time, on one screen. A SessiondError means that a text could not be kept; the caller still has it."""

    def __init__(self, screen: Screen, agent: str | None, where: Places | None = None) -> None:
        self.screen = screen
        self.agent = agent
        self.view: View
        self.session: AsyncSession
        self.activity: Activity | None = None
        """What goes on in the session."""
        self.sessiond: AsyncSessiond
        self.draft = ""
        """What was typed but not sent when the session was last open, here or elsewhere."""
        self.kept = ""
        """The same as the daemon has it."""
        self.homeless = ""
        """What was said in a session that somebody had deleted: it is put into the input of the next one."""
        self.history: list[str] = []
        """What the user said in this session, oldest first; only in the newest messages."""
        self.oldest = 0
        """Seq of the oldest message on the screen; 0 if there are no older ones."""
        self.turn: Turn | None = None
        self.failed = False
        """Whether anything the user asked for has failed."""
        self.repaint: Callable[[], None] = lambda: None
        self.draft_heard: Callable[[object], None] = lambda draft: None
        """Called when a terminal, maybe this one, has changed the draft in the session's state."""
        self.arrived: Callable[[str], bool] = lambda text: True
        """Called when a text that was given back is in the session after all. Returns whether it may be another message now."""
        self._where = where or places()
        self._watching: AsyncSessiond | None = None
        self._hubs: dict[str, HubStatus] = {}
        """Of shared stores, by name."""
        self._store = ""
        """That of the open session."""
        self._live: Live
        self._unsure = ("", "", "")
        """Session, text and message id of the last message that is not known to be durable. Forgotten when that is seen."""
        self._turns: asyncio.Task[None] | None = None
        self._turn_wanted = False
        self._asked: set[str] = set()
        """Messages that others asked to have answered: one may be asked for again after a lost connection."""

    @property
    def session_id(self) -> str:
        return self.session.id

    @property
    def online(self) -> bool:
        """Whether a daemon is there. One is started for what the user asks."""
        return self._live.online

    @property
    def sharing(self) -> str:
        """Whether what is said here is shared, waits, or since when the hub is away; empty if the store is not shared."""
        hub = self._hubs.get(self._store)
        return "" if hub is None else hub_in_brief(hub)

    # Which session

    async def begin(self, session_id: str | None) -> None:
        """Connect, and open that session; None: a new one."""
        self.sessiond = await aconnect(name=NAME, timeout_s=TIMEOUT_S)
        self._watching = await aconnect(name=NAME, start=False)
        self._live = Live(
            self._watching,
            self._where,
            start=self.sessiond.status,
            take=self._take,
            fail=self.fail,
            changed=self._online_changed,
            answers=self.agent is not None,
        )
        if session_id is None:
            await self.new()
        else:
            await self.open(session_id)

    async def new(self, name: str | None = None) -> None:
        """Make a new session and switch to it."""
        await self._enter(await self.sessiond.new(cwd=label(os.getcwd()), name=name))
        self.screen.info(f"new session {self.session_id}")

    async def open(self, session_id: str) -> None:
        """Switch to that session and show its newest messages. SessionNotFound and others."""
        self._show(await self._enter(self.sessiond.session(session_id)))
        self.show_activity()

    async def _enter(self, session: AsyncSession) -> Snapshot:
        opened = await session.open(last=RECALLED_MESSAGES)
        local = opened.session.store == DEFAULT_STORE  # the default store has no hub
        await self._live.follow(session.id, opened.session.seq, None if local else self._hub_told)
        self.session, self.view, self._store = session, View(self.screen, opened.session), opened.session.store
        self.activity = opened.session.activity
        draft = opened.state.get(DRAFT)
        self.draft = self.kept = draft if isinstance(draft, str) else ""
        self.history = [one.content for one in opened.messages if one.role == "user" and isinstance(one.content, str)]
        self.oldest = 0
        self.repaint()
        return opened

    def _show(self, opened: Snapshot) -> None:
        info, shown = opened.session, opened.messages[-SHOWN_MESSAGES:]
        facts = (f"session {self.session_id}", info.name, f"{info.message_count} messages", *info.tags, self.sharing)
        self.screen.info("  ".join(fact for fact in facts if fact))
        for warning in opened.warnings:
            self.screen.error(f"{warning.path}:{warning.line or ''} {warning.message}")
        if len(shown) < info.message_count:
            self.screen.info(f"{info.message_count - len(shown)} older messages: /older")
            self.oldest = shown[0].seq if shown else 0
        self.view.messages(shown)

    async def go_on(self, enter: Callable[[], Awaitable[None]]) -> None:
        """Save this session, then switch to the one that `enter` opens. If that fails, this one stays open."""
        left = self.session
        await self.stop_turn()
        with contextlib.suppress(SessionNotFound):  # somebody deleted it, so nothing is left to save or close
            await left.save()
        await enter()
        if left.id != self.session_id:
            with contextlib.suppress(SessionNotFound):
                await left.close()

    async def leave(self) -> None:
        """Leave: stop what is running and save the session."""
        await self.stop_turn()
        await self._live.leave()
        try:
            if self.online:
                async with asyncio.timeout(LEAVE_S):
                    await self.session.save()
                    await self.session.close()
        except (SessionNotFound, TimeoutError):
            pass  # the deletion was already reported, and a daemon that stands still saves it later
        except SessiondError as error:
            self.fail(error)
        finally:
            self.sessiond.close()
            if self._watching is not None:
                self._watching.close()

    # What is said

    async def say(self, text: str) -> None:
        """Add a message from the user. Durable when this returns; SessiondError if it could not be kept. The same text said
        again after a failure or cancellation gets the same id, so it is added only once even if it was durable after all, until
        it is seen in the session: then it is another message.
        """
        session_id, unsure, message_id = self._unsure
        if (session_id, unsure) != (self.session_id, text):
            message_id = f"m-{uuid.uuid4()}"
        self._unsure = (self.session_id, text, message_id)
        self.view.own.add(message_id)
        try:
            await self.session.append("user", text, id=message_id)
        except SessionNotFound:
            self.homeless = text
            raise
        except (SessiondError, asyncio.CancelledError):
            if self._unsure[2] == message_id:
                raise
            # Only the answer is missing: the message was seen in the session.
        finally:
            self._live.look()
        self.homeless = ""
        self._unsure = ("", "", "")
        self.history.append(text)
        self._answer()

    def _answer(self) -> None:
        """Have the agent take a turn, as soon as it has ended the one that it takes."""
        if self.agent is not None:
            self._turn_wanted = True
            if self._turns is None or self._turns.done():
                self._turns = asyncio.create_task(self._take_turns(self.agent))

    async def _take_turns(self, command: str) -> None:
        while self._turn_wanted:
            self._turn_wanted = False
            self.turn = Turn(self.session, self.view, self.screen, command)
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

    # What happens in the session

    def _hub_told(self, store: str, hub: HubStatus) -> None:
        """Also print each new state of the hub: without a terminal, nothing else shows it."""
        before = self._hubs.get(store)
        self._hubs[store] = hub
        if before is not None and before.state != hub.state and store == self._store:
            self.screen.info(f"{store}: {self.sharing}")
        self.repaint()

    def _online_changed(self) -> None:
        self.repaint()

    async def change(self, request: Awaitable[T], seq_of: Callable[[T], int]) -> T:
        """Change the session. Returns when the change is on the screen, or when that takes too long."""
        view = self.view
        view.asking += 1
        try:
            done = await request
            self._live.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SEEN_S):
                    await view.reached(seq_of(done))
        finally:
            view.asking -= 1
        return done

    async def _take(self, change: Change) -> None:
        """Show a change that anybody made."""
        try:
            if isinstance(change, Deleted):
                await self._gone(change)
            elif isinstance(change, Reread):
                await self._reread(change)
            elif isinstance(change, ActivityChanged):
                self.activity = change.activity
                self.show_activity()
            elif isinstance(change, Asked):
                if change.message_id not in self._asked:
                    self._asked.add(change.message_id)
                    self._answer()
            elif isinstance(change, Interrupted):
                if self.turn is not None:
                    self.turn.interrupt()  # what was asked since then is still wanted
                else:
                    self._turn_wanted = False
            else:
                await self._apply(change)
        except SessiondError as error:
            self.fail(error)
        self.repaint()

    async def _apply(self, change: Change) -> None:
        """Show what was changed in the session itself."""
        if isinstance(change, Appended):
            self._seen(change.messages)
        elif isinstance(change, StateSet) and DRAFT in change.values:
            self.draft_heard(change.values[DRAFT])
        self.view.apply(change)
        if isinstance(change, Truncated):  # only the daemon knows how many messages are left
            self.view.count = (await self.session.info()).message_count

    def show_activity(self) -> None:
        """Print a question that waits for the user. Who only works is not announced."""
        activity = self.activity
        if activity is None or activity.state != "waiting":
            return
        self.screen.info(one_line(in_words(activity), 2000))
        if activity.question is not None:
            choices = choices_in_words(activity.question)
            self.screen.info(f"/answer {' | '.join(choices)}" if choices else "/answer YOUR ANSWER")

    def _seen(self, messages: Iterable[Message]) -> None:
        session_id, text, message_id = self._unsure
        seen = session_id == self.session_id and any(message.id == message_id for message in messages)
        if seen and self.arrived(text):
            self._unsure = ("", "", "")

    async def _reread(self, change: Reread) -> None:
        if change.edited:
            self.screen.info("the session's file was changed by another program")
        since = self.view.read_from(change.since)
        messages = change.messages if since == change.since else await self.session.messages(since=since)
        messages = list(messages)
        self._seen(messages)
        self.view.reread(change, messages)

    async def _gone(self, change: Deleted) -> None:
        if change.moved_to is not None:
            await self._enter(self.sessiond.session(change.moved_to))
            self.draft = ""  # its draft is what stands in the input, or was sent meanwhile
            self.screen.info(f"this session is {one_line(change.moved_to)} now")
        elif change.missed and not (self.view.count or self.view.info.name):
            # It was empty, so the daemon dropped it while no client had it open.
            store, _, local_id = self.session_id.rpartition("/")
            await self._enter(await self.sessiond.new(id=local_id, store=store or None))
        else:
            self.screen.error("this session was deleted; /new starts another one")
