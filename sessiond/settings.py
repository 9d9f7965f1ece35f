"""The settings: every key of `config.toml` outside `[stores]`, once, with its kind and what values it takes.

`SETTINGS` lists them; the tables of the file, the environment variables and the flags follow from it.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal, TypeAlias

import msgspec

from sessiond.errors import ConfigError
from sessiond.limits import Limits

Kind = Literal["seconds", "limit_seconds", "count", "days", "names", "addresses", "switch"]
Value: TypeAlias = Any
"""Of the Python type that `Setting.kind` says: `float`, `int`, `bool` or `tuple[str, ...]`."""
Values: TypeAlias = dict[str, Value]
"""Setting name (`table.key`) -> value."""


class Setting(msgspec.Struct, frozen=True):
    """One key: `table.key` in the file, `SESSIOND_TABLE_KEY` in the environment."""

    table: str
    key: str
    kind: Kind
    default: Value
    says: str = ""
    """What it does; of those in `[limits]`, the docstrings in `limits.py` say it."""

    @property
    def name(self) -> str:
        return f"{self.table}.{self.key}"

    @property
    def variable(self) -> str:
        return f"SESSIOND_{self.table}_{self.key}".upper()


def _settings() -> dict[str, Setting]:
    plain = [
        Setting("autosave", "interval_s", "seconds", 300.0, "Every changed session is saved this often; 0: never."),
        Setting("autosave", "idle_s", "seconds", 2.0, "A session is saved when it has been quiet for this long; 0: never."),
        Setting("daemon", "idle_exit_s", "seconds", Limits().daemon_idle_exit_s,
                "The daemon exits after this long without a client, once everything is saved; 0: never."),
        Setting("daemon", "allowed_hosts", "names", (),
                "Names of this machine, besides the loopback ones, under which browsers may reach it."),
        Setting("daemon", "allowed_origins", "names", (),
                "Origins of web pages that may connect, such as `http://localhost:5173`."),
        Setting("ahp", "listen", "addresses", (),
                'Where windows of VS Code connect from the start: `"socket"`, `"PORT"`, `"HOST:PORT"`.'),
        Setting("ahp", "write", "switch", False, "Whether these windows may also write."),
        Setting("follow", "tools", "names", (), 'Tools whose files are imported as they grow, or `["all"]`.'),
    ]  # fmt: skip
    for field in msgspec.structs.fields(Limits):
        if field.name in NOT_IN_LIMITS:
            continue
        kind: Kind = "count" if field.type is int else "days" if field.name.endswith("_days") else "limit_seconds"
        plain.append(Setting("limits", field.name, kind, field.default))
    return {setting.name: setting for setting in plain}


NOT_IN_LIMITS = {
    "daemon_idle_exit_s": "write [daemon] idle_exit_s instead",
}
SETTINGS = _settings()


def from_text(setting: Setting, text: str) -> Value:
    """The value of an environment variable's text; the text itself if it cannot be converted."""
    if setting.kind in ("names", "addresses"):
        return [name.strip() for name in text.split(",") if name.strip()]
    if setting.kind == "switch":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    try:
        return int(text) if setting.kind == "count" else float(text)
    except ValueError:
        return text


_WANTED: dict[Kind, str] = {
    "seconds": "a number of seconds, or 0 to turn it off",
    "limit_seconds": "a number of seconds greater than 0",
    "days": "a number of days, or 0 to turn it off",
    "count": "a whole number greater than 0",
    "names": "a list of strings",
    "addresses": 'a list of "socket", "PORT" and "HOST:PORT"',
    "switch": "true or false",
}


def checked(setting: Setting, value: Value, source: str) -> Value:
    """The value, converted to the type of its setting. Raises ConfigError."""
    converted = _converted(setting.kind, value)
    if converted is not None:
        return converted
    where = source if source.startswith("SESSIOND_") else f"{source}: {setting.name}"
    raise ConfigError(
        f"{where} is {value!r}", hint=f"it must be {_WANTED[setting.kind]}", key=setting.name, source=source
    )


def _converted(kind: Kind, value: Value) -> Value | None:
    """None: it is not of this kind."""
    if kind in ("names", "addresses"):
        listed = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
        return tuple(value) if listed and (kind == "names" or all(map(is_address, value))) else None
    if kind == "switch":
        return value if isinstance(value, bool) else None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    if kind == "count":
        return value if isinstance(value, int) and 0 < value < 2**53 else None
    return float(value) if value > 0 or (value == 0 and kind in ("seconds", "days")) else None


SOCKET = "socket"
_ADDRESS = re.compile(r"(?:(?:[\w-]+\.)*[\w-]+\.?:|\[[0-9a-fA-F:.%\w]+\]:|\*:)?([0-9]{1,5})", re.ASCII)


def is_address(text: str) -> bool:
    """Return whether a text is `socket`, `PORT` or `HOST:PORT`."""
    return text == SOCKET or ((found := _ADDRESS.fullmatch(text)) is not None and 0 < int(found[1]) < 65536)
