"""`sessiond new`."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import click

from sessiond.cli.client import Client
from sessiond.cli.options import as_json
from sessiond.cli.output import print_json, say
from sessiond.cli.paths import label


@click.command("new", short_help="Make a new session and print its id.")
@click.option("--id", "session_id", help="Its id; by default the daemon makes one.")
@click.option("--name")
@click.option("--model")
@click.option("--tag", "tags", multiple=True)
@click.option("--store", help="Make it in this store instead of the default one.")
@click.option("--cwd", type=click.Path(resolve_path=True), help="The folder it is about; by default the current one.")
@as_json
def command(as_json: bool, session_id: str | None, tags: tuple[str, ...], cwd: str | None, **given: Any) -> None:
    """Make a new session and print its id.

    A session that gets no message, name or note is dropped after ten minutes.
    """
    params = {name: value for name, value in given.items() if value is not None}
    with contextlib.suppress(FileNotFoundError):  # the current folder has been removed
        params["cwd"] = label(cwd or os.getcwd())
    if session_id is not None:
        params["sessionId"] = session_id
    if tags:
        params["tags"] = list(tags)
    with Client.connect() as client:
        result = client.call("session/new", params)
    if as_json:
        print_json(result)
    else:
        say(result["session"]["sessionId"])
