"""The usage of a request to a model, in the one shape that all of sessiond knows: a message's `metadata.tokens`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sessiond.model.values import Json, JsonObject

KEY = "tokens"
"""In a message's metadata."""
_MOST = 10**9
"""Counts and costs above this are mistakes; sums of counts must fit into 64 bits."""
_COUNTS = ("input", "cacheRead", "cacheWrite", "output", "reasoning")


class TokenUsage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Counts of tokens. `input` has no tokens that were read from the model's cache (`cache_read`) or written to it
    (`cache_write`), so these three add up to what was sent. `reasoning` is a part of `output`.

    `cost` in US dollars, if the tool says so. Messages with the same `request` report the same request to the model: it
    counts once, with the largest of their counts.
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    cost: float | None = None
    model: str | None = None
    request: str | None = None

    @property
    def total(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.output

    def wire(self) -> JsonObject:
        found: JsonObject = msgspec.to_builtins(self)
        return found


def token_usage_of(metadata: Json) -> TokenUsage | None:
    """The usage that a message's metadata reports; None if it reports none that makes sense."""
    given = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    if not isinstance(given, Mapping):
        return None
    counts = {key: count(given.get(key)) for key in _COUNTS}
    if not any(counts.values()):
        return None
    cost, model, request = given.get("cost"), given.get("model"), given.get("request")
    return TokenUsage(
        counts["input"],
        counts["cacheRead"],
        counts["cacheWrite"],
        counts["output"],
        counts["reasoning"],
        cost=amount(cost),
        model=model if isinstance(model, str) and model else None,
        request=request if isinstance(request, str) and request else None,
    )


def count(value: Json) -> int:
    """A number of tokens; 0 for anything else."""
    if type(value) is int:
        return value if 0 < value <= _MOST else 0
    if isinstance(value, float) and value.is_integer():
        return count(int(value))
    return 0


def amount(value: Json) -> float | None:
    """A number of US dollars; None for anything else."""
    return (
        float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MOST
        else None
    )
