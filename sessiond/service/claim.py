"""Keeping an id while a session of that id is being made."""

from __future__ import annotations

from sessiond.errors import AlreadyExists


class Claim:
    """While a session is being made nobody else may make it."""

    def __init__(self, making: set[str], wire_id: str) -> None:
        self._making = making
        self._wire_id = wire_id

    async def __aenter__(self) -> None:
        if self._wire_id in self._making:
            raise AlreadyExists(f"the session {self._wire_id!r} is being made by somebody else")
        self._making.add(self._wire_id)

    async def __aexit__(self, *_: object) -> None:
        self._making.discard(self._wire_id)
