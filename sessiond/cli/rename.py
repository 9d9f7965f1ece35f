"""`sessiond rename ID NAME`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import connect
from sessiond.cli.output import print_json, say
from sessiond.client import requests


@click.command("rename", short_help="Give a session a name.")
@options.session_id
@click.argument("name")
@options.as_json
def command(session_id: str, name: str, as_json: bool) -> None:
    """Give a session a name; an empty NAME removes it. The id stays the same."""
    with connect() as client:
        answer = client.answer(requests.update(session_id, {"name": name or None}))
    if as_json:
        print_json(answer.plain)
    else:
        say(f"{session_id} is now {name!r}" if name else f"{session_id} now has no name")
