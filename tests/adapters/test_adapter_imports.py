"""An adapter costs only those who use it."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from sessiond.adapters import clients
from sessiond.client import SessiondError, aconnect
from tests.adapters.conftest import KilledHome
from tests.extras import installed
from tests.shell import ROOT

__all__ = ["installed"]  # a fixture

SDKS = {
    "openai-agents": ("sessiond.adapters.openai_agents", "agents"),
    "claude-agent-sdk": ("sessiond.adapters.claude_agent_sdk", "claude_agent_sdk"),
    "langchain": ("sessiond.adapters.langchain", "langchain_core"),
}
PACKAGES = {"openai-agents": "openai-agents", "claude-agent-sdk": "claude-agent-sdk", "langchain": "langchain-core"}
PROGRAMS = {
    "openai-agents": """
from sessiond.adapters.openai_agents import SessiondSession
session = SessiondSession("alone")
async def use():
    await session.add_items([{"role": "user", "content": "alone"}])
    return await session.get_items()
""",
    "claude-agent-sdk": """
from sessiond.adapters.claude_agent_sdk import SessiondStore
store, key = SessiondStore(), {"project_key": "p", "session_id": "s"}
async def use():
    await store.append(key, [{"type": "user", "uuid": "u", "message": {"role": "user", "content": "alone"}}])
    return await store.load(key)
""",
    "langchain": """
from langchain_core.messages import HumanMessage
from sessiond.adapters.langchain import SessiondChatMessageHistory
history = SessiondChatMessageHistory("alone")
async def use():
    await history.aadd_messages([HumanMessage("alone")])
    return await history.aget_messages()
""",
}
_WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )


@pytest.mark.parametrize("extra", list(SDKS))
def test_an_adapter_needs_its_own_sdk_only(extra: str) -> None:
    """It imports while no other SDK can be imported."""
    module, own = SDKS[extra]
    hidden = {sdk for _, sdk in SDKS.values()} - {own}
    done = python(f"HIDDEN = {hidden!r}{_WITHOUT}import {module}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", list(SDKS))
def test_the_extra_alone_is_enough(at_home: KilledHome, installed: Callable[..., dict[str, str]], extra: str) -> None:
    """With what the extra declares and nothing else, the adapter writes and reads; the other SDKs are not there."""
    others = [sdk for _, sdk in SDKS.values() if sdk != SDKS[extra][1]]
    code = f"import asyncio, importlib.util\nassert not any(map(importlib.util.find_spec, {others}))\n"
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"{code}{PROGRAMS[extra]}\nprint(asyncio.run(use()))"],
        env=installed(at_home, extra), cwd="/", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "alone" in done.stdout


@pytest.mark.parametrize("extra", list(SDKS))
def test_without_the_sdk_it_says_what_to_install(extra: str) -> None:
    """As an ImportError whose message has the command."""
    module, own = SDKS[extra]
    done = python(f"HIDDEN = {{{own!r}}}{_WITHOUT}import {module}")
    assert re.search(rf"pip install .*'{PACKAGES[extra]}[<>=\d.,]+'$", done.stderr.splitlines()[-1]), done.stderr


@pytest.mark.parametrize("extra", list(SDKS))
def test_every_extra_exists(extra: str) -> None:
    """The package has an extra of the name that the message says."""
    assert extra in (importlib.metadata.metadata("sessiond").get_all("Provides-Extra") or [])


def test_the_daemon_and_the_client_import_no_sdk() -> None:
    """Not even while all of them are installed."""
    names = {sdk for _, sdk in SDKS.values()} | {"pydantic", "httpx"}
    done = python(f"import sys, sessiond.daemon.core, sessiond.client.aio.client; print({names!r} & set(sys.modules))")
    assert done.stdout == "set()\n", done.stderr


async def test_a_loop_has_one_connection(at_home: KilledHome) -> None:
    """However many adapters there are; it is another one in another loop, and gone when that loop ends."""
    async with await aconnect(name="counter") as sessiond:
        first = await clients.aclient()
        assert await clients.aclient() is first
        assert (await sessiond.status()).connections == 2
        done = python(
            "import asyncio\nfrom sessiond.adapters import clients\n"
            "async def use():\n    client = await clients.aclient()\n    await client.status()\n    return client\n"
            "used = [asyncio.run(use()) for _ in range(3)]\nassert len(set(used)) == 3\n"
            "blocking = clients.client()\nassert clients.client() is blocking\nprint(blocking.status().connections)"
        )
        assert done.stdout == "3\n" and done.stderr == "", done.stderr


_EACH_IN_A_LOOP = """
import asyncio
from sessiond.adapters import clients

async def use():
    return (await (await clients.aclient()).status()).connections

def closed():
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(use())
    finally:
        loop.close()

seen = [{how} for _ in range(30)]
print(max(seen), len(clients._of_loops))
"""


@pytest.mark.parametrize(("how", "left"), [("asyncio.run(use())", 0), ("closed()", 1)])
def test_a_loop_for_each_job_leaves_nothing(at_home: KilledHome, how: str, left: int) -> None:
    """As servers do that are not asynchronous, some of which close the loop and nothing else."""
    done = python(_EACH_IN_A_LOOP.replace("{how}", how))
    most, loops = map(int, done.stdout.split())
    assert most < 20, done.stdout  # the daemon may notice the end of the last ones a moment later
    assert loops == left, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def test_a_closed_connection_is_made_again(at_home: KilledHome) -> None:
    """`close` ends the process' blocking connections; an adapter that goes on connects again."""
    before = clients.client()
    clients.close()
    with pytest.raises(SessiondError):
        before.status()
    assert clients.client().status().connections == 1


def test_a_forked_child_has_its_own(at_home: KilledHome) -> None:
    """Parent and child do not read each other's answers."""
    done = python(
        "import os\nfrom sessiond.adapters import clients\nparent = clients.client()\npid = os.fork()\n"
        "for _ in range(50):\n    assert clients.client().status().pid\n"
        "assert (clients.client() is parent) == bool(pid)\n"
        "if not pid:\n    os._exit(0)\nassert os.waitpid(pid, 0)[1] == 0"
    )
    assert done.returncode == 0, done.stderr
