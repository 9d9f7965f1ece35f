"""`sessiond gc`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from sessiond.cli.client import Client
from sessiond.cli.list import sessions
from sessiond.cli.options import as_json
from sessiond.cli.output import count, print_json, say


@click.command("gc", short_help="Empty the trash of what has lain there long.")
@click.option("--days", type=click.FloatRange(0), help="Older than this; the daemon's limit (30) by default.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@as_json
def command(days: float | None, dry_run: bool, as_json: bool) -> None:
    """Take out of the trash, for ever, what has not changed for a month."""
    with Client.connect() as client:
        if days is None:
            days = float(client.call("daemon/status")["limits"]["trashDays"])
        before = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        found = sessions(client, None, {"filter": {"deleted": True, "until": before}})["sessions"]
        gone = [info["sessionId"] for info in found]
        if not dry_run:
            for session_id in gone:
                client.call("session/delete", {"sessionId": session_id, "permanent": True})
    if as_json:
        print_json({"removed": gone, "dryRun": dry_run})
        return
    for session_id in gone:
        say(session_id)
    say(f"{count(len(gone), 'session')} {'would go' if dry_run else 'went'} from the trash")
