"""Writes docs/reference/: python -m scripts.reference_pages

Commands, settings, errors and the Python client, each from what the code itself says. `docs/protocol.md` has the wire
(`sessiond.rpc.reference`). A test fails if a page differs from what this module makes.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import FunctionType

import click

from scripts.man_pages import NAME, commands, synopsis_words
from sessiond import client, limits
from sessiond.cli.examples import EXAMPLES
from sessiond.cli.group import cli
from sessiond.cli.next_steps import NEXT_STEPS
from sessiond.config import SETTINGS, Setting
from sessiond.rpc.errors import CODES, MEANINGS

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
_WRITTEN = "<!-- Written by scripts/reference_pages.py. -->\n\n"

_QUOTED = re.compile(r"(: |-> )'([^']*)'")
"""An annotation, which is a string where its module postpones annotations."""
_SETTINGS = {
    "autosave.interval_s": "Save every changed session this often; 0: no timer.",
    "autosave.idle_s": "Save a session that has been quiet for this long; 0: off.",
    "daemon.idle_exit_s": "Exit after this long without a client, if everything is saved; 0: never.",
    "daemon.allowed_hosts": "Names of this machine, besides the loopback ones, under which browsers may reach it.",
    "daemon.allowed_origins": "Web pages that may connect, such as `http://localhost:5173`.",
    "follow.tools": 'Tools whose files are imported as they grow, or `["all"]`.',
}
"""What each setting outside `[limits]` does."""
_SOURCES = (
    "Nothing has to be configured. `config.toml` is in the configuration folder that `sessiond status` names. A flag beats "
    "the environment, which beats the file, which beats the default; `sessiond status` says which one won. An unknown key "
    "is an error at start that names the key.\n\n"
)
_STORES = (
    "Each store has a `path`, the folder, and a `format` (`jsonl`, `amacs`, `cortex`, `agent-q`, `theia`, `sibyl`). "
    "`sessiond adopt PATH` writes such an entry.\n\n"
)


def pages() -> dict[str, str]:
    """File name -> page."""
    return {
        "commands.md": _commands_page(),
        "configuration.md": _configuration_page(),
        "errors.md": _errors_page(),
        "python.md": _python_page(),
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
    example = (ROOT / "docs" / "reference" / "example.toml").read_text("utf-8")
    parts = ["# Configuration\n", _WRITTEN, _SOURCES, f"```toml\n{example}```\n\n", _STORES]
    for table in dict.fromkeys(setting.table for setting in SETTINGS.values()):
        parts.append(f"## [{table}]\n\n")
        rows = [_setting(one) for one in SETTINGS.values() if one.table == table]
        parts.append(_table(("key", "default", "variable", ""), rows) + "\n")
    return "".join(parts).rstrip() + "\n"


def _setting(setting: Setting) -> tuple[str, str, str, str]:
    says = _limit_docs().get(setting.key, "") if setting.table == "limits" else _SETTINGS[setting.name]
    default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
    return f"`{setting.key}`", f"`{default}`", f"`{setting.variable}`", says


@cache
def _limit_docs() -> dict[str, str]:
    """Limit -> its docstring, as one line."""
    tree = ast.parse(inspect.getsource(limits.Limits)).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            assert isinstance(text.value, ast.Constant)
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found


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
