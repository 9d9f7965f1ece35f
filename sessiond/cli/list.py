"""`sessiond list`."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.client import Client
from sessiond.cli.options import as_json, filter_of, filters
from sessiond.cli.output import for_people, local_time, print_json, say, table


@click.command("list", short_help="Your sessions, the newest first.")
@filters
@click.option("--name", help="Only with this in the name.")
@click.option("--deleted", is_flag=True, help="What lies in the trash instead.")
@click.option("--sort", default="-updatedAt", show_default=True, help="updatedAt, createdAt, name or messageCount.")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="How many at most.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@as_json
def command(sort: str, limit: int, everything: bool, as_json: bool, **given: Any) -> None:
    """List your sessions, the newest first.

    With --json the document is what session/list answers: {"sessions": [...], "nextCursor": ...}.
    """
    with Client.connect() as client:
        found = sessions(client, None if everything else limit, {"sort": sort, "filter": filter_of(**given)})
    if as_json:
        print_json(found)
        return
    if not found["sessions"] and for_people():
        say("no such session" if any(given.values()) else "no sessions yet; sessiond new, or sessiond import PATH")
        return
    table(
        ("id", "name", "messages", "changed", "model", "tags"),
        [
            (
                info["sessionId"],
                info.get("name") or "",
                str(info["messageCount"]),
                local_time(info["updatedAt"]),
                info.get("model") or "",
                " ".join(info.get("tags") or []),
            )
            for info in found["sessions"]
        ],
    )


def sessions(client: Client, limit: int | None, params: dict[str, Any]) -> dict[str, Any]:
    """Up to `limit` sessions (None: all), over as many pages as that takes. Shape: `session/list`'s result."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while limit is None or len(found) < limit:
        page_size = 1000 if limit is None else limit - len(found)
        more = {"cursor": cursor} if cursor else {}
        page = client.call("session/list", {**params, **more, "limit": page_size})
        found += page["sessions"]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    return {"sessions": found, "nextCursor": cursor}
