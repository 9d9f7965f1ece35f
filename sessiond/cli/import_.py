"""`sessiond import PATH`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from sessiond.cli.client import Client
from sessiond.cli.options import as_json
from sessiond.cli.output import clean, count, one_line, print_json, say

_SHOWN_WARNINGS = 20


@click.command("import", short_help="Bring your history in from other tools.")
@click.argument("path", type=click.Path(exists=True))
@click.option("-f", "--format", "form", help="What it is, where that cannot be seen: claude-code, codex, aider, ...")
@click.option("--store", help="Into this store instead of the default one.")
@click.option("--dry-run", is_flag=True, help="Only say what would come in.")
@as_json
def command(path: str, form: str | None, store: str | None, dry_run: bool, as_json: bool) -> None:
    """Bring sessions of another tool in: a file, or a folder with all that is in it.

    Repeating it adds only what is new.
    """
    params: dict[str, Any] = {"path": os.path.abspath(path), "dryRun": dry_run, "workDoneToken": "import"}
    params |= {name: value for name, value in (("format", form), ("store", store)) if value is not None}
    with Client.connect() as client, _progress() as notified:
        result = client.call("session/import", params, notified=notified)
    if as_json:
        print_json(result)
    else:
        _summary(result, dry_run)


def _summary(result: dict[str, Any], dry_run: bool) -> None:
    sessions = result["sessions"]
    messages = sum(info["messageCount"] for info in sessions)
    verb = "would come in" if dry_run else "came in"
    say(f"{count(len(sessions), 'session')} with {count(messages, 'message')} {verb}")
    if result["skipped"]:
        say(f"{count(result['skipped'], 'session')} brought nothing new")
    warnings = result["warnings"]
    for warning in warnings[:_SHOWN_WARNINGS]:
        line = "" if warning.get("line") is None else f":{warning['line']}"
        print(one_line(f"warning: {warning['path']}{line}: {warning['message']}"), file=sys.stderr)
    if len(warnings) > _SHOWN_WARNINGS:
        print(f"and {len(warnings) - _SHOWN_WARNINGS} more warnings; --json has them all", file=sys.stderr)


@contextmanager
def _progress() -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """A progress bar on stderr, if that is a terminal; what it yields takes `$/progress`."""
    if not sys.stderr.isatty():
        yield lambda _method, _params: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def notified(method: str, params: dict[str, Any]) -> None:
            if method != "$/progress":
                return
            value = params.get("value", {})
            percentage = value.get("percentage")
            text = clean(str(value.get("message") or value.get("title") or "reading"))
            bar.update(task, description=text[:60], total=100 if percentage is not None else None, completed=percentage)

        yield notified
