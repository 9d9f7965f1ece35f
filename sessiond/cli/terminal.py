"""The things that only a terminal gets: colours and the pager."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

if TYPE_CHECKING:
    import subprocess

F = TypeVar("F", bound=Callable[..., Any])

MATCH, SESSION, PLACE, ROLE, TIME, DIM = "1;31", "35", "32", "36", "33", "2"
"""SGR codes, as grep and git use them: the match bold red, the file magenta, the line green."""

_WHEN = click.Choice(["auto", "always", "never"])
_LESS = {"LESS": "FRX", "LV": "-c"}
"""As git sets them: exit at once if everything fits on the screen, show colours, do not clear the screen."""

color = click.option(
    "--color",
    "--colour",
    type=_WHEN,
    default="auto",
    show_default=True,
    help="Use colours; auto: on a terminal, unless NO_COLOR is set.",
)


def paging(command: F) -> F:
    """The options of a command whose output may not fit on the screen."""
    for option in (click.option("--no-pager", is_flag=True, help="Print without the pager."), color):
        command = option(command)
    return command


def colored(when: str) -> bool:
    """Return whether to colour the output. `auto`: on a terminal that can, unless NO_COLOR is set (no-color.org)."""
    if when != "auto":
        return when == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb")


class Paint:
    """Text in colours, or as it is. The text must be clean already."""

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
    """Return the width of the terminal."""
    import shutil

    return shutil.get_terminal_size().columns


@contextlib.contextmanager
def pager(enabled: bool = True) -> Iterator[TextIO]:
    """Yield where to print: on a terminal into $SESSIOND_PAGER, else $PAGER, else less; otherwise to standard output itself.

    As in git, an empty pager or `cat` means no pager, and so does one that cannot be started.
    """
    program = _program() if enabled and sys.stdout.isatty() else ""
    process = _start(program) if program else None
    if process is None:
        yield sys.stdout
        return
    assert process.stdin is not None
    into = io.TextIOWrapper(process.stdin, encoding=sys.stdout.encoding, errors="replace", newline="\n")
    import signal

    # Ctrl-C belongs to the pager while it runs.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with contextlib.suppress(BrokenPipeError):  # the reader has seen enough
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
    """Start it in the shell, so that it may have arguments. None if there is no such program."""
    import shutil
    import subprocess

    first = program.split(maxsplit=1)[0]
    if shutil.which(first) is None and "=" not in first:
        return None
    env = {**_LESS, **os.environ}
    # Ignored signals are inherited, so it starts before we ignore ours.
    return subprocess.Popen(program, shell=True, stdin=subprocess.PIPE, env=env)  # noqa: S602  (as git does)
