"""A client that remembers the daemon's answers, and checks them later."""

from __future__ import annotations

from typing import Any

from tests.home import Client

REFUSED = {"readOnly"}
"""Kinds of error that say that nothing of it is there."""
OPEN = {"indeterminate"}
"""Kinds that leave it open."""


class Witness:
    """Appends to one session under ids of its own, in order, and checks what is read."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.acked: dict[str, int] = {}
        self.refused: set[str] = set()
        self.open: set[str] = set()
        self.errors: list[dict[str, Any]] = []
        self._made = 0

    def append(self, client: Client, size: int = 20) -> bool:
        """One message; whether it was acknowledged."""
        self._made += 1
        message_id = f"{self.session}-{self._made}"
        message = {"id": message_id, "role": "user", "content": text_of(message_id, size)}
        answer = client.answer(client.send("session/append", {"sessionId": self.session, "messages": [message]}))
        if "result" in answer:
            self.acked[message_id] = answer["result"]["seq"]
            return True
        error = answer["error"]
        self.errors.append(error)
        kind = error["data"]["kind"]
        assert kind in REFUSED | OPEN, error
        assert error["data"]["hint"] and error["data"]["reason"], error
        (self.refused if kind in REFUSED else self.open).add(message_id)
        return False

    def check(self, client: Client) -> None:
        """Everything acknowledged is served, once, under its seq, in order; and nothing that was refused."""
        messages: list[dict[str, Any]] = []
        more, since = True, 0
        while more:
            page = client.call("session/read", sessionId=self.session, since=since, limit=1000)
            messages += page["messages"]
            since, more = (messages[-1]["seq"] if messages else 0), page["hasMore"]
        found = {message["id"]: message for message in messages}
        assert len(found) == len(messages), "doubled"
        for message_id, seq in self.acked.items():
            assert message_id in found, f"{message_id} was acknowledged and is lost"
            assert found[message_id]["seq"] == seq
        for message_id, message in found.items():
            assert message_id not in self.refused, f"{message_id} was refused and is there"
            assert message_id in self.acked or message_id in self.open
            assert message["content"] == text_of(message_id, len(message["content"]) - len(message_id) - 1)
        numbers = [int(message["id"].rpartition("-")[2]) for message in messages]
        assert numbers == sorted(numbers), "reordered"


def text_of(message_id: str, size: int) -> str:
    return f"{message_id} {'y' * size}"
