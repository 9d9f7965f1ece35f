"""The daemon as the wire sees it, and the order in which its parts start and stop."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

import sessiond
from sessiond import program
from sessiond.clock import Clock, SystemClock
from sessiond.config import Config
from sessiond.daemon.listeners import NetworkListeners, TokenFile, UnixDoor, tcp_listeners, ws_listeners
from sessiond.daemon.memory import Garbage, give_back
from sessiond.daemon.parts import DaemonParts, load_the_rest
from sessiond.endpoint import PROTOCOL_VERSION, Places
from sessiond.errors import InvalidParams
from sessiond.formats import registry
from sessiond.fs import FileSystem
from sessiond.limits import MIB, Limits
from sessiond.model.values import timestamp
from sessiond.rpc.methods import RemoteClient
from sessiond.rpc.server import Server
from sessiond.schema.daemon import (
    Address,
    BackupResult,
    ConfigStatus,
    FollowParams,
    FollowResult,
    HelloResult,
    SettingStatus,
    StatusResult,
)
from sessiond.schema.sessions import SessionFollowParams
from sessiond.schema.types import JsonObject
from sessiond.service.sessions import Service

if TYPE_CHECKING:
    from sessiond.daemon.agent_host_door import AgentHostDoor

_LOOK_AFTER_S = 5.0
"""How often the socket is checked and idleness is considered."""

_TRY_AGAIN_S = 0.5
"""The same while the socket cannot be restored: a client that wants a daemon waits for it."""

_GIVE_BACK_BYTES = 4 * MIB
"""After this much was released, memory is given back to the system."""

_WARNING = 2
"""LSP's MessageType."""

_log = logging.getLogger("sessiond.daemon")


async def live(fs: FileSystem, where: Places, config: Config, ready: Callable[[], None]) -> bool:
    """Run the daemon from start to end; the caller holds the lock. Returns whether everything was saved in time."""
    daemon = Daemon(fs, where, config, SystemClock())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.stop)
    os.chdir("/")  # keep no mount busy
    await daemon.start()
    ready()
    await daemon.until_stopped()
    # Not `wait_for`, which would wait on for what cannot be cancelled: a thread that hangs on a disk.
    closing = asyncio.create_task(daemon.close(), name="close")
    await asyncio.wait({closing}, timeout=config.limits.shutdown_s)
    if not closing.done():
        _log.error("not everything could be saved within %g s; the rest is in the journal", config.limits.shutdown_s)
        return False
    closing.result()
    return not daemon.is_over


