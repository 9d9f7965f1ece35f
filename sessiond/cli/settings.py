"""Changing another program's settings file."""

from __future__ import annotations

import os
from pathlib import Path

from sessiond.errors import SessiondError


def replace(path: Path, before: bytes, after: bytes) -> None:
    """In one step: whoever reads the file sees all of it, before or after. A link stays a link.

    SessiondError if it is no longer `before`.
    """
    from sessiond.fs import RealFileSystem, atomic_write

    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True)
    there = real.exists()
    if (real.read_bytes() if there else b"") != before:
        raise SessiondError(f"{path} was changed by somebody else just now", hint="try again")
    mode = real.stat().st_mode & 0o777 if there else 0o600
    atomic_write(RealFileSystem(), str(real), after, mode)
