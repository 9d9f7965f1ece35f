"""Follows other tools: imports what they write into their histories while they write it, from the start of the daemon.

The places of each tool that is followed are looked for every ten seconds, and those that exist are watched. A file that may
have changed goes into one of two queues:

    hinted    it was written just now. It is read at once, then left alone for twice as long as reading took, so a large
              file that grows fast costs a third of a processor at most.
    behind    it changed while nobody watched: at the start, or when the system lost hints. The newest are read first, so that
              files written now do not wait for last year's.

A few readers take files from them; one takes only small hinted files. A file is read by one of them at a time. Reading is
`Transfer.import_`, which does nothing for a file that was read to its end in its present version.

A file that is gone is not read; its sessions stay, and say so in `metadata.source.gone`.

Besides the tools of the configuration, it follows what clients want while they stay (`visits`). A place that several want is
watched and read once.

What fails, whatever it is, costs one file or one look at a place: it is the place's problem in the status until it passes,
and it is tried again, less and less often.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from sessiond.daemon.followed_place import ALL, Place
from sessiond.daemon.visits import Visit
from sessiond.errors import SessiondError
from sessiond.fs import FOLLOWING
from sessiond.importers import registry
from sessiond.importers.record import SkippedLine
from sessiond.limits import MIB
from sessiond.schema.daemon import FollowedPlace
from sessiond.schema.sessions import ImportResult
from sessiond.shield import through
from sessiond.store.hints import Hints
from sessiond.store.port import FileWarning

log = logging.getLogger(__name__)
_LOOK_S = 10.0
"""How often new places are looked for."""
_POLL_S = 1.0
"""How often files are looked at that the system does not watch for us."""
_COMPARE_S = 60.0
"""How often the files of a folder are compared that cannot be watched."""
_COMPARING_SHARE = 0.01
"""The largest share of its time that a follower spends on comparing such a folder."""
_GATHER_S = 0.05
_READERS = 3
"""Of files that are behind: most of the time of a new session goes into waiting for the disk."""
_RETRY_S = 5.0
"""When a file is tried again that could not be imported, for example because the disk was full; each time it fails again, after
twice as long.
"""
_LONGEST_RETRY_S = 300.0
_REST = 2.0
_READ_IN = 1000
"""Of how many files it is known in which version they were read."""
_STATUS_S = 0.5
"""How long a status waits for the sizes of files at a place."""
_LARGE = 4 * MIB
"""Size in bytes above which a file keeps its reader busy for a moment."""
_SIDES = ("-wal", "-shm", "-journal")
"""Files next to a database that are written with it."""
_Key: TypeAlias = tuple[str | None, str]
"""Tool and path of a place."""


class Importing(Protocol):
    """The part of the service that a follower needs."""

    async def bring(self, path: str, tool: str | None, *, named: bool = False) -> ImportResult:
        """Import a file. `tool`: whose it is; None: it is found out. `named`: somebody named this very file. SessiondError."""

    def doubt(self, path: str, tool: str | None) -> str | None:
        """Return what showed in a file that was brought, or in its tool's files: that the tool writes more than is read, or that a write
        costs a copy of the file.
        """

    async def behind(self, paths: Sequence[str]) -> list[str]:
        """Those of `paths` that were not read to their end in their present version."""

    def goes_on(self, path: str) -> bool:
        """Return whether only what is new in the file will be read, whatever its size."""

    def read_to(self, path: str) -> int | None:
        """Return how many bytes of the file need not be read again; None if that is not counted in bytes, as of a database."""

    async def compare(self, seconds: float, covers: Callable[[str], bool]) -> list[str]:
        """Compare what was read of files that go on with what is there now, for that long. Return those that are to be read again and
        that `covers` says are wanted.
        """

    async def gone(self, paths: Sequence[str]) -> None:
        """Record that these files were removed."""

    async def known(self) -> list[str]:
        """All files that sessions came from, except those that were found to be gone."""

    def now(self) -> str: ...


class _Found(NamedTuple):
    """A place that is there. `asked`: only clients want it."""

    is_folder: bool
    asked: bool


class _Waiting(msgspec.Struct):
    place: Place
    due: float
    """Time of the loop."""
    told: bool = True
    """Whether it is read because the system told of a write, and for no other reason."""


class Follower:
    """Follows `tools` (names of importers, `NAME:PATH`, or `all`). Call `start` once, then `close`."""

    def __init__(self, importing: Importing, tools: Sequence[str], environ: Mapping[str, str]) -> None:
        self._importing = importing
        self._environ = environ
        self.tools = tuple(tools)
        self._visits: tuple[Visit, ...] = ()
        self._settling = asyncio.Lock()
        self._places: dict[_Key, Place] = {}
        self._hinted: dict[str, _Waiting] = {}
        self._behind: dict[str, Place] = {}
        self._rested: dict[str, float] = {}
        """When a file that was read may be read again."""
        self._marks: dict[str, str | None] = {}
        """Versions of files that are polled."""
        self._read_in: dict[str, str | None] = {}
        """The versions in which files were last read, whatever came of it."""
        self._again: dict[str, float] = {}
        """When a file that failed is read again (time of the loop)."""
        self._busy: dict[str, Place] = {}
        self._since: dict[str, float] = {}
        """Since when a file is to be read (time of the loop)."""
        self._pauses: dict[str, float] = {}
        """How long a file or place that failed is left alone the next time it fails, in seconds."""
        self._work = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to follow. When this returns, the places that are there are watched."""
        await self._settle()
        work: list[Coroutine[None, None, None]] = [self._look(), self._read(small=True)]
        work += [self._read(small=False) for _ in range(_READERS)]
        for one in work:
            self._spawn(one)

    async def follow(self, tools: Sequence[str]) -> None:
        """Follow these from now on. When this returns, their places are watched."""
        self.tools = tuple(tools)
        await self._settle()

    async def add(self, visit: Visit) -> None:
        """Follow also what a client wants. When this returns, its places are watched."""
        self._visits = (*self._visits, visit)
        await self._settle()

    async def remove(self, visit: Visit) -> None:
        self._visits = tuple(one for one in self._visits if one is not visit)
        await self._settle()

    @property
    def is_idle(self) -> bool:
        """True if nobody wants anything followed."""
        return not self.tools and not self._visits

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for place in list(self._places.values()):
            await self._leave(place)

    @property
    def behind(self) -> int:
        """Files that are still to be read."""
        return len(self._behind) + len(self._hinted) + len(self._busy)

    def status(self) -> list[FollowedPlace]:
        return [place.status(waiting) for place, waiting in self._waiting().items()]

    async def measured(self) -> list[FollowedPlace]:
        """The status with how much is still to be read. A place that does not answer is not waited for."""
        places = self._waiting()
        sizes = await asyncio.gather(*(self._unread(place, waiting) for place, waiting in places.items()))
        return [place.status(waiting, size) for (place, waiting), size in zip(places.items(), sizes, strict=True)]

    def _waiting(self) -> dict[Place, dict[str, float]]:
        """The files of each place that are still to be read -> for how many seconds they have waited."""
        now = asyncio.get_running_loop().time()
        found: dict[Place, dict[str, float]] = {place: {} for place in self._places.values()}
        hinted = {path: one.place for path, one in self._hinted.items()}
        for path, place in {**self._behind, **hinted, **self._busy}.items():
            if place in found:  # and has not gone
                found[place][path] = now - self._since.get(path, now)
        return found

    async def _unread(self, place: Place, paths: Iterable[str]) -> int | None:
        """Return how many bytes of these files are to be read; None if that cannot be said at once. A place that hangs holds one thread for
        this, however often it is asked.
        """
        counted = {path: read for path in paths if (read := self._importing.read_to(path)) is not None}
        if not counted:
            return 0
        if place.measuring is None or place.measuring.done():
            place.measuring = asyncio.create_task(_measured(counted), name="follow")
        done, _ = await asyncio.wait({place.measuring}, timeout=_STATUS_S)
        return next((task.result() for task in done), None)

    # Places

    async def _look(self) -> None:
        """Look for places, start and stop watching them, and poll those that are not watched."""
        while True:
            try:
                for _ in range(round(_LOOK_S / _POLL_S)):
                    await self._poll()
                    share = _COMPARING_SHARE * _POLL_S
                    self._note_changed(
                        await self._importing.compare(share, lambda path: self._place_of(path) is not None)
                    )
                    await asyncio.sleep(_POLL_S)
                await self._settle()
                await self._compare()
            except Exception:  # a bug of ours must not end the following
                log.exception("the places of other tools could not be looked for")
                await asyncio.sleep(_LOOK_S)

    def _found(self) -> dict[_Key, _Found]:
        """The places that are wanted and there. Blocks."""
        home = os.path.expanduser("~")
        places = registry.known_places(home, self._environ)
        wanted = [(one.tool, one.path) for one in places if ALL in self.tools or one.tool in self.tools]
        named = [(tool, path) for tool, colon, path in (one.partition(":") for one in self.tools) if colon]
        asked = [place for visit in self._visits for place in visit.places]
        configured: set[_Key] = {*wanted, *named}
        return {
            key: _Found(os.path.isdir(key[1]), key not in configured)
            for key in dict.fromkeys((*wanted, *named, *asked))
            if os.path.exists(key[1])
        }

    async def _settle(self) -> None:
        """Watch the places that are wanted and there, and no others. Once begun, this is completed: a client that left while its places
        were set up would leave them watched but never read.
        """
        await through(self._settled())

    async def _settled(self) -> None:
        async with self._settling:
            found: dict[_Key, _Found] = await FOLLOWING.run(self._found)
            for key, place in list(self._places.items()):
                if key not in found or found[key].is_folder != place.is_folder:
                    await self._drop(key, place)
            for key, one in found.items():
                if key not in self._places:
                    place = self._places[key] = Place(*key, is_folder=one.is_folder)
                    await self._watch(place)
                    self._spawn(self._caught_up(place))
                if key in self._places:
                    self._places[key].asked = one.asked

    async def _watch(self, place: Place) -> None:
        loop = asyncio.get_running_loop()

        def told(paths: Sequence[str]) -> None:  # on the thread of the hints
            loop.call_soon_threadsafe(self._note, place, list(paths))

        def failed(error: Exception) -> None:
            loop.call_soon_threadsafe(self._lost, place, error)

        def inner(folder: str) -> bool:
            return place.is_folder and os.path.basename(folder) not in registry.PASSED_OVER

        if not place.is_folder and os.path.basename(place.path).startswith("."):
            self._marks |= await FOLLOWING.run(_marks, [place.path])
            return  # such files give no hints, and are polled
        place.hints = Hints(told, failed, FOLLOWING.run)
        try:
            await place.hints.open(place.root, inner, links=place.is_folder, hidden=place.is_folder)
        except Exception as error:  # it is compared now and then instead, and the next comparison tries again
            place.hints = None
            before, place.unwatched = place.unwatched, f"cannot be watched: {error}"
            if before != place.unwatched:
                log.warning("%s: %s", place.path, place.unwatched)
        else:
            place.unwatched = None

    async def _drop(self, key: _Key, place: Place) -> None:
        """Watch a place no longer, and read nothing more of it unless another one has it too."""
        if self._places.get(key) is not place:  # it was lost meanwhile
            return
        del self._places[key]
        self._forget(place)
        await self._leave(place)

    def _forget(self, place: Place) -> None:
        for path in [path for path, whose in self._behind.items() if whose is place]:
            other = self._place_of(path)
            if other is None:
                del self._behind[path]
            else:
                self._behind[path] = other
        for path, waiting in [(path, one) for path, one in self._hinted.items() if one.place is place]:
            other = self._place_of(path)
            if other is None:
                del self._hinted[path]
                self._again.pop(path, None)
            else:
                waiting.place = other

    def _is_named(self, path: str) -> bool:
        """Return whether somebody wants this very file followed, and not only a folder that it is in."""
        return any(place.path == path for place in self._places.values())

    def _place_of(self, path: str) -> Place | None:
        return next((place for place in self._places.values() if place.covers(path)), None)

    async def _leave(self, place: Place) -> None:
        if place.measuring is not None:
            place.measuring.cancel()
        if place.hints is not None:
            await place.hints.close()

    def _lost(self, place: Place, error: Exception) -> None:
        """Drop a place; it is watched again, and compared, when places are next looked for."""
        log.info("stopped watching %s: %s", place.path, error)
        self._spawn(self._drop((place.tool, place.path), place))

    async def _caught_up(self, place: Place) -> None:
        """The same, until it succeeds or the place is gone."""
        while self._places.get((place.tool, place.path)) is place:
            try:
                await self._catch_up(place)
            except Exception as error:  # out of file descriptors, for example
                self._warn(place.path, error)
                await asyncio.sleep(self._failing(place.path, place, error))
            else:
                self._passed(place.path, place)
                return

    async def _catch_up(self, place: Place) -> None:
        """Find what was written and what was removed while nobody watched."""
        paths: list[str] = await FOLLOWING.run(_newest_first, place.path)
        place.linked = await FOLLOWING.run(_links, paths)
        self._marks |= await FOLLOWING.run(_marks, list(place.linked))
        gone = [one for one in await self._importing.known() if place.covers(one)]
        await self._importing.gone(await FOLLOWING.run(_absent, gone))
        for path in await self._importing.behind(paths):
            self._is_behind(path, place)
        await self._wake()

    def _is_behind(self, path: str, place: Place) -> None:
        self._behind.setdefault(path, place)
        self._since.setdefault(path, asyncio.get_running_loop().time())

    async def _compare(self) -> None:
        """Compare the folders that cannot be watched, now and then."""
        loop = asyncio.get_running_loop()
        for place in list(self._places.values()):
            began = loop.time()
            if place.is_folder and place.hints is None and began >= place.compare_at:
                await self._watch(place)
                try:
                    await self._catch_up(place)
                except Exception as error:  # the other places are compared, and this one again the next time
                    self._failing(place.path, place, error)
                else:
                    self._passed(place.path, place)
                place.compare_at = loop.time() + max(_COMPARE_S, (loop.time() - began) / _COMPARING_SHARE)

    async def _poll(self) -> None:
        """Look at files that are not watched."""
        polled = {one.path: one for one in self._places.values() if not one.is_folder and one.hints is None}
        polled |= {path: one for one in self._places.values() for path in one.linked}
        if not polled:
            return
        for path, mark in (await FOLLOWING.run(_marks, list(polled))).items():
            if self._marks.setdefault(path, mark) != mark:
                self._marks[path] = mark
                self._note(polled[path], [path])

    def _note_changed(self, paths: Iterable[str]) -> None:
        for path in paths:
            for place in self._places.values():
                if place.covers(path):
                    self._note(place, [path], told=False)

    # Hints

    def _note(self, place: Place, paths: Iterable[str], *, told: bool = True) -> None:
        for path in paths:
            for side in _SIDES:
                path = path.removesuffix(side)  # noqa: PLW2901, the file that it belongs to
            if place.covers(path):
                now = asyncio.get_running_loop().time()
                self._since.setdefault(path, now)
                due = max(now + _GATHER_S, self._rested.pop(path, 0.0))
                waiting = self._hinted.get(path)
                if waiting is None or due < waiting.due:  # it may have failed, and waits for longer
                    # A file that failed is tried before its time only in a new version.
                    only_told = told and (waiting is None or waiting.told or path in self._again)
                    self._hinted[path] = _Waiting(place, due, only_told)
        self._spawn(self._wake())

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name="follow")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("following failed", exc_info=task.exception())

    async def _wake(self) -> None:
        async with self._work:
            self._work.notify_all()

    # Reading

    async def _read(self, *, small: bool) -> None:
        while True:
            path, place, told = await self._next(small=small)
            began = asyncio.get_running_loop().time()
            try:
                if await self._take(path, place, small=small, told=told):
                    self._passed(path, place)
                elif path in self._again and path not in self._behind:
                    self._hinted.setdefault(path, _Waiting(place, self._again[path], told=False))
            except Exception as error:  # the other files follow
                self._warn(path, error)
                pause, whose = self._failing(path, place, error), self._place_of(path)
                if whose is not None:  # nobody may want it any more
                    self._again[path] = asyncio.get_running_loop().time() + pause
                    self._hinted.setdefault(path, _Waiting(whose, self._again[path], told=False))
            else:
                if path in self._hinted:  # it was written meanwhile
                    self._since[path] = began
                elif path not in self._behind:
                    self._since.pop(path, None)
            finally:
                del self._busy[path]
            await self._wake()

    def _note_version(self, path: str, mark: str | None, *, told: bool) -> bool:
        """Note that a file is read in the version `mark`. Return whether the system `told` of nothing new: reading a database touches
        its log.
        """
        if told and mark is not None and mark == self._read_in.get(path):
            return True
        self._read_in[path] = mark
        if len(self._read_in) > _READ_IN:
            del self._read_in[next(iter(self._read_in))]
        return False

    async def _next(self, *, small: bool) -> tuple[str, Place, bool]:
        """The next file to read, now taken by the caller, and whether only the system told of it."""
        async with self._work:
            while True:
                now = asyncio.get_running_loop().time()
                free = {path: one for path, one in self._hinted.items() if path not in self._busy}
                for path, one in free.items():
                    if one.due <= now:
                        del self._hinted[path]
                        told = self._behind.pop(path, None) is None and one.told
                        self._busy[path] = one.place
                        return path, one.place, told
                if not small:
                    for path, place in self._behind.items():
                        if path not in self._busy:
                            del self._behind[path]
                            self._busy[path] = place
                            return path, place, False
                pause = min((one.due for one in free.values()), default=None)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if pause is None else max(pause - now, 0.001)):
                        await self._work.wait()

    async def _take(self, path: str, place: Place, *, small: bool, told: bool) -> bool:
        """Do what a file asks for that is new or has changed. Returns whether something was done: a large file is left to the other
        reader, and nothing is known of it yet.
        """
        source, kind, size, is_link, mark = await FOLLOWING.run(_examined, path)
        if self._note_version(path, mark, told=told):
            return False
        if is_link:
            place.linked.add(path)
        if source != path and place.covers(source):
            self._note(place, [source])
        elif kind == "folder":
            for one in await self._importing.behind(await FOLLOWING.run(_newest_first, path)):
                self._is_behind(one, place)
        elif kind == "gone":
            await self._importing.gone([path])
        elif not self._is_named(path) and not registry.may_be_known(os.path.basename(path)):
            pass
        elif small and size > _LARGE and not self._importing.goes_on(path):
            self._behind = {path: place, **self._behind}  # first: it was written just now
            return False
        else:
            await self._bring(path, place)
        return True

    async def _bring(self, path: str, place: Place) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            brought = await self._importing.bring(path, place.tool, named=self._is_named(path))
        finally:
            ended = loop.time()
            place.reading_s += ended - began
            self._rested[path] = ended + _REST * (ended - began)
            if len(self._rested) > 1000:
                self._rested = {one: until for one, until in self._rested.items() if until > ended}
        place.doubt = self._importing.doubt(path, place.tool)
        if brought.sessions:
            place.sessions.update(one.session_id for one in brought.sessions)
            place.last_at = self._importing.now()

    def _warn(self, path: str, error: Exception) -> None:
        """Tell those who want a file or place followed that it could not be read."""
        message = error.message if isinstance(error, SessiondError) else str(error)
        for visit in self._visits:
            visit.warn(FileWarning(path, None, message))

    def _failing(self, path: str, place: Place, error: Exception) -> float:
        """A file or a place failed: how many seconds it is left alone now."""
        place.failed.note(path, error.message if isinstance(error, SessiondError) else error)
        left = self._again.get(path, 0.0) - asyncio.get_running_loop().time()
        if left > 0:  # it was tried because its tool wrote to it, which must not make it wait longer
            return left
        pause = self._pauses.get(path, _RETRY_S)
        self._pauses[path] = min(2 * pause, _LONGEST_RETRY_S)
        return pause

    def _passed(self, path: str, place: Place) -> None:
        place.failed.passed(path)
        self._pauses.pop(path, None)
        self._again.pop(path, None)


