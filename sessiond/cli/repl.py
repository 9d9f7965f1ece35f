"""`sessiond repl`: a conversation in the terminal. The client itself is the package `sessiond_repl`."""

from __future__ import annotations

import click

from sessiond.cli.options import resolving, sessions


@click.command("repl", short_help="Talk in the terminal; everything is kept in a session.")
@click.option(
    "--session-id",
    metavar="ID",
    shell_complete=sessions,
    help="Continue this session. By default a new one.",
)
@click.option(
    "--agent",
    metavar="CMD",
    help="A shell command that replies: it reads the transcript as JSON Lines and prints the reply.",
)
@resolving("session_id")
def command(session_id: str | None, agent: str | None) -> int:
    """Talk in the terminal; everything is kept in a session that other tools can have open at the same time.

    With --agent a command answers every message: it gets the whole transcript on its standard input, one JSON message a
    line, and what it prints becomes the assistant's reply while it prints it. Ctrl-C interrupts it.

    Without a terminal, each line of standard input is a message.
    """
    from sessiond_repl import run

    return run(session_id, agent)
