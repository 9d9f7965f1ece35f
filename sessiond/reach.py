"""Find this user's daemon, or start one: what the relay and the command line do first.

An editor waits for this, so it imports little besides `os` and `_socket`. What happens:

    dial the socket that the data folder's record names
        it answers, and the record names our protocol version -> done
        it answers, another version                           -> daemon/hello; older: daemon/stop, newer: refuse
        nobody there                                          -> start a daemon, wait for its word, daemon/hello, dial

A client that starts a daemon does not own it: several may start one at once, the one that gets the lock remains, the others
end with "taken", and their clients just dial again. A client never removes a socket.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

from sessiond import endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TypeVar

    Socket = TypeVar("Socket", bound=_socket.socket)

PATIENCE_S = 20.0
"""How long a daemon that is being started may take to answer."""
START_AGAIN_S = 1.0
"""The wait after a start found the lock taken: by then its owner should answer, or be gone."""
DIAL_PAUSE_S = 0.02
HELLO_S = 5.0
START_LOG_BYTES = 64 * 1024
TAIL_BYTES = 2000


class Unreachable(Exception):
    """No daemon could be reached or started; the text says why and what to do."""


def reach(where: endpoint.Places, *, start: bool = True, patience_s: float = PATIENCE_S) -> _socket.socket:
    """A fresh connection to this user's daemon with our protocol version; with `start`, starts one if necessary.

    Raises Unreachable, at the latest after `patience_s`.
    """
    return _Reach(where, start, patience_s).connection()


def reach_greeting(where: endpoint.Places) -> tuple[_socket.socket, bool]:
    """The same, and whether the daemon answers the greeting."""
    found = _Reach(where, True, PATIENCE_S)
    return found.connection(), found.greets


class _Reach:
    """One attempt to get a connection, with a deadline (monotonic seconds)."""

    def __init__(self, where: endpoint.Places, start: bool, patience_s: float) -> None:
        self.where = where
        self.start = start
        self.deadline = time.monotonic() + patience_s
        self.next_start = 0.0
        self.why = "no daemon runs"
        self.greets = False

    def connection(self) -> _socket.socket:
        agreed = False
        while True:
            record = endpoint.read_endpoint(self.where.data)
            connection = self._dial(record.socket) if record else None
            if connection is not None and record is not None:
                if agreed or record.protocol == endpoint.PROTOCOL_VERSION:
                    connection.settimeout(None)
                    self.greets = record.greets
                    return connection
                agreed = self._agree(connection)
                if agreed:
                    continue  # that connection used newline-delimited JSON; the client needs a fresh one
            elif not self.start:
                raise Unreachable(self.why)
            elif self._start_one():
                # It runs this code, whatever the record says: on a full disk the record is the last daemon's.
                agreed = True
                continue
            self._pause()

    def _dial(self, path: str) -> _socket.socket | None:
        """A connection to the socket at `path`, or None if no trusted process is there."""
        problem = endpoint.privacy_problem(os.path.dirname(path))
        if problem is not None:
            self.why = f"the socket's folder cannot be trusted: {problem}"
            return None
        connection = above_standard(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM))
        try:
            connection.settimeout(max(0.1, self.deadline - time.monotonic()))
            connection.connect(path)
            uid = peer_uid(connection)
        except OSError as error:
            self.why = f"nothing responds at {path} ({error})"
            connection.close()
            return None
        if uid != os.geteuid():
            self.why = f"the process behind {path} belongs to uid {uid}"
            connection.close()
            return None
        return connection

    def _agree(self, connection: _socket.socket) -> bool:
        """Ask for the daemon's version. True if we can talk to it; False if it is gone or has been told to stop."""
        try:
            connection.settimeout(max(0.1, min(HELLO_S, self.deadline - time.monotonic())))
            hello = call(connection, "daemon/hello")
            if not self.start:
                return True  # without `start` nothing is replaced: `status` and `stop` understand any version
            theirs = hello.get("protocolVersion")
            if not isinstance(theirs, int) or theirs > endpoint.PROTOCOL_VERSION:
                raise Unreachable(
                    f"a newer daemon is running (version {hello.get('version')}, protocol {theirs}; this one speaks protocol "
                    f"{endpoint.PROTOCOL_VERSION}): update this sessiond, or stop that daemon with `sessiond stop`"
                )
            if theirs == endpoint.PROTOCOL_VERSION:
                return True
            call(connection, "daemon/stop")
            self.why = f"the older daemon (version {hello.get('version')}) is still stopping"
        except (OSError, ValueError) as error:
            self.why = f"the daemon did not answer daemon/hello ({error})"
        finally:
            connection.close()
        return False

    def _start_one(self) -> bool:
        """Start a daemon, unless one was started a moment ago. Returns whether it reported that it is ready."""
        if time.monotonic() < self.next_start:
            return False
        self.next_start = time.monotonic() + START_AGAIN_S
        log_at = _start_log_size(self.where)
        try:
            pipe = spawn(self.where)
        except OSError as error:  # of descriptors, processes or memory there are none left
            raise Unreachable(f"the daemon could not be started: {error}") from None
        word = self._word_of(pipe)
        if word == "ready":
            return True
        if word == "taken":
            record = endpoint.read_endpoint(self.where.data)
            holder = f"a daemon (pid {record.pid})" if record else "another process"
            self.why = f"{holder} holds {self.where.lock_file} but does not answer"
            return False
        if not word:
            word = f"the daemon could not be started: {_last_word(self.where, log_at)}"
        raise Unreachable(word)

    def _word_of(self, pipe: int) -> str:
        """The word of the daemon that is being started: "ready", "taken", an error for people, or "" if it just ended."""
        said = b""
        try:
            while True:
                if not _readable(pipe, self.deadline - time.monotonic()):
                    raise Unreachable(
                        "the daemon was started but is not ready yet; try again in a moment, "
                        f"or look into {self.where.log}"
                    )
                chunk = os.read(pipe, 4096)
                if not chunk:
                    return said.decode("utf-8", "replace").strip().removeprefix("failed ")
                said += chunk
        finally:
            os.close(pipe)

    def _pause(self) -> None:
        if time.monotonic() >= self.deadline:
            raise Unreachable(f"{self.why}; run `sessiond doctor`")
        time.sleep(DIAL_PAUSE_S)


