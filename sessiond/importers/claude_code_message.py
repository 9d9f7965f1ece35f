"""Reads what the message in a record of Claude Code's says besides its content."""

from __future__ import annotations

from sessiond.importers import usage
from sessiond.importers.source_file import without
from sessiond.model.token_usage import amount
from sessiond.model.values import JsonObject


def rest_of(message: JsonObject) -> JsonObject:
    kept = without(message, "type", "role", "content", "id")
    if "id" in message:
        kept["messageId"] = message["id"]
    return kept


def tokens(record: JsonObject, message: JsonObject) -> JsonObject:
    """A request's answer is several records, each with the usage so far; resumed sessions repeat them."""
    answer, request = message.get("id"), record.get("requestId")
    request = f"{answer}:{request}" if answer and request else str(answer or request or record.get("uuid") or "")
    found = usage.anthropic(message.get("usage"), model=message.get("model"), request=request)
    if found and amount(record.get("costUSD")) is not None:
        found["tokens"]["cost"] = amount(record["costUSD"])
    return found
