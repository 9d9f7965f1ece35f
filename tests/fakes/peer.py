"""A connection that only remembers what it was sent."""

from __future__ import annotations

import json
from typing import Any


class FakePeer:
    """`full`: it reads too slowly, so that notifications are dropped."""

    _numbers = iter(range(1, 1_000_000))

    def __init__(self, client: str = "test") -> None:
        self.id = next(self._numbers)
        self.client = client
        self.closed = False
        self.full = False
        self.got: list[tuple[str, dict[str, Any]]] = []

    def notify(self, method: str, params: bytes) -> bool:
        if self.full:
            return False
        self.got.append((method, json.loads(params)))
        return True

    def notify_owed(self, method: str, params: bytes) -> None:
        self.got.append((method, json.loads(params)))

    def take(self, method: str | None = None) -> list[dict[str, Any]]:
        """What came since the last look."""
        got, self.got = self.got, []
        return [params for name, params in got if method in (None, name)]


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}
