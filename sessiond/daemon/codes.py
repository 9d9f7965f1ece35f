"""One-time codes: how a page gets the token without the token ever standing in a URL, a command line or a history.

Whoever can read the token's file makes a code (`sessiond web` does); the daemon that listens checks it and gives the token
for it, once and for a minute. A code holds for one daemon and one port. A proof is the other direction: the daemon
shows a page that it knows the token, so that a page whose daemon has gone gives it to nobody who took its port.
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
"""No code is made for later than its minute and this much."""


def make(token: str, instance: str, port: int, now: float | None = None) -> str:
    """A new code. `instance` as in `daemon/hello`."""
    expires = int((time.time() if now is None else now) + CODE_S)
    return _sealed(token, instance, port, f"{expires}.{secrets.token_urlsafe(_NONCE_BYTES)}")


def proof(token: str, port: int, nonce: str) -> str:
    """What only a daemon with this token, listening on this port, can answer to a nonce: hexadecimal."""
    return hmac.new(token.encode(), f"proof {port} {nonce}".encode(), hashlib.sha256).hexdigest()


def _sealed(token: str, instance: str, port: int, body: str) -> str:
    seal = hmac.new(token.encode(), f"code {instance} {port} {body}".encode(), hashlib.sha256).hexdigest()
    return f"{body}.{seal}"


class Codes:
    """Checks them, and remembers those that were used till they would have ended anyway."""

    def __init__(self, token: str, instance: str, clock: Callable[[], float] = time.time) -> None:
        self._token = token
        self._instance = instance
        self._clock = clock
        self._used: dict[str, float] = {}

    def redeem(self, code: str, port: int) -> bool:
        """Whether it is good; it is not any more afterwards."""
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
