"""An SDK's item inside a message, and back, without loss; and the ids that make a repetition harmless. No I/O."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from sessiond.client import Message, TooLarge

AS_TEXT = ":json"
"""After the key in a message's metadata: the item is there as JSON text, because the protocol cannot carry its values."""
_DEEPEST = 60
_LARGEST = 2**63
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


def whole(key: str, item: Any) -> dict[str, Any]:
    """Metadata that holds the item under `key`. TypeError, ValueError if it has no JSON."""
    return {key: item} if fits(item) else {key + AS_TEXT: json.dumps(item)}


def item_in(message: Message, key: str) -> Any:
    """The item that `whole` put into a message, or None. TooLarge if the message was cut."""
    if message.cut is not None:
        raise TooLarge(
            f"message {message.id} has {message.cut} bytes and does not fit into a response",
            hint="export the session with a path to read it",
        )
    metadata = message.metadata or {}
    text = metadata.get(key + AS_TEXT)
    return json.loads(text) if isinstance(text, str) else metadata.get(key)


def fits(value: Any, depth: int = 0) -> bool:
    """Return whether the protocol gives a value back as it is: no NaN, no lone surrogates, integers of 64 bits, and not too deep."""
    match value:
        case None | bool():
            return True
        case str():
            return is_text(value)
        case int():
            return -_LARGEST <= value < _LARGEST
        case float():
            return math.isfinite(value)
        case dict():
            return depth < _DEEPEST and all(
                isinstance(key, str) and is_text(key) and fits(one, depth + 1) for key, one in value.items()
            )
        case list():
            return depth < _DEEPEST and all(fits(one, depth + 1) for one in value)
    return False


def is_text(value: str) -> bool:
    """Return whether UTF-8 can carry it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def readable(value: Any) -> str:
    """Text as people see it. What is neither text nor a list with text blocks is shown as JSON."""
    if isinstance(value, list):
        return "\n".join(text for one in value if (text := _block(one)))
    if value is None or value == "":
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if is_text(text) else text.encode("utf-8", "replace").decode()


def _block(block: Any) -> str:
    if not isinstance(block, Mapping):
        return readable(block)
    for name in ("text", "refusal", "content"):
        if isinstance(block.get(name), str):
            return readable(block[name])
    kind = block.get("type", "block")
    return f"[{readable(kind)}]"


def arguments(given: Any) -> dict[str, Any] | str:
    """A tool call's arguments: an object if they are one that fits, else text."""
    value = given
    if isinstance(given, str):
        try:
            value = json.loads(given)
        except ValueError:
            return readable(given)
    if isinstance(value, dict) and fits(value):
        return value
    return readable(given if isinstance(given, str) else json.dumps(given, default=str))


def derived_id(identity: str, item: Any) -> str:
    """The id of the message for an item that has an id of its own. The same item has the same id whenever it is sent."""
    digest = hashlib.sha256(json.dumps([identity, item], sort_keys=True, default=str).encode()).hexdigest()
    return f"{_ODD.sub('-', identity)[:100]}.{digest[:20]}"


def session_id_of(name: str) -> str:
    """The session's id for a name that an SDK uses: the name itself if it can be an id, else its letters and a hash."""
    if _ID.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{_ODD.sub('-', name).strip('-._')[:80] or 'session'}-{digest}"
