"""The places where clients connect: the Unix socket, restored if it is removed, and TCP and WebSocket as long as a client asks for
them.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
import os
import posixpath
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from sessiond.config import Config
from sessiond.endpoint import PROTOCOL_VERSION, Endpoint, Places, prepare_socket_path, privacy_problem, read_endpoint
from sessiond.errors import AlreadyExists, ConfigError, InvalidParams, Unavailable
from sessiond.fs import FileSystem, atomic_write
from sessiond.limits import Limits
from sessiond.schema.daemon import Address
from sessiond.transports import tcp, unix
from sessiond.transports.channel import Acceptor

_log = logging.getLogger(__name__)
_TOKEN_BYTES = 32


class UnixDoor:
    """The socket of this daemon and the record that leads to it."""

    def __init__(
        self, fs: FileSystem, where: Places, limits: Limits, acceptor: Acceptor, *, version: str, instance: str
    ) -> None:
        self._fs = fs
        self._where = where
        self._limits = limits
        self._acceptor = acceptor
        self._version = version
        self._instance = instance
        self._listeners: list[unix.UnixListener] = []
        self._former: list[unix.UnixListener] = []
        """They serve until the record leads to the new one."""
        self.path = ""

    def open(self) -> None:
        """Listen, on the sockets of a service manager if it passed any, and write the record. ConfigError, OSError; also if no
        record leads here, as nobody would find a daemon that cannot say where it is.
        """
        inherited = unix.inherited_sockets()
        self._listeners = [unix.listen_inherited(sock, self._acceptor, self._limits) for sock in inherited]
        if inherited:
            self.path = str(inherited[0].getsockname())
        else:
            self._listeners = [self._bind()]
        problem = self._record()
        if problem is not None and not self._recorded():
            self.close()
            raise problem

    def _bind(self) -> unix.UnixListener:
        try:
            path = prepare_socket_path(self._where)
        except OSError as error:
            hint = "set SESSIOND_HOME or XDG_RUNTIME_DIR to a short private folder"
            raise ConfigError(str(error.strerror), hint=hint) from None
        try:
            listener = unix.listen(path, self._acceptor, self._limits)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None  # that of a socket names no file
        self.path = path
        return listener

    def _record(self) -> OSError | None:
        record = Endpoint(self.path, PROTOCOL_VERSION, os.getpid(), self._version, self._instance, greets=True).encode()
        path = self._where.endpoint_file
        try:
            if self._fs.real_path(path) != posixpath.join(self._fs.real_path(posixpath.dirname(path)), "endpoint"):
                self._fs.remove(path)  # a link: clients do not read the record through one
            atomic_write(self._fs, path, record)
        except OSError as error:
            # A full disk. The path never changes, so the record of the last daemon leads here too.
            _log.warning("%s could not be written: %s", self._where.endpoint_file, error)
            return error
        return None

    async def look_after(self) -> None:
        """Restore what was removed: temp cleaners remove sockets, a logout removes the whole run folder. If that fails now
        (no descriptor, no folder) this raises, and the next call tries again.
        """
        in_place, recorded = await asyncio.to_thread(self._look)
        if not in_place:
            _log.warning("the socket %s is gone, or in a folder for emergencies; creating it again", self.path)
            made = self._bind()  # before the old one is closed: if this fails, the old one remains for the next try
            self._former += self._listeners
            self._listeners = [made]
        if not (in_place and recorded):
            self._record()
            recorded = self._recorded()
        if recorded:
            former, self._former = self._former, []
            for listener in former:
                listener.close()

    def _look(self) -> tuple[bool, bool]:
        """Return whether a client that dials reaches us where it should, and whether the record leads here."""
        return bool(self._listeners) and all(map(self._is_well, self._listeners)), self._recorded()

    def _is_well(self, listener: unix.UnixListener) -> bool:
        """Also false if clients would not trust the folder, or if the run folder, that was not to be had, is there again."""
        if listener.path is None:
            return True
        folder = posixpath.dirname(listener.path)
        if not listener.in_place() or privacy_problem(folder) is not None:
            return False
        return folder == self._where.run or prepare_socket_path(self._where) == listener.path

    def _recorded(self) -> bool:
        record = read_endpoint(self._where.data)
        return record is not None and record.socket == self.path

    def close(self) -> None:
        for listener in self._listeners + self._former:
            listener.close()
        self._listeners.clear()
        self._former.clear()


class TokenFile:
    """The token for peers that do not use the Unix socket: one for the whole life of the data folder, so that a script
    survives a restart. A file that others could read is replaced.
    """

    def __init__(self, fs: FileSystem, where: Places, name: str = "token") -> None:
        self._fs = fs
        self.path = f"{where.data}/{name}"
        self.token: str | None = None
        self._reading = asyncio.Lock()

    async def get(self) -> str:
        """OSError if it can be neither read nor created."""
        async with self._reading:
            if self.token is None:
                self.token = await asyncio.to_thread(self._read_or_make)
            return self.token

    def admits(self, token: str | None) -> bool:
        """Compared in constant time."""
        return token is not None and self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())

    def _read_or_make(self) -> str:
        stat = self._fs.stat(self.path)
        if stat is not None and stat.is_file and stat.uid == os.geteuid() and not stat.mode & 0o077:
            token = self._fs.read(self.path).decode("ascii", "replace").strip()
            if len(token) >= _TOKEN_BYTES:
                return token
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        atomic_write(self._fs, self.path, token.encode() + b"\n", 0o600)
        return token


class NetworkListener(Protocol):
    """A listener on a host and a port."""

    host: str
    port: int

    def close(self) -> None: ...


class NetworkListeners:
    """Listeners of one kind that clients asked for; each lasts as long as its client."""

    def __init__(
        self, kind: str, token: TokenFile, opener: Callable[[str | None, int], Awaitable[NetworkListener]]
    ) -> None:
        self._kind = kind
        self._token = token
        self._opener = opener
        self._open: list[NetworkListener] = []

    def status(self) -> Address | None:
        """The first listener's address, as in `daemon/status`."""
        return next(iter(self.addresses()), None)

    def addresses(self) -> list[Address]:
        return [self._address(listener) for listener in self._open]

    async def listen(self, host: str | None, port: int) -> tuple[Address, NetworkListener]:
        """Listen; `close_one` ends it. AlreadyExists, InvalidParams, Unavailable."""
        await self._token.get()
        name = f"{host or tcp.LOOPBACK}:{port}"
        try:
            listener = await self._opener(host, port)
        except (socket.gaierror, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "a part of it is too long, or empty"
            raise InvalidParams(f"host: {host!r} is not an address ({why})", field="host") from None
        except (OSError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                hint = "choose another port, or 0 for any free one"
                is_ours = any(one.port == port for one in self._open)
                who = "this daemon, which listens there already" if is_ours else "another program"
                raise AlreadyExists(f"{name} is taken by {who}", hint=hint) from None
            raise Unavailable(f"cannot listen on {name}: {error}") from None
        self._open.append(listener)
        _log.info("listening on %s %s port %d", self._kind, listener.host, listener.port)
        return self._address(listener), listener

    def close_one(self, listener: NetworkListener) -> None:
        listener.close()
        self._open = [one for one in self._open if one is not listener]

    def close(self) -> None:
        for listener in self._open:
            listener.close()
        self._open.clear()

    def _address(self, listener: NetworkListener) -> Address:
        return Address(host=listener.host, port=listener.port, token_file=self._token.path)


def tcp_listeners(token: TokenFile, limits: Limits, acceptor: Acceptor) -> NetworkListeners:
    return NetworkListeners("tcp", token, lambda host, port: tcp.listen(host, port, acceptor, limits))


def ws_listeners(
    token: TokenFile, limits: Limits, acceptor: Acceptor, config: Config, instance: str
) -> NetworkListeners:
    """Also serves the page on the same port."""

    async def opened(host: str | None, port: int) -> NetworkListener:
        # Imported only to listen: most daemons are never asked to.
        from sessiond.daemon.site import PageSite
        from sessiond.transports import ws
        from sessiond.transports.ws_http import OriginCheck

        door = OriginCheck(config.allowed_hosts, config.allowed_origins)
        site = PageSite(await token.get(), instance)
        return await ws.listen(host, port, acceptor, limits, ws.Gate(door, site, token.admits))

    return NetworkListeners("ws", token, opened)
