"""The result of `usage`: the tokens that requests to models used."""

from __future__ import annotations

from msgspec import field

from sessiond.client.types import Value
from sessiond.ready import ready


class TokenTotals(Value, frozen=True, kw_only=True):
    """The totals of a number of requests. `input` is what was sent without the tokens that were read from the model's cache or written to
    it; `reasoning` is a part of `output`.
    """

    requests: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0
    cost: float = 0.0
    """In US dollars: the sum over the requests whose tool said what they cost."""
    priced: int = 0
    """How many requests these are."""

    @property
    def tokens(self) -> int:
        """All that were sent and received."""
        return self.input + self.cache_read + self.cache_write + self.output


class ModelUsage(TokenTotals, frozen=True, kw_only=True):
    """The same of one model; None if the messages do not say which."""

    model: str | None = None


class UsageRow(Value, frozen=True, kw_only=True):
    """A day (`YYYY-MM-DD`), month, model, tool, project (its folder) or session (its id). None: it is unknown."""

    key: str | None = None
    name: str | None = None
    """Of the session."""
    sessions: int = 0
    total: TokenTotals = field(default_factory=TokenTotals)
    models: list[ModelUsage] = field(default_factory=list)
    """The most used first."""


class UsageReport(Value, frozen=True, kw_only=True):
    """Days and months in order of time, anything else the most used first."""

    rows: list[UsageRow] = field(default_factory=list)
    omitted: int = 0
    """How many rows there are beyond the limit; the total includes them."""
    sessions: int = 0
    total: TokenTotals = field(default_factory=TokenTotals)
    models: list[ModelUsage] = field(default_factory=list)
    time_zone: str = "UTC"
    incomplete: bool = False
    """The index is being built: there may be more."""


ready(UsageReport)
