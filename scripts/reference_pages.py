"""Writes docs/reference/ and docs/configuration.md: python -m scripts.reference_pages

Commands, settings, errors and the Python client, each from what the code itself says. `docs/protocol.md` has the wire
(`sessiond.rpc.reference`). A test fails if a page differs from what this module makes.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType

import click
import msgspec

from scripts.man_pages import ENVIRONMENT, NAME, commands, synopsis_words
from sessiond import client
from sessiond.cli.examples import EXAMPLES
from sessiond.cli.group import cli
from sessiond.cli.next_steps import NEXT_STEPS
from sessiond.config import StoreConfig
from sessiond.limits import Limits
from sessiond.rpc.errors import CODES, MEANINGS
from sessiond.rpc.reference import field_docs
from sessiond.settings import SETTINGS, Kind, Setting
from sessiond.shared_config import HubConfig

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs"
_WRITTEN = "<!-- Written by scripts/reference_pages.py. -->\n\n"

_QUOTED = re.compile(r"(: |-> )'([^']*)'")
"""An annotation, which is a string where its module postpones annotations."""
_UNITS = {
    "s": "seconds",
    "days": "days",
    "bytes": "bytes",
    "chars": "characters",
    "messages": "messages",
    "requests": "requests",
    "connections": "connections",
    "changes": "changes",
    "copies": "files",
    "files": "files",
    "page": "entries",
}
"""Last word of a numeric setting's name -> its unit."""
_TYPES: dict[Kind, str] = {
    "seconds": "number",
    "limit_seconds": "number",
    "days": "number",
    "count": "whole number",
    "names": "list of strings",
    "addresses": "list of strings",
    "switch": "`true` or `false`",
}
_SOURCES = """\
You don't have to configure anything. The file exists only if you, or a command, wrote it.

| where | the file |
| --- | --- |
| Linux | `$XDG_CONFIG_HOME/sessiond/config.toml`, which is `~/.config/sessiond/config.toml` if that is not set |
| macOS | the same with `XDG_CONFIG_HOME`, else `~/Library/Application Support/sessiond/config.toml` |
| both, with `SESSIOND_HOME` | `$SESSIOND_HOME/config/config.toml` |

`sessiond status` names this folder. The daemon reads the file when it starts: after a change, run `sessiond stop`, and
the next client starts it again. An unknown key, or a value of the wrong kind, is an error at start that names the
key; `sessiond doctor` reports it too, and `sessiond doctor --repair` puts the line into a comment.

A flag beats the environment, which beats the file, which beats the default; `sessiond status` says which one won.

## An example

"""
_STORES = """\
The daemon's own store needs no entry. `sessiond adopt PATH` writes one for a folder that is shared in place,
`sessiond store join` one for a store that machines share, and `sessiond store leave` removes that one. NAME consists of
`a-z`, `0-9`, `-` and `_`. The environment does not set these.

"""


def pages() -> dict[str, str]:
    """Path below docs/ -> page."""
    return {
        "configuration.md": _configuration_page(),
        "reference/commands.md": _commands_page(),
        "reference/errors.md": _errors_page(),
        "reference/python.md": _python_page(),
    }


# Commands


def _commands_page() -> str:
    parts = [
        "# Commands\n",
        _WRITTEN,
        "Every command has this text under `--help`, too, and as a manual page (`man sessiond-search`).\n",
        "\n## sessiond\n\n",
        _usage(NAME, cli),
        _help(cli),
        _options(cli),
    ]
    context = click.Context(cli, info_name=NAME)
    for name, command in commands(cli, context):
        parts.append(f"\n## {name}\n\n")
        if isinstance(command, click.Group):
            parts.append(_help(command))
            for inner, one in commands(command, click.Context(command, info_name=name)):
                parts.append(f"\n### {name} {inner}\n\n")
                parts.append(_command(f"{name} {inner}", one))
        else:
            parts.append(_command(name, command))
    return re.sub(r"\n{3,}", "\n\n", "".join(parts)).rstrip() + "\n"


