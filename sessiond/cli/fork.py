"""`sessiond fork ID`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import connect
from sessiond.cli.output import print_json, say
from sessiond.client import requests


@click.command("fork", short_help="Copy a session, to continue it another way.")
@options.session_id
@click.option(
    "--at", "at_seq", type=options.Count(0), metavar="SEQ", help="Copy up to this seq; by default the newest."
)
@click.option("--name", help="The copy's name.")
@options.as_json
def command(session_id: str, at_seq: int | None, name: str | None, as_json: bool) -> None:
    """Copy a session, to continue it another way. Prints the copy's id."""
    with connect() as client:
        answer = client.answer(requests.fork(session_id, at_seq, name))
    if as_json:
        print_json(answer.plain)
    else:
        say(answer.value.session.session_id)
