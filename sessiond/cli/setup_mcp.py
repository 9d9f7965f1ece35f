"""`sessiond setup AGENT --mcp`: the lines with which an agent or editor starts `sessiond mcp`, printed or added to its configuration.

A file is only changed by one more entry. Everything else in it remains as it is, byte for byte; where that cannot be done, the lines are
printed instead.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from sessiond import installation
from sessiond.cli import jsonc
from sessiond.cli.settings import replace
from sessiond.endpoint import user_home
from sessiond.errors import SessiondError

NAME = "sessiond"


class ServersPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of an agent's servers. `files`: the first one that exists, or else the last; `variable`: names the folder instead of
    the file's own. `path`: of the object with the servers. `shape`: how a server is written.
    """

    files: tuple[str, ...]
    variable: str = ""
    path: tuple[str, ...]
    shape: str = "plain"
    hint: str = ""


_MAC = sys.platform == "darwin"
_CODE = "~/Library/Application Support/Code/User/mcp.json" if _MAC else "$XDG_CONFIG_HOME/Code/User/mcp.json"
_OPENCODE = "$XDG_CONFIG_HOME/opencode/"
PLACES = {
    "claude": ServersPlace(files=("~/.claude.json",), variable="CLAUDE_CONFIG_DIR", path=("mcpServers",), shape="typed"),
    "codex": ServersPlace(files=("~/.codex/config.toml",), variable="CODEX_HOME", path=("mcp_servers",), shape="toml"),
    "gemini": ServersPlace(files=("~/.gemini/settings.json",), path=("mcpServers",)),
    "opencode": ServersPlace(
        files=(_OPENCODE + "opencode.jsonc", _OPENCODE + "opencode.json"), path=("mcp",), shape="opencode"
    ),
    "pi": ServersPlace(
        files=("~/.pi/agent/mcp.json",), variable="PI_CODING_AGENT_DIR", path=("mcpServers",),
        hint="pi has no MCP of its own: the extension pi-mcp-adapter reads this file (pi install npm:pi-mcp-adapter)",
    ),
    "vscode": ServersPlace(files=(_CODE,), path=("servers",), shape="typed"),
    "zed": ServersPlace(files=("$XDG_CONFIG_HOME/zed/settings.json",), path=("context_servers",)),
}  # fmt: skip


def run(agent: str, *, write: bool) -> int:
    """Print the lines, or add them. The exit code."""
    place = PLACES.get(agent)
    if place is None:
        raise click.UsageError(f"--mcp knows {', '.join(sorted(PLACES))}, but not {agent}.")
    path = file_of(place, os.environ)
    if not write:
        print(_lines(place, path), end="")
        return 0
    if place.hint:
        print(place.hint, file=sys.stderr)
    before = path.read_bytes() if path.exists() else b""
    after = _added(place, path, before)
    if after is None:
        print(f"{path} already has a server named {NAME}; it was left as it is")
        return 0
    replace(path, before, after)
    print(f"added to {path}")
    return 0


def file_of(place: ServersPlace, env: Mapping[str, str]) -> Path:
    """The file that the agent reads, or will read once it exists."""
    home = user_home(env)
    config = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    paths = [Path(name.replace("~", home, 1).replace("$XDG_CONFIG_HOME", config)) for name in place.files]
    if folder := env.get(place.variable) if place.variable else None:
        paths = [Path(folder) / path.name for path in paths]
    return next((path for path in paths if path.exists()), paths[-1])


def command_line() -> list[str]:
    """Return the command that starts the server from anywhere: an editor that was not started in a terminal has another PATH."""
    found = shutil.which(NAME)
    return [os.path.abspath(found), "mcp"] if found else [*installation.command(), "mcp"]


def environment() -> dict[str, str]:
    """Return what the server needs of this environment: most agents start servers without it."""
    return {name: os.environ[name] for name in ("SESSIOND_HOME",) if os.environ.get(name)}


def server(shape: str) -> dict[str, object]:
    """A server as the agent's configuration has it."""
    program, *arguments = command_line()
    variables = environment()
    if shape == "opencode":
        named = {"environment": variables} if variables else {}
        return {"type": "local", "command": [program, *arguments], **named, "enabled": True}
    plain: dict[str, object] = {"command": program, "args": arguments}
    if variables:
        plain["env"] = variables
    return {"type": "stdio", **plain} if shape == "typed" else plain


def _lines(place: ServersPlace, path: Path) -> str:
    if place.shape == "toml":
        return f"# {path}\n{_toml()}"
    value: object = {NAME: server(place.shape)}
    for key in reversed(place.path):
        value = {key: value}
    head = f"// {path}\n" + (f"// {place.hint}\n" if place.hint else "")
    return head + json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _toml() -> str:
    program, *arguments = command_line()
    lines = [f"[mcp_servers.{NAME}]", f"command = {_string(program)}", f"args = {_string(arguments)}"]
    if variables := environment():
        lines.append("env = { " + ", ".join(f"{name} = {_string(value)}" for name, value in variables.items()) + " }")
    # `codex exec` asks its model at once, without servers that are still starting, unless they are required.
    lines.append("required = true")
    return "\n".join(lines) + "\n"


def _string(value: str | list[str]) -> str:
    """A string or list of strings: TOML writes these as JSON does."""
    return json.dumps(value, ensure_ascii=False)


def _added(place: ServersPlace, path: Path, before: bytes) -> bytes | None:
    """The file with the server in it; None if one of that name is there. SessiondError where that is not safe."""
    try:
        text = before.decode("utf-8")
        added = _with_toml(text) if place.shape == "toml" else _with_json(place, text)
    except ValueError as error:  # UnicodeDecodeError, NotJson, TOMLDecodeError
        raise SessiondError(
            f"{path} cannot be changed safely ({error})",
            hint=f"`sessiond setup {_agent(place)} --mcp` prints the lines",
        ) from None
    return None if added is None else added.encode("utf-8")


def _with_json(place: ServersPlace, text: str) -> str | None:
    if not text.strip("\ufeff \t\r\n"):
        text += "{}\n"
    old = jsonc.loads(text)
    inner = old
    for key in place.path:
        inner = inner.get(key, {}) if isinstance(inner, dict) else None
    if isinstance(inner, dict) and NAME in inner:
        return None
    made = jsonc.with_member(text, (*place.path, NAME), server(place.shape))
    if _without(jsonc.loads(made), place.path) != _without(old, place.path):
        raise jsonc.NotJsonc("its shape is unusual")
    return made


def _with_toml(text: str) -> str | None:
    old = tomllib.loads(text)
    if NAME in old.get("mcp_servers", {}):
        return None
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    made = text + gap + _toml().replace("\n", newline)
    if _without(tomllib.loads(made), ("mcp_servers",)) != _without(old, ("mcp_servers",)):
        raise ValueError("its shape is unusual")
    return made


def _without(document: object, path: tuple[str, ...]) -> object:
    """The document without our server, and without the objects that only hold it."""
    if not isinstance(document, dict):
        return document
    key, *rest = (*path, NAME)
    kept = dict(document)
    if key in kept:
        kept[key] = _without(kept[key], tuple(rest[:-1])) if rest else None
        if kept[key] in (None, {}):
            del kept[key]
    return kept


def _agent(place: ServersPlace) -> str:
    return next(name for name, one in PLACES.items() if one is place)
