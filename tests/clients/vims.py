"""Vim and Neovim as tests run them: headless with a script, or at a terminal with keys."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.clients.tmux import Terminal
from tests.home import Client, Home
from tests.shell import wait_until

ROOT = Path(__file__).resolve().parents[2]
WIRE = sorted((ROOT / "tests" / "wire").glob("*.wire"))
DEADLINE_S = 60.0


class House:
    """A throwaway home with a daemon, and the environment in which an editor finds `sessiond` on its path."""

    def __init__(self) -> None:
        # Short, so that the socket's path fits.
        self.path = Path(tempfile.mkdtemp(prefix="sd-"))
        programs = self.path / "bin"
        programs.mkdir()
        wrapper = programs / "sessiond"
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m sessiond "$@"\n')
        wrapper.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SESSIOND_", "XDG_", "VIM"))}
        self.env = {
            **kept,
            "SESSIOND_HOME": str(self.path / "home"),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH")))),
            "PATH": f"{programs}{os.pathsep}{kept['PATH']}",
            "HOME": str(self.path),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "SESSIOND_FAKE": f"{sys.executable} {Path(__file__).with_name('fake_daemon.py')}",
        }
        (self.path / "home").mkdir()
        self.home = Home(self.path / "home", env=self.env)
        self._terminals: list[Terminal] = []

    def client(self) -> Client:
        """Another client of the daemon, which is started if necessary."""
        subprocess.run(["sessiond", "list"], env=self.env, capture_output=True, check=True, timeout=DEADLINE_S)
        if self.home.process is None:
            # The daemon is not ours to wait for: the relay started it.
            self.home.process = subprocess.Popen(["true"])
            self.home.process.wait()
        return self.home.client()

    def kill_daemon(self, client: Client) -> None:
        """kill -9, as a crash would."""
        os.kill(client.call("daemon/hello")["pid"], signal.SIGKILL)

    def terminal(self, *command: str) -> Terminal:
        folder = self.path / f"t{len(self._terminals)}"
        folder.mkdir()
        terminal = Terminal(command, self.env, folder)
        self._terminals.append(terminal)
        return terminal

    def close(self) -> None:
        for terminal in self._terminals:
            terminal.close()
        self.home.stop()
        subprocess.run(["sessiond", "stop"], env=self.env, capture_output=True, check=False, timeout=DEADLINE_S)
        wait_until(lambda: not self._end_the_rest())
        shutil.rmtree(self.path, ignore_errors=True)

    def _end_the_rest(self) -> bool:
        """Kill what still lives in this home: Neovim outlives its terminal for a moment, and starts a daemon when its own one
        is stopped. False: nothing was left.
        """
        place = os.fsencode(f"SESSIOND_HOME={self.path / 'home'}")
        found = False
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it has ended meanwhile, or is somebody else's
                if place in environ.read_bytes().split(b"\0"):
                    found = True
                    os.kill(int(environ.parent.name), signal.SIGKILL)
        return found


@contextlib.contextmanager
def house() -> Iterator[House]:
    made = House()
    try:
        yield made
    finally:
        made.close()


def vim(at: House, *arguments: str) -> list[str]:
    """Vim as a person has it, with the plugin."""
    return ["vim", "-u", _config(at, "vim"), "-i", "NONE", "-n", *arguments]


def neovim(at: House, nvim: str, *arguments: str) -> list[str]:
    """Neovim as a person has it, with the plugin."""
    return [nvim, "-u", _config(at, "neovim"), "-i", "NONE", "-n", *arguments]


def _config(at: House, client: str) -> str:
    path = at.path / f"{client}.vim"
    options = "nocompatible nomore shortmess+=I laststatus=2"
    path.write_text(f"set {options}\nset runtimepath^={ROOT / 'clients' / client}\nfiletype plugin on\nsyntax on\n")
    return str(path)


def neovims() -> list[tuple[str, str]]:
    """Every Neovim on the path, next to this Python, and in SESSIOND_NVIMS: its path and its version."""
    named = os.environ.get("SESSIOND_NVIMS", "").split(os.pathsep)
    folders = [str(Path(sys.executable).parent), *os.environ["PATH"].split(os.pathsep)]
    found: dict[str, tuple[str, str]] = {}
    for path in [*filter(None, named), *filter(None, (shutil.which("nvim", path=folder) for folder in folders))]:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True, timeout=DEADLINE_S
        ).stdout
        version = said.split("\n", 1)[0].removeprefix("NVIM v")
        found.setdefault(version, (path, version))
    return sorted(found.values(), key=lambda one: one[1])


def run_script(
    at: House, command: list[str], test: Path, wire: Path | None = None, *, deadline: float = DEADLINE_S
) -> str:
    """Run an editor's test file in that editor; the results, one a line. AssertionError with all that it said unless all is well."""
    result = at.path / "result"
    env = {**at.env, "SESSIOND_TEST": str(test), "SESSIOND_RESULT": str(result), "SESSIOND_WIRE": str(wire or "")}
    done = subprocess.run(
        ["timeout", "-s", "KILL", str(deadline), *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=env,
        check=False,
    )
    said = result.read_text("utf-8", "replace") if result.exists() else "no result"
    everything = said + done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace")
    assert done.returncode == 0, f"ended with {done.returncode}\n{everything}"
    assert "ok " in said, everything
    assert "FAILED" not in said, everything
    return said


def kill(terminal: Terminal, by: signal.Signals) -> None:
    """End what runs there."""
    os.kill(terminal.pid, by)
    wait_until(lambda: terminal.ended)
