"""`sessiond setup vscode`: the extension goes into VS Code through the editor's own command."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sessiond import installation
from sessiond.cli import jsonc
from sessiond.cli.output import say
from sessiond.cli.settings import replace
from sessiond.endpoint import client_folder, user_home
from sessiond.errors import SessiondError

EDITORS = ("code", "codium", "cursor", "code-server", "code-insiders")
"""The commands of VS Code and of editors built from it, which all know `--install-extension`."""
_RUN_S = 120.0
_SETTINGS = {
    "code": "Code",
    "codium": "VSCodium",
    "cursor": "Cursor",
    "code-insiders": "Code - Insiders",
}
"""Whose settings are in a folder of this name under the user's configuration; code-server has its own place."""


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
    if not installation.is_on_path(os.environ):
        _tell_program(os.path.basename(editors[0]))
    for other in map(os.path.basename, editors[1:]):
        print(f"for {other}: {shlex.join([other, '--install-extension', str(package)])}")
    return 0


def _tell_program(editor: str) -> None:
    """The extension learns where the program is: in the user's settings, unless they say it already. SessiondError."""
    path = settings_file(editor, os.environ)
    program, *arguments = installation.command()
    members: dict[str, object] = {"sessiond.path": program}
    if arguments:
        members["sessiond.arguments"] = [*arguments, "--stdio"]
    before = path.read_bytes() if path.exists() else b""
    try:
        text = before.decode("utf-8") if before.strip() else "{}\n"
        settings = jsonc.loads(text)
        if not isinstance(settings, dict):
            raise jsonc.NotJsonc("it holds no object")
        if "sessiond.path" in settings:
            return
        for key, value in members.items():
            text = jsonc.with_member(text, (key,), value)
        if jsonc.loads(text) != {**settings, **members}:
            raise jsonc.NotJsonc("its shape is unusual")
    except ValueError as error:  # UnicodeDecodeError, NotJson
        raise SessiondError(
            f"{path} cannot be changed safely ({error})", hint=f'set "sessiond.path" there to "{program}"'
        ) from None
    replace(path, before, text.encode("utf-8"))
    say(f"{path} says where the program is, which is not on the PATH: {program}")


def settings_file(editor: str, environ: Mapping[str, str]) -> Path:
    """The user's settings of one of `EDITORS`."""
    home = Path(user_home(environ))
    if editor == "code-server":
        data = environ.get("XDG_DATA_HOME") or home / ".local" / "share"
        return Path(data) / editor / "User" / "settings.json"
    if sys.platform == "darwin":
        config = home / "Library" / "Application Support"
    else:
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return config / _SETTINGS[editor] / "User" / "settings.json"


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
    """Return whether one of these editors has the extension among those of this user."""
    home = Path(user_home(os.environ))
    folders = (".vscode", ".vscode-insiders", ".vscode-oss", ".cursor", ".local/share/code-server")
    return any(next((home / name / "extensions").glob("*sessiond-[0-9]*"), None) for name in folders)


def built_package() -> Path | None:
    """The packaged extension, which is there if it was built before the wheel, or in this checkout."""
    path = Path(client_folder("vscode")) / "sessiond.vsix"
    return path if path.is_file() else None
