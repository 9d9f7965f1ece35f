"""`sessiond new`."""

from __future__ import annotations

import contextlib
import os

import click

from sessiond.cli.client import connect
from sessiond.cli.options import Folder, as_json, in_store
from sessiond.cli.output import print_json, say
from sessiond.cli.paths import label
from sessiond.client import requests


@click.command("new", short_help="Make a new session and print its id.")
@click.option("--id", "session_id", help="Its id; by default the daemon makes one.")
@click.option("--name")
@click.option("--model")
@click.option("--tag", "tags", multiple=True)
@in_store("Make it in this store instead of the default one.")
@click.option("--cwd", type=Folder(), help="The folder it is about; by default the current one.")
@as_json
def command(
    session_id: str | None,
    tags: tuple[str, ...],
    store: str | None,
    cwd: str | None,
    as_json: bool,
    **given: str | None,
) -> None:
    """Make a new session and print its id.

    A session that gets no message, name or note is dropped after ten minutes.
    """
    folder = None
    with contextlib.suppress(FileNotFoundError):  # the current folder has been removed
        folder = label(cwd or os.getcwd())
    request = requests.new(session_id, (), store=store, cwd=folder, tags=list(tags) or None, **given)
    with connect() as client:
        answer = client.answer(request)
    if as_json:
        print_json(answer.plain)
    else:
        say(answer.value.session.session_id)
