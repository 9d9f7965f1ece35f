"""Finds the daemon, and says the first words of a connection to it."""

from __future__ import annotations

import _socket
import math
import os
import time
from typing import Any, Protocol

from sessiond.client.failures import error_of
from sessiond.client.types import Value
from sessiond.endpoint import PROTOCOL_VERSION, NoHome, Places, places
from sessiond.errors import DaemonUnreachable, InvalidParams
from sessiond.reach import PATIENCE_S, Unreachable, above_standard, reach

LOOK_AGAIN_S = 0.02
LONGEST_PAUSE_S = 0.5
TOKEN_BYTES = 4096


def _patience(deadline: float) -> float:
    """Return how long to look for the daemon. Without a deadline for the request, as long as a daemon may take to start."""
    return PATIENCE_S if deadline == math.inf else max(0.0, deadline - time.monotonic())


class DaemonTarget(Protocol):
    """The daemon that `connect` was told to reach."""

    def dial(self, deadline: float) -> _socket.socket:
        """A fresh connection. DaemonUnreachable, at the latest a moment after `deadline` (monotonic)."""

    def token(self) -> str | None:
        """Return what has to be shown first. DaemonUnreachable where it cannot be read."""


class Local:
    """This user's daemon, over its socket. Starts one where `start` says so."""

    def __init__(self, where: Places, *, start: bool) -> None:
        self._where = where
        self._start = start

    def dial(self, deadline: float) -> _socket.socket:
        try:
            return reach(self._where, start=self._start, patience_s=_patience(deadline))
        except Unreachable as error:
            raise DaemonUnreachable(str(error)) from None  # which says what to do

    def token(self) -> str | None:
        return None


class Tcp:
    """A daemon that listens on TCP. The token is read from its file for each connection: a new daemon may have a new one."""

    def __init__(self, host: str, port: int, token: str | None, token_file: str | None) -> None:
        self._host = host
        self._port = port
        self._token = token
        self._token_file = token_file

    def dial(self, deadline: float) -> _socket.socket:
        import socket  # as long to import as all the rest of the client

        deadline = time.monotonic() + _patience(deadline)
        while True:
            patience = max(0.1, deadline - time.monotonic())
            try:
                connection = above_standard(socket.create_connection((self._host, self._port), patience))
            except OSError as error:
                if time.monotonic() + LOOK_AGAIN_S >= deadline:
                    raise DaemonUnreachable(
                        f"nobody can be reached at {self._host}:{self._port} ({error})",
                        hint="`sessiond --tcp 0` prints where a daemon listens",
                    ) from None
                time.sleep(LOOK_AGAIN_S)
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection

    def token(self) -> str | None:
        if self._token is not None or self._token_file is None:
            return self._token
        try:
            with open(self._token_file, "rb") as file:
                return file.read(TOKEN_BYTES).decode("ascii", "replace").strip()
        except OSError as error:
            raise DaemonUnreachable(
                f"the token in {self._token_file} cannot be read: {error.strerror}",
                hint="give the file that `sessiond --tcp` prints",
            ) from None


def target(
    address: str | None, *, token: str | None, token_file: str | None, home: str | None, start: bool
) -> DaemonTarget:
    """From the arguments of `connect`. InvalidParams where they do not fit together."""
    if address is not None:
        host, colon, port = address.removeprefix("tcp://").rpartition(":")
        if not colon or not port.isdecimal():
            raise InvalidParams(f"{address!r} is not HOST:PORT", hint='for example "127.0.0.1:7441"')
        return Tcp(host.strip("[]"), int(port), token, token_file)
    try:
        where = places({**os.environ, "SESSIOND_HOME": home}) if home else places()
    except NoHome as error:
        raise DaemonUnreachable(str(error)) from None
    return Local(where, start=start)


class _Limits(Value, frozen=True, kw_only=True):
    message_bytes: int | None = None


class _Sessiond(Value, frozen=True, kw_only=True):
    protocol_version: int = 0
    limits: _Limits = _Limits()


class _Experimental(Value, frozen=True, kw_only=True):
    sessiond: _Sessiond = _Sessiond()


class _Capabilities(Value, frozen=True, kw_only=True):
    experimental: _Experimental = _Experimental()


class Welcome(Value, frozen=True, kw_only=True):
    """The part of the result of `initialize` that the client needs."""

    capabilities: _Capabilities = _Capabilities()

    @property
    def message_bytes(self) -> int | None:
        """Return how long a message to this daemon may be; None if it does not say."""
        return self.capabilities.experimental.sessiond.limits.message_bytes


def introduction(name: str, token: str | None) -> dict[str, Any]:
    """Params of `initialize`: the name that others see as the origin of our changes, and the token."""
    options = {} if token is None else {"initializationOptions": {"token": token}}
    return {"processId": None, "clientInfo": {"name": name}, "capabilities": {}, **options}


def check_welcome(error: Any, welcome: Welcome) -> None:
    """Unauthorized, DaemonUnreachable: whoever is there does not take us, or speaks another protocol."""
    if error is not None:
        raise error_of(error)
    theirs = welcome.capabilities.experimental.sessiond.protocol_version
    if theirs != PROTOCOL_VERSION:
        raise DaemonUnreachable(
            f"the daemon speaks protocol {theirs}, this client speaks protocol {PROTOCOL_VERSION}",
            hint="update the one that is older",
        )
