"""`sessiond search QUERY`."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.client import Client
from sessiond.cli.options import as_json, filter_of, filters
from sessiond.cli.output import for_people, in_place, local_time, one_line, print_json, say


@click.command("search", short_help="Find words in all your sessions.")
@click.argument("query", nargs=-1, required=True)
@click.option("--regex", "mode", flag_value="regex", help="QUERY is a regular expression.")
@click.option("--semantic", "mode", flag_value="semantic", help="Find by meaning.")
@filters
@click.option("--role", help="Only messages of this role.")
@click.option("--session", "session_id", metavar="ID", help="Only in this session.")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True)
@as_json
def command(
    query: tuple[str, ...], mode: str | None, session_id: str | None, limit: int, as_json: bool, **given: Any
) -> None:
    """Find messages in all your sessions.

    All words must be in one message; "a b" is a phrase, wor* a prefix, -x excludes, and there are OR, role:, tag:,
    in:name, before:, after:, cwd:, model: and store:. With --json the document is what session/search answers.
    """
    params = {"query": " ".join(query), "limit": limit, "filter": filter_of(sessionId=session_id, **given)}
    if mode is not None:
        params["mode"] = mode
    with Client.connect() as client:
        found = client.call("session/search", params)
    if as_json:
        print_json(found)
        return
    for hit in found["hits"]:
        _show(hit)
    if found.get("incomplete"):
        say("the index is still being built: there may be more")
    if for_people():
        shown = len(found["hits"])
        say(f"{shown} of {found['total']}" if found.get("nextCursor") else f"{shown} found")


def _show(hit: dict[str, Any]) -> None:
    where = hit["sessionId"] if hit.get("seq") is None else f"{hit['sessionId']} #{hit['seq']}"
    facts = (where, hit.get("name") or "", hit.get("role") or "", local_time(hit.get("timestamp") or ""))
    if not for_people():
        print("\t".join(one_line(text) for text in (*facts, hit["snippet"])))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(one_line("  ".join(fact for fact in facts if fact)), style="bold"))
    snippet = Text("  " + in_place(hit["snippet"]))
    for start, end in hit.get("ranges", []):
        snippet.stylize("bold yellow", start + 2, end + 2)
    console.print(snippet)
