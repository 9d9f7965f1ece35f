"""`sessiond append ID [TEXT]`."""

from __future__ import annotations

import sys

import click

from sessiond.cli import options
from sessiond.cli.client import connect
from sessiond.cli.output import note, print_json, say
from sessiond.client import requests
from sessiond.client.types import NewMessage


@click.command("append", short_help="Add a message; returns once it is durable.")
@options.session_id
@click.argument("text", required=False)
@click.option("--role", default="user", show_default=True)
@options.as_json
def command(session_id: str, text: str | None, role: str, as_json: bool) -> None:
    """Add a message to a session: TEXT, or whatever is on standard input.

    When this exits with code 0, the message is on disk.
    """
    if text is None:
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise click.BadParameter(
                f"standard input is not valid UTF-8 (byte {error.start})", param_hint="TEXT"
            ) from None
        text = text.removesuffix("\n")
    with connect() as client:
        answer = client.answer(requests.append(session_id, [NewMessage(role=role, content=text)]))
    if as_json:
        print_json(answer.plain)
    else:
        say(f"{session_id} #{answer.value.seq}")
        if answer.value.provisional:
            note("it waits on this machine until the hub of its store can be reached")
