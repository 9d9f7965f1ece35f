"""The store formats by the name that config.toml and the wire use. Modules are loaded when they are first asked for."""

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
    """The format of that name. KeyError for any other word."""
    module = importlib.import_module(f"sessiond.formats.{_MODULES[name]}")
    # A format is a module: its functions and constants are the protocol's members.
    return cast("Format", module)
