"""Where clients come in: the Unix socket, put back when somebody removes it, and TCP while somebody asks for it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import socket
from typing import Any

from sessiond.endpoint import PROTOCOL_VERSION, Endpoint, Places, prepare_socket_path
from sessiond.errors import AlreadyExists, ConfigError, InvalidParams, Unavailable
from sessiond.fs import FileSystem, atomic_write
from sessiond.limits import Limits
from sessiond.transports import tcp, unix
from sessiond.transports.channel import Acceptor
from sessiond.transports.listener import Listener

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
        self.path = ""

    def open(self) -> None:
        """Listen, on the sockets of a service manager where it handed any over, and say where. ConfigError, OSError."""
        inherited = unix.inherited_sockets()
        self._listeners = [unix.listen_inherited(sock, self._acceptor, self._limits) for sock in inherited]
        if inherited:
            self.path = str(inherited[0].getsockname())
        else:
            self._bind()
        self._record()

    def _bind(self) -> None:
        try:
            path = prepare_socket_path(self._where)
        except OSError as error:
            hint = "set SESSIOND_HOME or XDG_RUNTIME_DIR to a short private folder"
            raise ConfigError(str(error.strerror), hint=hint) from None
        self._listeners.append(unix.listen(path, self._acceptor, self._limits))
        self.path = path

    def _record(self) -> None:
        record = Endpoint(self.path, PROTOCOL_VERSION, os.getpid(), self._version, self._instance).encode()
        try:
            atomic_write(self._fs, self._where.endpoint_file, record)
        except OSError as error:
            # A full disk. The path is the same as ever, so the record of the last daemon leads here too.
            _log.warning("%s could not be written: %s", self._where.endpoint_file, error)

    async def look_after(self) -> None:
        """Put back what somebody removed: temp cleaners take sockets, a logout takes the whole run folder."""
        if await asyncio.to_thread(self._in_place):
            return
        _log.warning("the socket %s or its record is gone; making both anew", self.path)
        if any(listener.path is not None for listener in self._listeners):
            self.close()
            self._bind()
        self._record()

    def _in_place(self) -> bool:
        record = self._fs.stat(self._where.endpoint_file)
        return record is not None and all(listener.in_place() for listener in self._listeners)

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()


class TcpDoors:
    """Listeners that clients asked for, each as long as its client lives."""

    def __init__(self, fs: FileSystem, where: Places, limits: Limits, acceptor: Acceptor) -> None:
        self._fs = fs
        self._limits = limits
        self._acceptor = acceptor
        self.token_file = where.data + "/token"
        self.token: str | None = None
        self._open: list[tuple[str, int, Listener]] = []

    def status(self) -> dict[str, Any] | None:
        """The first listener's address, as in `daemon/status`."""
        if not self._open:
            return None
        host, port, _ = self._open[0]
        return {"host": host, "port": port, "tokenFile": self.token_file}

    async def listen(self, host: str | None, port: int) -> tuple[dict[str, Any], Listener]:
        """Listen; `close_one` ends it. AlreadyExists, InvalidParams, Unavailable."""
        if self.token is None:
            self.token = await asyncio.to_thread(self._read_or_make_token)
        name = f"{host or tcp.LOOPBACK}:{port}"
        try:
            listener = await tcp.listen(host, port, self._acceptor, self._limits)
        except socket.gaierror as error:
            raise InvalidParams(f"host: {host!r} is no address ({error.strerror})", field="host") from None
        except (OSError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                hint = "choose another port, or 0 for any free one"
                raise AlreadyExists(f"{name} is taken by another program", hint=hint) from None
            raise Unavailable(f"cannot listen on {name}: {error}") from None
        self._open.append((listener.host, listener.port, listener))
        _log.info("listening on tcp %s port %d", listener.host, listener.port)
        return {"host": listener.host, "port": listener.port, "tokenFile": self.token_file}, listener

    def close_one(self, listener: Listener) -> None:
        listener.close()
        self._open = [entry for entry in self._open if entry[2] is not listener]

    def close(self) -> None:
        for _, _, listener in self._open:
            listener.close()
        self._open.clear()

    def _read_or_make_token(self) -> str:
        """One token for the data folder's whole life, so that a script survives a restart. One others could read goes."""
        stat = self._fs.stat(self.token_file)
        if stat is not None and stat.is_file and stat.uid == os.geteuid() and not stat.mode & 0o077:
            token = self._fs.read(self.token_file).decode("ascii", "replace").strip()
            if len(token) >= _TOKEN_BYTES:
                return token
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        atomic_write(self._fs, self.token_file, token.encode() + b"\n", 0o600)
        return token
