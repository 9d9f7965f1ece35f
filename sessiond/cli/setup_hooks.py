"""`sessiond setup AGENT --hooks`: the lines with which an agent reports what it does, printed or added to its settings."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from sessiond import installation
from sessiond.cli import jsonc
from sessiond.cli.settings import replace
from sessiond.endpoint import APP, user_home
from sessiond.errors import SessiondError

_HOUR_S = 3600
"""How long a question may stay open."""
_SOON_S = 10
_CLAUDE = {
    "UserPromptSubmit": _SOON_S,
    "PermissionRequest": _HOUR_S,
    "Notification": _SOON_S,
    "PostToolUse": _SOON_S,
    "PostToolUseFailure": _SOON_S,
    "Stop": _SOON_S,
    "StopFailure": _SOON_S,
    "SessionEnd": _SOON_S,
}
"""Event -> how long its hook may take, in seconds."""
_CODEX = dict.fromkeys(
    ("UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Stop", "Interrupt", "SessionEnd"), _SOON_S
)
_EVENTS = {"claude": _CLAUDE, "codex": _CODEX}
_FILES = {
    "claude": ("CLAUDE_CONFIG_DIR", ".claude", "settings.json"),
    "codex": ("CODEX_HOME", ".codex", "hooks.json"),
}
"""The variable that names the agent's folder, the folder in the home, and the file in it."""
_THEN = {"codex": "when Codex starts next, it asks whether you trust these hooks; until then it does not run them"}


def run(agent: str, *, write: bool) -> int:
    """Print the lines, or add them. The exit code."""
    if agent not in _EVENTS:
        raise click.UsageError(f"--hooks knows {' and '.join(sorted(_EVENTS))}, but not {agent}.")
    path, wanted = file_of(agent, os.environ), hooks(agent)
    if not write:
        print(f"// {path}\n" + json.dumps({"hooks": wanted}, indent=2, ensure_ascii=False))
        return 0
    before = path.read_bytes() if path.exists() else b""
    try:
        after = _added(before.decode("utf-8"), wanted)
    except ValueError as error:  # UnicodeDecodeError, NotJson
        raise SessiondError(
            f"{path} cannot be changed safely ({error})", hint=f"`sessiond setup {agent} --hooks` prints the lines"
        ) from None
    if after is None:
        print(f"{path} already has them")
        return 0
    replace(path, before, after.encode("utf-8"))
    print(f"added to {path}")
    if agent in _THEN:
        print(_THEN[agent], file=sys.stderr)
    return 0


def file_of(agent: str, env: Mapping[str, str]) -> Path:
    variable, folder, name = _FILES[agent]
    return Path(env.get(variable) or Path(user_home(env)) / folder) / name


def hooks(agent: str) -> dict[str, list[dict[str, object]]]:
    """Return the hooks as both agents write them: by event."""
    words = [os.path.abspath(found)] if (found := shutil.which(APP)) else [*installation.command()]
    home = [f"SESSIOND_HOME={shlex.quote(there)}"] if (there := os.environ.get("SESSIOND_HOME")) else []
    command = " ".join([*home, shlex.join([*words, "hook", agent])])
    return {
        event: [{"hooks": [{"type": "command", "command": command, "timeout": timeout}]}]
        for event, timeout in _EVENTS[agent].items()
    }


def _added(text: str, wanted: Mapping[str, object]) -> str | None:
    """The file with the hooks in it; None if they are there. NotJson where an event has other hooks, or the file is unusual."""
    if not text.strip("\ufeff \t\r\n"):
        text += "{}\n"
    there = jsonc.loads(text)
    known = there.get("hooks", {}) if isinstance(there, dict) else {}
    if not isinstance(known, dict):
        raise jsonc.NotJsonc("`hooks` is not an object")
    missing = {event: value for event, value in wanted.items() if known.get(event) != value}
    if taken := [event for event in missing if event in known]:
        raise jsonc.NotJsonc(f"there are hooks of {', '.join(taken)}: add ours to those lists")
    for event, value in reversed(missing.items()):
        text = jsonc.with_member(text, ("hooks", event), value)
    if missing and jsonc.loads(text) != {**there, "hooks": {**known, **missing}}:
        raise jsonc.NotJsonc("its shape is unusual")
    return text if missing else None
