"""Builds the packaged VS Code extension, the same bytes each time: python -m scripts.vsix

Needs Node 22 or later, with npm. The wheel takes the package if it is there (`clients/hatch_build.py`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

CLIENT = "clients/vscode"
PACKAGE = f"{CLIENT}/sessiond.vsix"
NODE_VERSION = 22
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file can express."""
_REGULAR_0644 = 0o100644 << 16


def build(root: Path) -> Path:
    """Install the packages that the extension is built with, bundle it and pack it. RuntimeError."""
    check_node()
    client = root / CLIENT
    for command in (["npm", "install", "--ignore-scripts", "--loglevel=error"], ["npm", "run", "--silent", "package"]):
        done = subprocess.run(
            command, cwd=client, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"`{' '.join(command)}` failed in {CLIENT}:\n{done.stdout}{done.stderr}".rstrip())
    package = root / PACKAGE
    normalize(package)
    return package


def check_node() -> None:
    """RuntimeError unless Node is new enough and npm is there."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise RuntimeError(f"node or npm is not installed; the extension needs Node {NODE_VERSION} or later")
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    version = re.match(r"v(\d+)\.", said)
    if version is None or int(version[1]) < NODE_VERSION:
        raise RuntimeError(f"node is {said}; the extension needs Node {NODE_VERSION} or later")


def normalize(package: Path) -> None:
    """Write the zip again without what differs between two builds: times, modes and the order of the files."""
    with zipfile.ZipFile(package) as old:
        contents = {name: old.read(name) for name in sorted(old.namelist())}
    new = package.with_name(f"{package.name}.new")
    with zipfile.ZipFile(new, "w") as file:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, _FIRST_DAY)
            entry.external_attr = _REGULAR_0644
            entry.create_system = 3  # Unix
            file.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    new.replace(package)


def main() -> int:
    try:
        print(build(Path(__file__).resolve().parent.parent))
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
