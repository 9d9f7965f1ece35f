"""Random sessions, and what may happen to them next."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec.structs import replace

from sessiond.model.message import Message
from sessiond.model.values import Json, timestamp

_WORDS = ("The lock", " is held", " by\nnobody", ".", "  ", "日本", "`x`", "")
_TOOLS = ("Bash", "read_file", "grep", "ask", "")
_START = 1_767_000_000_000


class History:
    """`messages` as they are now. Each step is a change that a session can have, or an edited file."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.messages: list[Message] = []
        self._no = 0
        self._at = _START
        self.steps: dict[str, Callable[[], None]] = {
            "asked": self.ask,
            "answered": self.answer,
            "streamed": self.stream,
            "extended": self.extend,
            "finished": self.finish,
            "called": self.call,
            "result": self.result,
            "notice": self.notice,
            "truncated": self.truncate,
            "cleared": self.clear,
            "edited": self.edit,
        }

    def step(self) -> str:
        weights = [3, 3, 3, 6, 3, 4, 4, 1, 0.3, 0.1, 0.3]
        name = self.pick.choices(list(self.steps), weights)[0]
        self.steps[name]()
        return name

    def _add(self, role: str, content: Json, status: str | None = None, **rest: Json) -> None:
        self._no += 1
        self._at += self.pick.choice((0, 1, 1500, 90_000))
        made = Message(
            id=f"m{self._no}",
            seq=self._no,
            role=role,
            content=content,
            timestamp=timestamp(self._at),
            status=status,
            rest=rest,
        )
        self.messages.append(made)

    def _text(self) -> str:
        return "".join(self.pick.choices(_WORDS, k=self.pick.randrange(5)))

    def _tokens(self) -> dict[str, Json]:
        return (
            {"metadata": {"tokens": {"input": self.pick.randrange(1, 9), "output": 3}}}
            if self.pick.random() < 0.3
            else {}
        )

    def ask(self) -> None:
        injected = {"metadata": {"injected": True}} if self.pick.random() < 0.2 else {}
        self._add("user", self._text(), **injected)

    def answer(self) -> None:
        thought = {"thinking": self._text()} if self.pick.random() < 0.3 else {}
        status = self.pick.choice((None, None, None, "done", "interrupted", "error"))
        blocks: list[Json] = [{"type": "text", "text": self._text()}, {"type": "file", "name": "a.txt"}]
        self._add(
            "assistant", blocks if self.pick.random() < 0.2 else self._text(), status, **thought, **self._tokens()
        )

    def stream(self) -> None:
        self._add("assistant", self._text(), "streaming")

    def call(self) -> None:
        ids = [f"c{self._no}", "again", ""]
        calls = [
            {
                "id": self.pick.choice(ids),
                "name": self.pick.choice(_TOOLS),
                "arguments": self.pick.choice(({"command": "ls"}, "{", {})),
            }
            for _ in range(self.pick.randrange(1, 3))
        ]
        self._add("assistant", self._text(), toolCalls=calls, **self._tokens())

    def result(self) -> None:
        ids = [call["id"] for message in self.messages for call in message.tool_calls] or ["nobody's"]
        failed = {"metadata": {"isError": True}} if self.pick.random() < 0.2 else {}
        self._add("tool", self._text(), toolCallId=self.pick.choice(ids[-3:]), **failed)

    def notice(self) -> None:
        self._add("system", self._text())

    def _streaming(self) -> list[int]:
        return [at for at, message in enumerate(self.messages) if message.status == "streaming"]

    def extend(self) -> None:
        for at in self._streaming()[-1:]:
            said = self.messages[at].content
            assert isinstance(said, str)
            self.messages[at] = replace(self.messages[at], content=said + self._text())

    def finish(self) -> None:
        for at in self._streaming()[-1:]:
            calls: dict[str, Json] = {"toolCalls": [{"id": f"f{self._no}", "name": "Bash", "arguments": {}}]}
            more = calls if self.pick.random() < 0.3 else {}
            self.messages[at] = replace(
                self.messages[at],
                status=self.pick.choice(("done", "interrupted", "error")),
                rest={**more, **self._tokens()},
            )

    def truncate(self) -> None:
        del self.messages[self.pick.randrange(len(self.messages) + 1) :]

    def clear(self) -> None:
        self.messages.clear()

    def edit(self) -> None:
        if self.messages:
            at = self.pick.randrange(len(self.messages))
            self.messages[at] = replace(self.messages[at], content=self._text())
