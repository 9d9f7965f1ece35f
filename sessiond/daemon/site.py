"""Serves to a browser on the WebSocket port: the page's files, the token for a one-time code, and a proof that this daemon
knows the token.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
from urllib.parse import parse_qs, unquote

from sessiond.daemon.codes import Codes, proof
from sessiond.endpoint import client_folder
from sessiond.transports.ws_http import HttpResponse, RequestRefused

_log = logging.getLogger(__name__)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_FOLDERS = ("", "page", "page/views", "page/vendor")
"""Folders of the browser client that are served: only files of the types above, directly in these folders."""
_NONCE_CHARS = 200


class PageSite:
    """A `Site`."""

    def __init__(self, token: str, instance: str, root: str | None = None) -> None:
        self._token = token
        self._codes = Codes(token, instance)
        self._root = root or client_folder("browser")

    async def get(self, path: str, query: str, authorization: str, port: int) -> HttpResponse | None:
        if path == "/token":
            return self._token_for(authorization, port)
        if path == "/proof":
            nonce = parse_qs(query).get("nonce", [""])[0]
            if not 0 < len(nonce) <= _NONCE_CHARS:
                raise RequestRefused(400, "the nonce is missing", kind="invalidRequest")
            return _json({"proof": proof(self._token, port, nonce)})
        return await asyncio.to_thread(self._file, "/page/index.html" if path == "/" else unquote(path))

    def _token_for(self, authorization: str, port: int) -> HttpResponse:
        scheme, _, code = authorization.partition(" ")
        if scheme.lower() != "code" or not self._codes.redeem(code.strip(), port):
            _log.warning("a one-time code was wrong or had expired")
            raise RequestRefused(401, "this code was already used, or has expired", "run `sessiond web` again")
        # The port is included, because behind a proxy or a tunnel the page sees another one than that of the proof.
        return _json({"token": self._token, "port": port})

    def _file(self, path: str) -> HttpResponse | None:
        folder, _, name = path.strip("/").rpartition("/")
        kind = _TYPES.get(os.path.splitext(name)[1])
        if folder not in _FOLDERS or kind is None or name.startswith(".") or "\0" in name:
            return None
        try:
            with open(os.path.join(self._root, folder, name), "rb") as file:
                return HttpResponse(200, kind, file.read())
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):  # a stranger's bad path is not a fault of the disk
                return None
            raise


def _json(value: dict[str, str | int]) -> HttpResponse:
    return HttpResponse(200, "application/json", json.dumps(value).encode())
