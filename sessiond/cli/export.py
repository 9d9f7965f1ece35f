"""`sessiond export ID`."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from sessiond.cli import options
from sessiond.cli.client import Client
from sessiond.cli.output import clean, print_json, say

FORMATS = ("jsonl", "json", "markdown", "org", "html", "text")


@click.command("export", short_help="A session as Markdown, Org, HTML, JSON, ...")
@options.session_id
@click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="markdown", show_default=True)
@click.option("-o", "--output", type=click.Path(), help="Into this file instead of standard output.")
@click.option("--overwrite", is_flag=True, help="Even if that file is there already.")
@options.as_json
def command(session_id: str, form: str, output: str | None, overwrite: bool, as_json: bool) -> None:
    """Write a session out in another format. "jsonl" loses nothing."""
    params: dict[str, Any] = {"sessionId": session_id, "format": form}
    if output is not None:
        params |= {"path": os.path.abspath(os.path.expanduser(output)), "overwrite": overwrite}
    with Client.connect() as client:
        result = client.call("session/export", params)
    if as_json:
        print_json(result)
    elif output is not None:
        say(f"{result['path']}: {result['bytes']} bytes")
    elif sys.stdout.isatty():
        sys.stdout.write(clean(result["content"]))
    else:
        sys.stdout.buffer.write(result["content"].encode())
