"""The process that reads a spool and records it.

    python -m sessiond.acp.recorder FOLDER SPOOL WAKE    the spool at descriptor SPOOL; WAKE has a byte when there is more
    python -m sessiond.acp.recorder FOLDER               only what earlier connections left behind

The end of WAKE is the end of the connection, however that came about. What is open then is interrupted. A spool whose steps are
all durable is removed; one that cannot be delivered stays for the next recorder.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterator

import msgspec

from sessiond.acp.answering import Answering
from sessiond.acp.deliver import LATER, Deliverer
from sessiond.acp.doing import Doing
from sessiond.acp.erasing import Eraser
from sessiond.acp.spool import AGENT, EDITOR, END, HEAD, MadeSessions, SpoolReader, head_of, is_locked, locked, waiting
from sessiond.acp.steps import Begun, Grew, Over, Said, Step
from sessiond.acp.talk import Talk
from sessiond.client import aconnect
from sessiond.client.aio.client import AsyncSessiond
from sessiond.client.aio.session import AsyncSession
from sessiond.errors import SessiondError, Unavailable

NAME = "acp"
CALL_S = 30.0
PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
LEAVE_S = 10.0
"""How long to try to reach a daemon once the connection has ended, and to wait for what an earlier connection left."""
_LOOK_S = 2.0
"""How often to check whether the daemon still knows what goes on."""
POLL_S = 0.02
_MOST_HELD = 1000
"""Steps that wait for sessions which are refused for now. With more, all others wait too: the spool has them."""


class _Unreachable(Exception):
    """No daemon could be reached or could write, and the connection has ended."""


class Recorder:
    """One spool, from its first frame on. `wake`: None if its connection has ended."""

    def __init__(self, path: str, spool: int, wake: int | None) -> None:
        self._path = path
        self._reader = SpoolReader(spool)
        self._made = MadeSessions(path)
        self._eraser = Eraser(path)
        self._wake = wake
        self._over: float | None = time.monotonic() if wake is None else None
        """When the connection ended."""
        self._talk: Talk | None = None
        self._doing: Doing | None = None
        """None if the connection has ended: nothing goes on then."""
        self._answering: Answering | None = None
        self._at = 0
        self._client: AsyncSessiond | None = None
        self._deliverer: Deliverer | None = None
        self._held: dict[str, deque[Step]] = {}
        """By the agent's id of a session that is refused for now: what waits for it, while the others go on."""
        self._given: set[str] = set()
        """Messages of the session that the agent was given as prompts."""

    async def run(self) -> None:
        """Until the connection has ended and everything is durable. _Unreachable."""
        while True:
            await self._deliver(self._steps())
            self._erase()
            if self._over is not None:
                break
            await self._tell()
            restless = self._held or (self._doing is not None and self._doing.restless)
            await self._woken(_LOOK_S if restless else None)
            await self._release()
        for live in (self._doing, self._answering):
            if live is not None:
                live.close()
        await self._deliver(self._steps())  # what came between the last look and the end
        if self._talk is not None:
            await self._deliver(self._talk.end(self._at))
        await self._all_released()
        await self._flush()
        if self._client is not None:
            self._client.close()
        self._made.remove()
        os.unlink(self._path)

    def _steps(self) -> Iterator[Step]:
        for kind, at, data in self._reader.frames():
            self._at = at
            if kind == HEAD:
                head = msgspec.json.decode(data)
                self._talk = Talk(self.name, str(head.get("agent")))
                if self._over is None:
                    pid = head.get("pid", 0)
                    self._doing = Doing(pid, self._session, self._connection)
                    self._answering = Answering(pid, self._doing, self._given, self._missing)
            elif kind in (EDITOR, AGENT) and self._talk is not None:
                yield from self._talk.feed(kind, at, data)
            elif kind == END:
                self._at = at

    @property
    def name(self) -> str:
        return os.path.basename(self._path).partition(".")[0]

    async def _tell(self) -> None:
        """Everything so far is recorded: others may know what goes on, and say something themselves."""
        if self._doing is None or self._answering is None or self._deliverer is None:
            return
        await self._doing.tell()
        for key, session in self._deliverer.live():
            self._answering.follow(key, session)

    async def _missing(self, key: str) -> None:
        """Somebody removed a session. If it was deleted for good, its words go from here, too."""
        try:
            if self._deliverer is not None:
                await self._deliverer.missing(key)
        except SessiondError as error:  # it is asked again soon
            print(f"{key}: it is not known whether it was deleted: {error.message}", file=sys.stderr, flush=True)
        self._erase()

    def _erase(self) -> None:
        if self._deliverer is None or not self._deliverer.erased:
            return
        try:
            self._eraser.erase(self._deliverer.erased)
        except OSError as error:
            print(f"words of deleted sessions are still in {self._path}: {error}", file=sys.stderr, flush=True)

    def _connection(self) -> int:
        return 0 if self._client is None else self._client._link.number

    def _session(self, key: str) -> AsyncSession | None:
        return None if self._deliverer is None else self._deliverer.session(key)

    async def _deliver(self, steps: Iterator[Step]) -> None:
        for step in together(steps):
            if isinstance(step, Said) and step.there and step.message.id is not None:
                self._given.add(step.message.id)
            if not isinstance(step, Begun | Over):
                await self._again(step)
            elif self._doing is not None:
                self._doing.heed(step)
            await asyncio.sleep(0)

    async def _again(self, step: Step) -> None:
        """Take a step, as often as it needs. While one session is refused, its steps wait for it and the others go on."""
        if sum(map(len, self._held.values())) >= _MOST_HELD:
            await self._all_released()
        if step.key in self._held:
            self._held[step.key].append(step)
            return
        pause = PAUSE_S
        while True:
            try:
                await (await self._delivering()).take(step)
                return
            except Unavailable as error:
                print(f"{step.key} waits: {error.message}", file=sys.stderr, flush=True)
                self._held[step.key] = deque([step])
                return
            except LATER as error:
                pause = await self._wait(pause, error)

    async def _release(self) -> SessiondError | None:
        """Try once to take what waits for its session. The error of a session that is still refused."""
        refused: SessiondError | None = None
        for key, steps in [*self._held.items()]:
            try:
                while steps:
                    await (await self._delivering()).take(steps[0])
                    steps.popleft()
                del self._held[key]
            except LATER as error:
                refused = error
        return refused

    async def _all_released(self) -> None:
        pause = PAUSE_S
        while (refused := await self._release()) is not None:
            pause = await self._wait(pause, refused)

    async def _flush(self) -> None:
        pause = PAUSE_S
        while self._deliverer is not None:
            try:
                await self._deliverer.flush()
                return
            except LATER as error:
                pause = await self._wait(pause, error)

    async def _wait(self, pause: float, error: SessiondError) -> float:
        if self._over is None:
            await self._woken(pause)
        if self._over is not None:
            if time.monotonic() - self._over > LEAVE_S:
                raise _Unreachable from error
            await asyncio.sleep(min(pause, 1.0))
        return min(2 * pause, LONGEST_PAUSE_S)

    async def _delivering(self) -> Deliverer:
        if self._deliverer is None:
            self._client = await aconnect(name=NAME, timeout_s=CALL_S)
            self._deliverer = Deliverer(self._client, self.name, self._earlier, self._made)
        return self._deliverer

    async def _earlier(self) -> None:
        """Until what connections before this one said of a session is in it: only then is known what is repeated."""
        head = head_of(self._path)
        await settled(os.path.dirname(self._path), before=None if head is None else head.at)

    async def _woken(self, timeout_s: float | None = None) -> None:
        """Until there is more, or the connection ended."""
        if self._wake is None:
            return
        loop = asyncio.get_running_loop()
        news = asyncio.Event()
        loop.add_reader(self._wake, news.set)
        try:
            async with asyncio.timeout(timeout_s):
                await news.wait()
        except TimeoutError:
            return
        finally:
            loop.remove_reader(self._wake)
        if not os.read(self._wake, 65536):
            self._wake = None
            self._over = time.monotonic()


