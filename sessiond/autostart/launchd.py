"""A launch agent of macOS."""

from __future__ import annotations

import os
import plistlib
import re
import shlex
from collections.abc import Mapping

from sessiond.autostart.definition import WRITTEN, Definition
from sessiond.autostart.tools import run
from sessiond.endpoint import APP, user_home
from sessiond.errors import SessiondError

LABEL = APP
_AGAIN_S = 30
"""launchd restarts the daemon this long after it failed, also when another daemon owned the data folder."""


class Launchd:
    name = "launchd"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.path = f"{user_home(environ)}/Library/LaunchAgents/{LABEL}.plist"
        self._domain = f"gui/{os.getuid()}"

    def text(self, definition: Definition) -> str:
        for word in (*definition.command, *definition.environment.values()):
            if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", word):
                raise SessiondError(
                    f"launchd cannot use {word!r}: it contains a control character or is not valid UTF-8"
                )
        agent = {
            "Label": LABEL,
            "ProgramArguments": list(definition.command),
            "EnvironmentVariables": dict(definition.environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": _AGAIN_S,
            "ProcessType": "Interactive",  # editors wait for it
            "Umask": 0o077,
        }
        text = plistlib.dumps(agent).decode()
        return text.replace("<plist", f"<!-- {WRITTEN} -->\n<plist", 1)

    def start(self, *, changed: bool) -> None:
        loaded = run(["launchctl", "print", f"{self._domain}/{LABEL}"]).code == 0
        if loaded and changed:
            self._launchctl("bootout", f"{self._domain}/{LABEL}")
            loaded = False
        if not loaded:
            self._launchctl("bootstrap", self._domain, self.path)
        elif not self.running():
            self._launchctl("kickstart", f"{self._domain}/{LABEL}")

    def stop(self) -> None:
        if run(["launchctl", "print", f"{self._domain}/{LABEL}"]).code == 0:
            self._launchctl("bootout", f"{self._domain}/{LABEL}")

    def forget(self) -> None:
        """launchd reads the folder at the next login."""

    def running(self) -> bool | None:
        said = run(["launchctl", "print", f"{self._domain}/{LABEL}"])
        if said.code == 127:
            return None
        return said.code == 0 and re.search(r"^\s*state = running$", said.out, re.MULTILINE) is not None

    def start_by_hand(self) -> str:
        return f"launchctl bootstrap {self._domain} {shlex.quote(self.path)}"

    def _launchctl(self, *arguments: str) -> None:
        said = run(["launchctl", *arguments])
        if said.code != 0:
            raise SessiondError(f"`launchctl {' '.join(arguments)}` failed: {said.reason}")
