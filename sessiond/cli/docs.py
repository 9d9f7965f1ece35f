"""`sessiond docs`: the documentation in a browser, served from this machine."""

from __future__ import annotations

import http.server
import webbrowser
from functools import partial
from http import HTTPStatus
from pathlib import Path

import click

from sessiond.cli.guides import site
from sessiond.cli.output import say

_HOSTS = ("127.0.0.1", "localhost")


@click.command("docs", short_help="Read the documentation in a browser.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on; by default any free one."
)
@click.option("--print", "only_print", is_flag=True, help="Print the address instead of opening a browser.")
def command(port: int, only_print: bool) -> int:
    """Show the documentation in a browser, for as long as this command runs.

    The pages are files of this installation: no network is used, and the search works offline. `sessiond help` shows the
    most needed pages in the terminal.
    """
    index = site()
    if index is None:
        raise click.ClickException(
            "this copy was installed without the site; read the pages with `sessiond help`, or build the site in a "
            "checkout: pip install -e '.[docs]' && mkdocs build --strict"
        )
    try:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), partial(_Pages, directory=str(index.parent)))
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on port {port}: {error.strerror}; choose another with --port"
        ) from None
    with server:
        address = f"http://127.0.0.1:{server.server_port}/"
        if not only_print and webbrowser.open(address):
            say(f"opened {address} in a browser; Ctrl-C ends it")
        else:
            say(f"open {address} in a browser; Ctrl-C ends it")
        server.serve_forever()
    return 0


class _Pages(http.server.SimpleHTTPRequestHandler):
    """Serves the site's files, and only to pages of this machine."""

    def do_GET(self) -> None:  # http.server's word
        if self._is_local():
            super().do_GET()

    def do_HEAD(self) -> None:
        if self._is_local():
            super().do_HEAD()

    def _is_local(self) -> bool:
        """Another Host means that a foreign page had its name point here."""
        if self.headers.get("Host", "").partition(":")[0] in _HOSTS:
            return True
        self.send_error(HTTPStatus.FORBIDDEN)
        return False

    def list_directory(self, path: str | Path) -> None:  # type: ignore[override]
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a reader does not need a line for each file."""
