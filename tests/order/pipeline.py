"""A client that sends many requests in one write, before it reads any answer."""

from __future__ import annotations

import json
from typing import Any

from tests.home import ANSWER_S, Client, Home

Request = tuple[str, dict[str, Any]]
Answer = dict[str, Any]


class Pipeline(Client):
    """One connection."""

    def __init__(self, home: Home, answer_s: float = ANSWER_S) -> None:
        super().__init__(home.connect(answer_s))

    def send_all(self, *requests: Request) -> list[int]:
        """Send requests in one write; answers their ids."""
        first = self._last + 1
        self._last += len(requests)
        numbers = list(range(first, first + len(requests)))
        self.write(
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in zip(numbers, requests, strict=True)
        )
        return numbers

    def write(self, messages: Any) -> None:
        """Send messages in one write, one a line."""
        self._file.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        self._file.flush()

    def burst(self, *requests: Request) -> list[Answer]:
        """Send requests in one write; their answers in the same order."""
        return self.answers(self.send_all(*requests))

    def one_by_one(self, *requests: Request) -> list[Answer]:
        """Send each request after the answer to the one before it."""
        return [self.answer(self.send(method, params)) for method, params in requests]

    def cancelled(self, request: Request, *, cancellations: int, apart: int) -> Answer:
        """Send a request and cancel it so many times, in one write, or `apart` round trips apart. Its answer."""
        number = self._last = self._last + 1
        method, params = request
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}
        if not apart:
            self.write([asked, *[cancel] * cancellations])
            return self.answer(number)
        self.write([asked])
        for _ in range(cancellations):
            for _ in range(apart):
                self.call("daemon/hello")
            self.write([cancel])
        return self.answer(number)

    def answers(self, numbers: list[int]) -> list[Answer]:
        return [self.answer(number) for number in numbers]

    def everything(self, session: str) -> list[dict[str, Any]]:
        """All messages of a session."""
        found: list[dict[str, Any]] = []
        more = True
        while more:
            page = self.call("session/read", sessionId=session, since=found[-1]["seq"] if found else 0, limit=1000)
            found += page["messages"]
            more = page["hasMore"]
        return found


def user(message_id: str, text: str | None = None, **more: Any) -> dict[str, Any]:
    """A message that says its own id, unless `text` says something else."""
    return {"id": message_id, "role": "user", "content": message_id if text is None else text, **more}


def streaming(message_id: str, text: str) -> dict[str, Any]:
    return {"id": message_id, "role": "assistant", "content": text, "status": "streaming"}


def append(session: str, *messages: dict[str, Any], **more: Any) -> Request:
    return "session/append", {"sessionId": session, "messages": list(messages), **more}


def on(session: str, method: str, **params: Any) -> Request:
    return method, {"sessionId": session, **params}


def kind(answer: Answer) -> str:
    """`ok`, or the kind of the error."""
    return str(answer["error"]["data"]["kind"]) if "error" in answer else "ok"


def kinds(answers: list[Answer]) -> list[str]:
    return [kind(answer) for answer in answers]


def ids(messages: list[dict[str, Any]]) -> list[str]:
    return [message["id"] for message in messages]
