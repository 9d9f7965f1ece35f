"""The service manager of this system, and the command of this installation."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sessiond import installation
from sessiond.autostart.definition import Definition, Manager
from sessiond.autostart.launchd import Launchd
from sessiond.autostart.systemd import Systemd
from sessiond.autostart.tools import run
from sessiond.endpoint import places
from sessiond.errors import SessiondError

_PLACES = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
_TRY_S = 30.0


def manager_of(platform: str, environ: Mapping[str, str]) -> Manager:
    """This system's service manager. SessiondError if we do not know one."""
    if platform == "linux":
        return Systemd(environ)
    if platform == "darwin":
        return Launchd(environ)
    raise SessiondError(
        f"services on {platform} are not supported (only systemd on Linux, and launchd on macOS)",
        hint="have your service manager run: sessiond serve --idle-exit 0",
    )


def this_command(environ: Mapping[str, str]) -> Definition:
    """The `sessiond` that is running now, as a service for the home that its clients use."""
    home = places(environ).home
    kept = {name: environ[name] for name in _PLACES if os.path.isabs(environ.get(name, ""))}
    return Definition((*installation.command(), "serve", "--idle-exit", "0"), {"SESSIOND_HOME": home} if home else kept)


def check_runs(definition: Definition, environ: Mapping[str, str]) -> None:
    """SessiondError if the command works only in this shell, with its folder and its variables."""
    command = definition.command[: definition.command.index("serve")]
    bare = {name: environ[name] for name in ("HOME",) if name in environ} | {"PATH": os.defpath}
    said = run([*command, "--version"], env=bare, folder="/", timeout_s=_TRY_S)
    if said.code != 0:
        raise SessiondError(
            f"{' '.join(command)} does not run outside this shell: {said.reason}",
            hint="install sessiond, then try again",
        )
