"""The reports of vendors and tools about used tokens -> a message's `metadata.tokens` (`model/token_usage.py`).

Each function returns the metadata to add: `{"tokens": ...}`, or nothing if nothing was reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sessiond.importers.record import digest_of
from sessiond.importers.source_file import mapped, word
from sessiond.model.token_usage import KEY, TokenUsage, amount, count
from sessiond.model.values import JsonObject, WireObject

_OPENCODE_REQUEST = ("time", "providerID", "modelID", "tokens", "cost")


def usage(
    input: object = 0,  # the shape's word
    output: object = 0,
    *,
    cache_read: object = 0,
    cache_write: object = 0,
    reasoning: object = 0,
    cost: object = None,
    model: object = None,
    request: object = None,
) -> JsonObject:
    """Counts that are in our shape already. Anything that is not a count is 0."""
    found = TokenUsage(
        count(input),
        count(cache_read),
        count(cache_write),
        count(output),
        count(reasoning),
        cost=amount(cost),
        model=word(model) or None,
        request=word(request) or None,
    )
    if not found.total:
        return {}
    return {KEY: found.wire()}


def apart(whole: object, *parts: object) -> int:
    """The input without its cached parts, where a tool counts these in."""
    return max(count(whole) - sum(count(part) for part in parts), 0)


def anthropic(given: object, *, model: object = None, request: object = None) -> WireObject:
    """`usage` of Anthropic's Messages API: cached tokens are not in `input_tokens`."""
    found = mapped(given)
    return usage(
        found.get("input_tokens"),
        found.get("output_tokens"),
        cache_read=found.get("cache_read_input_tokens"),
        cache_write=found.get("cache_creation_input_tokens"),
        model=model,
        request=request,
    )


def openai(given: object, *, model: object = None, request: object = None) -> JsonObject:
    """`usage` of OpenAI's APIs, of the chat's or the responses' shape: cached tokens are in the input."""
    found = mapped(given)
    sent = found.get("input_tokens", found.get("prompt_tokens"))
    details = mapped(found.get("input_tokens_details") or found.get("prompt_tokens_details"))
    made = mapped(found.get("output_tokens_details") or found.get("completion_tokens_details"))
    read = details.get("cached_tokens", found.get("cached_input_tokens"))
    written = found.get("cache_write_input_tokens")
    return usage(
        apart(sent, read, written),
        found.get("output_tokens", found.get("completion_tokens")),
        cache_read=read,
        cache_write=written,
        reasoning=made.get("reasoning_tokens", found.get("reasoning_output_tokens")),
        cost=found.get("cost"),
        model=model,
        request=request,
    )


def google(given: object, *, model: object = None, request: object = None) -> JsonObject:
    """`usageMetadata` of Google's API: cached tokens are in the prompt, and thoughts are apart from the candidates."""
    found = mapped(given)
    read, thoughts = found.get("cachedContentTokenCount"), count(found.get("thoughtsTokenCount"))
    sent = apart(found.get("promptTokenCount"), read) + count(found.get("toolUsePromptTokenCount"))
    return usage(
        sent,
        count(found.get("candidatesTokenCount")) + thoughts,
        cache_read=read,
        reasoning=thoughts,
        model=model,
        request=request,
    )


def of_opencode(message: JsonObject, parts: Iterable[object] = ()) -> WireObject:
    """A message of opencode's or of a tool made from it, and its parts: thoughts are apart from the output."""
    given = mapped(message.get("tokens"))
    cache, thoughts = mapped(given.get("cache")), count(given.get("reasoning"))
    return usage(
        given.get("input"),
        count(given.get("output")) + thoughts,
        cache_read=cache.get("read"),
        cache_write=cache.get("write"),
        reasoning=thoughts,
        cost=message.get("cost"),
        model=message.get("modelID"),
        request=request_of_opencode(message, parts),
    )


def request_of_opencode(message: JsonObject, parts: Iterable[Any]) -> object:
    """A fork has a copy of each message, under another id: all but its ids is the same. Times are in milliseconds."""
    if not mapped(message.get("time")).get("created"):
        return message.get("id")
    words = [part.get("text") for part in parts if mapped(part).get("type") == "text"]
    return digest_of([*(message.get(key) for key in _OPENCODE_REQUEST), words]).hex()


def of_camel(given: JsonObject, *, request: object = None) -> JsonObject:
    """`inputTokens` and so on, with Anthropic's meaning: cached tokens are not in the input."""
    return usage(
        given.get("inputTokens"),
        given.get("outputTokens"),
        cache_read=given.get("cacheReadInputTokens", given.get("cacheReadTokens")),
        cache_write=given.get("cacheCreationInputTokens", given.get("cacheWriteTokens")),
        reasoning=given.get("reasoningTokens"),
        model=given.get("model"),
        request=request,
    )
