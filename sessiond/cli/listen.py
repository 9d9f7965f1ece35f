"""`sessiond --tcp` and `--ws`: ask the daemon to listen, and stay until interrupted."""

from __future__ import annotations

import click

from sessiond.cli.client import connect_once
from sessiond.cli.output import say
from sessiond.client import requests
from sessiond.errors import DaemonUnreachable


def listen(wanted: list[tuple[str, str]], *, write: bool = False) -> int:
    """`wanted`: (kind, "[HOST:]PORT"). The daemon listens as long as this connection is open. `write`: windows of VS Code may."""
    asked = [(kind, *_address(kind, text)) for kind, text in wanted]
    with connect_once() as connection:
        for kind, host, port in asked:
            where = connection.ask(
                requests.listen(kind, host, port, write=True if write and kind == "ahp" else None)
            ).value
            shown = f"[{where.host}]" if ":" in where.host else where.host
            say(f"listening on {kind} {shown}:{where.port}, the token is in {where.token_file}")
        try:
            for _ in connection.notifications():
                pass
        except ConnectionError:
            raise DaemonUnreachable(
                "the daemon has stopped, so it no longer listens", hint="run this command again"
            ) from None
    return 0


def _address(kind: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise click.BadParameter(f"{text!r} is not [HOST:]PORT", param_hint=f"--{kind}")
    return host or "127.0.0.1", int(port)
