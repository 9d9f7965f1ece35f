"""The commands' client, with its answers written down beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Answers:
    """`answers`: by method, one after another; the last one stays. An exception is raised. `told`: the notifications, after
    which the connection ends.
    """

    def __init__(self, answers: dict[str, list[Any]], told: Iterable[tuple[str, dict[str, Any]]] = ()) -> None:
        self._answers = answers
        self._told = list(told)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.progress: list[dict[str, Any]] = []
        self.cancelled = 0

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def connect(self, *_: object, **__: object) -> Answers:
        return self

    def call(
        self, method: str, params: dict[str, Any] | None = None, *, notified: Callable[..., None] | None = None
    ) -> Any:
        self.asked.append((method, params or {}))
        for value in self.progress if notified is not None else ():
            notified("$/progress", {"value": value})
            notified("session/changed", {})
        waiting = self._answers[method]
        answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def cancel(self, *, notified: Callable[..., None] | None = None) -> None:
        self.cancelled += 1

    def notifications(self, **_: object) -> Iterator[tuple[str, dict[str, Any]]]:
        yield from self._told
        raise ConnectionResetError("the daemon ended the connection")
