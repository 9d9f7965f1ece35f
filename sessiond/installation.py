"""This installation of sessiond: the command that runs it, and the one that adds to it what an extra needs."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping

from sessiond.endpoint import APP


def command() -> tuple[str, ...]:
    """The words that run the `sessiond` that is running now, wherever from: its script's path, or the interpreter's with `-m`."""
    script = os.path.abspath(sys.argv[0])
    if os.path.basename(script) == APP and os.access(script, os.X_OK):
        return (script,)
    return (os.path.abspath(sys.executable), "-m", APP)


def as_typed() -> str:
    """The shell word that runs it in this shell and folder: its name if that is found, or how it was called now."""
    if shutil.which(APP) is not None:
        return APP
    return shlex.quote(sys.argv[0]) if os.path.basename(sys.argv[0]) == APP else shlex.join(command())


def is_on_path(environ: Mapping[str, str]) -> bool:
    """Return whether `sessiond` is found by its name, by an editor that was started from the desktop, too.

    The folder of an activated virtual environment counts only in the shell that activated it.
    """
    active = environ.get("VIRTUAL_ENV")
    left_out = os.path.join(active, "bin") if active else None
    folders = [name for name in environ.get("PATH", os.defpath).split(os.pathsep) if name and name != left_out]
    return shutil.which(APP, path=os.pathsep.join(folders)) is not None


def add_command(extra: str) -> str:
    """The shell command that installs what `extra` needs into this very environment, from a checkout as well as from an index.

    It names the packages, because `sessiond[extra]` is known only to an index that has sessiond.
    """
    wanted = shlex.join(packages(extra))
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx inject {APP} {wanted}"
    python = shlex.quote(sys.executable)
    # Environments that uv makes have no pip.
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")) or not _has_pip():
        return f"uv pip install --python {python} {wanted}"
    return f"{python} -m pip install {wanted}"


def packages(extra: str) -> list[str]:
    """Return what this installation's metadata says the extra needs, as pip takes it: `prompt-toolkit>=3.0.43`."""
    import re
    from importlib import metadata

    mark = re.compile(rf"""\bextra\s*==\s*["']{re.escape(extra)}["']""")
    try:
        found = [line.partition(";") for line in metadata.requires(APP) or ()]
    except metadata.PackageNotFoundError:  # run from its sources, not installed
        return [f"{APP}[{extra}]"]
    return [name.strip() for name, _, marker in found if mark.search(marker)]


def _has_pip() -> bool:
    from importlib.util import find_spec

    return find_spec("pip") is not None
