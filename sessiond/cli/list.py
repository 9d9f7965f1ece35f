"""`sessiond list`."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.activity import in_short
from sessiond.cli.client import connect
from sessiond.cli.options import Count, as_json, check_exists, filter_of, filters, tell_unmatched
from sessiond.cli.output import for_people, note, one_line, print_json, say
from sessiond.cli.pages import sessions
from sessiond.cli.terminal import Paint, colored, paging
from sessiond.client.types import SessionInfo
from sessiond.doctor.wording import index_problem
from sessiond.words import local_time

_FEW = 50
_SORTS = {"updated": "updatedAt", "created": "createdAt", "messages": "messageCount", "name": "name"}
"""What people type -> the protocol's name, which is accepted too."""


def _sort(_ctx: click.Context, _param: click.Parameter, given: str) -> str:
    descending, key = given.startswith("-"), given.removeprefix("-")
    if key not in _SORTS and key not in _SORTS.values():
        raise click.BadParameter(
            f"unknown sort key {given!r} (one of {', '.join(_SORTS)}; put - in front for descending)"
        )
    return ("-" if descending else "") + _SORTS.get(key, key)


@click.command("list", short_help="List your sessions, newest first.")
@filters
@click.option("--name", help="Only those with this in the name.")
@click.option("--waiting", is_flag=True, help="Only those that wait for you: for permission, or for an answer.")
@click.option("--deleted", is_flag=True, help="List what is in the trash instead.")
@click.option(
    "--sort", default="-updated", show_default=True, callback=_sort, metavar="[-]KEY",
    help="updated, created, messages or name; put - in front for descending.",
)  # fmt: skip
@click.option("-r", "--reverse", is_flag=True, help="Reverse the order.")
@click.option("-n", "--limit", type=Count(1), help=f"How many at most (default {_FEW}).")
@click.option("--all", "everything", is_flag=True, help="Show all of them.")
@paging
@as_json
def command(
    sort: str,
    reverse: bool,
    waiting: bool,
    limit: int | None,
    everything: bool,
    color: str,
    no_pager: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """List your sessions, newest first.

    If the output is not a terminal, each session is one line, with tabs between id, name, messages, changed, model, tags,
    folder and store. If there are more than are shown, standard error says so, unless you give -n.
    On a terminal, the name comes first, then what goes on in the session at the moment, and a long id is cut where it is the
    only one that begins so: commands take that for the id. A session without a name is shown with its summary or how it begins, in brackets.
    With --json the document is the result of session/list: {"sessions": [...], "nextCursor": ...}, with "incomplete": true
    while the index is being rebuilt and does not know all sessions yet. Without --json, standard error says so.
    """
    if reverse:
        sort = sort[1:] if sort.startswith("-") else f"-{sort}"
    people = for_people() and not as_json
    known: dict[str, str] = {}
    with connect() as client:
        wanted = filter_of(activity="waiting" if waiting else None, **given)
        found = sessions(client, None if everything else limit or _FEW, sort, wanted)
        if not found.sessions:
            check_exists(client, store=given["store"])
            tell_unmatched(client, wanted)
        if people and not given["deleted"]:
            from sessiond.cli.titles import beginnings

            known = beginnings(client, found.sessions)
        if found.incomplete and not as_json:
            note(index_problem(client.status().index) or "the index was still being built; list again")
    if as_json:
        print_json(found.plain)
        return
    rows = [_row(info) for info in found.sessions]
    if not people:
        for row in rows:
            print("\t".join(one_line(cell) for cell in row))
        if found.next_cursor is not None and limit is None:
            note(f"there are more than these {len(rows)}; --all shows them")
        return
    if not rows:
        say(
            "no session waits for you"
            if waiting
            else "no matching sessions"
            if any(given.values())
            else "no sessions yet; try sessiond import (what your tools have kept), or sessiond new"
        )
        return
    for row in rows:
        if row[0] in known:
            row[1] = f"[{known[row[0]]}]"  # in brackets, so that it does not look like a name
    from sessiond.cli.list_table import show

    # Of what is in the trash, `restore` wants the whole id.
    short = not given["deleted"]
    doing = {info.session_id: in_short(info.activity) for info in found.sessions}
    show(rows, doing, more=found.next_cursor is not None, short=short, paint=Paint(colored(color)), paged=not no_pager)


def _row(info: SessionInfo) -> list[str]:
    return [
        info.session_id,
        info.name or "",
        str(info.message_count),
        local_time(info.updated_at),
        info.model or "",
        " ".join(info.tags),
        info.cwd or "",
        info.store,
    ]
