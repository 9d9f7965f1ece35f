"""Peers and limits as processes next to the daemon, each in its own throwaway environment if it needs one."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENTS = ROOT / ".bench"
"""Made when first needed; may be removed at any time."""
_SCRIPT = Path(__file__).with_name("peer.py")
PACKAGES = {
    "agents": "openai-agents",
    "langgraph": "langgraph-checkpoint-sqlite",
    "langchain-sql": "langchain-community",
    "langchain-file": "langchain-community",
    "llm": "llm",
}
BESIDE = {"langchain-community": ["greenlet"]}
"""What a package needs and does not name."""


def interpreter(which: str) -> str:
    """The Python that has this peer; its environment is made if it is not there."""
    package = PACKAGES.get(which)
    if package is None:
        return sys.executable
    folder = ENVIRONMENTS / package
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"making an environment for {package}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run(
            [
                *(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *(package, *BESIDE.get(package, ())),
            ],
            check=True,
        )
        (folder / "ready").touch()
    return str(python)


def version(which: str) -> str:
    """`name version` of what was measured."""
    package = PACKAGES[which]
    code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    found = subprocess.run([interpreter(which), "-c", code, package], check=True, capture_output=True, text=True).stdout
    return f"{package} {found.strip()}"


class Peer:
    """`measure(n)`: it appends n times; the seconds of each, as it took them itself."""

    def __init__(self, which: str, folder: Path, under: Sequence[str] = ()) -> None:
        command = [*under, interpreter(which), "-W", "ignore", str(_SCRIPT), which, str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._line()

    def begin(self, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()

    def end(self) -> list[float]:
        times: list[float] = json.loads(self._line())
        return times

    def measure(self, count: int) -> list[float]:
        self.begin(count)
        return self.end()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a peer ended: {self._process.args!r}")
        return line

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


@contextmanager
def peer(which: str, folder: Path, under: Sequence[str] = ()) -> Iterator[Peer]:
    """`under`: a command to run it under, such as strace."""
    one = Peer(which, folder, under)
    try:
        yield one
    finally:
        one.close()
