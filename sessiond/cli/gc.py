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
"""An empty session that is younger may still be wanted."""


@click.command("gc", short_help="Clean up: what is empty, old or archived goes into the trash.")
@click.option("--empty", is_flag=True, help="Sessions without a message (this alone unless another is asked for).")
@click.option("--archived", is_flag=True, help="Archived ones.")
@click.option("--older-than", "days", type=click.FloatRange(0), metavar="DAYS", help="Not changed for so many days.")
@click.option("--store", help="Only in this store.")
@click.option("-y", "--yes", is_flag=True, help="Do it; without this it only says what would go.")
@as_json
def command(empty: bool, archived: bool, days: float | None, store: str | None, yes: bool, as_json: bool) -> None:
    """Say which sessions would go into the trash, and with --yes move them there.

    Several conditions narrow each other: --archived --older-than 90 are the archived ones that have not changed for 90
    days. Without any: the empty ones that are older than a day. What somebody has open stays.

    What lies in the trash leaves it after 30 days (`trash_days` under [limits]); nothing else ever expires by itself. With --json
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
    """No message, and nothing else that somebody put there: no note, no state."""
    if info["messageCount"]:
        return False
    try:
        notes = client.call("note/list", {"sessionId": info["sessionId"]})["notes"]
        values = client.call("state/get", {"sessionId": info["sessionId"]})["values"]
    except SessionNotFound:
        return False
    return not notes and not values


def _remove(client: Client, info: dict[str, Any]) -> bool:
    """Into the trash. False if it went by itself meanwhile."""
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
        say(f"{many} went into the trash")
    else:
        say(f"{many} would go into the trash" + ("; --yes does it" if gone else ""))
