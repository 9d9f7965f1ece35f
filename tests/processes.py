"""Which processes a test has left: those that have its home in their environment. Elsewhere than on Linux nobody is found."""

from __future__ import annotations

import os
from pathlib import Path

_PROC = Path("/proc")


def is_running(pid: int) -> bool:
    """Whether it is there, and not only waits for somebody to ask how it ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def of_home(path: Path) -> dict[int, str]:
    """Process -> its command, of all that run with this `SESSIOND_HOME`, but for this one."""
    wanted = b"SESSIOND_HOME=" + os.fsencode(path)
    found: dict[int, str] = {}
    for folder in _PROC.glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found[int(folder.name)] = command
        except OSError:  # it has ended, or is another user's
            continue
    found.pop(os.getpid(), None)
    return {pid: command for pid, command in found.items() if is_running(pid)}
