"""`sessiond show ID`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import connect
from sessiond.cli.output import count, message_text, print_json, say
from sessiond.cli.pages import open_
from sessiond.cli.way import way_of


@click.command("show", short_help="Show a session and its newest messages.")
@options.session_id
@click.option("-n", "--last", type=click.IntRange(0), default=50, show_default=True, help="How many messages.")
@options.as_json
def command(session_id: str, last: int, as_json: bool) -> None:
    """Show a session and its newest messages, and which sessions it goes on from.

    With --json the document is the result of session/open.
    """
    with connect() as client:
        answer = client.answer(open_(session_id, last=last))
        if as_json:
            print_json(answer.plain)
            return
        way = way_of(client, answer.value.session)
    opened = answer.value
    info = opened.session
    say(f"{info.session_id}  {info.name or '(no name)'}")
    facts = [count(info.message_count, "message"), info.path, info.model, " ".join(info.tags)]
    say("  ".join(fact for fact in facts if fact))
    if way:
        say("goes on from " + " ← ".join(way))
    for warning in opened.warnings:
        line = "" if warning.line is None else f":{warning.line}"
        say(f"warning: {warning.path}{line}: {warning.message}")
    if opened.has_more:
        say(f"… for older messages: sessiond show {info.session_id} --last {info.message_count}")
    for message in opened.messages:
        say()
        say(message_text(message))
