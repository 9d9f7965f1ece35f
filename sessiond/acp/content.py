"""Blocks of the protocol -> content of messages. No I/O. A peer may send anything, so every value has any type."""

from __future__ import annotations

from typing import Any

NAME_CHARS = 80
PRINTED = ("terminal_output", "terminal_output_delta")
"""Where agents put what a command printed."""


def mapped(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def content(blocks: list[Any]) -> str | list[object]:
    """One text as a string, anything else as the blocks that it is."""
    if len(blocks) == 1 and (text := text_of(blocks[0])) is not None:
        return text
    return blocks


def text_of(block: object) -> str | None:
    """The text of a block of text that says nothing else; None for other blocks."""
    given = mapped(block)
    text = given.get("text")
    return text if given.get("type") == "text" and isinstance(text, str) and given.keys() <= {"type", "text"} else None


def printed(update: dict[str, object]) -> str:
    """Return what a command printed since the last update, in the way of agents that give it to editors with terminals: beside the
    protocol, under `_meta`.
    """
    meta = mapped(update.get("_meta"))
    found = (mapped(meta.get(name)).get("data") for name in PRINTED)
    return "".join(text for text in found if isinstance(text, str))


def result(update: dict[str, object], output: str = "") -> str | list[object]:
    """Return what a tool brought: its content, or what it said raw. `output`: all that its command printed, which is what the terminals
    in its content showed.
    """
    blocks = [
        mapped(one.get("content")) if one.get("type") == "content" else one
        for one in map(mapped, listed(update.get("content")))
    ]
    if output:
        blocks = [one for one in blocks if one.get("type") != "terminal"]
        blocks.append({"type": "text", "text": output})
    if blocks:
        return content(blocks)
    raw = update.get("rawOutput")
    if isinstance(raw, str):
        return raw
    given = mapped(raw)
    for name in ("output", "stdout", "text"):
        if isinstance(given.get(name), str):
            return str(given[name])
    return [raw] if given else ""


def name_from(blocks: list[object]) -> str | None:
    """The first line of a prompt, as a session's name."""
    for block in blocks:
        text = mapped(block).get("text")
        for line in text.splitlines() if isinstance(text, str) else ():
            if line.strip():
                return line.strip()[:NAME_CHARS]
    return None


def model_from(given: dict[str, object]) -> str | None:
    """The model that a new or loaded session, or its options, name."""
    if current := word(mapped(given.get("models")).get("currentModelId")):
        return current
    for option in map(mapped, listed(given.get("configOptions"))):
        if option.get("category") == "model" or option.get("id") == "model":
            return word(option.get("currentValue"))
    return None
