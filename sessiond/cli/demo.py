"""`sessiond demo`: the main job, for real, in a throwaway home.

Real relays, a real daemon, a real kill. Its output is the same on every machine but for the times in the file that it
shows, so the README's copy of it is checked by a test.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import click

from sessiond.cli.first_steps import NO_MODEL, first_steps
from sessiond.cli.peer import DemoEditor, must_see, tell
from sessiond.cli.throwaway import environment_of, interrupts, run_in_throwaway_home, stop_daemon
from sessiond.client import requests
from sessiond.client.dialing import introduction
from sessiond.client.types import Message, NewMessage
from sessiond.errors import AlreadyExists, SessiondError

SESSION = "demo"
NAMES = ("emacs", "vim", "script")
ROUNDS = 100
"""Messages that each client appends as fast as it can."""
KILL_AFTER = 60
"""The daemon is killed once this many messages are acknowledged."""
SAID = (
    ("emacs", "user", "What happens if the lid closes while you answer?"),
    ("vim", "assistant", "Nothing: what was acknowledged is on the disk."),
    ("script", "user", "Then let us kill the daemon and count."),
)
_WAIT_S = 20.0
"""The longest wait of the demo itself; waits for an answer have the deadline of the peer."""


@click.command("demo", short_help="The main job in a throwaway home, for real.")
@click.option("--keep", is_flag=True, help="Leave the throwaway home behind and say where it is.")
@click.option(
    "--machines",
    is_flag=True,
    help="Show two machines that share a session instead, with a real PostgreSQL as their hub.",
)
def command(keep: bool, machines: bool) -> int:
    """Show the main job: three clients, one session, a kill -9 in the middle, nothing lost.

    With --machines: two machines and a hub, a link that is cut while both write, and what holds when it is back.
    Everything happens in a temporary folder; your own sessions and daemon are not touched.
    """
    if machines:
        from sessiond.cli.demo_machines import Machines

        return run_in_throwaway_home(lambda home: Machines(home).run(), keep=keep)
    code = run_in_throwaway_home(lambda home: _Demo(home).run(), keep=keep)
    if code == 0:
        tell()
        tell("Next, with your own sessions:")
        for line in first_steps():
            tell(line)
        tell(NO_MODEL)
    return code


class _Demo:
    def __init__(self, home: str) -> None:
        self.home = home
        self.environment = environment_of(home)
        self.acknowledged: dict[str, int] = {}
        """Message id -> seq, as the daemon answered."""
        self.enough = threading.Event()
        self.failed: list[SessiondError] = []
        """What went wrong on the threads of the race."""

    def run(self) -> bool:
        """The whole story. Returns whether everything that was acknowledged was there in the end."""
        tell("A throwaway home; your own sessions are not touched.")
        tell()
        try:
            with self._clients() as peers:
                tell("1. Two editors run `sessiond` over stdio: the first starts the daemon, both share it.")
                tell("   A script comes in over TCP and shows the token.")
                self._talk(peers)
                tell()
                tell(f"3. All three append as fast as they can, {ROUNDS} messages each. kill -9 in the middle.")
                self._race(peers)
            with self._clients() as peers:
                tell("   They connect again, which starts a new daemon, and repeat what had no answer.")
                good = self._finish(peers)
                self._show_file(peers["emacs"])
        finally:
            stop_daemon(self.environment)
        tell()
        tell("Everything stopped and removed." if good else "THAT IS WRONG. Please report it.")
        return good

    @contextmanager
    def _clients(self) -> Iterator[dict[str, DemoEditor]]:
        """Two over stdio, one over TCP, all with the session open."""
        with ExitStack() as stack:
            peers: dict[str, DemoEditor] = {}
            for name in ("emacs", "vim"):  # both at once: whichever comes first starts the daemon
                with interrupts.held():
                    peers[name] = DemoEditor.over_stdio(self.environment)
                    stack.callback(peers[name].close)
            for name in ("emacs", "vim"):
                self._begin(name, peers[name], None)
            host, port, token = stack.enter_context(self._tcp())
            peers["script"] = DemoEditor.over_tcp(host, port)
            stack.callback(peers["script"].close)
            self._begin("script", peers["script"], token)
            yield peers

    def _begin(self, name: str, peer: DemoEditor, token: str | None) -> None:
        peer.ask(requests.any_("initialize", introduction(name, token), again=False))
        self._open(peer)

    def _open(self, peer: DemoEditor) -> None:
        try:
            peer.ask(requests.new(SESSION, (), store=None, name="A lid closes"))
        except AlreadyExists:
            peer.ask(requests.open_({"sessionId": SESSION}))

    @contextmanager
    def _tcp(self) -> Iterator[tuple[str, int, str]]:
        """`sessiond --tcp 0` as a child: host, port and token."""
        command = [sys.executable, "-m", "sessiond", "--tcp", "127.0.0.1:0"]
        process: subprocess.Popen[bytes] | None = None
        try:
            with interrupts.held():
                process = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment
                )
            address, listens, _ = _first_line(process).partition(", the token is in ")
            if not listens:
                process.kill()
                said = process.communicate(timeout=_WAIT_S)[1].decode("utf-8", "replace").strip()
                raise SessiondError(f"`sessiond --tcp` did not start: {said or 'it said nothing'}")
            host, _, port = address.rpartition(" ")[2].rpartition(":")
            with open(f"{self.home}/data/token", encoding="ascii") as file:
                token = file.read().strip()
            yield host, int(port), token
        finally:
            if process is not None:
                process.terminate()  # not SIGINT, which programs in the background of a shell ignore
                try:
                    process.communicate(timeout=_WAIT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()

    def _talk(self, peers: Mapping[str, DemoEditor]) -> None:
        """Each says a sentence; the other two must see it by themselves."""
        tell()
        tell("2. One session, three tools. Each sees the others' words at once:")
        for name, role, text in SAID:
            self._append(peers[name], f"said-by-{name}", role, text)
            others = [other for other in NAMES if other != name]
            for other in others:
                must_see(peers[other], SESSION, text)
            tell(f"   {name + ':':<8}{text}")
            tell(f"   {'':<8}seen live by {' and '.join(others)}")

    def _append(self, peer: DemoEditor, message_id: str, role: str, text: str) -> None:
        message = NewMessage(id=message_id, role=role, content=text)
        self.acknowledged[message_id] = peer.ask(requests.append(SESSION, [message])).messages[0].seq
        if len(self.acknowledged) >= KILL_AFTER:
            self.enough.set()

    def _race(self, peers: Mapping[str, DemoEditor]) -> None:
        """All append at once until the daemon is killed under them."""
        pid = peers["emacs"].ask(requests.hello()).pid
        threads = [
            threading.Thread(target=self._append_in_race, args=(name, peer), daemon=True)
            for name, peer in peers.items()
        ]
        for thread in threads:
            thread.start()
        enough = self.enough.wait(_WAIT_S)
        os.kill(pid, signal.SIGKILL)
        for thread in threads:
            thread.join(_WAIT_S)
        if self.failed:
            raise self.failed[0]
        if not enough or any(thread.is_alive() for thread in threads):
            raise SessiondError(f"{len(self.acknowledged)} messages were acknowledged within {_WAIT_S:g} s: too few")

    def _append_in_race(self, name: str, peer: DemoEditor) -> None:
        try:
            self._append_all(name, peer)
        except SessiondError as error:
            self.failed.append(error)

    def _append_all(self, name: str, peer: DemoEditor) -> None:
        for number in range(1, ROUNDS + 1):
            message_id = f"{name}-{number}"
            if message_id in self.acknowledged:
                continue
            try:
                self._append(peer, message_id, "user", f"{name} {number}")
            except ConnectionError:
                return

    def _finish(self, peers: Mapping[str, DemoEditor]) -> bool:
        """Send again what had no answer, under the same ids; then count."""
        before = dict(self.acknowledged)
        for name, peer in peers.items():
            self._append_all(name, peer)
        found = self._read_all(peers["vim"])
        seqs = [message.seq for message in found]
        ids = [message.id for message in found]
        sent = len(SAID) + ROUNDS * len(NAMES)
        checks = {
            "acknowledged before the kill: all there, each under its seq": all(
                (seq, message_id) in set(zip(seqs, ids, strict=True)) for message_id, seq in before.items()
            ),
            f"sent: {sent}, there: {len(ids)}, twice: {len(ids) - len(set(ids))}": len(set(ids)) == len(ids) == sent,
            "in the order of seq, each client's own order kept": seqs == sorted(set(seqs)) and _in_order(ids),
        }
        for text, good in checks.items():
            tell(f"   {'ok' if good else 'WRONG'}  {text}")
        return all(checks.values())

    def _read_all(self, peer: DemoEditor) -> list[Message]:
        found: list[Message] = []
        more = True
        while more:
            page = peer.ask(requests.read(SESSION, since=found[-1].seq if found else 0))
            found += page.messages
            more = page.has_more
        return found

    def _show_file(self, peer: DemoEditor) -> None:
        saved = peer.ask(requests.save(SESSION)).saved
        path = saved[0].path if saved else f"{self.home}/data/sessions/{SESSION}.jsonl"
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        tell()
        tell(f"4. The session is a file of yours, {os.path.relpath(path, self.home)}:")
        for line in lines[: len(SAID) + 1]:
            tell(f"   {_cut(line)}")
        messages = sum(1 for line in lines if '"role"' in line)
        tell(f"   ... and {messages - len(SAID)} more messages")


def _first_line(process: subprocess.Popen[bytes]) -> str:
    """The first line of its standard output, without the LF; "" if none comes in time."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    deadline = time.monotonic() + _WAIT_S
    line = b""
    while not line.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000) or not (chunk := os.read(fd, 1024)):
            return ""
        line += chunk
    return line.decode("utf-8", "replace").strip()


def _in_order(ids: list[str]) -> bool:
    for name in NAMES:
        own = [int(message_id.rpartition("-")[2]) for message_id in ids if message_id.startswith(f"{name}-")]
        if own != sorted(own):
            return False
    return True


def _cut(line: str, width: int = 96) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
