"""`sessiond list`."""

from __future__ import annotations

import os
from typing import Any

import click

from sessiond.cli.client import Client
from sessiond.cli.columns import Column, fitted
from sessiond.cli.options import as_json, check_exists, filter_of, filters
from sessiond.cli.output import for_people, local_time, note, one_line, print_json, say
from sessiond.cli.terminal import DIM, SESSION, Paint, colored, columns, pager, paging
from sessiond.cli.titles import beginnings

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
@click.option("--deleted", is_flag=True, help="List what is in the trash instead.")
@click.option(
    "--sort", default="-updated", show_default=True, callback=_sort, metavar="[-]KEY",
    help="updated, created, messages or name; put - in front for descending.",
)  # fmt: skip
@click.option("-r", "--reverse", is_flag=True, help="Reverse the order.")
@click.option("-n", "--limit", type=click.IntRange(1), help=f"How many at most (default {_FEW}).")
@click.option("--all", "everything", is_flag=True, help="Show all of them.")
@paging
@as_json
def command(
    sort: str,
    reverse: bool,
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
    On a terminal, a session without a name is shown with its summary or how it begins, in brackets.
    With --json the document is the result of session/list: {"sessions": [...], "nextCursor": ...}, with "incomplete": true
    while the index is being rebuilt and does not know all sessions yet. Without --json, standard error says so.
    """
    if reverse:
        sort = sort[1:] if sort.startswith("-") else f"-{sort}"
    people = for_people() and not as_json
    with Client.connect() as client:
        found = sessions(client, None if everything else limit or _FEW, {"sort": sort, "filter": filter_of(**given)})
        if not found["sessions"]:
            check_exists(client, store=given["store"])
        known = beginnings(client, found["sessions"]) if people and not given["deleted"] else {}
        if found.get("incomplete") and not as_json:
            from sessiond.cli.status import index_problem

            note(index_problem(client.call("daemon/status")["index"]) or "the index was still being built; list again")
    if as_json:
        print_json(found)
        return
    rows = [_row(info) for info in found["sessions"]]
    if not people:
        for row in rows:
            print("\t".join(one_line(cell) for cell in row))
        if found["nextCursor"] is not None and limit is None:
            note(f"there are more than these {len(rows)}; --all shows them")
        return
    if not rows:
        say(
            "no matching sessions"
            if any(given.values())
            else "no sessions yet; try sessiond new, or sessiond import PATH"
        )
        return
    for row in rows:
        if row[0] in known:
            row[1] = f"[{known[row[0]]}]"  # in brackets, so that it does not look like a name
    _show(rows, more=found["nextCursor"] is not None, paint=Paint(colored(color)), paged=not no_pager)


_COLUMNS = (
    Column("id", SESSION),
    Column("name", least=12, most=48),
    Column("messages", right=True, rank=1),
    Column("changed", DIM),
    Column("model", least=10, most=28, rank=3),
    Column("tags", least=8, most=28, rank=2),
    Column("folder", least=14, most=40, rank=4, keep_end=True),
    Column("store", rank=2, dull="default"),
)
"""In this order. If they do not fit, those of the highest rank are dropped first."""


def _row(info: dict[str, Any]) -> list[str]:
    return [
        info["sessionId"],
        info.get("name") or "",
        str(info["messageCount"]),
        local_time(info["updatedAt"]),
        info.get("model") or "",
        " ".join(info.get("tags") or []),
        info.get("cwd") or "",
        info["store"],
    ]


def _show(rows: list[list[str]], *, more: bool, paint: Paint, paged: bool) -> None:
    home = os.path.expanduser("~")
    for row in rows:
        if row[6] == home or row[6].startswith(home + "/"):
            row[6] = "~" + row[6][len(home) :]
    with pager(paged) as out:
        for line in fitted(_COLUMNS, [[one_line(cell) for cell in row] for row in rows], columns(), paint):
            out.write(line + "\n")
        if more:
            out.write(paint("there are more; --all shows them", DIM) + "\n")


def sessions(client: Client, limit: int | None, params: dict[str, Any], *, whole: bool = False) -> dict[str, Any]:
    """Up to `limit` sessions (None: all), from as many pages as needed. Shape: the result of `session/list`.

    `whole`: wait until the index knows all sessions again.
    """
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    incomplete: dict[str, Any] = {}
    while limit is None or len(found) < limit:
        page_size = 1000 if limit is None else limit - len(found)
        more = {"cursor": cursor} if cursor else {}
        page = client.call("session/list", {**params, **more, "limit": page_size})
        if page.get("incomplete"):
            if whole:  # start over: sessions that appear now may belong on any page
                found, cursor = [], None
                continue
            incomplete = {"incomplete": True}
        found += page["sessions"]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    return {"sessions": found, "nextCursor": cursor, **incomplete}
