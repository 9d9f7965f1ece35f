"""One-time codes: how a page gets the token without the token ever being in a URL, a command line or a history.

A program that can read the token's file makes a code (`sessiond web` does); the listening daemon checks it and returns the
token for it, once and within a minute. A code is valid for one daemon and one port. A proof is the other direction: the
daemon shows a page that it knows the token, so that a page whose daemon has gone does not give the token to a process that
took its port.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

CODE_S = 60.0
_NONCE_BYTES = 16
_TO_COME_S = 5.0
"""Codes that expire later than a minute and this many seconds from now are not genuine."""


def make(token: str, instance: str, port: int, now: float | None = None) -> str:
    """A new code. `instance` as in `daemon/hello`."""
    expires = int((time.time() if now is None else now) + CODE_S)
    return _sealed(token, instance, port, f"{expires}.{secrets.token_urlsafe(_NONCE_BYTES)}")


def proof(token: str, port: int, nonce: str) -> str:
    """The answer to a nonce that only a daemon with this token, listening on this port, can give: hexadecimal."""
    return hmac.new(token.encode(), f"proof {port} {nonce}".encode(), hashlib.sha256).hexdigest()


def _sealed(token: str, instance: str, port: int, body: str) -> str:
    seal = hmac.new(token.encode(), f"code {instance} {port} {body}".encode(), hashlib.sha256).hexdigest()
    return f"{body}.{seal}"


class Codes:
    """Checks codes, and remembers used ones until they would have expired anyway."""

    def __init__(self, token: str, instance: str, clock: Callable[[], float] = time.time) -> None:
        self._token = token
        self._instance = instance
        self._clock = clock
        self._used: dict[str, float] = {}

    def redeem(self, code: str, port: int) -> bool:
        """Return whether the code is valid, and use it up: it is not valid a second time."""
        now = self._clock()
        self._used = {used: end for used, end in self._used.items() if end > now}
        body = code.rpartition(".")[0]
        expires = body.partition(".")[0]
        expected = _sealed(self._token, self._instance, port, body)
        if not hmac.compare_digest(code.encode(), expected.encode()) or not expires.isdecimal():
            return False
        end = float(expires)
        if code in self._used or not now < end <= now + CODE_S + _TO_COME_S:
            return False
        self._used[code] = end
        return True
