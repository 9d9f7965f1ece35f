"""`sessiond gc`."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import click

from sessiond.cli.client import connect
from sessiond.cli.options import as_json, check_exists, in_store
from sessiond.cli.output import note, print_json, say, table
from sessiond.cli.pages import sessions
from sessiond.client.blocking import Sessiond
from sessiond.client.types import SessionInfo
from sessiond.errors import SessionNotFound
from sessiond.words import count, local_time

_SETTLED_DAYS = 1.0
"""A younger empty session may still be wanted."""


def _finite(_ctx: click.Context, _param: click.Parameter, given: float | None) -> float | None:
    if given is not None and not math.isfinite(given):
        raise click.BadParameter(f"{given} is not a number of days")
    return given


@click.command("gc", short_help="Move empty, old or archived sessions to the trash.")
@click.option("--empty", is_flag=True, help="Sessions without messages (the default if no other condition is given).")
@click.option("--archived", is_flag=True, help="Archived sessions.")
@click.option(
    "--older-than",
    "days",
    type=click.FloatRange(0),
    callback=_finite,
    metavar="DAYS",
    help="Sessions that have not changed for DAYS days.",
)
@in_store("Only in this store.")
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
        found = _found(client, store, empty=empty, archived=archived, days=days)
        if not found:
            check_exists(client, store=store)
        gone, changed = _removed(client, found) if yes else (found, 0)
    if changed:
        note(f"{count(changed, 'session')} changed meanwhile, or was opened, and stayed")
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


def _removed(client: Sessiond, found: list[SessionInfo]) -> tuple[list[SessionInfo], int]:
    """Move them to the trash, but not what somebody wrote or opened since it was listed. Return what was moved, and how many
    stayed; what is gone already is neither.
    """
    gone, changed = [], 0
    for info in found:
        session = client.session(info.session_id)
        try:
            now = session.info()
            if (now.seq, now.message_count, now.attached) != (info.seq, info.message_count, info.attached):
                changed += 1
                continue
            session.delete()
        except SessionNotFound:
            continue
        gone.append(info)
    return gone, changed


def _ago(days: float) -> str:
    try:
        moment = datetime.now(UTC) - timedelta(days=days)
    except OverflowError:
        moment = datetime.min  # before the first year nothing was changed either
    return (
        moment.replace(tzinfo=None).isoformat(timespec="seconds") + ".000Z"
    )  # strftime may write fewer digits of a year


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
