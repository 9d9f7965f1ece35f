"""stdio <-> the daemon's socket: raw bytes, nothing parsed. This is what `sessiond` without arguments runs.

Each direction holds at most one chunk and reads again only when that has been written, so that a slow end slows the other
one down and no memory fills up. An end of input is passed on as such (the daemon still answers); when the daemon or the
client is gone, the relay ends.

A daemon that is being killed still accepts connections for a moment and then resets them. So the relay greets: a daemon
answers the greeting before it reads anything else. Until then everything that the client sent is kept (no more than a socket
holds that nobody reads), and after a reset the relay dials again and sends it again, for nobody can have read it. From then
on nothing is ever sent twice: a daemon that goes away may have done what it was sent, answered or not.

    greeting ──`!`──> greeted ──first answer──> answered
       │ reset           │ reset or end            │ reset or end
    dial again        an error, exit 69         the end, exit 0
"""

from __future__ import annotations

import _socket
import os
import select
import time

from sessiond import endpoint
from sessiond.reach import Unreachable, reach_greeting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EX_UNAVAILABLE = 69
CHUNK_BYTES = 64 * 1024
MAX_DIALS = 8
DIAL_AGAIN_S = 0.01
"""Before the second dial; doubles each time, because a process that is being killed may take a second to go away."""
CLIENT_CHECK_MS = 5000
"""How often to check that a client that gave its process id is still running."""
LAST_WORDS_MS = 200
"""How long a client that no longer reads may be silent before it counts as gone."""
DONE, CUT_OFF, AGAIN = 0, 1, 2
_GONE = select.POLLERR | select.POLLNVAL | select.POLLHUP


def main(arguments: Sequence[str]) -> int:
    """`sessiond [--stdio] [--clientProcessId=N]`. Returns the exit code."""
    watched = 0
    for argument in arguments:
        if argument.startswith("--clientProcessId="):
            number = argument.partition("=")[2]
            watched = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0
    if os.isatty(0):
        _say("speaking JSON-RPC on standard input, as editors do; for the commands for people, see: sessiond --help")
    pump = RelayPump(0, 1, watched)
    try:
        where = endpoint.places()
        for nth in range(MAX_DIALS):
            if nth:
                time.sleep(DIAL_AGAIN_S * 2 ** (nth - 1))
            connection, greets = reach_greeting(where)
            ended = pump.run(connection.fileno(), greets=greets)
            connection.close()
            if ended == CUT_OFF:
                raise Unreachable(
                    "the daemon went away before its first answer; what was sent to it may have been done, or not: "
                    "look before you send it again"
                )
            if ended == DONE:
                return 0
        raise Unreachable(f"the daemon closed the connection {MAX_DIALS} times; run `sessiond doctor`")
    except (Unreachable, endpoint.NoHome) as error:
        _say(str(error))
        return EX_UNAVAILABLE
    except KeyboardInterrupt:
        return 130
    finally:
        pump.close()


def _say(text: str) -> None:
    try:  # noqa: SIM105  contextlib takes three times as long to import as the rest of us
        os.write(2, f"sessiond: {text}\n".encode("utf-8", "replace"))
    except OSError:
        pass


