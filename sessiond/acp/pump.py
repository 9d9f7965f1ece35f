"""Passes bytes between editor and agent, whatever they are, and writes a copy of each piece into the spool.

    editor ── stdin ──> [reads, sees, spools, writes] ──> agent's stdin
    editor <─ stdout ── [writes, spools, sees, reads] <── agent's stdout        stderr: the agent inherits ours

One thread for each direction; each reads only after its last piece was written, so backpressure is that of a pipe, and a
process holds at most one piece or one message for each direction. What passes is spooled before it is written: what the other
side may have seen is recorded, even if this process is killed between any two lines. The recorder is a process of its own, in a
session of its own, and nobody's child: it takes no time from these threads, and survives what kills them.

What is a whole message is shown to `Switch` on its way, which says what becomes of it. Decisions are made one at a time and
never wait; writing is done after them, and each side has its own order (sink.py). A thread never waits for the side that it
reads from: what it has for that side is written by another one. So neither side can block the other.

Others may join (door.py), once there is a session. When the editor leaves then, the agent's stdin stays open for as long as one
of them is there; otherwise it is closed, as by a pipe.

While the spool cannot be written, the conversation goes on, and what is to be recorded waits in memory. One line on stderr says
so, and another one says when it is recorded.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from sessiond.acp.acts import Act, Down, Keep, Recall, To, Up
from sessiond.acp.content import mapped
from sessiond.acp.cutter import Cutter
from sessiond.acp.door import Door, said
from sessiond.acp.naming import all_names
from sessiond.acp.recall import LOG, Recaller
from sessiond.acp.sink import Sink
from sessiond.acp.spool import AGENT, EDITOR, END, Spool
from sessiond.acp.switch import Switch
from sessiond.endpoint import NoHome

PIECE_BYTES = 256 * 1024
AGAIN_S = 1.0
"""How often the spool is tried while it cannot be written."""
DRAIN_S = 2.0
"""How long the output of an agent that ended is read on if one of its children keeps the pipe open and says nothing."""
MOST_STARTS = 5
"""How often a recorder that ended is started again. Without one the spool waits for the next connection's."""
FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")
_SENT_BY_KERNEL = 0x80
"""`si_code` of a signal that the terminal sent, to the agent as well."""

Start = Callable[[], int | None]
"""Starts a recorder; the writing end of a pipe that wakes it, or None."""


