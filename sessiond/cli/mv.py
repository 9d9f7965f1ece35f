"""`sessiond mv ID --store S`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import Client
from sessiond.cli.output import print_json, say


@click.command("mv", short_help="Move a session to another store and format.")
@options.session_id
@click.option("--store", required=True, help="The store to move it to.")
@click.option("--dry-run", is_flag=True, help="Only say what the other store's own tool would not show.")
@options.as_json
def command(session_id: str, store: str, dry_run: bool, as_json: bool) -> None:
    """Move a session to another store, and so to that store's format. Says what that store's own tool will not show."""
    with Client.connect() as client:
        result = client.call("session/move", {"sessionId": session_id, "store": store, "dryRun": dry_run})
    if as_json:
        print_json(result)
        return
    say(f"{session_id} {'would become' if dry_run else 'is now'} {result['session']['sessionId']}")
    for lost in result["lost"]:
        say(f"not shown there: {lost if isinstance(lost, str) else lost.get('message', lost)}")
