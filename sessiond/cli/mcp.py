"""`sessiond mcp`: a Model Context Protocol server on standard input and output."""

from __future__ import annotations

import click

from sessiond.installation import add_command

_NEEDED = ("mcp", "mcp_types", "anyio", "pydantic")


@click.command("mcp", short_help="Give an agent the memory of all tools (MCP server).")
@click.option("--write", is_flag=True, help="Let the agent append messages, write notes and set tags, too.")
@click.option(
    "--cwd",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Only sessions of this folder and the folders in it.",
)
@click.option("--redact", is_flag=True, help="Blank whatever looks like a key or token, home folders and user names.")
def command(write: bool, cwd: str | None, redact: bool) -> int:
    """Speak the Model Context Protocol on standard input and output, so that an agent can search and read all sessions.

    Agents start this command themselves: "sessiond setup claude --mcp" prints the lines for their configuration.
    Sessions with the tag "private" are never shown.
    """
    try:
        from sessiond.mcp.server import main
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        message = f"the MCP server needs {error.name}, which is not installed: {add_command('mcp')}"
        raise click.ClickException(message) from None
    return main(write=write, folder=cwd, redact=redact)
