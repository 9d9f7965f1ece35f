"""Pictures of programs in a terminal, as SVG: what tmux shows, drawn by rich, with no font or style from elsewhere."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.clients.tmux import Terminal
from tests.clients.vims import House, neovim, neovims, vim
from tests.shell import ROOT


def _colours(*written: str) -> list[tuple[int, int, int]]:
    return [(int(one[:2], 16), int(one[2:4], 16), int(one[4:], 16)) for one in written]


def _theme(paper: str, ink: str, normal: str, bright: str) -> TerminalTheme:
    return TerminalTheme(*_colours(paper, ink), _colours(*normal.split()), _colours(*bright.split()))


THEMES: dict[str, TerminalTheme] = {
    "light": _theme(
        "ffffff", "1b1b1b",
        "1b1b1b b3261e 1a6b2d 7a5600 1f4fa8 8a2a8a 0b6670 5f5f5f", "5a5a5a c62828 1e7a35 8a6100 2860c4 9c359c 0f727d 1b1b1b",
    ),
    "dark": _theme(
        "191b1d", "e2e4e6",
        "191b1d ff8a80 8fd694 e5c76b 8ab4f8 dda0e8 7fd4de c4c7ca", "a2a7ac ff9f96 a5e3a9 f0d68a a6c6ff e8b6f2 9be3ec f5f6f7",
    ),
}  # fmt: skip
"""The sixteen colours of each look. Every one of them can be read on the paper (`tests/site/test_pictures.py`)."""
COLUMNS, ROWS = 92, 26
WIDE = 140
_BLANK_END = re.compile(r"(?:\x1b\[[0-9;]*m|\s)+\Z")
_SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""
ANSWER = (
    "The journal's, always. A session's own lock comes second,\nand nobody waits for a client while holding either."
)


def draw(screen: str, title: str, look: str, columns: int = COLUMNS) -> str:
    """A terminal's screen as SVG."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in _BLANK_END.sub("\x1b[0m", screen).splitlines():
        console.print(Text.from_ansi(line), no_wrap=True, crop=True, overflow="crop", soft_wrap=False)
    drawn = console.export_svg(title=title, theme=THEMES[look], code_format=_SVG, unique_id=f"sessiond-{look}")
    return drawn.replace("rgba(255,255,255,0.35)", "rgba(127,127,127,0.6)")  # its frame, also on a white page


def conversation(at: House) -> None:
    """A session with a few messages, and some others beside it."""
    client = at.client()
    for name in ("Night trains to the coast", "Why the dough will not rise"):
        client.call("session/new", name=name)
    client.call("session/new", sessionId="locks", name="Lock order", tags=["work"])
    client.call(
        "session/append",
        sessionId="locks",
        messages=[
            {"role": "user", "content": "Which lock is taken first?"},
            {"role": "assistant", "content": ANSWER},
            {"role": "user", "content": "And where is that written down?"},
        ],
    )
    client.close()


def emacs(at: House, look: str) -> list[str]:
    """The command that shows the session in Emacs."""
    form = f"(progn (setq frame-background-mode '{look}) (menu-bar-mode -1) (mapc #'frame-set-background-mode (frame-list)) (setq confirm-kill-processes nil) (sessiond-chat-open \"locks\") (message nil))"
    return [
        "emacs",
        "-Q",
        "-nw",
        "-L",
        str(ROOT / "clients" / "emacs"),
        "-l",
        "sessiond-autoloads",
        "-l",
        "sessiond-chat",
        "--eval",
        form,
    ]


def in_vim(at: House, look: str) -> list[str]:
    return vim(at, "-c", f"set background={look}", "-c", "SessiondSwitch locks")


def in_neovim(at: House, look: str) -> list[str]:
    newest = neovims()[0][0]
    return neovim(at, newest, "-c", f"set background={look}", "-c", "SessiondSwitch locks")