class Pump:
    """One agent and its editor. `spool`: None records nothing. `start`: starts a process that records."""

    def __init__(
        self, command: Sequence[str], spool: Spool | None, start: Start, switch: Switch, recaller: Recaller
    ) -> None:
        self._command = list(command)
        self._spool = spool
        self._start = start
        self._switch = switch
        self._recaller = recaller
        self._door: Door | None = None
        self._editor_left = False
        self._deciding = threading.Lock()
        self._passed: list[bytes] = []
        """What the decisions so far spool, all of the kind `_of`."""
        self._of = EDITOR
        self._delayed = False
        """Something waits to be spooled, and a thread tries it."""
        self._editor = Sink(1)
        self._wake: int | None = None
        self._starts = 0
        self._agent_told = False
        """Nothing goes to the agent any more, and it knows."""
        self._heard = threading.Event()
        """The agent said something; cleared before a wait for its silence."""

    def run(self) -> NoReturn:
        """Ends this process as the agent ended. FileNotFoundError, PermissionError: the agent cannot be started."""
        signals = {getattr(signal, name) for name in FORWARDED} | {signal.SIGCHLD}
        signal.signal(signal.SIGCHLD, lambda *_: None)  # an ignored one would not be waited for
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        agent = subprocess.Popen(  # noqa: S603  the command that the user gave
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # The agent has the signals as we had them. No thread exists yet.
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509
            bufsize=0,
        )
        assert agent.stdin is not None
        assert agent.stdout is not None
        into, out = os.dup(agent.stdin.fileno()), os.dup(agent.stdout.fileno())
        agent.stdin.close()
        agent.stdout.close()
        if self._spool is not None:
            self._start_recorder()
        self._agent = Sink(into)
        threading.Thread(target=self._from_editor, daemon=True).start()
        reading = threading.Thread(target=self._from_agent, args=(out,), daemon=True)
        reading.start()
        _until_it_ends(agent, signals)
        while reading.is_alive():
            self._heard.clear()
            reading.join(DRAIN_S)
            if not self._heard.is_set():
                break
        with self._deciding:
            self._record_end(agent.returncode)
        if self._door is not None:
            self._door.close()
        _end_as(agent.returncode)

    def _from_editor(self) -> None:
        """Until the editor or the agent ends."""
        cutter = Cutter()
        with contextlib.suppress(OSError):  # one of the two is gone: that is their affair
            while piece := _read(0):
                self._see(EDITOR, cutter.feed(piece))
                self._agent.flush()
            self._see(EDITOR, [(cutter.rest(), False)])
            self._agent.flush()
        _close(0)
        with self._deciding:
            self._editor_left = True
            self._decided(self._switch.left(0), EDITOR)
        self._tell_agent()

    def _from_agent(self, source: int) -> None:
        """Until the agent ends, or nobody is there any more."""
        cutter = Cutter()
        while piece := _read_or_none(source):
            self._heard.set()
            self._see(AGENT, cutter.feed(piece))
            if not self._shown():
                break
        self._see(AGENT, [(cutter.rest(), False)])
        self._shown()
        self._editor.close()
        os.close(source)
        _close(1)

    def _shown(self) -> bool:
        """Write what the editor is to see. Whether anybody saw it."""
        try:
            self._editor.flush()
        except OSError:  # it is gone; others may be there
            self._editor.close()
            return self._switch.sharing.kept_alive
        return True

    def _tell_agent(self) -> None:
        """Close the agent's stdin if nobody is there any more."""
        with self._deciding:
            if self._agent_told or not self._editor_left or self._switch.sharing.kept_alive:
                return
            self._agent_told = True
        with contextlib.suppress(OSError):
            self._agent.flush()
        self._agent.close()
        os.close(self._agent.descriptor)

    def _see(self, kind: bytes, cuts: Iterable[tuple[bytes, bool]]) -> None:
        """Decide what becomes of what one side sent, and spool it."""
        with self._deciding:
            for data, whole in cuts:
                if data:
                    self._do(self._acts(kind, data, whole), from_=kind)
            self._spool_passed()
            if self._door is None and self._switch.sharing.opened:
                self._let_others_join()

    def _acts(self, kind: bytes, data: bytes, whole: bool) -> list[Act]:
        see = self._switch.from_editor if kind == EDITOR else self._switch.from_agent
        try:
            return list(see(data, whole))
        except Exception:  # a mistake of ours about a message must not cost the message
            traceback.print_exc()
            there: list[Act] = [Down(data, whole), Keep(data, editor=True)]
            return there if kind == EDITOR else [Up(data, whole), Keep(data)]

    def _decided(self, acts: Iterable[Act], from_: bytes | None) -> None:
        """Do it, with what belongs to every decision. The caller holds the lock."""
        self._do(acts, from_)
        self._spool_passed()

    def _do(self, acts: Iterable[Act], from_: bytes | None) -> None:
        """`from_`: the side whose thread this is, and which it must not wait for; None: it waits for neither."""
        for act in acts:
            if isinstance(act, Up):
                self._editor.put(act.data, act.whole)
                if from_ != AGENT:
                    self._editor.soon()
            elif isinstance(act, Down):
                self._agent.put(act.data, act.whole)
                if from_ != EDITOR:
                    self._agent.soon()
            elif isinstance(act, Keep):
                self._keep(EDITOR if act.editor else AGENT, act.data)
            elif isinstance(act, To):
                if self._door is not None:
                    self._door.put(act.client, act.data)
            else:
                threading.Thread(target=self._recall, args=(act,), daemon=True).start()

    def _recall(self, recall: Recall) -> None:
        """In a thread of its own: ask the store, and go on with what it says."""
        answer = self._recaller.ask(recall)
        with self._deciding:
            self._decided(self._switch.recalled(recall.number, answer), None)

    # Others who join

    def _let_others_join(self) -> None:
        self._door = Door(self)
        try:
            self._door.open()
        except (OSError, NoHome) as error:
            print(f"sessiond: nobody can join this conversation: {error}", file=sys.stderr)

    def looked(self) -> dict[str, object]:
        """Return what runs here."""
        with self._deciding:
            sharing = self._switch.sharing
            spool = "" if self._spool is None else self._spool.name
            names = [all_names(key, spool) for key in sharing.opened]
            return {"sessions": list(sharing.opened), "names": names, "initialized": sharing.initialized}

    def attached(self, client: int, key: str, asked: dict[str, object]) -> None:
        """From here on a visitor gets what is said in a session. A session that does not live here: nothing happens."""
        with self._deciding:
            if self._door is None or key not in self._switch.sharing.opened:
                return
            about, role = mapped(asked.get("client")), str(asked.get("role"))
            told = self._switch.attach(client, key, about, role, aware=asked.get("aware") is True)
            spool = self._spool
            size = 0 if spool is None else os.fstat(spool.descriptor).st_size
            self._door.put(
                client, said("attached", {"spool": None if spool is None else spool.path, "size": size, **told})
            )

    def heard(self, client: int, data: bytes) -> None:
        """A visitor says a message."""
        with self._deciding:
            self._decided(self._switch.from_client(client, data), None)

    def parted(self, client: int) -> None:
        """A visitor is gone."""
        with self._deciding:
            self._decided(self._switch.left(client), None)
        self._tell_agent()

    # What is recorded

    def _keep(self, kind: bytes, data: bytes) -> None:
        """It will be spooled before anything that was decided is written: the caller holds the lock until then."""
        if self._of != kind:
            self._spool_passed()
            self._of = kind
        self._passed.append(data)

    def _spool_passed(self) -> None:
        """Write it into the spool, and wake the recorder."""
        data = self._passed[0] if len(self._passed) == 1 else b"".join(self._passed)
        self._passed.clear()
        if self._spool is None or not data:
            return
        self._spool.add(self._of, data)
        if not self._delayed:
            self._record(self._spool)

    def _record(self, spool: Spool) -> None:
        """Write what waits; if that fails, a thread tries again."""
        try:
            spool.flush()
        except OSError as error:
            self._delayed = True
            said = (
                "what is said here waits in memory until it can be recorded; free some disk space if that is the reason"
            )
            print(f"sessiond: {said}: {error}", file=sys.stderr)
            threading.Thread(target=self._record_later, args=(spool,), daemon=True).start()
        else:
            self._rouse()

    def _record_later(self, spool: Spool) -> None:
        while True:
            time.sleep(AGAIN_S)
            with self._deciding:
                with contextlib.suppress(OSError):
                    spool.flush()
                if spool.waiting:
                    continue
                self._delayed = False
                lost = f", without {spool.left_out:,} bytes, which were too many" if spool.left_out else ""
                print(f"sessiond: what waited is recorded{lost}", file=sys.stderr)
                spool.left_out = 0
                self._rouse()
                return

    def _record_end(self, status: int) -> None:
        """The last chance for what waits. The caller holds the lock."""
        self._keep(END, str(status).encode())
        self._spool_passed()
        if self._spool is None or not self._delayed:
            return
        with contextlib.suppress(OSError):
            self._spool.flush()
        if lost := self._spool.waiting + self._spool.left_out:
            print(f"sessiond: {lost:,} bytes of what was said here are recorded nowhere", file=sys.stderr)

    def _rouse(self) -> None:
        if self._wake is None:
            return
        try:
            os.write(self._wake, b".")
        except BlockingIOError:  # it has enough to wake up for
            return
        except OSError:  # it was killed: the next one begins at the start of the spool
            os.close(self._wake)
            self._start_recorder()

    def _start_recorder(self) -> None:
        self._wake = self._start() if self._starts < MOST_STARTS else None
        self._starts += 1
        if self._wake is None and self._spool is not None:
            print(
                f"sessiond: what is said here is in no session for now; it is kept in {self._spool.path}. When this conversation "
                f"has ended, `sessiond acp --recover` brings it in; {LOG} beside it may say why nothing records it",
                file=sys.stderr,
            )


