"""Builds the packaged VS Code extension, the same bytes each time: python -m scripts.vsix

`clients/vscode/package.mjs` packs it. Needs Node 22 or later, with npm. The wheel takes the package if it is there (`clients/hatch_build.py`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

CLIENT = "clients/vscode"
PACKAGE = f"{CLIENT}/sessiond.vsix"
NODE_VERSION = 22


def build(root: Path) -> Path:
    """Install the packages that the extension is built with, bundle it and pack it. RuntimeError."""
    check_node()
    client = root / CLIENT
    for command in (
        ["npm", "install", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"],
        ["npm", "run", "--silent", "package"],
    ):
        done = subprocess.run(
            command, cwd=client, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"`{' '.join(command)}` failed in {CLIENT}:\n{done.stdout}{done.stderr}".rstrip())
    return root / PACKAGE


def check_node() -> None:
    """RuntimeError unless Node is new enough and npm is there."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise RuntimeError(f"node or npm is not installed; the extension needs Node {NODE_VERSION} or later")
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    version = re.match(r"v(\d+)\.", said)
    if version is None or int(version[1]) < NODE_VERSION:
        raise RuntimeError(f"node is {said}; the extension needs Node {NODE_VERSION} or later")


def main() -> int:
    try:
        print(build(Path(__file__).resolve().parent.parent))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
