"""A daemon's answers written down beforehand, in the place of the commands' connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from sessiond.client.blocking import Sessiond
from sessiond.client.requests import Answer, Request
from sessiond.client.wire import Incoming

T = TypeVar("T")


class Answers:
    """Both a link, which `client` talks over, and a single connection.

    `answers`: by method, one after another; the last one stays. An exception is raised. `told`: the notifications, after
    which the connection ends. `progress`: what requests that report it are told.
    """

    def __init__(self, answers: dict[str, list[Any]], told: Iterable[tuple[str, dict[str, Any]]] = ()) -> None:
        self._answers = answers
        self._told = list(told)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.progress: list[dict[str, Any]] = []

    @property
    def client(self) -> Sessiond:
        """The client itself, over this link."""
        client = object.__new__(Sessiond)
        client._link = self  # type: ignore[assignment]
        return client

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def answer(self, request: Request[T], timeout_s: float | None = None) -> Answer[T]:
        params = dict(request.params)
        token = params.pop("workDoneToken", None)
        self.asked.append((request.method, params))
        for value in self.progress:
            request.hears(_notification("$/progress", {"token": token, "value": value}))
            request.hears(_notification("session/changed", {}))
        waiting = self._answers[request.method]
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(answer, BaseException):
            raise answer
        return request.answer(Incoming(result=msgspec.Raw(msgspec.json.encode(answer))))

    def call(self, request: Request[T], timeout_s: float | None = None) -> T:
        return self.answer(request).value

    def ask(self, request: Request[T]) -> Answer[T]:
        return self.answer(request)

    def notifications(self, **_: object) -> Iterator[Incoming]:
        for method, params in self._told:
            yield _notification(method, params)
        raise ConnectionResetError("the daemon ended the connection")


def _notification(method: str, params: dict[str, Any]) -> Incoming:
    return Incoming(method=method, params=msgspec.Raw(msgspec.json.encode(params)))
