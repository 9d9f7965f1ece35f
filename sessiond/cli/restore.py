"""`sessiond restore ID`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import connect
from sessiond.cli.output import print_json, say
from sessiond.client import requests
from sessiond.words import count


@click.command("restore", short_help="Bring a session back from the trash.")
@click.argument("session_id", metavar="ID")
@options.as_json
def command(session_id: str, as_json: bool) -> None:
    """Bring a session back from the trash; `sessiond list --deleted` shows what is there."""
    with connect() as client:
        answer = client.answer(requests.restore(session_id))
    if as_json:
        print_json(answer.plain)
    else:
        info = answer.value.session
        say(f"{info.session_id} is back, with {count(info.message_count, 'message')}")
