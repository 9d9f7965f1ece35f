"""`sessiond restore ID`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import Client
from sessiond.cli.output import count, print_json, say


@click.command("restore", short_help="Bring a session back from the trash.")
@options.session_id
@options.as_json
def command(session_id: str, as_json: bool) -> None:
    """Bring a session back from the trash; `sessiond list --deleted` shows what is there."""
    with Client.connect() as client:
        result = client.call("session/restore", {"sessionId": session_id})
    if as_json:
        print_json(result)
    else:
        info = result["session"]
        say(f"{info['sessionId']} is back, with {count(info['messageCount'], 'message')}")
