"""Starts the processes that work for the daemon, and frames messages on the pipes between them.

frame   length (4 bytes, little endian), then that many bytes
"""

from __future__ import annotations

import contextlib
import fcntl
import struct
import subprocess
import sys
from collections.abc import Mapping
from typing import IO

_LENGTH = struct.Struct("<I")
PIPE_BYTES = 1 << 20
"""What fits into a pipe on Linux, where anybody may have so much: usually a whole frame, so that its writer goes on at once."""


def start(
    script: str, *arguments: str, bare: bool = False, env: Mapping[str, str] | None = None, own_session: bool = False
) -> subprocess.Popen[bytes]:
    """Start our own interpreter with a script of ours, without the user's folder or environment on its path, and with pipes
    to and from it. `bare`: without `site`, for a script that needs only the standard library. OSError if it cannot be
    started.
    """
    process = subprocess.Popen(  # noqa: S603  our own interpreter and our own script
        # File names are UTF-8 for them, as for the daemon.
        [sys.executable, "-I", "-X", "utf8", *(["-S"] if bare else []), script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=env,
        start_new_session=own_session,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(
            OSError, AttributeError
        ):  # it works with any size, with more changes between processes
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return process


def read_frame(file: IO[bytes]) -> bytes | None:
    """The next frame's bytes; None at the end, even if the end cuts a frame."""
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = file.read(length)
    return data if len(data) == length else None


def write_frame(file: IO[bytes], data: bytes) -> None:
    file.write(_LENGTH.pack(len(data)))
    file.write(data)
    file.flush()
