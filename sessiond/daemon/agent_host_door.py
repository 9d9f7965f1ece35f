"""The places where windows of VS Code connect, which speak the Agent Host Protocol.

There are listeners that clients ask for (`sessiond --ahp`), each as long as its client, and those of `[ahp] listen` in the
configuration, from the start to the end of the daemon. The latter are tried again and again: a port may be free later, and
temp cleaners remove the files of sockets. That is a task of its own, because a name server may take its time. Nothing of the
protocol is imported before there is a listener.

    `_changing` is held while listeners come: a client may ask for a port that the configuration names before it was tried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sessiond.clock import Clock
from sessiond.config import Config
from sessiond.daemon.listeners import NetworkListener, NetworkListeners, TokenFile
from sessiond.endpoint import Places, agent_host_socket
from sessiond.errors import AlreadyExists
from sessiond.fs import FileSystem
from sessiond.schema.daemon import Address, AgentHostAddress, AgentHostStatus
from sessiond.settings import SOCKET
from sessiond.transports import tcp

if TYPE_CHECKING:
    from sessiond.agent_host.host import AgentHost, WindowDoor
    from sessiond.rpc.server import Server
    from sessiond.service.sessions import Service
    from sessiond.transports import ws
    from sessiond.transports.ws_http import HttpResponse

_log = logging.getLogger(__name__)
_VSCODE = "vscode-file://vscode-app"
"""The origin of desktop windows."""
_LOOK_S = 5.0
"""How long it may take to listen at one entry of `listen`: a host name has to be resolved."""


class _Kept(NamedTuple):
    """A port that `[ahp] listen` asked for, and the daemon listens on. `host` is as it is written there."""

    host: str
    address: Address


class AgentHostDoor:
    """Its listeners, and the one host behind them."""

    def __init__(
        self,
        fs: FileSystem,
        where: Places,
        config: Config,
        clock: Clock,
        server: Server,
        service: Service,
        daemon_socket: Callable[[], str],
    ) -> None:
        self._fs = fs
        self._daemon_socket = daemon_socket
        self._where = where
        self._config = config
        self._clock = clock
        self._server = server
        self._service = service
        self._host: AgentHost | None = None
        self._opening = asyncio.Lock()
        # They get into process lists and logs of VS Code, so neither is the one that lets a client do everything.
        self._tokens = {
            False: TokenFile(fs, where, "agent-host-token"),
            True: TokenFile(fs, where, "agent-host-write-token"),
        }
        """By whether windows that show it may write."""
        self.reading, self.writing = (
            NetworkListeners("ahp", self._tokens[writes], partial(self._open, writes)) for writes in (False, True)
        )
        self._kept: dict[str, _Kept] = {}
        """By the entry of `listen` that asked for it."""
        self._socket: ws.WsUnixListener | None = None
        self._problems: dict[str, str] = {}
        """Entry of `listen` in the configuration -> why the daemon does not listen there yet."""
        self._changing = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None

    def look_after(self) -> None:
        """Listen where the configuration says, if that is not so yet. What fails is tried again by the next call."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="agent host")

    async def _look(self) -> None:
        async with self._changing:
            await self._keep_all()

    async def _keep_all(self) -> None:
        for text in self._config.ahp_listen:
            try:
                async with asyncio.timeout(_LOOK_S):
                    if text == SOCKET:
                        await self._keep_socket()
                    elif text not in self._kept:
                        await self._keep_port(text)
            except (
                Exception
            ) as error:  # one bad entry must not keep the others from working; the next round tries it again
                self._say(text, f"no answer within {_LOOK_S:g} s" if isinstance(error, TimeoutError) else str(error))
            else:
                self._problems.pop(text, None)

    def _say(self, text: str, problem: str) -> None:
        if self._problems.get(text) != problem:
            _log.warning("windows of VS Code cannot connect by %s: %s", text, problem)
        self._problems[text] = problem

    async def _keep_port(self, text: str) -> None:
        name, _, port = text.rpartition(":")
        host = name.removeprefix("[").removesuffix("]") or tcp.LOOPBACK
        doors = self.writing if self._config.ahp_write else self.reading
        address, _listener = await doors.listen(host, int(port))
        self._kept[text] = _Kept(host, address)

    async def _keep_socket(self) -> None:
        if self._socket is not None and self._socket.file.in_place():
            return
        from sessiond.transports import ws

        door, gate = await self._behind(writes=self._config.ahp_write, admits=lambda _: True)
        path = agent_host_socket(self._daemon_socket())
        made = ws.listen_unix(path, door, self._config.limits, gate)
        if self._socket is not None:
            self._socket.close()
        self._socket = made
        _log.info("listening on ahp %s", path)

    async def listen(self, host: str | None, port: int, *, write: bool) -> tuple[Address, Callable[[], None]]:
        """Listen for a client; what is returned ends that. If the configuration has the daemon listen there, that is the address,
        and it stays. AlreadyExists (also: with other rights), InvalidParams, Unavailable.
        """
        async with self._changing:
            await self._keep_all()
            kept = self._kept_at(host, port)
            if kept is not None and write == self._config.ahp_write:
                return kept, lambda: None
            if kept is not None:
                raise AlreadyExists(
                    f"windows connect to {kept.host}:{port} already, by [ahp] in {self._config.file}",
                    hint=f"choose another port, or change `write` there, which is {str(self._config.ahp_write).lower()}",
                )
            doors = self.writing if write else self.reading
            address, listener = await doors.listen(host, port)
        return address, lambda: doors.close_one(listener)

    def _kept_at(self, host: str | None, port: int) -> Address | None:
        """By the name in the configuration, or by what it stands for."""
        asked = tcp.LOOPBACK if host in (None, "localhost") else host
        for one in self._kept.values():
            if one.address.port == port and asked in (one.host, one.address.host):
                return one.address
        return None

    async def _open(self, writes: bool, host: str | None, port: int) -> NetworkListener:
        from sessiond.transports import ws

        door, gate = await self._behind(writes=writes, admits=self._tokens[writes].admits)
        return await ws.listen(host, port, door, self._config.limits, gate)

    async def _behind(self, *, writes: bool, admits: ws.Admits) -> tuple[WindowDoor, ws.Gate]:
        """Return what a listener needs."""
        from sessiond.agent_host.host import AgentHost, WindowDoor
        from sessiond.transports import ws
        from sessiond.transports.ws_http import OriginCheck, token_in_query

        async with self._opening:
            if self._host is None:
                path = f"{self._where.data}/agent-host.jsonl"
                limits = self._config.limits
                made = AgentHost(self._service, self._fs, path, self._clock, limits, self._server.next_number)
                await made.start()
                self._host = made
        origins = OriginCheck(self._config.allowed_hosts, (*self._config.allowed_origins, _VSCODE))
        gate = ws.Gate(origins, _NoSite(), admits, "ahp", token_in_query("tkn"), strangers=False)
        return WindowDoor(self._host, writes=writes), gate

    def status(self) -> AgentHostStatus | None:
        """None: no window can connect, and none is meant to."""
        listeners = [
            AgentHostAddress(write=writes, host=one.host, port=one.port, token_file=one.token_file)
            for writes, doors in ((False, self.reading), (True, self.writing))
            for one in doors.addresses()
        ]
        if self._socket is not None:
            listeners.insert(0, AgentHostAddress(write=self._config.ahp_write, socket=self._socket.file.path))
        problems = [f"{text}: {why}" for text, why in self._problems.items()]
        if self._config.ahp_write and not self._config.ahp_listen:
            problems.append("write = true under [ahp] does nothing without listen")
        if not listeners and not problems:
            return None
        return AgentHostStatus(
            listeners=listeners,
            problems=problems,
            windows=0 if self._host is None else len(self._host.windows),
            refused=[] if self._host is None else list(self._host.refused),
        )

    async def close(self) -> None:
        """Also ends the windows."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for doors in (self.reading, self.writing):
            doors.close()
        if self._socket is not None:
            self._socket.close()
        if self._host is not None:
            await self._host.close()


class _NoSite:
    """A `Site` without a page."""

    async def get(self, path: str, query: str, authorization: str, port: int) -> HttpResponse | None:
        return None
