"""Through pgbouncer in transaction pooling, where each transaction may get another server process."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond.hub.address import HubAddress
from sessiond.hub.port import NOTHING, Back, HeadHint, chain_all, seed
from sessiond.hub.postgres import PostgresHub
from tests.hub.postgres import Server, free_port
from tests.hub.stores import Team, after, begin, message


class Pooler:
    """pgbouncer in front of a server, with two server connections for everybody."""

    def __init__(self, server: Server) -> None:
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        if program is None:
            if os.environ.get("CI"):
                pytest.fail("no pgbouncer: see tests/run")
            pytest.skip("pgbouncer is not installed")
        self.port = free_port()
        folder = Path(server.folder)
        users = folder / f"users-{self.port}"
        users.write_text("".join(f'"{role}" ""\n' for role in ("ada", "bob", "postgres")))
        settings = folder / f"pgbouncer-{self.port}.ini"
        settings.write_text(
            f"[databases]\n* = host={server.folder} port={server.port}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {users}\npool_mode = transaction\ndefault_pool_size = 2\n"
        )
        for file in (users, settings):
            file.chmod(0o644)
        user = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        self.process = subprocess.Popen([program, "-q", str(settings)], start_new_session=True, cwd="/", **user)
        for _ in range(500):
            ready = subprocess.run(
                [
                    str(server.bin / "pg_isready"),
                    "-q",
                    "-h",
                    "127.0.0.1",
                    "-p",
                    str(self.port),
                    "-d",
                    "postgres",
                    "-U",
                    "postgres",
                ],
                check=False,
            )
            if ready.returncode == 0:
                return
            assert self.process.poll() is None
        raise AssertionError("pgbouncer does not start")

    def url(self, role: str, database: str) -> str:
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}"

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@pytest.fixture
def pooler(server: Server) -> Iterator[Pooler]:
    made = Pooler(server)
    yield made
    made.close()


async def test_many_pushes_through_few_connections(team: Team, pooler: Pooler) -> None:
    """Eight hubs push at the same time over two server connections; nothing is lost or out of order, and `welcome` says that
    changes are asked for.
    """
    hubs = [
        PostgresHub(HubAddress("team", url=pooler.url(("ada", "bob")[number % 2], team.database)), f"{number}" * 32)
        for number in range(8)
    ]
    try:
        told: asyncio.Queue = asyncio.Queue()
        hubs[0].subscribe(told.put_nowait)
        assert isinstance(await told.get(), Back)
        assert (await hubs[0].welcome()).hints == "polling"

        async def talk(hub: PostgresHub, number: int) -> None:
            done = await hub.push(begin(f"s{number}", 1))
            for index in range(2, 22):
                done = await hub.push(after(done, message(index)))
                assert done.outcome == "stored"

        await asyncio.gather(*(talk(hub, number) for number, hub in enumerate(hubs)))
        for number in range(8):
            page = await hubs[0].operations(f"s{number}", NOTHING, 1_000_000)
            assert [one.number for one in page.operations] == list(range(21))
            assert chain_all(seed(f"s{number}"), page.operations) == page.head.digest
        last = set()
        while len(last) < 8:
            hint = await told.get()
            if isinstance(hint, HeadHint) and hint.head == 20:
                last.add(hint.session)
    finally:
        for hub in hubs:
            await hub.close()


async def test_a_direct_way_listens_beside_the_pooler(team: Team, pooler: Pooler) -> None:
    """With `listen_url`, hints come at once, while pushes go through the pooler."""
    address = HubAddress("team", url=pooler.url("ada", team.database), listen_url=team.address("ada").url)
    hub = PostgresHub(address, "a" * 32)
    try:
        told: asyncio.Queue = asyncio.Queue()
        hub.subscribe(told.put_nowait)
        assert isinstance(await told.get(), Back)
        assert (await hub.welcome()).hints == "listening"
        await hub.push(begin("one"))
        assert await told.get() == HeadHint("one", 0)
    finally:
        await hub.close()
