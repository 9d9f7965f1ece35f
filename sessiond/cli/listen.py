"""`sessiond --tcp` and `--ws`: ask the daemon to listen, and stay until interrupted."""

from __future__ import annotations

import click

from sessiond.cli.client import Client
from sessiond.cli.output import say
from sessiond.errors import DaemonUnreachable


def listen(wanted: list[tuple[str, str]]) -> int:
    """`wanted`: (kind, "[HOST:]PORT"). The daemon listens as long as this connection is open."""
    asked = [{"kind": kind, **_address(kind, text)} for kind, text in wanted]
    with Client.connect() as client:
        for params in asked:
            where = client.call("daemon/listen", params)
            host = f"[{where['host']}]" if ":" in where["host"] else where["host"]
            say(f"listening on {params['kind']} {host}:{where['port']}, the token is in {where['tokenFile']}")
        try:
            for _ in client.notifications():
                pass
        except ConnectionError:
            raise DaemonUnreachable("the daemon has stopped, so it no longer listens") from None
    return 0


def _address(kind: str, text: str) -> dict[str, str | int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise click.BadParameter(f"{text!r} is not [HOST:]PORT", param_hint=f"--{kind}")
    return {"host": host or "127.0.0.1", "port": int(port)}
