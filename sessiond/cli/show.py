"""`sessiond show ID`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import Client
from sessiond.cli.output import count, message_text, print_json, say


@click.command("show", short_help="Show a session and its newest messages.")
@options.session_id
@click.option("-n", "--last", type=click.IntRange(0), default=50, show_default=True, help="How many messages.")
@options.as_json
def command(session_id: str, last: int, as_json: bool) -> None:
    """Show a session and its newest messages.

    With --json the document is the result of session/open.
    """
    with Client.connect() as client:
        opened = client.call("session/open", {"sessionId": session_id, "last": last})
    if as_json:
        print_json(opened)
        return
    info = opened["session"]
    say(f"{info['sessionId']}  {info.get('name') or '(no name)'}")
    facts = [count(info["messageCount"], "message"), info["path"], info.get("model"), " ".join(info.get("tags") or [])]
    say("  ".join(fact for fact in facts if fact))
    for warning in opened.get("warnings", []):
        line = "" if warning.get("line") is None else f":{warning['line']}"
        say(f"warning: {warning['path']}{line}: {warning['message']}")
    if opened.get("hasMore"):
        say(f"… for older messages: sessiond show {info['sessionId']} --last {info['messageCount']}")
    for message in opened["messages"]:
        say()
        say(message_text(message))
