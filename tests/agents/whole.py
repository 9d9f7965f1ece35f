"""All that a model was sent, in order: every text, call, result and picture, whoever put it there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.agents.fake_model import Item, Json, Request


def told(request: Request) -> list[Item]:
    """`("user", text)`, `("assistant", text)`, `("call", name, arguments as JSON)`, `("result", text)` or `("picture", base64)`."""
    body = request.body
    if "contents" in body:
        return list(_google(body["contents"]))
    if "input" in body:
        return list(_responses(body["input"]))
    return list(_messages(body["messages"]))


def _messages(messages: list[Json]) -> Iterator[Item]:
    """OpenAI's chat completions and Anthropic's messages."""
    for message in messages:
        if message["role"] == "tool":
            yield from _result(message.get("content"))
            continue
        yield from _blocks(message["role"], message.get("content"))
        for call in message.get("tool_calls") or []:
            yield _call(call["function"]["name"], call["function"]["arguments"])


def _blocks(role: str, content: Any) -> Iterator[Item]:
    for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        kind = block.get("type")
        if kind == "tool_use":
            yield _call(block["name"], block["input"])
        elif kind == "tool_result":
            yield from _result(block.get("content"))
        elif kind in ("image", "image_url", "input_image"):
            yield _picture(block)
        elif block.get("text"):
            yield role, block["text"]


def _result(content: Any) -> Iterator[Item]:
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    yield "result", "\n".join(block["text"] for block in blocks if "text" in block)
    for block in blocks:
        if "text" not in block:
            yield _picture(block)


def _picture(block: Json) -> Item:
    source = block.get("source")
    if isinstance(source, dict):
        return "picture", source["data"]
    url = block["image_url"]
    return "picture", (url["url"] if isinstance(url, dict) else url).partition(";base64,")[2]


def _call(name: str, arguments: Any) -> Item:
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    return "call", name, json.dumps(value, sort_keys=True)


def _responses(items: list[Json]) -> Iterator[Item]:
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            yield from _blocks(item["role"], item.get("content"))
        elif kind == "function_call":
            yield _call(item["name"], item["arguments"])
        elif kind == "function_call_output":
            yield from _result(item.get("output"))


def _google(contents: list[Json]) -> Iterator[Item]:
    for message in contents:
        role = "assistant" if message.get("role") == "model" else "user"
        for part in message.get("parts") or []:
            if "functionCall" in part:
                yield _call(part["functionCall"]["name"], part["functionCall"].get("args") or {})
            elif "functionResponse" in part:
                yield "result", str(part["functionResponse"].get("response", {}).get("output", ""))
            elif "inlineData" in part:
                yield "picture", part["inlineData"]["data"]
            elif part.get("text"):
                yield role, part["text"]