def _command(name: str, command: click.Command) -> str:
    return _usage(f"{NAME} {name}", command) + _help(command) + _examples(name) + _options(command)


def _usage(full: str, command: click.Command) -> str:
    return f"```text\n{' '.join((full, *synopsis_words(command)))}\n```\n\n"


def _help(command: click.Command) -> str:
    """The paragraphs of a help text; those that keep their lines are code."""
    done = []
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        kept = paragraph.removeprefix("\b\n")
        done.append(f"```text\n{kept}\n```" if kept != paragraph else paragraph)
    return "\n\n".join(done) + "\n\n"


def _examples(name: str) -> str:
    return "".join(f"{one.says}:\n\n```sh\n{one.line}\n```\n\n" for one in EXAMPLES.get(name, ()))


def _options(command: click.Command) -> str:
    shown = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    rows = [(f"`{', '.join(one.opts)}`", one.help or "") for one in shown]
    return _table(("option", ""), rows) if rows else ""


# Settings


def _configuration_page() -> str:
    example = (FOLDER / "reference" / "example.toml").read_text("utf-8")
    parts = ["# Configuration\n", _WRITTEN, _SOURCES, f"```toml\n{example}```\n\n"]
    for table in dict.fromkeys(setting.table for setting in SETTINGS.values()):
        parts.append(f"## [{table}]\n\n")
        rows = [_setting(one) for one in SETTINGS.values() if one.table == table]
        parts.append(_table(("key", "type", "default", "variable", "what it does"), rows) + "\n")
    parts += ["## [stores.NAME]\n\n", _STORES, "A folder that is shared in place has both of these:\n\n"]
    parts += [_store_keys(StoreConfig, ("path", "format")), "\nA store that machines share has `url` or `service`:\n\n"]
    parts += [_store_keys(HubConfig, HubConfig.__struct_fields__), "\n## The environment\n\n", _ENVIRONMENT]
    others = [(", ".join(f"`{one}`" for one in names.split(", ")), says) for names, says in ENVIRONMENT.items()]
    return "".join([*parts, _table(("variable", "what it does"), others)])


_ENVIRONMENT = """\
Each key outside `[stores]` has a variable; a list is written with commas. Such a variable counts for a daemon
that is started with it, whichever client starts it. Besides these:

"""


def _setting(setting: Setting) -> tuple[str, str, str, str, str]:
    says = field_docs(Limits)[setting.key] if setting.table == "limits" else setting.says
    kind = _TYPES[setting.kind]
    if setting.kind in ("names", "addresses", "switch"):
        default = "`false`" if setting.kind == "switch" else "`[]`"
        return f"`{setting.key}`", kind, default, f"`{setting.variable}`", _line(says)
    unit = _UNITS[setting.key.rpartition("_")[2]]
    return f"`{setting.key}`", f"{kind}, {unit}", _number(setting.default, unit), f"`{setting.variable}`", _line(says)


def _number(value: float, unit: str) -> str:
    """As one writes it into the file, and in a larger unit if it is a multiple of one."""
    shown = f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
    if unit == "bytes":
        for name, size in (("MiB", 1024**2), ("KiB", 1024)):
            if value >= size and value % size == 0:
                return f"{shown} ({value // size} {name})"
    return shown


def _store_keys(struct: type[msgspec.Struct], names: Iterable[str]) -> str:
    docs = field_docs(struct)
    defaults = dict(zip(struct.__struct_fields__[::-1], struct.__struct_defaults__[::-1], strict=False))
    rows = []
    for name in names:
        default = defaults.get(name, msgspec.NODEFAULT)
        kind = "`true` or `false`" if isinstance(default, bool) else "string"
        if default is msgspec.NODEFAULT:
            shown = "NAME" if struct is HubConfig else "none: it must be set"
        else:
            shown = "none" if default is None else f"`{msgspec.json.encode(default).decode()}`"
        rows.append((f"`{name}`", kind, shown, _line(docs[name])))
    return _table(("key", "type", "default", "what it does"), rows)


