"""`sessiond tag ID [TAG...]`."""

from __future__ import annotations

import click

from sessiond.cli import options
from sessiond.cli.client import connect
from sessiond.cli.output import print_json, say
from sessiond.cli.pages import OpenedSession, open_
from sessiond.client import requests
from sessiond.client.blocking import Sessiond
from sessiond.client.requests import Answer
from sessiond.client.types import SessionResult
from sessiond.errors import Conflict

_TRIES = 5


@click.command("tag", short_help="Add tags to a session, or remove some.")
@options.session_id
@click.argument("tags", metavar="[TAG]...", nargs=-1)
@click.option("-r", "--remove", multiple=True, metavar="TAG", help="Remove this tag.")
@options.as_json
def command(session_id: str, tags: tuple[str, ...], remove: tuple[str, ...], as_json: bool) -> None:
    """Add tags to a session, or remove some with --remove. Prints all tags that it has then."""
    with connect() as client:
        answer = _change(client, session_id, tags, remove)
    if as_json:
        print_json({"session": answer.plain["session"]})
    else:
        say(" ".join(answer.value.session.tags))


def _change(
    client: Sessiond, session_id: str, add: tuple[str, ...], remove: tuple[str, ...]
) -> Answer[OpenedSession] | Answer[SessionResult]:
    """Read, then write if nothing has changed in between: if two clients tag at once, both succeed."""
    for attempt in range(_TRIES):
        opened = client.answer(open_(session_id, last=0))
        info = opened.value.session
        tags = [tag for tag in dict.fromkeys([*info.tags, *add]) if tag not in remove]
        if tags == info.tags:
            return opened
        try:
            return client.answer(requests.update(session_id, {"tags": tags}, info.seq))
        except Conflict:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")
