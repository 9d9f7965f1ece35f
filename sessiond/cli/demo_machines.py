"""`sessiond demo --machines`: two machines, a hub, and a link that is cut while both write.

The hub is a real PostgreSQL. A machine is a home of its own with its own daemon; it reaches the hub over a link that the
demo can cut. The output is the same on every machine but for the version of PostgreSQL.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from sessiond.cli.demo_hub import DemoHub
from sessiond.cli.demo_link import DemoLink
from sessiond.cli.peer import DemoEditor, must_see, tell
from sessiond.cli.throwaway import environment_of, interrupts, stop_daemon
from sessiond.client import requests
from sessiond.client.daemon_types import HubStatus
from sessiond.client.dialing import introduction
from sessiond.client.types import Message, NewMessage
from sessiond.errors import SessiondError
from sessiond.hub.opening import need_extra

STORE = "team"
SESSION = f"{STORE}/lid"
ROUNDS = 100
"""Messages that each machine appends while they are apart."""
KILL_AFTER = 50
"""The laptop's daemon is killed once so many of its own are acknowledged."""
SAID = (("laptop", "I begin on the laptop."), ("desktop", "And I go on at the desktop, without copying a file."))
_WAIT_S = 60.0
_ROLES = {"laptop": "ada", "desktop": "bob"}


class Machine:
    """A home, its link to the hub, and an editor. `acknowledged`: message id -> whether it was provisional."""

    def __init__(self, name: str, folder: str, hub: DemoHub) -> None:
        self.name = name
        self.home = f"{folder}/{name}"
        self._wire = f"{folder}/{name}-link"
        os.mkdir(self.home)
        os.mkdir(self._wire, 0o700)
        self.environment = environment_of(self.home)
        self.link = DemoLink(self._wire, hub.folder)
        self.url = hub.url(_ROLES[name], self._wire)
        self.acknowledged: dict[str, bool] = {}
        self._editor: DemoEditor | None = None

    @property
    def editor(self) -> DemoEditor:
        """An editor that runs `sessiond` here, which starts the daemon if none runs."""
        if self._editor is None:
            with interrupts.held():
                self._editor = DemoEditor.over_stdio(self.environment)
            self._editor.ask(requests.any_("initialize", introduction(self.name, None), again=False))
        return self._editor

    def run(self, *arguments: str) -> str:
        """Run `sessiond` here and return what it prints. SessiondError with what it complains about."""
        command = [sys.executable, "-m", "sessiond", *arguments]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=_WAIT_S
        )
        if done.returncode:
            raise SessiondError(f"sessiond {arguments[0]} failed on the {self.name}: {done.stderr.strip()}")
        return done.stdout

    def say(self, message_id: str, text: str) -> None:
        message = NewMessage(id=message_id, role="user", content=text)
        result = self.editor.ask(requests.append(SESSION, [message]))
        self.acknowledged[message_id] = result.provisional

    def hub(self) -> HubStatus:
        """Return what its daemon knows of the hub."""
        for store in self.editor.ask(requests.status()).stores:
            if store.name == STORE and store.hub is not None:
                return store.hub
        raise SessiondError(f"the {self.name} has no store {STORE}")

    def kill_daemon(self) -> None:
        """kill -9, and the end of the editor's connection."""
        os.kill(self.editor.ask(requests.hello()).pid, signal.SIGKILL)
        self._close_editor()

    def close(self) -> None:
        self._close_editor()
        stop_daemon(self.environment)
        self.link.close()

    def _close_editor(self) -> None:
        if self._editor is not None:
            self._editor.close()
            self._editor = None


