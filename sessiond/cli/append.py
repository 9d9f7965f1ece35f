"""`sessiond append ID [TEXT]`."""

from __future__ import annotations

import sys
import uuid
from typing import Any

import click

from sessiond.cli import options
from sessiond.cli.client import Client
from sessiond.cli.output import print_json, say


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
    message = {"id": f"m-{uuid.uuid4()}", "role": role, "content": text}
    result = _append({"sessionId": session_id, "messages": [message]})
    if as_json:
        print_json(result)
    else:
        say(f"{session_id} #{result['seq']}")


def _append(params: dict[str, Any]) -> Any:
    """Tries twice if the daemon goes away: the message has an id, so one that is already durable is not added again."""
    try:
        with Client.connect() as client:
            return client.call("session/append", params)
    except ConnectionError:
        with Client.connect() as client:
            return client.call("session/append", params)
