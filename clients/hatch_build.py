"""A step of the wheel's build: the packaged VS Code extension and the documentation's site go in if they were built before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = ("clients/vscode/sessiond.vsix", "site")
"""By `scripts/vsix.py` and by `mkdocs build`; a file and a folder."""


class BuiltParts(BuildHookInterface[Any]):
    """Adds them to the wheel; an editable install has the checkout itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        for name in BUILT:
            path = Path(self.root) / name
            if version == "standard" and path.exists():
                build_data["force_include"][str(path)] = f"sessiond/{name}"
