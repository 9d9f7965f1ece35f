"""Files of ours in a git repository: two machines write on, git joins their lines, and each machine's messages keep their order.

The merges are git's own, with `merge=union` and with conflict markers; the machines are services on folders.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.peer import FakePeer, user
from tests.programs import need
from tests.service.test_intake import Served
from tests.suite.explore import seeds

ID = "shared"


class Machine:
    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self.served = Served(path)
        self.said = 0

    @property
    def file(self) -> Path:
        return self.path / "sessions" / f"{ID}.jsonl"

    async def say(self, count: int) -> None:
        for _ in range(count):
            self.said += 1
            await self.served.service.append(FakePeer(), ID, [user(f"{self.name} {self.said}")])
        await self.served.service.save(ID)

    async def note(self) -> None:
        await self.served.service.note_append(FakePeer(), ID, "a note", f"of {self.name}")
        await self.served.service.save(ID)

    async def take(self, content: bytes, *, restart: bool) -> None:
        """Git has written the file, while the daemon runs or not."""
        if restart:
            await self.served.close()
        self.file.write_bytes(content)
        if restart:
            await self.served.start()
        else:
            await self.served.service.open_sessions.look_outside(self.served.service.stores["default"], ID)

    async def heard(self) -> list[tuple[int, str]]:
        """Seq and text of each message."""
        page: dict[str, Any] = await self.served.service.read(ID, limit=1000)
        return [(one["seq"], one["content"]) for one in page["messages"]]


def merged(ours: Path, base: bytes, theirs: Path, tmp: Path, *, union: bool) -> bytes:
    names = []
    for name, content in (("ours", ours.read_bytes()), ("base", base), ("theirs", theirs.read_bytes())):
        (tmp / name).write_bytes(content)
        names.append(str(tmp / name))
    how = ["--union"] if union else ["--diff3"]
    done = subprocess.run([need("git"), "merge-file", "-p", *how, *names], check=False, capture_output=True)
    assert done.returncode < 128, done.stderr
    return done.stdout


def numbers(heard: list[tuple[int, str]], name: str) -> list[int]:
    return [int(text.split()[1]) for _, text in heard if text.startswith(name)]


@pytest.mark.parametrize("seed", seeds(few=8, usual=200))
async def test_each_machine_s_messages_keep_their_order(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    one, two = Machine("desktop", tmp_path / "one"), Machine("laptop", tmp_path / "two")
    (tmp_path / "merge").mkdir()
    for machine in (one, two):
        await machine.served.start()
    await one.served.service.new(FakePeer(), session_id=ID)
    await one.say(chance.randrange(1, 4))
    two.file.write_bytes(one.file.read_bytes())
    for _ in range(chance.randrange(1, 4)):
        base = one.file.read_bytes()
        assert two.file.read_bytes() == base
        for machine in (one, two):
            await machine.take(base, restart=chance.random() < 0.5)
            for _ in range(chance.randrange(3)):
                await (machine.say(chance.randrange(1, 4)) if chance.random() < 0.8 else machine.note())
        content = merged(one.file, base, two.file, tmp_path / "merge", union=chance.random() < 0.7)
        for machine in (one, two):
            await machine.take(content, restart=chance.random() < 0.5)
            before = await machine.heard()
            for name, said in (("desktop", one.said), ("laptop", two.said)):
                assert numbers(before, name) == list(range(1, said + 1)), (name, before)
            await machine.served.restart()
            assert await machine.heard() == before, "the seqs stay"
        one_says = one.file.read_bytes()
        two.file.write_bytes(one_says)
        await two.take(one_says, restart=False)
    for machine in (one, two):
        await machine.say(2)
        heard = await machine.heard()
        assert [text for _, text in heard[-2:]] == [f"{machine.name} {n}" for n in (machine.said - 1, machine.said)]
        await machine.served.restart()
        assert await machine.heard() == heard
        await machine.served.close()


async def test_a_conflict_is_told_once_and_ends_with_the_file_s_next_form(tmp_path: Path) -> None:
    """Both sides are read; the marks are no messages, and go when the file is written whole."""
    machine = Machine("desktop", tmp_path / "one")
    await machine.served.start()
    await machine.served.service.new(FakePeer(), session_id=ID)
    await machine.say(2)
    lines = machine.file.read_bytes().splitlines(keepends=True)
    theirs = lines[-1].replace(b"desktop 2", b"laptop 1").replace(b'"id":"', b'"id":"x')
    sides = [b"<<<<<<< ours\n", lines[-1], b"=======\n", theirs, b">>>>>>> theirs\n"]
    await machine.take(b"".join([*lines[:-1], *sides]), restart=True)
    opened = await machine.served.service.open(FakePeer(), ID)
    [warning] = opened["warnings"]
    assert "git conflict" in warning["message"]
    assert [text for _, text in await machine.heard()] == ["desktop 1", "desktop 2", "laptop 1"]
    await machine.served.service.truncate(FakePeer(), ID, 2)
    await machine.served.service.save(ID)
    assert b"<<<<<<<" not in machine.file.read_bytes()
    await machine.served.close()
