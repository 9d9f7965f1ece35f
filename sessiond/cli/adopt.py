"""`sessiond adopt PATH`."""

from __future__ import annotations

import os
from typing import Any

import click

from sessiond.cli.client import Client
from sessiond.cli.options import as_json
from sessiond.cli.output import count, print_json, say
from sessiond.cli.paths import on_wire


@click.command("adopt", short_help="Make another tool's session folder a store, in place.")
@click.argument("path", type=click.Path(exists=True, file_okay=False))
@click.option("--name", help="The store's name; by default made from the folder's name.")
@click.option("-f", "--format", "form", help="jsonl, amacs, cortex, agent-q, theia or sibyl; detected by default.")
@as_json
def command(path: str, name: str | None, form: str | None, as_json: bool) -> None:
    """Make a folder in which another tool keeps its sessions a store. The files stay there, and still belong to that tool."""
    params: dict[str, Any] = {"path": on_wire(os.path.abspath(path))}
    params |= {key: value for key, value in (("name", name), ("format", form)) if value is not None}
    with Client.connect() as client:
        result = client.call("store/adopt", params)
    if as_json:
        print_json(result)
        return
    store = result["store"]
    sessions = result["sessions"]
    found = count(len(sessions) if isinstance(sessions, list) else sessions, "session")
    say(f"store {store['name']} ({store['format']}): {found}; sessiond list --store {store['name']}")
    for warning in result["warnings"]:
        say(f"warning: {warning['path']}: {warning['message']}")
