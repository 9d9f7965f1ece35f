"""`sessiond setup [EDITOR]`: configuration lines for an editor or agent, or which editors are here."""

from __future__ import annotations

import os

import click

from sessiond.cli import vscode
from sessiond.cli.editors import overview
from sessiond.cli.output import note
from sessiond.cli.setup_lines import FILES, LINES, NEW, configuration_file, lines_for, missing_lines
from sessiond.endpoint import client_folder

AGENTS = ("claude", "codex", "gemini", "opencode", "pi", "zed")
"""Only for --mcp and --hooks."""


@click.command("setup", short_help="Print or add the configuration lines for an editor or agent.")
@click.argument("editor", type=click.Choice(sorted({*LINES, *AGENTS})), metavar="[EDITOR]", required=False)
@click.option("--mcp", is_flag=True, help="For the MCP server, which gives an agent the memory of all tools.")
@click.option("--hooks", is_flag=True, help="So that an agent says when it works and when it waits for you.")
@click.option("--agent-host", is_flag=True, help="vscode: so that windows show all sessions without an extension.")
@click.option("--write", is_flag=True, help="Add them to the configuration file; vscode: install the extension.")
def command(editor: str | None, mcp: bool, hooks: bool, agent_host: bool, write: bool) -> int:
    """Print the lines for an editor's or agent's configuration, or add them with --write.

    Editors are browser, emacs, lisp, neovim, vim and vscode. With --mcp: claude, codex, gemini, opencode, pi, vscode
    and zed. With --hooks: claude and codex. With --agent-host: vscode. Without EDITOR it says which editors are on this
    machine, and which of them are set up.
    """
    if editor is None:
        if mcp or hooks or agent_host:
            raise click.UsageError("--mcp and --hooks need the name of an agent, --agent-host needs vscode")
        if write:
            raise click.UsageError("--write needs an EDITOR; `sessiond setup` says which ones are here")
        overview()
        return 0
    if agent_host:
        if editor != "vscode" or mcp or hooks:
            raise click.UsageError("--agent-host goes with vscode alone")
        from sessiond.cli import setup_agent_host

        return setup_agent_host.run(write=write)
    if mcp or hooks:
        return _agent(editor, hooks=hooks, write=write)
    if editor not in LINES:
        raise click.UsageError(f"{editor} is an agent: add --mcp or --hooks.")
    return _editor(editor, write=write)


def _editor(editor: str, *, write: bool) -> int:
    lines = lines_for(editor)
    if not write:
        print(lines, end="")
        return 0
    if editor == "vscode":
        return vscode.install()
    if editor not in FILES:
        raise click.UsageError(
            f"--write does not know a configuration file for {editor}; print the lines and add them yourself"
        )
    path = configuration_file(editor)
    if path.suffix == ".vim":
        lines = lines_for("vim", client_folder(editor))
    # As bytes: the configuration file and the path may be in any encoding.
    before = path.read_bytes() if path.exists() else NEW.get(editor, "").encode()
    added = missing_lines("vim" if path.suffix == ".vim" else editor, os.fsencode(lines), before)
    if not added:
        print(f"{path} already has them")
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    # Appended, so that a link stays a link, and nothing that is written at the same time is lost.
    with path.open("ab") as file:
        file.write(b"" if path.stat().st_size else before)
        file.write((b"\n" if before and not before.endswith(b"\n") else b"") + added)
    print(f"added to {path}")
    if editor in _BEGIN:
        note(f"start it again, then: {_BEGIN[editor]}")
    return 0


def _agent(name: str, *, hooks: bool, write: bool) -> int:
    if hooks:
        from sessiond.cli import setup_hooks

        return setup_hooks.run(name, write=write)
    from sessiond.cli import setup_mcp

    return setup_mcp.run(name, write=write)


_BEGIN = {"emacs": "M-x sessiond-switch", "vim": ":SessiondSwitch", "neovim": ":SessiondSwitch"}
"""Shows a session."""
