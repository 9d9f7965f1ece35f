"""`sessiond stats`."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.client import connect
from sessiond.cli.options import Folder, NamedFile, as_json, check_exists, filter_of, in_store
from sessiond.cli.output import for_people, note, one_line, print_json, say
from sessiond.cli.terminal import Paint, color, colored

_FEW = 30
MOST = 10_000
"""Rows that a request gets at most."""
_KINDS = ("day", "month", "model", "tool", "project", "session")


@click.command("stats", short_help="Show which tokens your sessions used, and what they cost.")
@click.option("--by", type=click.Choice(_KINDS), default="day", show_default=True, help="What each row is.")
@click.option("--since", metavar="TIME", help="Only messages at or after TIME (RFC 3339, or a date).")
@click.option("--until", metavar="TIME", help="Only messages before TIME.")
@click.option("--tool", help="Only sessions of this tool, such as codex; sessiond: those that were not imported.")
@in_store("Only sessions in this store.")
@click.option("--tag", "tags", multiple=True, help="Only sessions with this tag; repeat it to require several.")
@click.option("--cwd", type=Folder(), help="Only sessions of this folder.")
@click.option(
    "--prices", metavar="FILE", type=NamedFile(),
    help="Compute costs from this file (JSON in LiteLLM's shape) instead of what the tools said.",
)  # fmt: skip
@click.option("--time-zone", metavar="NAME", help="Count days and months in this zone (default: this machine's).")
@click.option("-n", "--limit", type=click.IntRange(1, MOST), help=f"How many rows at most (default {_FEW}).")
@click.option("--all", "everything", is_flag=True, help="Show all rows.")
@color
@as_json
def command(
    by: str,
    since: str | None,
    until: str | None,
    tool: str | None,
    prices: str | None,
    time_zone: str | None,
    limit: int | None,
    everything: bool,
    color: str,
    as_json: bool,
    **filters: Any,
) -> None:
    """Show which tokens your sessions used, and what they cost.

    Tools report tokens in their files, and an import keeps them with each message. Each request to a model counts once, even if a
    resumed or forked session has a copy of it; subagents count as part of the session that they work for. Costs are those that the tools
    wrote, or computed with --prices; nothing is fetched, and nothing is guessed. Archived sessions count, deleted ones do not.

    If the output is not a terminal, each row is one line, with tabs between key, sessions, requests, input, cache write, cache read,
    output, reasoning, cost and name; the cost is empty unless all requests have one. With --json the document is the result of
    session/usage.
    """
    from sessiond.cli import prices as price_file

    people = for_people() and not as_json
    priced = None if prices is None else price_file.read(prices)
    times = filter_of(since=since, until=until)
    params = {
        "by": by,
        "since": times.get("since"),
        "until": times.get("until"),
        "tool": tool,
        "timeZone": time_zone,
        "limit": MOST if everything or (limit is None and not people) else limit or _FEW,
        "filter": filter_of(**filters) or None,
    }
    with connect() as client:
        report = client.call(
            "session/usage", {key: value for key, value in params.items() if value is not None}, again=True
        )
        if not report["rows"]:
            check_exists(client, store=filters["store"])
        tools = _tools(client) if people and not report["rows"] and tool is not None else []
    if priced is not None:
        priced.apply(report)
    if as_json:
        print_json(report)
    elif people:
        _show(report, by, tools, Paint(colored(color)))
    else:
        for row in report["rows"]:
            print("\t".join(one_line(cell) for cell in _cells(row)))
    if report.get("incomplete") and not as_json:
        note("the index is still being built: there may be more")
    if priced is not None and priced.unknown:
        note(f"{prices} has no price for {', '.join(sorted(priced.unknown))}")
    if priced is not None and priced.odd:
        note(f"{prices} has a price that cannot be one for {', '.join(sorted(priced.odd))}")
    if report["omitted"] and not people and limit is None:  # more than a request may ask for
        note(
            f"there are {report['omitted']} more rows; --since, --until and the filters lead to them, --json to their total"
        )


def _show(report: dict[str, object], by: str, tools: list[str], paint: Paint) -> None:
    if not report["rows"]:
        say("no message reports tokens" + (f"; tools that do: {', '.join(tools)}" if tools else ""))
        return
    from sessiond.cli.stats_table import show

    show(report, by, paint, MOST)


def _tools(client: Any) -> list[str]:
    return [row.key for row in client.usage("tool").rows if row.key]


def _cells(row: dict[str, Any]) -> list[str]:
    total = row["total"]
    counts = [total[name] for name in ("requests", "input", "cacheWrite", "cacheRead", "output", "reasoning")]
    cost = f"{total['cost']:.6f}" if total["priced"] == total["requests"] else ""
    return [row["key"] or "", str(row["sessions"]), *map(str, counts), cost, row["name"] or ""]
