"""Pictures in a message's content, in every shape that vendors and tools write, as Anthropic's block."""

from __future__ import annotations

import re
from typing import Any

from sessiond.model.values import JsonObject

_DATA_URL = re.compile(r"data:([\w.+/-]+);base64,(.*)", re.DOTALL)
_PLAIN = "image/png"


def picture(block: JsonObject) -> JsonObject | None:
    """`{type: image, source}` with a source of type `base64` or `url`; None if the block is not a picture."""
    source = block.get("source")
    if block.get("type") == "image" and isinstance(source, dict):
        if source.get("type") == "base64":
            return _encoded(source.get("media_type", _PLAIN), source.get("data"))
        if source.get("type") == "url":
            return _at(source.get("url"))
    inline = block.get("inlineData")
    if isinstance(inline, dict):  # Google's
        return _encoded(inline.get("mimeType"), inline.get("data"))
    if block.get("type") == "image" and isinstance(block.get("data"), str):  # pi's, and MCP's
        return _encoded(block.get("mimeType"), block["data"])
    if block.get("type") == "file" and _is_picture(block.get("mime")):  # opencode's
        return _at(block.get("url"))
    url = block.get("image_url")
    return _at(url.get("url") if isinstance(url, dict) else url)


def _is_picture(media_type: object) -> bool:
    return isinstance(media_type, str) and media_type.startswith("image/")


def _encoded(media_type: object, data: object) -> JsonObject | None:
    if not _is_picture(media_type) or not isinstance(data, str):
        return None
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _at(url: object) -> JsonObject | None:
    if not isinstance(url, str):
        return None
    data = _DATA_URL.fullmatch(url)
    if data:
        return _encoded(data[1], data[2])
    return {"type": "image", "source": {"type": "url", "url": url}}


def data_url(block: dict[str, Any]) -> str:
    """The URL of a picture, with its data in it if the session has them."""
    source = block["source"]
    if source["type"] == "base64":
        return f"data:{source.get('media_type', _PLAIN)};base64,{source.get('data', '')}"
    return str(source.get("url", ""))