def _read(source: int) -> bytes:
    while True:
        try:
            return os.read(source, PIECE_BYTES)
        except BlockingIOError:  # whoever gave us the descriptor shares its flags
            select.select([source], [], [])


def _read_or_none(source: int) -> bytes:
    """Nothing at the end, and when it cannot be read."""
    try:
        return _read(source)
    except OSError:
        return b""


def _close(end: int) -> None:
    """One of our standard descriptors: another file must not get its number."""
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nowhere, end)
    os.close(nowhere)


def _until_it_ends(agent: subprocess.Popen[bytes], signals: set[signal.Signals]) -> None:
    """Wait for the agent, and hand it the signals that come here meanwhile."""
    while agent.poll() is None:
        number, by_kernel = _signal(signals)
        if number == signal.SIGCHLD or by_kernel:
            continue
        agent.send_signal(number)


def _signal(signals: set[signal.Signals]) -> tuple[int, bool]:
    """The next one, and whether the terminal sent it, to the whole group."""
    if not hasattr(signal, "sigwaitinfo"):
        return signal.sigwait(signals), False
    info = signal.sigwaitinfo(signals)
    return info.si_signo, info.si_code == _SENT_BY_KERNEL


def _end_as(status: int) -> NoReturn:
    """With the agent's status, or by the signal that ended it."""
    if status >= 0:
        os._exit(status)
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the agent's dump is enough
    with contextlib.suppress(OSError):  # SIGKILL has no handler
        signal.signal(-status, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
    os.kill(os.getpid(), -status)
    os._exit(128 - status)
