"""`sessiond fork ID`."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli import options
from sessiond.cli.client import Client
from sessiond.cli.output import print_json, say


@click.command("fork", short_help="Copy a session, to continue it another way.")
@options.session_id
@click.option(
    "--at", "at_seq", type=click.IntRange(0), metavar="SEQ", help="Copy up to this seq; by default the newest."
)
@click.option("--name", help="The copy's name.")
@options.as_json
def command(session_id: str, at_seq: int | None, name: str | None, as_json: bool) -> None:
    """Copy a session, to continue it another way. Prints the copy's id."""
    params: dict[str, Any] = {"sessionId": session_id}
    if at_seq is not None:
        params["atSeq"] = at_seq
    if name is not None:
        params["name"] = name
    with Client.connect() as client:
        result = client.call("session/fork", params)
    if as_json:
        print_json(result)
    else:
        say(result["session"]["sessionId"])
