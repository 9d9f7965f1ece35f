"""`sessiond store key new|show|rotate`: the key file of an encrypted store."""

from __future__ import annotations

import io
import os

import click

from sessiond.cli.options import NamedFile
from sessiond.cli.output import say
from sessiond.errors import ConfigError, Unavailable
from sessiond.fs import RealFileSystem, atomic_write
from sessiond.hub.keys import Key, file_of, must_be_new, new_key, read_keys
from sessiond.installation import add_command

_file = click.argument("file", type=NamedFile(dir_okay=False))


@click.group("key", short_help="Make, show and rotate the key of an encrypted store.")
def key() -> None:
    """Make, show and rotate the key of an encrypted store. The hub never gets it: if every copy is lost, so are the contents."""


@key.command("new", short_help="Make a key file.")
@_file
def new(file: str) -> None:
    """Write FILE with a new key. Only its owner may read it."""
    must_be_new(os.path.lexists(file), file)
    made = new_key()
    _write(file, [made])
    say(f"wrote {file} with the key {made.id}; keep a copy where it cannot get lost with this machine")


@key.command("show", short_help="Print the keys, to carry them to another machine.")
@_file
@click.option("--qr", is_flag=True, help="As a QR code that a telephone or a camera can read.")
def show(file: str, qr: bool) -> None:
    """Print the lines of FILE that another machine needs. Whoever sees them can read the store."""
    lines = [one.line for one in read_keys(file)]
    if qr:
        say(_qr("\n".join(lines)))
        return
    for line in lines:
        say(line)


@key.command("rotate", short_help="Add a new key, which seals from now on.")
@_file
def rotate(file: str) -> None:
    """Add a new key to FILE. What is on the hub stays sealed with the old one, which stays in the file.

    Copy the file to the other machines before their daemons start again: without the new line they cannot read what this one writes.
    """
    keys = read_keys(file)
    made = new_key()
    _write(file, [*keys, made])
    say(f"the key {made.id} seals from now on; copy {file} to the other machines")


def _qr(text: str) -> str:
    """The code in half blocks, light modules drawn: as a terminal with a dark ground shows it right. ConfigError, Unavailable."""
    try:
        import segno
    except ImportError:
        raise Unavailable("a QR code needs the package segno", hint=f"run {add_command('postgres')}") from None
    drawn = io.StringIO()
    try:
        segno.make(text, error="m", micro=False).terminal(drawn, compact=True)
    except segno.DataOverflowError:
        raise ConfigError("the file holds more keys than fit into a QR code", hint="copy the file itself") from None
    return drawn.getvalue().rstrip("\n")


def _write(file: str, keys: list[Key]) -> None:
    atomic_write(RealFileSystem(), os.path.abspath(file), file_of(keys), 0o600)
