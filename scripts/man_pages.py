"""Writes the manual pages from the commands themselves: python -m scripts.man_pages

One page for `sessiond`, and one for each command. The words are those of `--help`, so nobody writes them twice.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from sessiond.cli.examples import EXAMPLES
from sessiond.cli.group import cli

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "share" / "man" / "man1"
NAME = "sessiond"
_EXIT_CODES = {
    "0": "Done.",
    "1": "The request failed, or there is a finding; the command's own page says more.",
    "2": "The command line is wrong.",
    "69": "The daemon could not be reached or started.",
    "75": "serve: another daemon owns the data folder.",
    "130": "Interrupted.",
}
ENVIRONMENT = {
    "SESSIOND_HOME": "The folder of everything: data, configuration, cache, log and socket. By default, these are where the "
    "system has such files.",
    "XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_CACHE_HOME, XDG_STATE_HOME": "The folders in which configuration, data, cache and log "
    "have one each, if SESSIOND_HOME is not set. On macOS the last one is not used.",
    "XDG_RUNTIME_DIR": "The folder in which the socket has one, if SESSIOND_HOME is not set.",
    "SESSIOND_PAGER, PAGER": "The pager for results that do not fit the terminal.",
    "NO_COLOR": "If set, the output has no colours.",
}


def pages() -> dict[str, str]:
    """File name -> page."""
    context = click.Context(cli, info_name=NAME)
    found = {f"{NAME}.1": _main_page(context)}
    for name, command in commands(cli, context):
        found[f"{NAME}-{name}.1"] = _command_page(name, command)
    return found


def _main_page(context: click.Context) -> str:
    listed = [(f"{NAME}-{name}(1)", escaped(_summary(command))) for name, command in commands(cli, context)]
    return _page(
        NAME,
        [
            ("NAME", f"{NAME} \\- {escaped(_first_line(cli).rstrip('.'))}"),
            ("SYNOPSIS", f"{_synopsis(NAME, cli)}\n.br\n.B {NAME}\n.I COMMAND ..."),
            ("DESCRIPTION", _prose(cli.help) + "\n.PP\n" + escaped(cli.epilog or "")),
            ("OPTIONS", _options(cli)),
            ("COMMANDS", _definitions(listed)),
            ("EXIT STATUS", _definitions((code, escaped(words)) for code, words in _EXIT_CODES.items())),
            ("ENVIRONMENT", _definitions((name, escaped(words)) for name, words in ENVIRONMENT.items())),
        ],
    )


def _command_page(name: str, command: click.Command) -> str:
    full = f"{NAME} {name}"
    parts = [("NAME", f"{escaped(f'{NAME}-{name}')} \\- {escaped(_summary(command))}")]
    if isinstance(command, click.Group):
        inner = list(commands(command, click.Context(command, info_name=name)))
        synopses = [_synopsis(f"{full} {one}", each) for one, each in inner]
        parts += [("SYNOPSIS", "\n.br\n".join(synopses)), ("DESCRIPTION", _prose(command.help))]
        bodies = [f'.SS "{escaped(f"{full} {one}")}"\n{_prose(each.help)}\n{_options(each)}' for one, each in inner]
        parts.append(("COMMANDS", "\n".join(bodies)))
    else:
        parts += [("SYNOPSIS", _synopsis(full, command)), ("DESCRIPTION", _prose(command.help))]
        parts.append(("OPTIONS", _options(command)))
    parts += _examples(name)
    parts.append(("SEE ALSO", f".BR {NAME} (1)"))
    return _page(f"{NAME}-{name}", parts)


def _examples(name: str) -> list[tuple[str, str]]:
    """The section with the examples of a command and its subcommands; empty if there are none."""
    found = [one for key, several in EXAMPLES.items() if key.split()[0] == name for one in several]
    body = "\n".join(f".TP\n{escaped(one.says)}:\n.nf\n{escaped(one.line)}\n.fi" for one in found)
    return [("EXAMPLES", body)] if found else []


def _page(name: str, sections: Iterable[tuple[str, str]]) -> str:
    begin = f'.\\" Written by scripts/man_pages.py.\n.TH "{escaped(name.upper())}" "1" "" "{NAME}" "{NAME}"\n'
    return begin + "".join(f'.SH "{heading}"\n{body}\n' for heading, body in sections)


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not command.hidden:
            yield name, command


def _synopsis(full: str, command: click.Command) -> str:
    words = " ".join(f"\\fI{escaped(one)}\\fR" for one in synopsis_words(command)[1:])
    return f".B {escaped(full)}\n[\\fIOPTIONS\\fR] {words}".rstrip()


def synopsis_words(command: click.Command) -> list[str]:
    """What follows the command's name: `[OPTIONS]` and the arguments."""
    return ["[OPTIONS]", *(_argument(one) for one in command.params if isinstance(one, click.Argument))]


def _argument(argument: click.Argument) -> str:
    """As `--help` shows it, but the same in each version of click."""
    if argument.metavar is not None:
        return argument.metavar
    name = "|".join(argument.type.choices) if isinstance(argument.type, click.Choice) else str(argument.name).upper()
    shown = name if argument.required else f"[{name}]"
    return f"{shown}..." if argument.nargs == -1 else shown


def _options(command: click.Command) -> str:
    shown = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    rows = [(_option_names(one), escaped(one.help or "")) for one in shown]
    rows.append((escaped("-h, --help"), "Show a short help and exit."))
    return "\n".join(f".TP\n\\fB{names}\\fR\n{words}" for names, words in rows)


def _option_names(option: click.Option) -> str:
    names = escaped(", ".join(option.opts))
    if option.is_flag or option.count:
        return names
    if isinstance(option.type, click.Choice):
        value = "|".join(option.type.choices)
    else:
        name = max(option.opts, key=len).lstrip("-").upper()
        value = option.metavar or ("PATH" if isinstance(option.type, click.Path) else name)
    default = f" (default: {option.default})" if option.show_default else ""
    return f"{names} \\fI{escaped(value)}\\fR{escaped(default)}"


def _definitions(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f".TP\n\\fB{escaped(term)}\\fR\n{words}" for term, words in rows)


def _summary(command: click.Command) -> str:
    """As one line of a list of commands: without the full stop, beginning with a small letter."""
    line = (command.short_help or _first_line(command)).rstrip(".")
    return line[:1].lower() + line[1:]


def _first_line(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "").partition("\n")[0]


def _prose(text: str | None) -> str:
    """Paragraphs; one that begins with click's mark \\b keeps its lines."""
    done = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        kept = paragraph.removeprefix("\b\n")
        if kept != paragraph:
            done.append(f".nf\n{escaped(kept)}\n.fi")
        else:
            done.append(escaped(" ".join(kept.split())))
    return "\n.PP\n".join(done)


def escaped(text: str) -> str:
    """For troff, which gives a meaning to backslashes, and to some characters at the beginning of a line."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("`", "\\(ga")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in text.splitlines())


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = pages()
    for old in FOLDER.iterdir():
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
