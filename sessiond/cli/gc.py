"""`sessiond gc`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from sessiond.cli.client import Client
from sessiond.cli.list import sessions
from sessiond.cli.options import as_json, check_exists
from sessiond.cli.output import count, local_time, print_json, say, table
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
    with Client.connect() as client:
        found = _found(client, {"store": store} if store else {}, empty=empty, archived=archived, days=days)
        if not found:
            check_exists(client, store=store)
        gone = [info for info in found if _remove(client, info)] if yes else found
    if as_json:
        print_json({"removed": [info["sessionId"] for info in gone], "dryRun": not yes})
    else:
        _say(gone, yes=yes)


def _found(
    client: Client, wanted: dict[str, Any], *, empty: bool, archived: bool, days: float | None
) -> list[dict[str, Any]]:
    limit_days = days if days is not None else _SETTLED_DAYS if empty and not archived else 0.0
    wanted = dict(wanted)
    if limit_days:
        wanted["until"] = _ago(limit_days)
    if archived:
        wanted["archived"] = True
    found: list[dict[str, Any]] = sessions(client, None, {"filter": wanted}, whole=True)["sessions"]
    found = [info for info in found if not info["attached"]]
    return [info for info in found if _is_empty(client, info)] if empty else found


def _is_empty(client: Client, info: dict[str, Any]) -> bool:
    """Whether it has no messages, and nothing else that somebody put there: no notes, no state."""
    if info["messageCount"]:
        return False
    try:
        notes = client.call("note/list", {"sessionId": info["sessionId"]})["notes"]
        values = client.call("state/get", {"sessionId": info["sessionId"]})["values"]
    except SessionNotFound:
        return False
    return not notes and not values


def _remove(client: Client, info: dict[str, Any]) -> bool:
    """Move it to the trash. False if it is gone already."""
    try:
        client.call("session/delete", {"sessionId": info["sessionId"]})
    except SessionNotFound:
        return False
    return True


def _ago(days: float) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _say(gone: list[dict[str, Any]], *, yes: bool) -> None:
    if gone:
        rows = [
            (info["sessionId"], info.get("name") or "", str(info["messageCount"]), local_time(info["updatedAt"]))
            for info in gone
        ]
        table(("id", "name", "messages", "changed"), rows)
    many = count(len(gone), "session")
    if yes:
        say(f"moved {many} to the trash")
    else:
        say(f"{many} would go to the trash" + ("; --yes moves them there" if gone else ""))
