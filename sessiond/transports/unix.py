"""The Unix socket: where it is bound, and which peers are admitted.

It is bound under a temporary name in the same folder, listens, and only then is renamed onto its path: a client that dials
the path reaches a daemon that listens, and another process's socket is never removed first. The caller owns the data
folder's lock, so there is only one daemon.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
import struct

from sessiond.errors import ConfigError
from sessiond.limits import Limits
from sessiond.transports.channel import Acceptor
from sessiond.transports.listener import BACKLOG, Listener

_FIRST_INHERITED_FD = 3


class SocketFile:
    """The file through which clients reach a bound socket; temp cleaners and logouts remove such files."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._identity = _identity(path)

    def in_place(self) -> bool:
        """Return whether the path still leads to this socket."""
        return self._identity is not None and _identity(self.path) == self._identity

    def remove(self) -> None:
        """If the path still leads to this socket."""
        if self.in_place():
            with contextlib.suppress(OSError):
                os.unlink(self.path)


class UnixListener(Listener):
    """A `Listener` on a path. `path` is None for a socket that was inherited and belongs to a service manager."""

    def __init__(self, sock: socket.socket, acceptor: Acceptor, *, limits: Limits, path: str | None) -> None:
        super().__init__(sock, acceptor, kind="unix", trusted=True, limits=limits, may_enter=same_user)
        self.path = path
        self._file = None if path is None else SocketFile(path)

    def in_place(self) -> bool:
        """Return whether clients still reach it; a service manager looks after its own."""
        return self._file is None or self._file.in_place()

    def close(self) -> None:
        """Also removes the path, if it still leads to this socket."""
        if self._file is not None:
            self._file.remove()
        super().close()


def listen(path: str, acceptor: Acceptor, limits: Limits) -> UnixListener:
    """Listen on `path`; to be called on the event loop. Raises ConfigError for a folder that other users can access; OSError
    is passed on.
    """
    return UnixListener(bind(path), acceptor, limits=limits, path=path)


def listen_inherited(sock: socket.socket, acceptor: Acceptor, limits: Limits) -> UnixListener:
    """Listen on a socket that a service manager opened."""
    return UnixListener(sock, acceptor, limits=limits, path=None)


def bind(path: str) -> socket.socket:
    """A listening socket that was renamed onto `path`; a missing folder is created with mode 0700, the socket has 0600."""
    folder = os.path.dirname(path)
    _private_folder(folder)
    temporary = os.path.join(folder, f".{secrets.token_hex(3)}")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(temporary)
        try:
            os.chmod(temporary, 0o600)
            sock.listen(BACKLOG)
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except BaseException:
        sock.close()
        raise
    return sock


def inherited_sockets() -> list[socket.socket]:
    """Listening Unix sockets that a service manager passed on (LISTEN_FDS); the variables are removed from the environment."""
    pid, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count.isdecimal():
        return []
    sockets = []
    for descriptor in range(_FIRST_INHERITED_FD, _FIRST_INHERITED_FD + int(count)):
        os.set_inheritable(descriptor, False)
        sock = socket.socket(fileno=descriptor)
        if sock.family == socket.AF_UNIX and sock.type == socket.SOCK_STREAM:
            sockets.append(sock)
        else:
            sock.close()
    return sockets


def same_user(sock: socket.socket) -> bool:
    """Return whether the process at the other end runs under our uid."""
    try:
        return peer_uid(sock) == os.getuid()
    except OSError:
        return False


def peer_uid(sock: socket.socket) -> int:
    if hasattr(socket, "SO_PEERCRED"):
        _pid, uid, _gid = struct.unpack(
            "3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
        return int(uid)
    # macOS, the BSDs: struct xucred {u_int version; uid_t uid; short ngroups; gid_t groups[16]}
    sol_local, local_peercred = 0, getattr(socket, "LOCAL_PEERCRED", 1)
    raw = sock.getsockopt(sol_local, local_peercred, struct.calcsize("IIh16I"))
    return int(struct.unpack_from("II", raw)[1])


def _private_folder(folder: str) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.stat(folder)
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"the folder of the socket, {folder}, is open to other users",
            hint=f"make it private: chmod 700 {folder}",
            path=folder,
        )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