def _line(text: str) -> str:
    return " ".join(text.split())


# Errors


def _errors_page() -> str:
    rows = [
        (f"`{kind}`", str(CODES.get(kind, "")), MEANINGS.get(kind, _OWN.get(kind, "")), _sentence(step))
        for kind, step in NEXT_STEPS.items()
    ]
    return (
        "# Errors\n"
        f"{_WRITTEN}"
        "An error says what happened in `message` and what to do in `hint`; `data.kind` tells programs which error it is. "
        "Where an error has no hint of its own, a command prints the one in this table.\n\n"
        f"{_table(('kind', 'code', 'what happened', 'what to do'), rows)}"
        "\nThe kinds without a code do not come over the wire.\n"
    )


_OWN = {
    "configError": "The configuration cannot be used, so the daemon does not start.",
    "daemonUnreachable": "No daemon is running, and none could be started.",
}
"""Errors that only commands and the Python client have."""


def _sentence(step: str) -> str:
    return f"{step[:1].upper()}{step[1:]}."


# The Python client


def _python_page() -> str:
    parts = [
        "# The Python client: reference\n",
        _WRITTEN,
        "[The guide](../python.md) says how to use it. Everything here is imported from `sessiond.client`.\n",
    ]
    calls = (client.connect, client.aconnect)
    parts += [f"\n## {call.__name__}\n\n{_signature(call.__name__, call)}{_doc(call)}" for call in calls]
    for name in client.__all__:
        found = getattr(client, name)
        if inspect.isclass(found):
            parts.append(f"\n## {name}\n\n{_doc(found)}{_fields(found)}{_methods(found)}")
        elif name not in ("connect", "aconnect"):
            parts.append(f"\n## {name}\n\nOne of: {', '.join(f'`{one}`' for one in _members(found))}.\n")
    return re.sub(r"\n{3,}", "\n\n", "".join(parts)).rstrip() + "\n"


def _members(union: object) -> list[str]:
    return [one.__name__ for one in getattr(union, "__args__", ())]


def _doc(thing: object) -> str:
    return (inspect.getdoc(thing) or "").strip() + "\n\n" if inspect.getdoc(thing) else ""


def _signature(name: str, function: Callable[..., object]) -> str:
    shown = _QUOTED.sub(r"\1\2", str(inspect.signature(function)))
    line = f"{name}{shown}"
    if len(line) > 90:
        inside, _, returns = line[len(name) + 1 :].rpartition(")")
        line = f"{name}(\n" + "".join(f"    {one},\n" for one in inside.split(", ")) + f"){returns}"
    return f"```text\n{line}\n```\n\n"


def _fields(found: type) -> str:
    """The fields of a struct, with their types as they are written."""
    names = getattr(found, "__struct_fields__", ())
    types = {
        name: one for base in reversed(found.__mro__) for name, one in vars(base).get("__annotations__", {}).items()
    }
    rows = [(f"`{name}`", f"`{types.get(name, '')}`".replace("|", "\\|")) for name in names]
    return _table(("field", "type"), rows) + "\n" if rows else ""


def _methods(found: type) -> str:
    own = {
        name: one
        for base in reversed(found.__mro__)
        if base.__module__.startswith("sessiond")
        for name, one in vars(base).items()
    }
    parts = []
    for name, one in own.items():
        if name.startswith("_") or not isinstance(one, FunctionType | property) or not inspect.getdoc(one):
            continue
        shown = f"```text\n{name}\n```\n\n" if isinstance(one, property) else _signature(name, one)
        parts.append(shown + _doc(one))
    return "".join(parts)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [_row(heads), _row("---" for _ in heads), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
