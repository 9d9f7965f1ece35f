"""`sessiond stats --prices FILE`: what tokens cost, by a file that the user gives. Nothing is fetched, and nothing is guessed.

The file has the shape of LiteLLM's `model_prices_and_context_window.json`: model -> prices for each token, in US dollars. Tiers
for long prompts cannot be applied, because the counts are sums over many requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from sessiond.model.token_usage import amount

_PRICES = {
    "input": "input_cost_per_token",
    "cacheRead": "cache_read_input_token_cost",
    "cacheWrite": "cache_creation_input_token_cost",
    "output": "output_cost_per_token",
}
_MOST_BYTES = 64 * 1024 * 1024


class Prices:
    """Call `apply` once; `unknown` then has the models that the file does not price, `odd` those of which it has a price that
    cannot be one.
    """

    def __init__(self, models: Mapping[str, Mapping[str, object]]) -> None:
        self._models = models
        self._tails: dict[str, list[Mapping[str, object]]] = {}
        for name, prices in models.items():
            if "/" in name:
                self._tails.setdefault(name.rpartition("/")[2], []).append(prices)
        self.unknown: set[str] = set()
        self.odd: set[str] = set()

    def apply(self, report: dict[str, Any]) -> None:
        """Replace the costs in a result of `session/usage`. Models that the file does not have keep what their tools said."""
        for row in report["rows"]:
            row["total"]["cost"], row["total"]["priced"] = self._sum(row["models"])
        report["total"]["cost"], report["total"]["priced"] = self._sum(report["models"])

    def _sum(self, models: list[dict[str, Any]]) -> tuple[float, int]:
        for used in models:
            prices = self._of(used["model"])
            if prices is None:
                if used["model"] not in self.odd and used["priced"] < used["requests"]:
                    self.unknown.add(used["model"] or "unknown")
                continue
            used["cost"] = sum(used[kind] * prices[kind] for kind in _PRICES)
            used["priced"] = used["requests"]
        return sum(used["cost"] for used in models), sum(used["priced"] for used in models)

    def _of(self, model: str | None) -> dict[str, float] | None:
        """The price of each kind of token; None unless the file has exactly one set of prices for the model."""
        if model is None:
            return None
        tail = model.rpartition("/")[2]
        named = next((self._models[name] for name in (model, tail) if name in self._models), None)
        entries = self._tails.get(tail, []) if named is None else [named]
        if any(_is_odd(entry) for entry in entries):
            self.odd.add(model)
            return None
        found = [_priced(entry) for entry in entries]
        return found[0] if found and all(prices == found[0] for prices in found) else None


def _priced(entry: Mapping[str, object]) -> dict[str, float] | None:
    """Prices by kind. Cached tokens cost what input costs if the entry says nothing else."""
    given = {kind: amount(entry.get(key)) for kind, key in _PRICES.items()}
    numbers = {kind: price for kind, price in given.items() if price is not None}
    if "input" not in numbers or "output" not in numbers:
        return None
    return {kind: numbers.get(kind, numbers["input"]) for kind in _PRICES}


def _is_odd(entry: Mapping[str, object]) -> bool:
    """Return whether a number where a price should be cannot be one: it is negative, or beyond all money."""
    given = [entry.get(key) for key in _PRICES.values()]
    return any(isinstance(one, (int, float)) and not isinstance(one, bool) and amount(one) is None for one in given)


def read(path: str) -> Prices:
    """click.UsageError if the file cannot be read or has another shape."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(_MOST_BYTES + 1))
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{path} is not valid JSON: {error}") from None
    models = (
        {name: entry for name, entry in found.items() if isinstance(entry, dict)} if isinstance(found, dict) else {}
    )
    if not any(_priced(entry) for entry in models.values()):
        hint = '{"MODEL": {"input_cost_per_token": 0.000003, "output_cost_per_token": 0.000015}}'
        raise click.UsageError(f"{path} has no prices; the shape is LiteLLM's: {hint}")
    return Prices(models)
