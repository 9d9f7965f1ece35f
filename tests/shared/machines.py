"""Machines that share a store: a home each, with a real daemon, and a link to the hub that a test can cut."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.home import Client, Home
from tests.hub.postgres import Server
from tests.hub.stores import Team
from tests.shared.proxy import Proxy

PATIENCE_S = 60.0
STORE = "team"


def make_team(server: Server, database: str, *, sealed: bool = False) -> None:
    """The store `team`, with the members ada and bob, of whom ada may erase."""

    async def make() -> None:
        await (await Team.make(server, database, sealed=sealed)).close()

    asyncio.run(make())


class Machine:
    """`role`: as which member of the store it works."""

    def __init__(
        self, folder: Path, server: Server, database: str, role: str, more: str = "", env: dict[str, str] | None = None
    ) -> None:
        folder.mkdir()
        self.database = database
        self.link = Proxy(server.port)
        url = server.url(role, database, port=self.link.port, tcp=True)
        config = f'[stores.{STORE}]\nurl = "{url}"\n{more}\n[autosave]\nidle_s = 0.2\n'
        self.home = Home(folder, config, env)
        self._clients: dict[int, Client] = {}

    def start(self) -> Machine:
        self.home.start()
        return self

    def kill(self) -> None:
        self.home.kill()
        self.home.forget_clients()
        self._clients.clear()

    def close(self) -> None:
        self.home.stop()
        self.link.close()

    @property
    def client(self) -> Client:
        """One connection, for everything that needs no other."""
        return self.connection(0)

    def connection(self, number: int) -> Client:
        """One of several; each is made when it is first asked for."""
        # None is made before it is used: the daemon closes those that say nothing for a while.
        if number not in self._clients:
            self._clients[number] = self.home.client()
        return self._clients[number]

    def call(self, method: str, /, **params: Any) -> Any:
        return self.client.call(method, **params)

    def hub(self) -> dict[str, Any]:
        """What `daemon/status` says of the store's hub."""
        [store] = [one for one in self.call("daemon/status")["stores"] if one["name"] == STORE]
        found: dict[str, Any] = store["hub"]
        return found

    def until_shared(self) -> None:
        """Wait until the hub can be reached and nothing waits."""
        until(self._shared, lambda: f"{self.hub()}\n{self.log()}")

    def _shared(self) -> bool:
        status = self.hub()
        return status["state"] == "online" and not status["pending"]

    def until_offline(self) -> None:
        until(lambda: self.hub()["state"] == "offline", lambda: str(self.hub()))

    def sessions(self) -> dict[str, int]:
        """Session -> its seq, of the shared store."""
        listed = self.call("session/list", filter={"store": STORE}, limit=500)["sessions"]
        return {one["sessionId"]: one["seq"] for one in listed}

    def export(self, session: str) -> str:
        return str(self.call("session/export", sessionId=session, format="jsonl")["content"])

    def exports(self) -> dict[str, str]:
        """Session -> its export, of all that are listed; for one that another machine has deleted since, the error."""
        asked = {
            one: self.client.send("session/export", {"sessionId": one, "format": "jsonl"}) for one in self.sessions()
        }
        answers = {one: self.client.answer(number) for one, number in asked.items()}
        return {
            one: found["result"]["content"] if "result" in found else str(found["error"])
            for one, found in answers.items()
        }

    def texts(self, session: str) -> list[str]:
        return [one["content"] for one in self.call("session/read", sessionId=session, last=1000)["messages"]]

    def append(self, session: str, text: str, **more: Any) -> dict[str, Any]:
        message = {"role": "user", "content": text, "id": text.replace("unmistakable", "id")}
        answer: dict[str, Any] = self.call("session/append", sessionId=session, messages=[message], **more)
        return answer

    def log(self) -> str:
        return (self.home.path / "daemon.err").read_text()[-5000:]


def until(true: Callable[[], bool], why: Callable[[], str] = lambda: "") -> None:
    """Wait until something is true; fail, and say why, if it takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, why()
        time.sleep(0.01)


def until_same(machines: list[Machine]) -> None:
    """Wait until all machines hold the same sessions, byte for byte."""
    for machine in machines:
        machine.until_shared()

    def same() -> bool:
        first, *others = (machine.exports() for machine in machines)
        return all(other == first for other in others)

    def differ() -> str:
        return f"they differ: {[machine.exports() for machine in machines]}\n{[machine.log() for machine in machines]}"

    until(same, differ)