def _newest_first(path: str) -> list[str]:
    """The files at a place that may belong to a tool. OSError if a folder in it cannot be listed. Blocks."""
    found: list[tuple[float, str]] = []
    for one in registry.candidates(path):
        if not isinstance(one, SkippedLine):
            with contextlib.suppress(FileNotFoundError):
                found.append((_written(one), one))
        elif one.failed:
            raise OSError(f"{one.path} {one.reason}")
    return [one for _, one in sorted(found, reverse=True)]


def _written(path: str) -> float:
    """In seconds since 1970. One file that cannot be looked at is tried last, and reading it says why. FileNotFoundError."""
    try:
        return os.stat(path).st_mtime
    except FileNotFoundError:
        raise
    except OSError:
        return 0.0


async def _measured(read: Mapping[str, int]) -> int | None:
    """Return what `_beyond` returns; None if the place does not say it. Whoever reads the files says why."""
    try:
        return await FOLLOWING.call(_beyond, read)
    except (SessiondError, OSError):
        return None


def _beyond(read: Mapping[str, int]) -> int:
    """Return how many bytes these files have beyond those that were read. Blocks."""
    return sum(max(_kind(path)[1] - size, 0) for path, size in read.items())


def _links(paths: Iterable[str]) -> set[str]:
    return {path for path in paths if os.path.islink(path)}


def _absent(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not os.path.lexists(path)]


def _marks(paths: Iterable[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for path in paths:
        found[path] = None
        with contextlib.suppress(OSError):
            found[path] = registry.fingerprint(path)
    return found


def _examined(path: str) -> tuple[str, str, int, bool, str | None]:
    """The file to import, the kind and size of `path` as `_kind` says, whether it is a link, and its version."""
    return registry.source_of(path), *_kind(path), os.path.islink(path), _marks([path])[path]


def _kind(path: str) -> tuple[str, int]:
    """`folder`, `file` or `gone`, and its size in bytes, with that of a log next to it."""
    if os.path.isdir(path):
        return "folder", 0
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return "gone", 0
    with contextlib.suppress(OSError):
        size += os.stat(path + "-wal").st_size
    return "file", size
