"""The store formats, by the names that config.toml and the wire use. A module is loaded when first requested."""

from __future__ import annotations

import importlib
from typing import cast

from sessiond.formats.base import Format

_MODULES = {
    "jsonl": "jsonl",
    "amacs": "amacs",
    "cortex": "cortex",
    "agent-q": "agent_q",
    "theia": "theia",
    "sibyl": "sibyl",
}
NAMES = tuple(_MODULES)


def get(name: str) -> Format:
    """The format with that name. KeyError for any other name."""
    module = importlib.import_module(f"sessiond.formats.{_MODULES[name]}")
    # A format is a module; its functions and constants are the members of the `Format` protocol.
    return cast("Format", module)
