"""What was said in a message, for comparing it with what a client shows: all of it, once, in order, as letters and digits alone,
because each client sets its own spaces and marks.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
MARKS = ("injected", "sidechain", "branch", "rewound", "compacted", "shortened", "superseded", "isError")
_TEXTS = ("text", "input_text", "output_text")
_PARSER = MarkdownIt("js-default", {"html": False, "linkify": False})


def letters(text: str) -> str:
    return "".join(char for char in text if char.isalnum())


def said(message: dict[str, Any]) -> str:
    """The letters of a message: its thinking, its content, the arguments of its calls. Not the names of the calls."""
    content = message["content"]
    pieces = [str(message.get("thinking") or "")]
    pieces += [_block(message["role"], block) for block in ([content] if isinstance(content, str) else content)]
    pieces += [_arguments(call["arguments"]) for call in message.get("toolCalls", [])]
    return letters(" ".join(pieces))


def called(message: dict[str, Any]) -> list[str]:
    """The names of its calls, in order."""
    blocks = message["content"] if isinstance(message["content"], list) else []
    uses = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_use"]
    return [one["name"] for one in (*uses, *message.get("toolCalls", []))]


def _block(role: str, block: Any) -> str:
    if isinstance(block, str):
        return _text(role, block)
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in _TEXTS and isinstance(block.get("text"), str):
        return _text(role, block["text"])
    if kind == "thinking" and "thinking" in block:
        return str(block["thinking"])
    if kind == "tool_use":
        return _arguments(block["input"])
    if kind == "tool_result":
        return _result(block["content"])
    if kind in ("image", "image_url", "input_image"):
        return _image(block)
    return _value(block)


def _result(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(_block("tool", block) for block in content)
    return _value(content)


def _image(block: dict[str, Any]) -> str:
    """A picture has no words; one that is elsewhere is a link that names it."""
    url = block.get("image_url") or block.get("source", block).get("url") or ""
    url = url["url"] if isinstance(url, dict) else url
    return f"Picture {url}" if url.startswith("http") else ""


def _text(role: str, text: str) -> str:
    return text if role == "tool" else " ".join(_plain(_PARSER.parse(text)))


def _plain(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "image":
            yield token.content or str(token.attrGet("src"))
        elif token.children:
            yield from _plain(token.children)
        else:
            yield token.content


def _arguments(value: Any) -> str:
    """Of a call: what has lines stands below the rest, as it is."""
    lines = (
        {key: text for key, text in value.items() if isinstance(text, str) and "\n" in text}
        if isinstance(value, dict)
        else {}
    )
    if not lines:
        return _value(value)
    rest = {key: one for key, one in value.items() if key not in lines}
    return " ".join([_value(rest) if rest else "", *itertools.chain.from_iterable(lines.items())])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


_WORD = re.compile(r"(?:reed|Öl|日本|moss)\d+")


def words(value: Any) -> list[str]:
    """The words that `Words` made up, each of which is said once, in the order in which they stand in a text or a JSON value."""
    return _WORD.findall(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def words_of(message: dict[str, Any]) -> list[str]:
    """In the order in which they are read: thinking, content, the arguments of the calls."""
    calls = [call["arguments"] for call in message.get("toolCalls", [])]
    return words([message.get("thinking"), message["content"], calls])


_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""What tells a terminal a colour, a place, a picture. A client shows it as letters or leaves it out."""


def texts(message: dict[str, Any], *, marked_up: bool = True) -> Iterator[tuple[str, ...]]:
    """The letters of its texts in order: its thinking, and what its content is made of; each as clients may show it. `marked_up`:
    with the letters of markup.
    """
    blocks = message["content"] if isinstance(message["content"], list) else [message["content"]]
    said = [str(message.get("thinking") or ""), *(one for block in blocks for one in _raw(block))]
    if not marked_up and message["role"] != "tool":
        said = [piece for one in said for piece in _plain(_PARSER.parse(one))]
    for text in said:
        if found := letters(text):
            yield found, letters(_SEQUENCE.sub("", text))


def _raw(block: Any) -> Iterator[str]:
    if isinstance(block, str):
        yield block
    elif isinstance(block, dict) and block.get("type") == "tool_result":
        content = block.get("content")
        for one in content if isinstance(content, list) else [content]:
            yield from _raw(one)
    elif isinstance(block, dict) and isinstance(text := block.get("text", block.get("thinking")), str):
        yield text


