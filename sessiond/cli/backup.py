"""`sessiond backup DIR` and `sessiond backup --verify DIR`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
import msgspec

from sessiond.cli import EX_FAILED
from sessiond.cli.client import connect
from sessiond.cli.options import as_json
from sessiond.cli.output import clean, count, print_json, say
from sessiond.cli.paths import on_wire
from sessiond.client import requests
from sessiond.client.blocking import Sessiond
from sessiond.client.requests import Answer
from sessiond.client.types import BackedUp, Progress

Report = Callable[[Progress], None]


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
    with connect() as client, _bar() as report:
        answer = _make(client, path, report)
    if as_json:
        print_json(answer.plain)
        return 0
    copied = answer.value
    say(f"{count(copied.files, 'file')}, {copied.bytes:,} bytes in {path}")
    for warning in copied.warnings:
        print(clean(f"warning: {warning.path}: {warning.message}"), file=sys.stderr)
    return 0


def _make(client: Sessiond, path: str, report: Report) -> Answer[BackedUp]:
    try:
        return client.answer(requests.backup(on_wire(path), on_progress=report))
    except KeyboardInterrupt:  # raised once nothing of it is left, or if it was already complete
        done = "the backup was already complete" if os.path.lexists(path) else "nothing is left of the backup"
        print(f"interrupted; {done}", file=sys.stderr)
        raise click.Abort from None


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
        yield lambda _progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("copying", total=100)

        def report(progress: Progress) -> None:
            if progress.percentage is not None:
                bar.update(task, description=clean(progress.message), completed=progress.percentage)

        yield report
