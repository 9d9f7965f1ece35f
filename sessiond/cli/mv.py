"""`sessiond mv ID --store S`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import connect
from sessiond.cli.output import print_json, say
from sessiond.client import requests


@click.command("mv", short_help="Move a session to another store and format.")
@options.session_id
@options.in_store("The store to move it to.", required=True)
@click.option("--dry-run", is_flag=True, help="Only say what the other store's own tool would not show.")
@options.as_json
def command(session_id: str, store: str, dry_run: bool, as_json: bool) -> None:
    """Move a session to another store, and so to that store's format. Says what that store's own tool will not show."""
    with connect() as client:
        answer = client.answer(requests.move(session_id, store, dry_run=dry_run))
    if as_json:
        print_json(answer.plain)
        return
    moved = answer.value
    say(f"{session_id} {'would become' if dry_run else 'is now'} {moved.session.session_id}")
    for lost in moved.lost:
        say(f"not shown there: {lost}")
