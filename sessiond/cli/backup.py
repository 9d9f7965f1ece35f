"""`sessiond backup DIR`."""

from __future__ import annotations

import os

import click

from sessiond.cli.client import Client
from sessiond.cli.options import as_json
from sessiond.cli.output import print_json, say


@click.command("backup", short_help="A consistent copy of everything.")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
@as_json
def command(directory: str, as_json: bool) -> None:
    """Copy everything into DIR, consistent, while all goes on."""
    with Client.connect() as client:
        result = client.call("daemon/backup", {"path": os.path.abspath(directory)})
    if as_json:
        print_json(result)
    else:
        say(f"{result['files']} files, {result['bytes']} bytes in {directory}")