def _readable(fd: int, timeout_s: float) -> bool:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))


def above_standard(connection: Socket) -> Socket:
    """The same connection, on a descriptor above 2. A program that closed its standard files would get one of those, and what
    it or one of its libraries prints would go to the daemon. OSError.
    """
    if connection.fileno() > 2:
        return connection
    return type(connection)(fileno=_moved(connection.detach()))


def _moved(fd: int) -> int:
    """The same file on a descriptor above 2. Closes the other one, also where it raises OSError."""
    if fd > 2:
        return fd
    import fcntl

    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def is_held(where: endpoint.Places) -> bool:
    """Return whether a daemon owns the data folder, even one that does not answer. It releases the lock at its very end."""
    import fcntl

    try:
        fd = os.open(where.lock_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # does not block, even on a FIFO
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def peer_uid(connection: _socket.socket) -> int:
    """The user of the process at the other end of a Unix socket. OSError if the system does not say."""
    if sys.platform == "darwin":
        # struct xucred { u_int cr_version; uid_t cr_uid; ... }, level SOL_LOCAL (0), LOCAL_PEERCRED (1)
        return int.from_bytes(connection.getsockopt(0, 1, 76)[4:8], sys.byteorder)
    # struct ucred { pid_t pid; uid_t uid; gid_t gid; }
    return int.from_bytes(connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8], sys.byteorder)