class Machines:
    """The whole story, in the folder `home`."""

    def __init__(self, home: str) -> None:
        self._home = home

    def run(self) -> bool:
        """Returns whether everything that was acknowledged was on both machines in the end. Unavailable without asyncpg or
        PostgreSQL.
        """
        need_extra()
        with ExitStack() as stack:
            with interrupts.held():
                hub = DemoHub()
                stack.callback(hub.close)
            tell("Two throwaway machines and a hub; your own sessions are not touched.")
            tell()
            hub.start()
            tell(f"1. The hub is a database: PostgreSQL {hub.version}, started for this.")
            laptop, desktop = (Machine(name, self._home, hub) for name in _ROLES)
            stack.callback(laptop.close)
            stack.callback(desktop.close)
            self._join(hub, laptop, desktop)
            self._talk(laptop, desktop)
            self._part(laptop, desktop)
            good = self._meet(laptop, desktop)
        tell()
        tell("Everything stopped and removed." if good else "THAT IS WRONG. Please report it.")
        return good

    def _join(self, hub: DemoHub, laptop: Machine, desktop: Machine) -> None:
        hub.sql("CREATE ROLE ada LOGIN; CREATE ROLE bob LOGIN")
        members = [word for role in ("ada=Ada", "bob=Bob") for word in ("--member", role)]
        laptop.run("store", "create", STORE, "--url", hub.url("postgres"), *members)
        tell(f"   $ sessiond store create {STORE} --url ... --member ada=Ada --member bob=Bob")
        for machine in (laptop, desktop):
            machine.run("store", "join", STORE, "--url", machine.url)
            tell(f"   {machine.name + '$':<8} sessiond store join {STORE} --url ...")

    def _talk(self, laptop: Machine, desktop: Machine) -> None:
        """Each says a sentence, and the other must see it by itself."""
        tell()
        tell("2. One session, two machines. Each sees the other's words at once:")
        laptop.editor.ask(requests.new(SESSION.partition("/")[2], (), store=STORE, name="The lid closes"))
        laptop.editor.ask(requests.open_({"sessionId": SESSION}))
        _until(lambda: _has(desktop, SESSION), "the desktop did not hear of the session")
        desktop.editor.ask(requests.open_({"sessionId": SESSION}))
        for name, text in SAID:
            one, other = (laptop, desktop) if name == "laptop" else (desktop, laptop)
            one.say(f"said-on-{name}", text)
            must_see(other.editor, SESSION, text)
            tell(f"   {name + ':':<9}{text}")
            tell(f"   {'':<9}seen live on the {other.name}")

    def _part(self, laptop: Machine, desktop: Machine) -> None:
        """Both write while the laptop cannot reach the hub, and its daemon is killed in the middle."""
        tell()
        tell(f"3. The laptop's link is cut. Both write on, {ROUNDS} messages each.")
        laptop.link.cut()
        _until(lambda: laptop.hub().state == "offline", "the laptop did not notice that its link was cut")
        for number in range(1, ROUNDS + 1):
            desktop.say(f"desktop-{number}", f"desktop {number}")
            laptop.say(f"laptop-{number}", f"laptop {number}")
            if number == KILL_AFTER:
                laptop.kill_daemon()
        waiting = laptop.hub()
        tell(f"   desktop: {desktop.hub().state}, the hub has all that it said")
        tell(f"   laptop:  {waiting.state}, {waiting.pending} changes wait on its disk;")
        tell(f"            a kill -9 of its daemon after {KILL_AFTER} of them changed nothing")

    def _meet(self, laptop: Machine, desktop: Machine) -> bool:
        """The link is whole again. Tells what holds, and returns whether all of it does."""
        tell()
        tell("4. The link is back. What waited goes to the hub, behind what the hub has by now:")
        laptop.link.heal()
        sent = len(SAID) + 2 * ROUNDS
        both = (laptop, desktop)
        _until(lambda: all(_shared(one.hub()) for one in both), "the laptop did not find the hub again")
        _until(lambda: all(len(_read(one)) >= sent for one in both), "not all words arrived on both machines")
        there = [message.id for message in _read(laptop)]
        exports = [one.run("export", SESSION, "-f", "jsonl") for one in both]
        acknowledged = {message_id for one in both for message_id in one.acknowledged}
        checks = {
            f"acknowledged: {len(acknowledged)}, there: {len(there)}, lost: {len(acknowledged - set(there))}, "
            f"twice: {len(there) - len(set(there))}": len(there) == sent and set(there) == acknowledged,
            "in the order in which each machine said it": all(_in_order(there, one.name) for one in both),
            "the same on both machines, byte for byte": exports[0] == exports[1] and len(exports[0]) > 0,
            "the hub agrees (sessiond store verify)": "all right" in laptop.run("store", "verify", STORE),
        }
        for text, good in checks.items():
            tell(f"   {'ok' if good else 'WRONG'}  {text}")
        return all(checks.values())


def _until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise SessiondError(f"{otherwise} within {_WAIT_S:g} s")
        time.sleep(0.05)


def _shared(hub: HubStatus) -> bool:
    return hub.state == "online" and hub.pending == 0


def _has(machine: Machine, session: str) -> bool:
    return session in machine.run("list", "--json")


def _read(machine: Machine) -> list[Message]:
    return machine.editor.ask(requests.read(SESSION, last=1000)).messages


def _in_order(ids: list[str], name: str) -> bool:
    own = [int(one.rpartition("-")[2]) for one in ids if one.startswith(f"{name}-")]
    return own == list(range(1, ROUNDS + 1))