def together(steps: Iterator[Step]) -> Iterator[Step]:
    """Neighbouring pieces of one text as one piece: there are many only if we are behind."""
    waiting_: Grew | None = None
    for step in steps:
        if isinstance(step, Grew):
            if waiting_ is not None and waiting_.message_id == step.message_id and len(waiting_.text) < 65536:
                waiting_ = Grew(key=step.key, message_id=step.message_id, text=waiting_.text + step.text)
                continue
            if waiting_ is not None:
                yield waiting_
            waiting_ = step
            continue
        if waiting_ is not None:
            yield waiting_
            waiting_ = None
        yield step
    if waiting_ is not None:
        yield waiting_


async def left_behind(folder: str) -> int:
    """Deliver what earlier connections left in a folder. How many spools stay there."""
    stay = 0
    for path in waiting(folder):
        descriptor = locked(path)
        if descriptor is None:
            continue
        try:
            await Recorder(path, descriptor, None).run()
        except _Unreachable:
            stay += 1
        except Exception:
            traceback.print_exc()
            stay += 1
        finally:
            os.close(descriptor)
    return stay


async def settled(folder: str, *, before: int | None = None) -> None:
    """Wait for those who deliver what connections that have ended said, or for LEAVE_S. `before`: only those that began earlier."""
    deadline = time.monotonic() + LEAVE_S
    while any(_under_way(path, before) for path in waiting(folder)):
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(POLL_S)


def _under_way(path: str, before: int | None) -> bool:
    head = head_of(path)
    return head is not None and (before is None or head.at < before) and head.ended and is_locked(path)


async def _record(folder: str, spool: int, wake: int) -> None:
    path = os.readlink(f"/proc/self/fd/{spool}") if os.path.isdir("/proc/self/fd") else _named(folder, spool)
    await asyncio.gather(Recorder(path, spool, wake).run(), left_behind(folder))


def _named(folder: str, spool: int) -> str:
    """The path of an open spool, by its inode."""
    for path in waiting(folder):
        if os.path.samestat(os.stat(path), os.fstat(spool)):
            return path
    raise FileNotFoundError(folder)


def main(arguments: list[str]) -> int:
    """The exit code: 0 if everything is recorded, 1 if spools stay."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    folder = arguments[0]
    if len(arguments) == 1:
        return 1 if asyncio.run(left_behind(folder)) else 0
    try:
        asyncio.run(_record(folder, int(arguments[1]), int(arguments[2])))
    except _Unreachable:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
