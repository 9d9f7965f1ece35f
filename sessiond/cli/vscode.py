"""`sessiond setup vscode`: the extension goes into VS Code through the editor's own command."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from sessiond.endpoint import client_folder, user_home
from sessiond.errors import SessiondError

EDITORS = ("code", "codium", "cursor", "code-server", "code-insiders")
"""The commands of VS Code and of editors built from it, which all know `--install-extension`."""
_RUN_S = 120.0


def install_lines() -> str:
    """The commands that install the extension: from the built package, or building it first."""
    package = built_package()
    if package is not None:
        return f"code --install-extension {shlex.quote(str(package))}"
    folder = Path(client_folder("vscode"))
    where = shlex.quote(str(folder)) if folder.is_dir() else "clients/vscode  # in sessiond's sources"
    return f"cd {where}\nnpm install && npm run package  # Node 22 or later\ncode --install-extension sessiond.vsix"


def install() -> int:
    """Install the built package with the first editor that is on the PATH. SessiondError."""
    package = built_package()
    if package is None:
        raise SessiondError(
            "this installation does not contain the built extension",
            hint="`sessiond setup vscode` prints how to build it",
        )
    editors = [path for path in map(shutil.which, EDITORS) if path is not None]
    if not editors:
        raise SessiondError(
            f"none of {', '.join(EDITORS)} is on the PATH",
            hint=f"in VS Code, run 'Extensions: Install from VSIX...' and choose {package}",
        )
    _run([editors[0], "--install-extension", str(package)])
    print(f"installed with {os.path.basename(editors[0])}; reload the windows that are open")
    for other in map(os.path.basename, editors[1:]):
        print(f"for {other}: {shlex.join([other, '--install-extension', str(package)])}")
    return 0


def _run(command: list[str]) -> None:
    """SessiondError with what the editor says if it fails."""
    name = os.path.basename(command[0])
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_RUN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SessiondError(f"{name} did not install the extension within {_RUN_S:g} s") from None
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise SessiondError(f"{name} could not install the extension: {said}")


def is_installed() -> bool:
    """Whether one of these editors has the extension among those of this user."""
    home = Path(user_home(os.environ))
    folders = (".vscode", ".vscode-insiders", ".vscode-oss", ".cursor", ".local/share/code-server")
    return any(next((home / name / "extensions").glob("*sessiond-[0-9]*"), None) for name in folders)


def built_package() -> Path | None:
    """The packaged extension, which is there if it was built before the wheel, or in this checkout."""
    path = Path(client_folder("vscode")) / "sessiond.vsix"
    return path if path.is_file() else None
