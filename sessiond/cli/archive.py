"""`sessiond archive ID`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import Client
from sessiond.cli.output import print_json, say


@click.command("archive", short_help="Put a session away, or bring it back.")
@options.session_id
@click.option("--undo", is_flag=True, help="Bring it back.")
@options.as_json
def command(session_id: str, undo: bool, as_json: bool) -> None:
    """Put a session away: it is listed and found only where archived ones are asked for. Its file stays where it is."""
    with Client.connect() as client:
        result = client.call("session/update", {"sessionId": session_id, "archived": not undo})
    if as_json:
        print_json(result)
    else:
        say(f"{session_id} is back" if undo else f"{session_id} is archived; sessiond archive --undo {session_id}")
