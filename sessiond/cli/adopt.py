"""`sessiond adopt PATH`."""

from __future__ import annotations

import os

import click

from sessiond.cli.client import connect
from sessiond.cli.options import NamedFile, as_json
from sessiond.cli.output import print_json, say
from sessiond.cli.paths import on_wire
from sessiond.client import requests
from sessiond.words import count


@click.command("adopt", short_help="Make another tool's session folder a store, in place.")
@click.argument("path", type=NamedFile(exists=True, file_okay=False))
@click.option("--name", help="The store's name; by default made from the folder's name.")
@click.option("-f", "--format", "form", help="jsonl, amacs, cortex, agent-q, theia or sibyl; detected by default.")
@as_json
def command(path: str, name: str | None, form: str | None, as_json: bool) -> None:
    """Make a folder in which another tool keeps its sessions a store. The files stay there, and still belong to that tool."""
    request = requests.adopt(on_wire(os.path.abspath(path)), name=name, format=form)
    with connect() as client:
        answer = client.answer(request)
    if as_json:
        print_json(answer.plain)
        return
    adopted = answer.value
    store = adopted.store
    say(
        f"store {store.name} ({store.format}): {count(adopted.sessions, 'session')}; sessiond list --store {store.name}"
    )
    for warning in adopted.warnings:
        say(f"warning: {warning.path}: {warning.message}")
