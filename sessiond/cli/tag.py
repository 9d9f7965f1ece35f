"""`sessiond tag ID [TAG...]`."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli import options
from sessiond.cli.client import Client
from sessiond.cli.output import print_json, say
from sessiond.errors import Conflict

_TRIES = 5


@click.command("tag", short_help="Add tags to a session, or remove some.")
@options.session_id
@click.argument("tags", metavar="[TAG]...", nargs=-1)
@click.option("-r", "--remove", multiple=True, metavar="TAG", help="Remove this tag.")
@options.as_json
def command(session_id: str, tags: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> None:
    """Add tags to a session, or remove some with --remove. Prints all tags that it has then."""
    with Client.connect() as client:
        info = _change(client, session_id, tags, remove)
    if as_json:
        print_json({"session": info})
    else:
        say(" ".join(info["tags"]))


def _change(client: Client, session_id: str, add: tuple[str, ...], remove: tuple[str, ...]) -> dict[str, Any]:
    """Read, then write provided that nothing changed in between: if two clients tag at once, both succeed."""
    for attempt in range(_TRIES):
        info: dict[str, Any] = client.call("session/open", {"sessionId": session_id, "last": 0})["session"]
        tags = [tag for tag in dict.fromkeys([*info["tags"], *add]) if tag not in remove]
        if tags == info["tags"]:
            return info
        params = {"sessionId": session_id, "tags": tags, "expectedSeq": info["seq"]}
        try:
            updated: dict[str, Any] = client.call("session/update", params)["session"]
        except Conflict:
            if attempt == _TRIES - 1:
                raise
        else:
            return updated
    raise AssertionError("unreachable")
