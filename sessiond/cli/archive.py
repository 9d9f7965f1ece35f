"""`sessiond archive ID`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import connect
from sessiond.cli.output import print_json, say
from sessiond.client import requests


@click.command("archive", short_help="Archive a session, or bring it back.")
@options.session_id
@click.option("--undo", is_flag=True, help="Bring it back instead.")
@options.as_json
def command(session_id: str, undo: bool, as_json: bool) -> None:
    """Archive a session: lists and searches leave it out unless they ask for archived ones. Its file stays in place."""
    with connect() as client:
        answer = client.answer(requests.update(session_id, {"archived": not undo}))
    if as_json:
        print_json(answer.plain)
    else:
        say(f"{session_id} is back" if undo else f"{session_id} is archived; sessiond archive --undo {session_id}")
