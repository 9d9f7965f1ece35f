"""The HTTP part of a connection: the one HTTP request, the check of its Host and Origin, and answers in HTTP.

Host and Origin are checked on every request, even for a file of the page: a name that an attacker points at our address (DNS
rebinding) and a page of another origin (cross-site WebSocket hijacking) are stopped here, before any token is checked.
"""

from __future__ import annotations

import email.utils
import http
import ipaddress
import json
import re
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import parse_qsl

import msgspec
from websockets.datastructures import Headers
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

SUBPROTOCOL = "sessiond"
TOKEN_SUBPROTOCOL = "sessiond.token."  # noqa: S105  (a prefix)


_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[0-9a-z._-]+))(?::[0-9]{1,5})?")


class HttpResponse(msgspec.Struct, frozen=True):
    """An answer in HTTP. `type` is the media type of `body`."""

    status: int
    type: str
    body: bytes


class RequestRefused(Exception):
    """This request is not served; `answer` says why."""

    def __init__(self, status: int, message: str, hint: str = "", kind: str = "unauthorized") -> None:
        super().__init__(message)
        data = {"kind": kind, "hint": hint} if hint else {"kind": kind}
        error = {"code": -31004 if kind == "unauthorized" else -32600, "message": message, "data": data}
        body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
        self.answer = HttpResponse(status, "application/json", body)


class Site(Protocol):
    """Answers a plain GET on the same port."""

    async def get(self, path: str, query: str, authorization: str, port: int) -> HttpResponse | None:
        """`path` begins with a slash and has no query; None: not found."""


class OriginCheck:
    """Admits requests by Host and Origin. `allowed_hosts` are names, or names with a port; `allowed_origins` are as a
    browser writes them (`https://app.example.org`).
    """

    def __init__(self, allowed_hosts: Sequence[str] = (), allowed_origins: Sequence[str] = ()) -> None:
        self._hosts = {host.lower() for host in allowed_hosts}
        self._origins = {origin.lower().rstrip("/") for origin in allowed_origins}

    def judge(self, headers: Headers) -> str:
        """The requested Host. Raises RequestRefused."""
        hosts = headers.get_all("Host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if not (_is_loopback(_name_of(host)) or host in self._hosts or _name_of(host) in self._hosts):
            raise RequestRefused(
                403,
                f"the host {host!r} is not served here",
                "use 127.0.0.1 or localhost, or add the name to allowed_hosts under [daemon] in config.toml",
            )
        origins = headers.get_all("Origin")
        if origins and not (len(origins) == 1 and self._may_ask(origins[0].lower(), host)):
            raise RequestRefused(
                403,
                f"a page of {', '.join(origins)} may not use this",
                "if it is yours, add it to allowed_origins under [daemon] in config.toml",
            )
        return host

    def _may_ask(self, origin: str, host: str) -> bool:
        return origin == f"http://{host}" or origin in self._origins


def read_head(head: bytes) -> tuple[str, ServerProtocol, Request]:
    """The method and the request whose bytes, with the blank line at their end, are `head`. Raises RequestRefused."""
    protocol = ServerProtocol(select_subprotocol=_select)
    method, _, rest = head.partition(b" ")
    if method.isalpha() and method.isupper() and method not in (b"GET", b"HEAD"):
        # Before the library looks: it refuses a body, with other words.
        raise RequestRefused(405, "only GET is served here", kind="invalidRequest")
    # Before its version 17 the library reads no other method than GET.
    protocol.receive_data(b"GET " + rest if method.isalpha() and method.isupper() else head)
    events = protocol.events_received()
    if not events or not isinstance(events[0], Request):
        raise RequestRefused(400, "unsupported or malformed HTTP request", kind="invalidRequest")
    return method.decode("ascii"), protocol, _as_latin_1(events[0])


def _as_latin_1(request: Request) -> Request:
    """The request with its headers decoded as HTTP says. Up to its version 16 the library leaves surrogates in them, which
    nothing later could encode.
    """
    if not request.path.isascii():
        raise RequestRefused(400, "a path must be ASCII: percent-encode the rest", kind="invalidRequest")
    headers = Headers()
    for name, value in request.headers.raw_items():
        headers[name] = value.encode("latin-1", "surrogateescape").decode("latin-1")
    return Request(request.path, headers)


def wants_upgrade(request: Request) -> bool:
    return any("websocket" in value.lower() for value in request.headers.get_all("Upgrade"))


def token_of(request: Request) -> str | None:
    """The token that a handshake carries: `Authorization: Bearer TOKEN`, or the subprotocol `sessiond.token.TOKEN`."""
    headers = request.headers
    for value in headers.get_all("Authorization"):
        scheme, _, token = value.strip().partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
    for name in _subprotocols(headers):
        if name.startswith(TOKEN_SUBPROTOCOL):
            return name.removeprefix(TOKEN_SUBPROTOCOL)
    return None


def token_in_query(name: str) -> Callable[[Request], str | None]:
    """For peers that can send it in no other way: `?NAME=TOKEN`. Such a token gets into process lists and logs."""

    def found(request: Request) -> str | None:
        return next((value for key, value in parse_qsl(request.path.partition("?")[2]) if key == name), None)

    return found


def serialize(answer: HttpResponse, host: str, *, head_only: bool = False) -> bytes:
    """The bytes of an answer after which the connection ends. `host`: from the request, already checked."""
    rows = [
        f"HTTP/1.1 {answer.status} {http.HTTPStatus(answer.status).phrase}",
        f"Date: {email.utils.formatdate(usegmt=True)}",
        "Connection: close",
        f"Content-Length: {len(answer.body)}",
        f"Content-Type: {answer.type}",
        "Cache-Control: no-store",
        f"Content-Security-Policy: {_policy(host)}",
        "X-Content-Type-Options: nosniff",
        "X-Frame-Options: DENY",
        "Referrer-Policy: no-referrer",
        "Cross-Origin-Opener-Policy: same-origin",
        "Cross-Origin-Resource-Policy: same-origin",
        "Permissions-Policy: camera=(), geolocation=(), microphone=()",
    ]
    return "\r\n".join([*rows, "", ""]).encode("latin-1") + (b"" if head_only else answer.body)


def _policy(host: str) -> str:
    """Scripts and styles come only from our files, images from our files or the text itself, and nothing is sent elsewhere.
    The addresses with ws are named, because not every browser takes 'self' to include them.
    """
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        f"connect-src 'self'{f' ws://{host} wss://{host}' if host else ''}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify"
    )


def _select(_: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return Subprotocol(SUBPROTOCOL) if SUBPROTOCOL in offered else None


def _subprotocols(headers: Headers) -> list[str]:
    return [name.strip() for value in headers.get_all("Sec-WebSocket-Protocol") for name in value.split(",")]


def _name_of(host: str) -> str:
    """A Host header without its port and without brackets; empty if it is invalid. It goes into the answer's policy, so it
    must contain only name and port.
    """
    match = _HOST.fullmatch(host)
    return (match["v6"] or match["name"]) if match else ""


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
