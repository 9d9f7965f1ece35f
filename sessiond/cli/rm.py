"""`sessiond rm ID...`."""

from __future__ import annotations

import click

from sessiond.cli.client import connect
from sessiond.cli.options import as_json, resolving, sessions
from sessiond.cli.output import print_json, say


@click.command("rm", short_help="Move sessions to the trash.")
@click.argument("session_ids", metavar="ID...", nargs=-1, required=True, shell_complete=sessions)
@click.option("--permanent", is_flag=True, help="Delete them for good, also from trash, index and journal.")
@as_json
@resolving("session_ids")
def command(session_ids: tuple[str, ...], permanent: bool, as_json: bool) -> None:
    """Move sessions to the trash; `sessiond restore ID` brings them back."""
    with connect() as client:
        for session_id in session_ids:
            client.session(session_id).delete(permanent=permanent)
            if not as_json:
                where = "gone" if permanent else f"in the trash; sessiond restore {session_id}"
                say(f"{session_id} is {where}")
    if as_json:
        print_json({"deleted": list(session_ids)})
