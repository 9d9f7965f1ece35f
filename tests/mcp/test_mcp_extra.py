"""The extra: what `sessiond mcp` needs, and what it says without it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from tests.extras import installed
from tests.shell import ROOT

__all__ = ["installed"]  # a fixture
SERVER = [sys.executable, "-S", "-m", "sessiond", "mcp"]
"""-S: without this environment's packages."""


def mcp(env: dict[str, str], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        SERVER, input=text, capture_output=True, text=True, env=env, cwd=os.sep, timeout=60, check=False
    )


def test_without_the_extra_it_says_what_to_install(shell, installed):
    """One line, and exit code 1; the other commands need nothing of it."""
    env = installed(shell)
    done = mcp(env, "")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"sessiond: the MCP server needs \w+, which is not installed: .+\bmcp\b.*'\n", done.stderr)
    status = subprocess.run(
        [sys.executable, "-S", "-m", "sessiond", "status"], env=env, capture_output=True, check=False
    )
    assert status.returncode == 0, status.stderr


def test_the_extra_alone_is_enough(shell, installed):
    """With what the extra declares and nothing else, the server starts and answers."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    server = subprocess.Popen(
        SERVER, env=installed(shell, "mcp"), cwd=os.sep, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()  # the end of the input would cancel what is under way
    _, said = server.communicate(timeout=60)
    assert server.returncode == 0 and answer, said
    assert json.loads(answer)["result"]["serverInfo"]["name"] == "sessiond"


def test_nobody_else_imports_the_sdk():
    """The daemon, the relay, the client and the other commands start without a trace of it."""
    code = (
        "import sys, sessiond.daemon.process, sessiond.relay, sessiond.cli.group, sessiond.cli.setup, sessiond.client; "
    )
    code += "print([name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types', 'pydantic', 'anyio')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done
