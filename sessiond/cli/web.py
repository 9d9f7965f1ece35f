"""`sessiond web`: the page in a browser.

The browser gets the name of a private file, which redirects it to the page with a one-time code after the `#`. No browser
sends or logs that part; the page exchanges the code for the token. So neither appears in a command line that other users
could see or in a log, and a history keeps only a code that has expired.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import webbrowser
from pathlib import Path

import click

from sessiond.cli.client import Single, connect_once
from sessiond.cli.output import say
from sessiond.client import requests
from sessiond.client.daemon_types import Address
from sessiond.endpoint import Places, places, read_endpoint
from sessiond.errors import AlreadyExists, DaemonUnreachable

PORT = 8712
"""The same every time, so that the browser finds what it remembers of the page (drafts, settings)."""
_PREFIX = "open-"


@click.command("web", short_help="Show your sessions as a page in the browser.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help=f"The port to listen on; by default {PORT} if it is free.",
)
@click.option(
    "--print", "only_print", is_flag=True, help="Print an address that works once, instead of opening a browser."
)
def command(port: int | None, only_print: bool) -> int:
    """Show all sessions as a page in the browser, for as long as this command runs."""
    where = places()
    opened = False
    while True:
        try:
            with connect_once() as connection:
                known = connection.ask(requests.status()).value.ws
                address = known if known and port in (None, known.port) else _listen(connection, port)
                if not opened:
                    _open(where, connection.ask(requests.hello()).value.instance_id, address, only_print)
                    opened = True
                if address is known:
                    say("another `sessiond` is already serving the page, which works as long as that one runs")
                    return 0
                port = address.port
                for _ in connection.notifications():
                    pass  # none are expected; what matters is that the connection stays open
        except ConnectionError:
            record = read_endpoint(where.data)
            if record is None or not os.path.exists(record.socket):  # it removed its socket: somebody stopped it
                raise DaemonUnreachable(
                    "the daemon was stopped, so the page no longer works", hint="run `sessiond web` again"
                ) from None
            if opened:
                say("the daemon ended unexpectedly; starting it again")


def _listen(connection: Single, port: int | None) -> Address:
    for wanted in (PORT, 0) if port is None else (port,):
        try:
            return connection.ask(requests.listen("ws", "127.0.0.1", wanted)).value
        except AlreadyExists:
            if wanted in (0, port):
                raise
    raise AssertionError("a free port is never taken")


def _open(where: Places, instance: str, address: Address, only_print: bool) -> None:
    from sessiond.daemon import codes
    from sessiond.fs import RealFileSystem, atomic_write

    port = address.port
    page = f"http://{_reached_as(address.host)}:{port}/"
    token = Path(where.data, "token").read_text().strip()
    link = f"{page}#code={codes.make(token, instance, port)}"
    fs = RealFileSystem()
    fs.make_dirs(where.run)
    for old in fs.list_dir(where.run):
        if old.startswith(_PREFIX):  # its code has expired or been used
            fs.remove(f"{where.run}/{old}")
    if not only_print:
        path = f"{where.run}/{_PREFIX}{secrets.token_hex(8)}.html"
        atomic_write(fs, path, _REDIRECT.replace("LINK", link).encode(), 0o600)
        if webbrowser.open(Path(path).as_uri()):
            say(f"opened {page} in a browser; if you do not see it: sessiond web --print")
            return
        fs.remove(path)
        say("could not start a browser")
    say(f"open this address within a minute (it works once): {link}")


def _reached_as(host: str) -> str:
    """The address at which a browser on this machine reaches the host."""
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    return str(address) if address.version == 4 else f"[{address}]"


_REDIRECT = """<!doctype html><meta charset="utf-8"><title>sessiond</title>
<p>Opening the page. If nothing happens, run <code>sessiond web --print</code>.</p>
<script>location.replace("LINK")</script>
"""
