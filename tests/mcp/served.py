"""`sessiond mcp` as an agent runs it, with the SDK's own client at the other end."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolResult

from tests.shell import Shell

REVISIONS = ["legacy", "2026-07-28"]
"""`legacy` shakes hands, and gets the newest revision that has a handshake: 2025-11-25."""


@asynccontextmanager
async def served(shell: Shell, *flags: str, mode: str = "2026-07-28", **options: Any) -> AsyncIterator[Client]:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "sessiond", "mcp", *flags], env=shell.env, cwd="/"
    )
    with open(shell.path / "mcp.err", "a") as errors:
        async with Client(stdio_client(command, errlog=errors), mode=mode, **options) as client:
            yield client


async def ask(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """The structured result of a tool."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


async def refusal(client: Client, tool: str, /, **arguments: Any) -> str:
    """The words of a tool's error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return words(result)


def words(result: CallToolResult) -> str:
    """What a model reads that takes text."""
    return "\n".join(block.text for block in result.content if block.type == "text")