class Words:
    """Sessions with every kind of block, call, result, mark and state, of words that come once."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._numbers = itertools.count()

    def some(self) -> str:
        few = self._chance.randrange(2, 5)
        return " ".join(
            f"{self._chance.choice(('reed', 'Öl', '日本', 'moss'))}{next(self._numbers)}" for _ in range(few)
        )

    def blocks(self) -> dict[str, Any]:
        """One of every kind, by its name."""
        data: Any = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        inner: Any = [{"type": "text", "text": self.some()}, {"type": "image", "source": data}, self.some()]
        deep: Any = {"type": "tool_result", "tool_use_id": "deep", "content": [{"type": "text", "text": self.some()}]}
        return {
            "string": self.some(),
            "text": {"type": "text", "text": f"**{self.some()}** {self.some()}\n\n- {self.some()}\n- {self.some()}"},
            "input_text": {"type": "input_text", "text": self.some()},
            "output_text": {"type": "output_text", "text": self.some()},
            "code": {"type": "text", "text": f"```python\n{self.some()}\n```\n\n| a | b |\n|---|---|\n| {self.some()} | x |"},
            "thinking": {"type": "thinking", "thinking": self.some()},
            "call": {"type": "tool_use", "id": "u", "name": "look", "input": {"path": self.some(), "deep": [self.some()]}},
            "result": {"type": "tool_result", "tool_use_id": "u", "content": self.some()},
            "results": {"type": "tool_result", "tool_use_id": "v", "is_error": True, "content": inner},
            "nested": {"type": "tool_result", "tool_use_id": "w", "content": [deep, {"type": "odd", "value": self.some()}]},
            "object": {"type": "tool_result", "tool_use_id": "x", "content": {"value": self.some()}},
            "image": {"type": "image", "source": data},
            "openai image": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            "mcp image": {"type": "image", "mimeType": "image/png", "data": PIXEL},
            "elsewhere": {"type": "input_image", "image_url": f"https://pictures.example/{next(self._numbers)}.png"},
            "file": {"type": "file", "name": self.some(), "value": 12345678901234567890},
            "number": next(self._numbers),
            "list": [self.some(), {"type": self.some()}],
            "nothing": None,
        }  # fmt: skip

    def sessions(self) -> dict[str, list[dict[str, Any]]]:
        """Messages of each session, by its id. Each fits into one screenful of the page's reading."""
        roles = ("user", "assistant", "tool", "system", "critic")
        made: dict[str, list[dict[str, Any]]] = {
            f"blocks-{role}": [{"role": role, "content": [block, self.some()]} for block in self.blocks().values()]
            for role in roles
        }
        made["mixed"] = [self._mixed(role) for role in roles for _ in range(4)]
        made["calls"] = list(itertools.chain.from_iterable(self._called(count) for count in (1, 2, 5)))
        made["marks"] = [
            {"role": role, "content": self.some(), "metadata": {mark: True}} for mark in MARKS for role in roles
        ]
        states = ("streaming", "done", "interrupted", "error")
        made["states"] = [{"role": role, "content": self.some(), "status": one} for one in states for role in roles]
        return made

    def _mixed(self, role: str) -> dict[str, Any]:
        blocks = [*self.blocks().values()]
        self._chance.shuffle(blocks)
        return {"role": role, "content": blocks[: self._chance.randrange(len(blocks))], "thinking": self.some()}

    def _called(self, count: int) -> Iterator[dict[str, Any]]:
        """Calls that follow each other, some in one message, and their results; one fails, one never answers."""
        arguments: tuple[Any, ...] = (
            {"path": self.some()},
            self.some(),
            {"n": 1, "all": [self.some()]},
            {"list": [self.some()]},
            {},
        )
        calls = [
            {"id": f"{count}-{nth}", "name": f"tool{nth}", "arguments": one}
            for nth, one in enumerate(arguments[:count])
        ]
        yield {"role": "user", "content": self.some()}
        yield {"role": "assistant", "content": self.some(), "toolCalls": calls[:2], "thinking": self.some()}
        for call in calls[:2]:
            yield {"role": "tool", "toolCallId": call["id"], "content": self.some()}
        for call in calls[2:]:
            yield {"role": "assistant", "content": "", "toolCalls": [call]}
            if call is not calls[-1]:
                text = [{"type": "text", "text": self.some()}]
                yield {"role": "tool", "toolCallId": call["id"], "content": text, "metadata": {"isError": True}}
        yield {"role": "tool", "toolCallId": "of another time", "content": self.some()}
        yield {"role": "assistant", "content": self.some()}