def call(connection: _socket.socket, method: str) -> dict[str, object]:
    """Send one request without params in newline-delimited JSON, and return its result. OSError or ValueError if that fails."""
    import json  # not on the fast path: only after a start or before a change of versions

    connection.sendall(b'{"jsonrpc":"2.0","id":1,"method":"%s"}\n' % method.encode())
    line = b""
    while not line.endswith(b"\n"):
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionResetError(f"{method}: the connection ended")
        line += chunk
    answer = json.loads(line)
    result = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(result, dict):
        raise ValueError(f"{method}: {line[:200]!r} is not an answer")
    return result


def spawn(where: endpoint.Places) -> int:
    """Start a daemon that outlives us. Returns the reading end of a pipe on which it reports the outcome.

    Forks twice, so that it is not our child: a relay may live for days and would leave a zombie.
    """
    package_parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    reading, writing = _pipe()
    try:
        log = _open_start_log(where)
        try:
            child = os.fork()
            if child == 0:
                _become_daemon(where, package_parent, writing, log)
        finally:
            os.close(log)
        try:  # noqa: SIM105  `contextlib` takes time to import
            os.waitpid(child, 0)
        except ChildProcessError:
            pass  # it has ended: this program ignores SIGCHLD, or waits for all of its children itself
    except BaseException:  # an interrupt as well
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return reading


def _pipe() -> tuple[int, int]:
    """A pipe above 2: the descriptors up to that are replaced by the daemon's standard files."""
    reading, writing = os.pipe()
    try:
        reading = _moved(reading)
    except OSError:
        os.close(writing)
        raise
    try:
        return reading, _moved(writing)
    except OSError:
        os.close(reading)
        raise


def _become_daemon(where: endpoint.Places, package_parent: str, writing: int, log: int) -> NoReturn:
    """In the forked child: never returns, never raises."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        if where.home:
            os.environ["SESSIOND_HOME"] = where.home  # ours, wherever it starts
        for name in ("TMPDIR", "TEMP", "TMP"):
            if not os.path.isabs(os.environ.get(name, "/")):
                del os.environ[name]
        # `-m` searches the current folder first: make that the parent of this package, never the editor's project.
        os.chdir(package_parent)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.set_inheritable(0, True)  # where it was 0 already
        os.dup2(log, 1)
        os.dup2(log, 2)
        _close_above_standard(but=writing)
        os.set_inheritable(writing, True)
        # UTF-8 in file names whatever this client's locale is: all clients share the daemon.
        command = [sys.executable, "-X", "utf8", "-m", "sessiond", "serve", "--ready-fd", str(writing)]
        os.execv(sys.executable, command)  # noqa: S606  our own interpreter and our own package
    except BaseException as error:  # in any case the relay's own code must not continue in the child
        os.write(writing, f"failed {sys.executable} could not be run: {error}\n".encode())
    finally:
        os._exit(127)


def _close_above_standard(but: int) -> None:
    try:
        there = max(map(int, os.listdir("/dev/fd")))
    except (OSError, ValueError):
        there = 0
    # A program may have lowered its limit after it had opened files beyond that.
    beyond = max(there + 1, os.sysconf("SC_OPEN_MAX"))
    os.closerange(3, but)
    os.closerange(but + 1, beyond)


def _open_start_log(where: endpoint.Places) -> int:
    try:
        endpoint.make_private_dir(where.log)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = _moved(os.open(where.start_log, flags, 0o600))
        if os.fstat(fd).st_size > START_LOG_BYTES:
            os.ftruncate(fd, 0)
    except OSError:
        return _moved(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
    return fd


def _start_log_size(where: endpoint.Places) -> int:
    try:
        size = os.stat(where.start_log).st_size
    except OSError:
        return 0
    return 0 if size > START_LOG_BYTES else size


def _last_word(where: endpoint.Places, begin: int) -> str:
    """The last line that was written to the start log since `begin`."""
    try:
        with open(where.start_log, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(begin, size - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    # The last line says what is wrong; the traceback remains in the file.
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{said}; more in {where.start_log}" if said else f"it reported nothing; look into {where.log}"