class RelayPump:
    """Between a client's two file descriptors and one connection after another."""

    def __init__(self, stdin: int, stdout: int, watched_pid: int = 0) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.watched_pid = watched_pid
        self.input_ended = False
        self.mute = False
        """The client no longer reads: what it still sends goes through, then the relay ends."""
        self.kept: bytearray | None = bytearray()
        """What the client sent, as long as no daemon can have read it."""
        self._has_sent = False
        """Anything of what the client sent."""
        self._was_blocking = _set_nonblocking(stdout)

    def close(self) -> None:
        """Restore the client's descriptor: other processes may share it."""
        if self._was_blocking:
            os.set_blocking(self.stdout, True)

    def run(self, connection: int, *, greets: bool = False) -> int:
        """Run until either side ends: DONE, CUT_OFF, or AGAIN if a new connection may replace this one. `greets`: the daemon
        answers the greeting.
        """
        os.set_blocking(connection, False)
        up = memoryview((endpoint.GREETING if greets else b"") + (self.kept or b""))
        if not greets:
            self.kept = None  # who has read it cannot be known
        down = memoryview(b"")
        deaf = half_closed = answered = False
        while True:
            if self.input_ended and not up and not half_closed:
                half_closed = True
                _end_sending(connection)
            taking = not up and not self.input_ended
            ready = self._wait(connection, bool(up), not down, taking, bool(down))
            if not ready:
                return DONE
            if connection in ready and not down:
                try:
                    chunk = _read(connection)
                except OSError:
                    return DONE if answered else CUT_OFF if self.kept is None else AGAIN
                if chunk == b"":
                    return DONE if answered or half_closed or not self._has_sent else CUT_OFF
                if chunk and self.kept is not None:
                    self.kept, chunk = None, chunk.removeprefix(endpoint.GREETED)
                if chunk:
                    answered = True
                    down = memoryview(chunk)
            if self.stdin in ready and taking:
                up = memoryview(self._take_input())
            try:
                up = up[len(up) if deaf else _write(connection, up) :]
            except OSError:
                deaf = True  # it no longer reads, but may have said why: go on until its end
            down = down[self._give(down) :]

    def _wait(self, connection: int, sending: bool, receiving: bool, taking: bool, giving: bool) -> dict[int, int]:
        """Poll. An empty result means that the client is gone. Errors and hang-ups are reported even if not asked for."""
        wanted: dict[int, int] = {}
        if sending or receiving:
            wanted[connection] = (select.POLLOUT if sending else 0) | (select.POLLIN if receiving else 0)
        if not self.mute:
            wanted[self.stdout] = select.POLLOUT if giving else 0
        if taking:
            wanted[self.stdin] = wanted.get(self.stdin, 0) | select.POLLIN
        poll = select.poll()
        for fd, events in wanted.items():
            poll.register(fd, events)
        while True:
            ready = dict(poll.poll(self._timeout_ms()))
            if ready.get(self.stdout, 0) & _GONE and not self.mute:
                self.mute = True
                return self._wait(connection, sending, receiving, taking, giving)
            if ready or self.mute or not _alive(self.watched_pid):
                return ready

    def _timeout_ms(self) -> int | None:
        if self.mute:
            return LAST_WORDS_MS
        return CLIENT_CHECK_MS if self.watched_pid else None

    def _take_input(self) -> bytes:
        try:
            chunk = _read(self.stdin)
        except OSError:
            chunk = b""  # a terminal or a socket that is gone
        if chunk is None:
            return b""
        if not chunk:
            self.input_ended = True
        self._has_sent = self._has_sent or bool(chunk)
        if self.kept is not None:
            self.kept += chunk
        return chunk

    def _give(self, data: memoryview) -> int:
        """Give the client bytes, and return how many it took; all of them once it has stopped reading."""
        if not self.mute:
            try:
                return _write(self.stdout, data)
            except OSError:
                self.mute = True
        return len(data)


def _read(fd: int) -> bytes | None:
    """Up to a chunk; b"" at the end; None if there is nothing yet."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return None


def _write(fd: int, data: memoryview) -> int:
    """Write what can be written at once, and return how many bytes were taken."""
    if not data:
        return 0
    try:
        return os.write(fd, data)
    except BlockingIOError:
        return 0


def _end_sending(connection: int) -> None:
    half = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, os.dup(connection))
    try:
        half.shutdown(_socket.SHUT_WR)
    except OSError:
        pass  # it is already gone; reading will show that
    finally:
        half.close()


def _set_nonblocking(fd: int) -> bool:
    """Make `fd` non-blocking, and return whether that was done: pipes and sockets only. Terminals are shared, and files never block."""
    try:
        kind = os.fstat(fd).st_mode & 0o170000
        if kind not in (0o010000, 0o140000) or not os.get_blocking(fd):
            return False
        os.set_blocking(fd, False)
    except OSError:
        return False
    return True


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's process
    return True
