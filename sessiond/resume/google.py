"""Turns as Google's API has them, which Gemini CLI and Qwen Code write."""

from __future__ import annotations

from typing import Any

from sessiond.exporters.conversation import ExportedCall, result_of
from sessiond.model.values import JsonObject
from sessiond.resume.target import pictures_of, text_of


def part(block: JsonObject) -> dict[str, Any]:
    if block["type"] == "text":
        return {"text": block["text"]}
    return inline(block)


def inline(block: dict[str, Any]) -> JsonObject:
    source = block["source"]
    return {"inlineData": {"mimeType": source.get("media_type", "image/png"), "data": source.get("data", "")}}


def function_call(call: ExportedCall) -> JsonObject:
    return {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}


def function_response(call: ExportedCall) -> list[JsonObject]:
    """The response, and the pictures that it showed."""
    blocks = result_of(call)
    response = {"id": call.id, "name": call.name, "response": {"output": text_of(blocks)}}
    return [{"functionResponse": response}, *map(inline, pictures_of(blocks))]
