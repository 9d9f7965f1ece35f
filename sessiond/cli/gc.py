"""`sessiond gc`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from sessiond.cli.client import connect
from sessiond.cli.options import as_json, check_exists
from sessiond.cli.output import count, local_time, print_json, say, table
from sessiond.cli.pages import sessions
from sessiond.client.blocking import Sessiond
from sessiond.client.types import SessionInfo
from sessiond.errors import SessionNotFound

_SETTLED_DAYS = 1.0
"""A younger empty session may still be wanted."""


@click.command("gc", short_help="Move empty, old or archived sessions to the trash.")
@click.option("--empty", is_flag=True, help="Sessions without messages (the default if no other condition is given).")
@click.option("--archived", is_flag=True, help="Archived sessions.")
@click.option(
    "--older-than",
    "days",
    type=click.FloatRange(0),
    metavar="DAYS",
    help="Sessions that have not changed for DAYS days.",
)
@click.option("--store", help="Only in this store.")
@click.option("-y", "--yes", is_flag=True, help="Do it; without this, only say what would be moved.")
@as_json
def command(empty: bool, archived: bool, days: float | None, store: str | None, yes: bool, as_json: bool) -> None:
    """Say which sessions would go to the trash; with --yes, move them there.

    Several conditions must all hold: --archived --older-than 90 selects archived sessions that have not changed for 90
    days. Without any condition: empty sessions older than a day. Sessions that somebody has open stay.

    Sessions leave the trash after 30 days (`trash_days` under [limits]); nothing else ever expires by itself. With --json
    the document is {"removed": [ID, ...], "dryRun": bool}.
    """
    if not archived and days is None:
        empty = True
    with connect() as client:
        found = _found(client, store or None, empty=empty, archived=archived, days=days)
        if not found:
            check_exists(client, store=store)
        gone = [info for info in found if _remove(client, info)] if yes else found
    if as_json:
        print_json({"removed": [info.session_id for info in gone], "dryRun": not yes})
    else:
        _say(gone, yes=yes)


def _found(
    client: Sessiond, store: str | None, *, empty: bool, archived: bool, days: float | None
) -> list[SessionInfo]:
    limit_days = days if days is not None else _SETTLED_DAYS if empty and not archived else 0.0
    wanted = {"store": store, "until": _ago(limit_days) if limit_days else None, "archived": archived or None}
    found = [info for info in sessions(client, None, None, wanted, whole=True).sessions if not info.attached]
    return [info for info in found if _is_empty(client, info)] if empty else found


def _is_empty(client: Sessiond, info: SessionInfo) -> bool:
    """Return whether a session has no messages, and nothing else that somebody put there: no notes, no state."""
    if info.message_count:
        return False
    session = client.session(info.session_id)
    try:
        return not session.notes() and not session.state()
    except SessionNotFound:
        return False


def _remove(client: Sessiond, info: SessionInfo) -> bool:
    """Move it to the trash. False if it is gone already."""
    try:
        client.session(info.session_id).delete()
    except SessionNotFound:
        return False
    return True


def _ago(days: float) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _say(gone: list[SessionInfo], *, yes: bool) -> None:
    if gone:
        rows = [
            (info.session_id, info.name or "", str(info.message_count), local_time(info.updated_at)) for info in gone
        ]
        table(("id", "name", "messages", "changed"), rows)
    many = count(len(gone), "session")
    if yes:
        say(f"moved {many} to the trash")
    else:
        say(f"{many} would go to the trash" + ("; --yes moves them there" if gone else ""))
