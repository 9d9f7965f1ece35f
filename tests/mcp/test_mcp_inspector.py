"""The command line of the MCP Inspector, which knows nothing of us, goes through every tool and resource in both revisions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.shell import Shell

_VERSION = re.search(r"^inspector=(\S+)$", (Path(__file__).parent / "inspector_install").read_text(), re.MULTILINE)


class Inspector:
    def __init__(self, shell: Shell, era: str) -> None:
        assert _VERSION is not None
        base = os.environ.get("SESSIOND_CACHE") or str(Path.home() / ".cache" / "sessiond-tests")
        folder = Path(base) / f"inspector-{_VERSION[1]}"
        if not (folder / "complete").exists():
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("sh tests/mcp/inspector_install")
        programs = folder / "node_modules" / ".bin"
        self._home = shell
        self._command = [str(programs / "mcp-inspector"), "--cli", "--protocol-era", era, "--format", "json", "-q"]
        self._env = {**shell.env, "PATH": f"{programs}{os.pathsep}{shell.env['PATH']}", "HOME": str(shell.path)}

    def __call__(self, method: str, *flags: str) -> Any:
        variables = [f"{name}={self._env[name]}" for name in ("SESSIOND_HOME", "PYTHONPATH")]
        given = [part for one in variables for part in ("-e", one)]
        server = [sys.executable, "-m", "sessiond", "mcp", "--write"]
        done = subprocess.run(
            [*self._command, *given, *server, "--method", method, *flags],
            env=self._env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (method, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def tool(self, tool: str, /, **arguments: Any) -> Any:
        said = self("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
        result = said.get("result", said)
        assert not result.get("isError"), result
        return result["structuredContent"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_goes_through_everything(shell, era):
    """All six tools, the resources, their templates and the text of one; and its check of the tools' schemas has no complaint."""
    inspector = Inspector(shell, era)
    inspector("tools/list", "--strict")
    chat = inspector.tool("append", text="an elephant", name="Animals")["sessionId"]
    assert inspector.tool("search", query="elephant")["hits"][0]["sessionId"] == chat
    assert inspector.tool("read", sessionId=chat, around=1)["messages"][0]["quote"] == "an elephant"
    assert inspector.tool("list")["sessions"][0]["name"] == "Animals"
    assert inspector.tool("note", sessionId=chat, heading="h", text="t")["noteId"]
    assert inspector.tool("tag", sessionId=chat, add=["zoo"])["tags"] == ["zoo"]
    listed = inspector("resources/list")
    uri = listed.get("result", listed)["resources"][0]["uri"]
    templates = inspector("resources/templates/list")
    assert len(templates.get("result", templates)["resourceTemplates"]) == 2
    read = inspector("resources/read", "--uri", uri)
    assert "> an elephant" in read.get("result", read)["contents"][0]["text"]
