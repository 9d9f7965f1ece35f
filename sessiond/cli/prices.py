"""`sessiond stats --prices FILE`: what tokens cost, by a file that the user gives. Nothing is fetched, and nothing is guessed.

The file has the shape of LiteLLM's `model_prices_and_context_window.json`: model -> prices for each token, in US dollars. Tiers
for long prompts cannot be applied, because the counts are sums over many requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

_PRICES = {
    "input": "input_cost_per_token",
    "cacheRead": "cache_read_input_token_cost",
    "cacheWrite": "cache_creation_input_token_cost",
    "output": "output_cost_per_token",
}
_MOST_BYTES = 64 * 1024 * 1024


class Prices:
    """Call `apply` once; `unknown` then has the models that the file does not price."""

    def __init__(self, models: Mapping[str, Mapping[str, Any]]) -> None:
        self._models = models
        self._tails: dict[str, list[Mapping[str, Any]]] = {}
        for name, prices in models.items():
            if "/" in name:
                self._tails.setdefault(name.rpartition("/")[2], []).append(prices)
        self.unknown: set[str] = set()

    def apply(self, report: dict[str, Any]) -> None:
        """Replace the costs in a result of `session/usage`. Models that the file does not have keep what their tools said."""
        for row in report["rows"]:
            row["total"]["cost"], row["total"]["priced"] = self._sum(row["models"])
        report["total"]["cost"], report["total"]["priced"] = self._sum(report["models"])

    def _sum(self, models: list[dict[str, Any]]) -> tuple[float, int]:
        for used in models:
            prices = self._of(used["model"])
            if prices is None:
                if used["priced"] < used["requests"]:
                    self.unknown.add(used["model"] or "unknown")
                continue
            used["cost"] = sum(used[kind] * prices[kind] for kind in _PRICES)
            used["priced"] = used["requests"]
        return sum(used["cost"] for used in models), sum(used["priced"] for used in models)

    def _of(self, model: str | None) -> dict[str, float] | None:
        """The price of each kind of token; None unless the file has exactly one set of prices for the model."""
        if model is None:
            return None
        for name in (model, model.rpartition("/")[2]):
            if name in self._models:
                return _priced(self._models[name])
        found = [_priced(prices) for prices in self._tails.get(model.rpartition("/")[2], [])]
        return found[0] if found and all(prices == found[0] for prices in found) else None


def _priced(entry: Mapping[str, Any]) -> dict[str, float] | None:
    """Prices by kind. Cached tokens cost what input costs if the entry says nothing else."""
    numbers = {kind: float(entry[key]) for kind, key in _PRICES.items() if _is_price(entry.get(key))}
    if "input" not in numbers or "output" not in numbers:
        return None
    return {kind: numbers.get(kind, numbers["input"]) for kind in _PRICES}


def _is_price(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


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
