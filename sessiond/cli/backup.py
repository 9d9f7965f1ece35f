"""`sessiond backup DIR` and `sessiond backup --verify DIR`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from sessiond.cli import EX_FAILED
from sessiond.cli.client import Client
from sessiond.cli.options import as_json
from sessiond.cli.output import clean, count, print_json, say
from sessiond.cli.paths import on_wire

Report = Callable[[dict[str, Any]], None]


@click.command("backup", short_help="Make a consistent copy of everything, or verify one.")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--verify", is_flag=True, help="Check the backup in DIR: checksums, sessions, journal. Needs no daemon.")
@as_json
def command(directory: str, verify: bool, as_json: bool) -> int:
    """Copy everything into a new folder DIR while work goes on: sessions of all stores, trash, journal, configuration.

    DIR appears complete or not at all. docs/backup.md says how to restore it.
    """
    path = os.path.abspath(os.path.expanduser(directory))
    if verify:
        return _verify(path, as_json=as_json)
    with Client.connect() as client, _bar() as report:
        result = _make(client, path, report)
    if as_json:
        print_json(result)
        return 0
    say(f"{count(result['files'], 'file')}, {result['bytes']:,} bytes in {path}")
    for warning in result.get("warnings", []):
        print(clean(f"warning: {warning['path']}: {warning['message']}"), file=sys.stderr)
    return 0


def _make(client: Client, path: str, report: Report) -> dict[str, Any]:
    def notified(method: str, told: dict[str, Any]) -> None:
        if method == "$/progress":
            report(told.get("value", {}))

    try:
        result: dict[str, Any] = client.call(
            "daemon/backup", {"path": on_wire(path), "workDoneToken": "backup"}, notified=notified
        )
    except KeyboardInterrupt:
        client.cancel(notified=notified)  # returns once nothing of it is left, or if it was already complete
        done = "the backup was already complete" if os.path.lexists(path) else "nothing is left of the backup"
        print(f"interrupted; {done}", file=sys.stderr)
        raise click.Abort from None
    return result


def _verify(path: str, *, as_json: bool) -> int:
    from sessiond.backups.verify import prove
    from sessiond.fs import RealFileSystem

    checked = list(prove(RealFileSystem(), path))
    bad = [one for one in checked if one.problem is not None]
    if as_json:
        print_json({"sound": not bad, "findings": [msgspec.to_builtins(one) for one in checked]})
    else:
        for one in checked:
            say(f"ok       {one.what}" if one.problem is None else f"PROBLEM  {one.what}: {one.problem}")
    return EX_FAILED if bad else 0


@contextmanager
def _bar() -> Iterator[Report]:
    """A progress line on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _value: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("copying", total=100)

        def report(value: dict[str, Any]) -> None:
            if "percentage" in value:
                bar.update(task, description=clean(str(value["message"])), completed=value["percentage"])

        yield report
