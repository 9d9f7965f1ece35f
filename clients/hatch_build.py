"""A step of the wheel's build: the packaged VS Code extension goes in if `scripts/vsix.py` has built it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "clients/vscode/sessiond.vsix"


class VscodePackage(BuildHookInterface[Any]):
    """Adds one file to the wheel; an editable install has the checkout itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        path = Path(self.root) / PACKAGE
        if version == "standard" and path.is_file():
            build_data["force_include"][str(path)] = f"sessiond/{PACKAGE}"
