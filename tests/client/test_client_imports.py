"""What importing the client costs a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.client.served import served_home
from tests.zygote import Zygote

NEVER = (
    "aiofiles",
    "asyncio",
    "click",
    "concurrent",
    "email",
    "http",
    "json",
    "logging",
    "lsprotocol",
    "markdown_it",
    "multiprocessing",
    "pathlib",
    "platformdirs",
    "pygls",
    "pygments",
    "rich",
    "sessiond.cli",
    "sessiond.client.aio",
    "sessiond.config",
    "sessiond.daemon",
    "sessiond.fs",
    "sessiond.limits",
    "sessiond.model",
    "sessiond.rpc",
    "sessiond.service",
    "sessiond.transports",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "urllib",
    "watchfiles",
    "websockets",
    "zstandard",
)
TELL = "import sys; print(*sorted(sys.modules))"
USE = """
with connect(start=False) as sessiond:
    chat = sessiond.new(name="x")
    with chat.changes() as changes:
        chat.append("user", "x")
        with chat.stream("assistant") as reply:
            reply.write("y")
        assert next(changes)
"""


def loaded(program: str, **env: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True, env=env, timeout=60
    )
    return set(done.stdout.split())


def strangers(modules: set[str]) -> set[str]:
    """Modules of the list, and what is in them."""
    return {one for one in modules if any(one == name or one.startswith(f"{name}.") for name in NEVER)}


def test_importing_connect_imports_next_to_nothing() -> None:
    """Neither msgspec nor a type of the client: those are imported with the first connection, or when they are named."""
    modules = loaded(f"from sessiond.client import connect; {TELL}")
    assert not strangers(modules) and "msgspec" not in modules
    ours = {one for one in modules if one.startswith("sessiond")}
    assert ours == {"sessiond", "sessiond.client"}


def test_using_the_blocking_client_needs_little(zygote: Zygote, tmp_path: Path) -> None:
    """Appending, streaming and following over the local socket: no asyncio, nothing of the daemon, of msgspec's size at most."""
    with served_home(zygote, tmp_path):
        modules = loaded(f"from sessiond.client import connect\n{USE}\n{TELL}", SESSIOND_HOME=str(tmp_path))
    assert "sessiond.client.feed" in modules
    assert not strangers(modules)


def test_the_list_finds_what_it_is_for() -> None:
    """The classes for asyncio are there when they are named, and bring what the blocking client does without."""
    modules = loaded(f"from sessiond.client import AsyncSessiond; {TELL}")
    assert {"asyncio", "sessiond.client.aio"} <= strangers(modules)


def test_every_public_name_is_there() -> None:
    """`__all__` can be imported, and names nothing twice."""
    import sessiond.client

    names = sessiond.client.__all__
    assert len(set(names)) == len(names) == len([getattr(sessiond.client, name) for name in names])
    assert dir(sessiond.client) == sorted(names)
