"""What only a terminal gets: colours and the pager."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

MATCH, SESSION, PLACE, ROLE, TIME, DIM = "1;31", "35", "32", "36", "33", "2"
"""SGR codes, as grep and git use them: the match bold red, the file magenta, the line green."""

_WHEN = click.Choice(["auto", "always", "never"])
_LESS = {"LESS": "FRX", "LV": "-c"}
"""git's: leave at once what fits on the screen, show colours, do not clear the screen."""

color = click.option(
    "--color",
    "--colour",
    type=_WHEN,
    default="auto",
    show_default=True,
    help="Colours: on a terminal without NO_COLOR, always, or never.",
)


def paging(command: F) -> F:
    """The options of a command that may fill more than a screen."""
    for option in (click.option("--no-pager", is_flag=True, help="Print, whatever is on the screen."), color):
        command = option(command)
    return command


def colored(when: str) -> bool:
    """Whether to colour what is printed. `auto`: on a terminal that can, unless NO_COLOR says no (no-color.org)."""
    if when != "auto":
        return when == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb")


class Paint:
    """Text in colours, or as it is. It must be clean already."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and text else text

    def ranges(self, text: str, ranges: list[tuple[int, int]], code: str = MATCH) -> str:
        """`text` with [start, end) of each range coloured; ranges in order, not overlapping."""
        out, done = [], 0
        for start, end in ranges:
            out += [text[done:start], self(text[start:end], code)]
            done = end
        return "".join([*out, text[done:]])


def columns() -> int:
    """How wide the terminal is."""
    import shutil

    return shutil.get_terminal_size().columns


@contextlib.contextmanager
def pager(enabled: bool = True) -> Iterator[TextIO]:
    """Where to print: into $SESSIOND_PAGER, else $PAGER, else less, if standard output is a terminal; else there itself.

    As git does: a pager that is empty or `cat` is none, and one that cannot be started is passed over.
    """
    program = _program() if enabled and sys.stdout.isatty() else ""
    process = _start(program) if program else None
    if process is None:
        yield sys.stdout
        return
    assert process.stdin is not None
    into = io.TextIOWrapper(process.stdin, encoding=sys.stdout.encoding, errors="replace", newline="\n")
    # Ctrl-C belongs to the pager while that runs.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with contextlib.suppress(BrokenPipeError):  # whoever reads has seen enough
            yield into
            into.flush()
    finally:
        with contextlib.suppress(BrokenPipeError):
            into.close()
        process.wait()
        signal.signal(signal.SIGINT, before)


def _program() -> str:
    found = next((os.environ[name] for name in ("SESSIOND_PAGER", "PAGER") if name in os.environ), "less")
    return "" if found.strip() in ("", "cat") or os.environ.get("TERM") in (None, "", "dumb") else found


def _start(program: str) -> subprocess.Popen[bytes] | None:
    """By the shell, so that it may have arguments. None where there is no such program."""
    import shutil

    first = program.split(maxsplit=1)[0]
    if shutil.which(first) is None and "=" not in first:
        return None
    env = {**_LESS, **os.environ}
    # Ignored signals are inherited, so it starts before ours is.
    return subprocess.Popen(program, shell=True, stdin=subprocess.PIPE, env=env)  # noqa: S602  (as git does)
