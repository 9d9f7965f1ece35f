"""A user unit of systemd. Decision 36 says why it has no socket unit."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from sessiond.autostart.definition import WRITTEN, Definition
from sessiond.autostart.tools import run
from sessiond.endpoint import APP, user_home
from sessiond.errors import SessiondError

UNIT = f"{APP}.service"
_TEXT = """\
# {written}
[Unit]
Description=One daemon that keeps every conversation with a model
Documentation=man:sessiond(1)

[Service]
Type=exec
ExecStart={command}
{environment}UMask=0077
Restart=on-failure
# Another daemon already owns the data folder, so there is nothing left to do.
SuccessExitStatus=75

[Install]
WantedBy=default.target
"""


class Systemd:
    name = "systemd"

    def __init__(self, environ: Mapping[str, str]) -> None:
        config = environ.get("XDG_CONFIG_HOME", "")
        folder = config if os.path.isabs(config) else f"{user_home(environ)}/.config"
        self.path = f"{folder.rstrip('/')}/systemd/user/{UNIT}"

    def text(self, definition: Definition) -> str:
        program, *arguments = definition.command
        if re.search(r"""['"\\]""", program):  # systemd refuses these in a program's path, quoted or not
            program, arguments = "/bin/sh", ["-c", 'exec "$0" "$@"', program, *arguments]
        # In the program's path a dollar sign means itself; in an argument it would begin a variable.
        words = [quoted(program), *(quoted(one).replace("$", "$$") for one in arguments)]
        environment = "".join(
            f"Environment={quoted(f'{name}={value}')}\n" for name, value in sorted(definition.environment.items())
        )
        return _TEXT.format(written=WRITTEN, command=" ".join(words), environment=environment)

    def start(self, *, changed: bool) -> None:
        for command in (["daemon-reload"], ["enable", UNIT], ["restart" if changed else "start", UNIT]):
            _systemctl(*command)

    def stop(self) -> None:
        _systemctl("disable", "--now", UNIT)

    def forget(self) -> None:
        _systemctl("daemon-reload")

    def running(self) -> bool | None:
        out = run(["systemctl", "--user", "is-active", UNIT]).out
        return out == "active" if out in ("active", "inactive", "failed", "activating", "deactivating") else None

    def start_by_hand(self) -> str:
        return f"systemctl --user enable --now {UNIT}"


def quoted(word: str) -> str:
    """Return `word` as one word of a unit file. SessiondError for what a unit file cannot contain."""
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", word):
        raise SessiondError(f"systemd cannot use {word!r}: it contains a control character or is not valid UTF-8")
    word = word.replace("%", "%%")
    if re.fullmatch(r"[\w/.+@=:%,-]+", word):
        return word
    return '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'


def _systemctl(*arguments: str) -> None:
    said = run(["systemctl", "--user", *arguments])
    if said.code != 0:
        raise SessiondError(f"`systemctl --user {' '.join(arguments)}` failed: {said.reason}")