class Daemon:
    """The process as the wire sees it (`rpc.methods.Daemon`), and the order in which its parts start and stop."""

    def __init__(self, fs: FileSystem, where: Places, config: Config, clock: Clock) -> None:
        self._fs = fs
        self._where = where
        self._config = config
        self._clock = clock
        self.limits: Limits = config.limits
        self.instance = secrets.token_hex(8)
        self._started_at = timestamp(clock.now_ms())
        self._parts = DaemonParts(fs, where, config, clock)
        self._stopping = asyncio.Event()
        self._is_displaced = False
        """The data folder was moved or replaced: what is at its path is not ours."""
        self._is_outdated = False
        """The program was updated: the next daemon is another version."""
        self._server: Server
        self._service: Service
        self._unix: UnixDoor
        self._no_socket = ""
        """Why it could not be restored the last time; said once."""
        self._token = TokenFile(fs, where)
        self._doors: dict[str, NetworkListeners] = {}
        """By kind: `tcp`, `ws`."""
        self._agent_host: AgentHostDoor | None = None
        """Made when windows of VS Code may come."""
        self._upkeep: asyncio.Task[None] | None = None

    # Life

    async def start(self) -> None:
        """Serve as soon as the journal is read; the index is checked in the background. SessiondError, OSError."""
        self._service = service = await self._parts.open()
        self._server = server = Server(
            service,
            self,
            limits=self.limits,
            version=sessiond.__version__,
            formats=list(registry.NAMES),
            search_modes=list(service.index.modes),
            documents=self._parts.documents(),
        )
        self._parts.health.tell = server.announce
        self._parts.health.tell_all = server.announce_damage
        self._parts.health.tell_hub = server.announce_hub
        server.greeting = self._parts.health.greeting
        server.settle = self._parts.settle
        self._doors = {
            "tcp": tcp_listeners(self._token, self.limits, server),
            "ws": ws_listeners(self._token, self.limits, server, self._config, self.instance),
        }
        self._unix = UnixDoor(
            self._fs, self._where, self.limits, server, version=sessiond.__version__, instance=self.instance
        )
        self._unix.open()
        if self._config.ahp_listen or self._config.ahp_write:
            self._door_for_windows()
        self._upkeep = asyncio.create_task(self._look_after(), name="upkeep")
        _log.info("version %s, pid %d, data in %s", sessiond.__version__, os.getpid(), self._where.data)

    @property
    def is_over(self) -> bool:
        """True if it ended because another daemon must take its place, which a service manager then starts."""
        return self._is_displaced or self._is_outdated

    async def until_stopped(self) -> None:
        await self._stopping.wait()

    async def close(self) -> None:
        """Stop accepting, end all connections, save everything; nothing if the data folder is not ours any more: what was acknowledged
        is in the journal, wherever that is now.
        """
        _log.info("stopping")
        self._parts.settle()
        if self._upkeep is not None:
            self._upkeep.cancel()
        self._unix.close()
        for doors in self._doors.values():
            doors.close()
        if self._agent_host is not None:
            await self._agent_host.close()
        await self._server.close(self.limits.shutdown_s / 4)
        if not self._is_displaced:
            await self._parts.close()
        _log.info("stopped")

    async def _look_after(self) -> None:
        idle_since = self._clock.monotonic()
        released = 0
        updated = 0
        garbage = Garbage()
        patience = self.limits.daemon_idle_exit_s
        pause = min(_LOOK_AFTER_S, patience / 4) if patience else _LOOK_AFTER_S
        self._look_after_windows()
        await asyncio.sleep(pause)
        await asyncio.to_thread(load_the_rest)
        while True:
            if await asyncio.to_thread(self._is_to_end):
                self.stop()
                return
            in_place = await self._look_after_socket()
            self._look_after_windows()
            released += self._parts.released()
            if released > _GIVE_BACK_BYTES:
                released = 0
                await asyncio.to_thread(give_back)
            garbage.look(alone=not self._server.connections)
            updated = await self._look_after_update(updated)
            if self._is_needed():
                idle_since = self._clock.monotonic()
            elif 0 < patience <= self._clock.monotonic() - idle_since:
                _log.info("idle for %g s: no clients and nothing to do", patience)
                self.stop()
            await asyncio.sleep(pause if in_place else min(pause, _TRY_AGAIN_S))

    def _is_to_end(self) -> bool:
        """Return whether a folder of this daemon was moved, so that it must end. Blocks."""
        if self._parts.is_displaced():
            _log.error("%s was moved, removed or replaced; the daemon ends and writes nothing there", self._where.data)
            self._is_displaced = True
        elif self._parts.lacks_journal():
            _log.error("the journal in %s was moved or removed; the daemon saves everything and ends", self._where.data)
        else:
            return False
        return True

    def _is_needed(self) -> bool:
        if self._server.connections or self._parts.unsaved():
            return True
        return bool(self._parts.follows or self._config.ahp_listen)

    async def _look_after_update(self, rounds: int) -> int:
        """Say that the program was updated, and end a round later, when all of it is there, if nobody needs this daemon. A service
        manager starts the next one at once. Return for how many rounds it is known.
        """
        if not await asyncio.to_thread(program.is_replaced):
            return 0
        if not rounds:
            _log.warning("%s; %s", program.UPDATED, program.WHAT_TO_DO)
            self._server.announce(_WARNING, f"{program.UPDATED}; {program.WHAT_TO_DO}")
        is_alone = not self._server.connections and not self._parts.unsaved()
        is_service = not self.limits.daemon_idle_exit_s
        if rounds and is_alone and (is_service or not self._is_needed()):
            self._is_outdated = True
            self.stop()
        return rounds + 1

    def _look_after_windows(self) -> None:
        if self._agent_host is not None:
            self._agent_host.look_after()

    def _door_for_windows(self) -> AgentHostDoor:
        if self._agent_host is None:
            from sessiond.daemon.agent_host_door import AgentHostDoor

            self._agent_host = AgentHostDoor(
                self._fs, self._where, self._config, self._clock, self._server, self._service, lambda: self._unix.path
            )
        return self._agent_host

    async def _look_after_socket(self) -> bool:
        try:
            await self._unix.look_after()
        except Exception as error:  # in any case the next round tries again: without a socket nobody finds us
            if str(error) != self._no_socket:
                _log.error("the socket could not be restored: %s", error)
            self._no_socket = str(error)
            return False
        self._no_socket = ""
        return True

    # For the wire

    def hello(self) -> HelloResult:
        return HelloResult(
            protocol_version=PROTOCOL_VERSION,
            version=sessiond.__version__,
            pid=os.getpid(),
            instance_id=self.instance,
        )

    def stop(self) -> None:
        self._stopping.set()

    async def status(self) -> StatusResult:
        sessions = await self._parts.status()
        settings = {
            name: SettingStatus(value=value, source=source)
            for name, (value, source) in self._config.explained().items()
        }
        return StatusResult(
            version=sessiond.__version__,
            pid=os.getpid(),
            instance_id=self.instance,
            started_at=self._started_at,
            data_dir=self._where.data,
            socket=self._unix.path,
            tcp=self._doors["tcp"].status(),
            ws=self._doors["ws"].status(),
            ahp=None if self._agent_host is None else self._agent_host.status(),
            stores=sessions.stores,
            open_sessions=sessions.attended,
            dirty_sessions=sessions.dirty,
            journal=self._parts.journal_status(),
            read_only=self._parts.read_only(),
            index=sessions.search,
            damage=self._parts.health.damage(),
            connections=self._server.connections,
            clients=self._server.clients(),
            limits=msgspec.to_builtins(self.limits),
            config=ConfigStatus(file=self._config.file, values=settings),
        )

    async def backup(self, path: str, progress: Callable[[JsonObject], None] | None) -> BackupResult:
        return await self._parts.backups.make(path, progress)

    async def follow(self, wanted: FollowParams) -> FollowResult:
        following = self._parts.following
        return await (following.status() if wanted == FollowParams() else following.change(wanted))

    async def follow_places(self, peer: RemoteClient, wanted: SessionFollowParams) -> None:
        await self._parts.following.visited(peer, wanted)

    async def acknowledge(self) -> int:
        return await self._parts.acknowledge()

    async def listen(
        self, peer: RemoteClient, kind: str, host: str | None, port: int, *, write: bool = False
    ) -> Address:
        if write and kind != "ahp":
            raise InvalidParams("write: only for the kind `ahp`; with the others, clients may write", field="write")
        if kind == "ahp":
            address, end = await self._door_for_windows().listen(host, port, write=write)
            peer.on_closed(end)
            return address
        doors = self._doors[kind]
        address, listener = await doors.listen(host, port)
        self._server.set_token(self._token.token)
        peer.on_closed(lambda: doors.close_one(listener))
        return address
