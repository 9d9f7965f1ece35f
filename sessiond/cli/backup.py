"""`sessiond backup PATH`, `sessiond backup --verify PATH` and `sessiond backup --decrypt PATH`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import click
import msgspec

from sessiond.cli import EX_FAILED
from sessiond.cli import backup_sealed as sealed
from sessiond.cli.client import connect
from sessiond.cli.options import NamedFile, as_json
from sessiond.cli.output import clean, print_json, say
from sessiond.cli.paths import on_wire
from sessiond.client import requests
from sessiond.client.blocking import Sessiond
from sessiond.client.daemon_types import BackedUp
from sessiond.client.requests import Answer
from sessiond.client.types import Progress
from sessiond.fs.scratch import remove_left_behind
from sessiond.words import count

Report = Callable[[Progress], None]


@click.command("backup", short_help="Make a consistent copy of everything, or verify one.")
@click.argument("path", metavar="PATH", type=NamedFile())
@click.option("--verify", is_flag=True, help="Check the backup in PATH: checksums, sessions, journal. Needs no daemon.")
@click.option("--encrypt", is_flag=True, help="Write one encrypted file instead of a folder. Needs --key-file.")
@click.option("--decrypt", metavar="DIR", type=NamedFile(), help="Make the folder DIR of the encrypted backup in PATH.")
@click.option(
    "--key-file", type=NamedFile(exists=True, dir_okay=False), help="The key; `sessiond store key new` makes one."
)
@as_json
def command(path: str, verify: bool, encrypt: bool, decrypt: str | None, key_file: str | None, as_json: bool) -> int:
    """Copy everything into a new folder PATH while work goes on: sessions of all stores, trash, journal, configuration.

    PATH appears complete or not at all. docs/backup.md says how to restore it.
    """
    path = os.path.abspath(os.path.expanduser(path))
    _check_options(verify=verify, encrypt=encrypt, decrypt=decrypt, key_file=key_file)
    remove_left_behind()
    if decrypt is not None:
        assert key_file is not None
        sealed.decrypt(path, os.path.abspath(os.path.expanduser(decrypt)), key_file)
        return 0
    if verify:
        with sealed.opened(path, key_file) as folder:
            return _verify(folder, as_json=as_json)
    with connect() as client, _bar() as report, sealed.made(path, key_file) as folder:
        answer = _make(client, folder, report)
    if as_json:
        print_json(answer.plain if key_file is None else {**cast("dict[str, object]", answer.plain), "path": path})
        return 0
    copied = answer.value
    say(f"{count(copied.files, 'file')}, {copied.bytes:,} bytes in {path}{', encrypted' if encrypt else ''}")
    for warning in copied.warnings:
        print(clean(f"warning: {warning.path}: {warning.message}"), file=sys.stderr)
    return 0


def _check_options(*, verify: bool, encrypt: bool, decrypt: str | None, key_file: str | None) -> None:
    if sum((verify, encrypt, decrypt is not None)) > 1:
        raise click.UsageError("--verify, --encrypt and --decrypt exclude each other")
    if key_file is None and (encrypt or decrypt is not None):
        raise click.UsageError("give --key-file; `sessiond store key new FILE` makes a key")
    if key_file is not None and not (encrypt or verify or decrypt is not None):
        raise click.UsageError("--key-file needs --encrypt, --verify or --decrypt")


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
