"""The agent answers what others say in its session: in a window of VS Code, for example.

The daemon asks whoever has said, when it opened the session, that it answers (`session/asked`). The message is in the session then.
It goes to the agent as the prompt of a visitor, with its id, so that it is not recorded a second time; the editor sees it as it
sees the prompts of all who have joined. What the agent says is recorded like everything that it says.

    asked ──nothing runs, and it is still in the session──> prompt ──response──> the next one
      └──Stop──> nobody answers it                            └──Stop──> session/cancel, by the same visitor

One message of a session is prompted at a time, in the order in which they were asked. It is given to the agent only when no other
prompt of the session runs, and looked at once more then: what was cut off meanwhile is not obeyed. A Stop comes after the prompt
that it means, because the same visitor says both. What fails is tried again; the agent's error becomes a message.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Set

from sessiond.acp import visitor
from sessiond.acp.content import mapped, word
from sessiond.acp.doing import Doing
from sessiond.acp.turn import MESSAGE_ID
from sessiond.acp.visitor import Visitor
from sessiond.client import Asked, Interrupted, Message
from sessiond.client.aio.feed import AsyncChanges
from sessiond.client.aio.session import AsyncSession
from sessiond.client.types import NewMessage
from sessiond.endpoint import NoHome
from sessiond.errors import SessiondError, SessionNotFound

_NEWEST = 200
"""The message that the agent is asked to answer is among the last ones."""
_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_BY = "sessiond"

_Missing = Callable[[str], Awaitable[None]]
"""Gets the agent's id of a session."""


class Answering:
    """Has the agent answer in the sessions of one connection. `pid`: of the process that has the agent. `given`: messages that the agent
    was given already, by this recorder or one before it; it may grow. `missing`: is told of a session that is not there.
    """

    def __init__(self, pid: int, doing: Doing, given: Set[str], missing: _Missing) -> None:
        self._pid = pid
        self._doing = doing
        self._given = given
        self._missing = missing
        self._conversations: dict[str, _Conversation] = {}
        """By the agent's id of a session."""

    def follow(self, key: str, session: AsyncSession) -> None:
        """Answer in a session, from now on."""
        if key not in self._conversations:
            self._conversations[key] = _Conversation(self._pid, key, session, self._doing, self._given, self._missing)

    def close(self) -> None:
        """The connection has ended."""
        for conversation in self._conversations.values():
            conversation.close()


class _Conversation:
    """One session. Two tasks: one hears what is asked, one has it answered."""

    def __init__(
        self, pid: int, key: str, session: AsyncSession, doing: Doing, given: Set[str], missing: _Missing
    ) -> None:
        self._pid = pid
        self._key = key
        self._session = session
        self._doing = doing
        self._given = given
        self._missing = missing
        self._waiting: deque[str] = deque()
        """Ids of messages."""
        self._known: set[str] = set()
        """All that were asked: after a lost connection one may be asked once more."""
        self._news = asyncio.Event()
        self._next: str | None = None
        """The message that will be a prompt in a moment, unless a Stop comes."""
        self._running: str | None = None
        """The message whose prompt runs."""
        self._visitor: Visitor | None = None
        """While a prompt of ours runs."""
        self._tasks = [
            asyncio.create_task(self._follow(), name=f"hear {key}"),
            asyncio.create_task(self._answer(), name=f"answer {key}"),
        ]

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    # What is asked

    async def _follow(self) -> None:
        """For as long as the connection lives: a session may come back from the trash, and a daemon later than a call waits."""
        pause, said = _PAUSE_S, ""
        while True:
            changes: AsyncChanges | None = None
            try:
                changes = await self._session.changes(answers=True)
                pause, said = _PAUSE_S, ""
                async for change in changes:
                    await self._hear(change)
            except SessiondError as error:
                if error.message != said:
                    self._complain("it is not answered from elsewhere for now", error.message)
                said = error.message
                if isinstance(error, SessionNotFound):
                    await self._missing(self._key)
            finally:
                if changes is not None:
                    changes.close()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _hear(self, change: object) -> None:
        if isinstance(change, Asked):
            if change.message_id not in self._known | self._given:
                self._known.add(change.message_id)
                self._waiting.append(change.message_id)
                self._news.set()
        elif isinstance(change, Interrupted):
            await self._stop(change.message_id)

    async def _stop(self, message_id: str | None) -> None:
        """Stop the answer to a message, whether it waits or runs; without one what runs, whoever's it is, else what would run next.

        A Stop may come when the turn before has ended and we have not read that yet, so what runs as far as we know is not always
        what it is about.
        """
        cancel = {"method": "session/cancel", "params": {"sessionId": self._key}}
        try:
            if message_id is not None and message_id in self._waiting:
                self._waiting.remove(message_id)
            elif message_id in self._known and message_id not in (self._next, self._running):
                return  # its turn has ended
            elif self._visitor is not None:
                self._visitor.say(cancel)
            elif self._next is not None:
                self._next = None
            elif self._doing.runs(self._key) or not self._waiting:
                await visitor.say(self._pid, self._key, _BY, cancel)
            else:
                self._waiting.popleft()
        except (NoHome, OSError, TimeoutError) as error:
            self._complain("it is not stopped", error)

    # What is answered

    async def _answer(self) -> None:
        pause = _PAUSE_S
        while True:
            while not self._waiting:
                self._news.clear()
                await self._news.wait()
            await self._doing.idle(self._key)
            if not self._waiting:
                continue
            message_id = self._next = self._waiting.popleft()
            try:
                await self._prompt(message_id)
                pause = _PAUSE_S
            except SessionNotFound as error:
                self._complain(f"{message_id} is not answered", error)
            except (SessiondError, NoHome, OSError, TimeoutError) as error:
                if self._next != message_id:  # the agent may have it
                    self._complain(f"{message_id} is not answered", error)
                    continue
                self._complain(f"{message_id} is not answered yet", error)
                self._next = None
                self._waiting.appendleft(message_id)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _prompt(self, message_id: str) -> None:
        found = await self._session.messages(last=_NEWEST)
        message = next((one for one in found if one.id == message_id), None)
        if message is None:
            self._complain(f"{message_id} is not answered", "it was removed")
            return
        params = {"sessionId": self._key, "prompt": _blocks(message), "_meta": {MESSAGE_ID: message_id}}
        async with visitor.visiting(self._pid, self._key, _BY) as mine:
            await self._doing.begin(self._key, self._session)
            if self._next != message_id:
                await self._doing.tell()
                return
            self._next, self._running, self._visitor = None, message_id, mine
            try:
                response = await mine.ask({"method": "session/prompt", "params": params})
            finally:
                self._running = self._visitor = None
        if "result" not in response:
            await self._say_why(message_id, mapped(response.get("error")))

    async def _say_why(self, message_id: str, error: dict[str, object]) -> None:
        """Whoever waits for the answer sees that there will be none."""
        text = word(error.get("message")) or "the agent ended before it answered"
        metadata = {"acp": {"error": error}} if error else None
        message = NewMessage(
            id=f"{message_id[:200]}-error", role="assistant", content=text, status="error", metadata=metadata
        )
        await self._session.append_all([message])

    def _complain(self, what: str, why: object) -> None:
        print(f"{self._key}: {what}: {why}", file=sys.stderr, flush=True)


def _blocks(message: Message) -> list[dict[str, object]]:
    """Return a message's blocks as the protocol has them; of other blocks, what they say."""
    if isinstance(message.content, list) and all(_is_text(block) for block in message.content):
        return [{"type": "text", "text": block["text"]} for block in message.content]
    return [{"type": "text", "text": message.text}]


def _is_text(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