SEARCH = "echo '$ sessiond list'; sessiond list; echo '\n$ sessiond search lock'; sessiond search lock; sleep 60"
PROGRAMS: dict[str, tuple[str, Callable[[House, str], list[str]], str]] = {
    "emacs": ("Emacs", emacs, "written down?"),
    "vim": ("Vim", in_vim, "written down?"),
    "neovim": ("Neovim", in_neovim, "written down?"),
    "repl": ("sessiond repl", lambda at, look: ["sessiond", "repl", "--session-id", "locks"], "written down?"),
    "search": ("sessiond search", lambda at, look: ["sh", "-c", SEARCH], "#2"),
}
"""File name -> title, the command, and what it shows when it is ready."""


def take(folder: Path, at: House) -> None:
    """A picture of each program, light and dark."""
    for name, (title, command, ready) in PROGRAMS.items():
        for look in THEMES:
            at.env["COLORFGBG"] = "0;15" if look == "light" else "15;0"
            place = at.path / f"{name}-{look}"
            place.mkdir()
            terminal = Terminal(command(at, look), at.env, place, COLUMNS, ROWS)
            try:
                terminal.shows(ready)
                settle(terminal)
                (folder / f"{name}-{look}.svg").write_text(draw(terminal.coloured, title, look))
            finally:
                terminal.close()


def settle(terminal: Terminal) -> None:
    """Wait until the screen stays as it is for half a second."""
    last, since = "", time.monotonic()
    deadline = since + 20
    while time.monotonic() < min(since + 0.5, deadline):
        now = terminal.coloured
        if now != last:
            last, since = now, time.monotonic()
        select.select([], [], [], 0.05)


def take_three(folder: Path, at: House, look: str) -> None:
    """The README's picture: Emacs, Vim and a terminal on one session while a reply streams into it."""
    inner = f"tmux -u -S {shlex.quote(str(at.path / f'three-{look}.tmux'))} -f /dev/null"
    panes = [
        shlex.join(command) for command in (emacs(at, look), in_vim(at, look), ["sessiond", "tail", "locks", "-n", "3"])
    ]
    begin = f"{inner} new-session -d -x {WIDE} -y 30 {shlex.quote(panes[0])}"
    for step in (
        begin,
        f"{inner} set -g status off",
        f"{inner} split-window -h -l 58 {shlex.quote(panes[1])}",
        f"{inner} split-window -v -l 11 {shlex.quote(panes[2])}",
    ):
        subprocess.run(["sh", "-c", step], env=at.env, check=True, timeout=30)
    place = at.path / f"three-{look}"
    place.mkdir()
    terminal = Terminal(["sh", "-c", f"{inner} attach"], at.env, place, WIDE, 30)
    client = at.client()
    try:
        terminal.shows("written down?", 3)
        message = f"live-{look}"
        client.call(
            "session/append",
            sessionId="locks",
            messages=[{"id": message, "role": "assistant", "content": "", "status": "streaming"}],
        )
        client.call(
            "session/extend",
            sessionId="locks",
            messageId=message,
            text="In docs/architecture.md: nothing that holds",
        )
        terminal.shows("nothing that holds", 3)
        settle(terminal)
        (folder / f"three-tools-{look}.svg").write_text(
            draw(terminal.coloured, "Emacs, Vim and a terminal: one session, live", look, WIDE)
        )
    finally:
        client.close()
        terminal.close()
        subprocess.run(["sh", "-c", f"{inner} kill-server"], env=at.env, check=False, timeout=30)


def record_demo(folder: Path, at: House) -> None:
    """`sessiond demo` as an asciicast (version 2) with its own timing, and its last screen as SVG."""
    ours, theirs = pty.openpty()
    env = {**at.env, "COLUMNS": "110", "LINES": "40", "TERM": "xterm-256color"}
    started = time.monotonic()
    process = subprocess.Popen(["sessiond", "demo"], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    events = []
    try:
        while chunk := os.read(ours, 65536):
            events.append([round(time.monotonic() - started, 3), "o", chunk.decode()])
    except OSError:  # Linux ends a terminal with EIO
        pass
    os.close(ours)
    assert process.wait(60) == 0
    head = {"version": 2, "width": 110, "height": 40, "title": "sessiond demo", "env": {"TERM": "xterm-256color"}}
    (folder / "demo.cast").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (head, *events)))
    said = "".join(text for _, _, text in events).replace("\r\n", "\n")
    for look in THEMES:
        (folder / f"demo-{look}.svg").write_text(draw(said, "sessiond demo", look, 110))
