"""`sessiond rm ID...`."""

from __future__ import annotations

import click

from sessiond.cli import EX_FAILED
from sessiond.cli.client import connect
from sessiond.cli.options import as_json, resolving, sessions
from sessiond.cli.output import ENDED, note, one_line, print_json, say
from sessiond.client.failures import AnswerLost
from sessiond.errors import SessiondError


@click.command("rm", short_help="Move sessions to the trash.")
@click.argument("session_ids", metavar="ID...", nargs=-1, required=True, shell_complete=sessions)
@click.option("--permanent", is_flag=True, help="Delete them for good, also from trash, index and journal.")
@as_json
@resolving("session_ids")
def command(session_ids: tuple[str, ...], permanent: bool, as_json: bool) -> int:
    """Move sessions to the trash; `sessiond restore ID` brings them back."""
    deleted = []
    with connect() as client:
        for session_id in session_ids:
            try:
                client.session(session_id).delete(permanent=permanent)
            except SessiondError as error:
                if len(session_ids) == 1:
                    raise
                note(one_line(f"{session_id}: {ENDED if isinstance(error, AnswerLost) else error}"))
                continue
            deleted.append(session_id)
            if not as_json:
                where = "gone" if permanent else f"in the trash; sessiond restore {session_id}"
                say(f"{session_id} is {where}")
    if as_json:
        print_json({"deleted": deleted})
    return 0 if len(deleted) == len(session_ids) else EX_FAILED
