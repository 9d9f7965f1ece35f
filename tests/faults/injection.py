"""Faults in the system calls of a running daemon: `strace -e inject=`, attached for as long as the fault lasts."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.programs import need


@contextlib.contextmanager
def injected(
    pid: int, call: str, how: str, *, when: str = "1", paths: Sequence[Path] = (), calls: Path
) -> Iterator[Calls]:
    """While the block runs, `call` (a list with commas) of the process fails as `how` says, beginning with the calls that
    `when` names (strace's `first[..last][+step]`). With `paths` only calls that name exactly one of them, or a descriptor
    of it, count. `calls`: a file for what was called.
    """
    if os.geteuid() != 0:
        pytest.skip("only root may always trace another process")
    command = [need("strace"), "-f", "-p", str(pid), "-o", str(calls), "-e", f"trace={call}"]
    for path in paths:
        command += ["-P", str(path)]
    command += ["-e", f"inject={call}:{how}:when={when}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    if "attached" not in first:
        process.kill()
        process.communicate()
        if "not permitted" in first:
            pytest.skip(f"this machine traces nothing: {first}")
        raise AssertionError(first)
    rest = threading.Thread(target=process.stderr.read)  # so that strace never waits for a reader
    rest.start()
    try:
        yield Calls(calls)
    finally:
        process.terminate()  # it releases the daemon, which continues
        process.wait(20)
        rest.join()
        process.stderr.close()


class Calls:
    def __init__(self, file: Path) -> None:
        self._file = file

    def injected(self) -> list[str]:
        """The lines of calls in which a fault was put."""
        return [
            line for line in self._file.read_text(errors="replace").splitlines() if re.search(r"INJECTED|DELAYED", line)
        ]
