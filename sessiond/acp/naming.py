"""The names of recorded sessions. No I/O; the standard library only."""

from __future__ import annotations

import hashlib
import re

PREFIX = "acp-"
_CLEAN = re.compile(r"[A-Za-z0-9._-]{1,80}")


def name_of(key: str) -> str:
    """The session that the agent's session `key` becomes."""
    return PREFIX + (key if _CLEAN.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest()[:32])


def names_of(key: str) -> tuple[str, ...]:
    """Return where a session that an editor asks for may be: under a recorded name itself, or as the agent called it."""
    return (key, name_of(key)) if key.startswith(PREFIX) and _CLEAN.fullmatch(key) else (name_of(key),)


def all_names(key: str, spool: str) -> list[str]:
    """Return what somebody may call a session that runs: as the agent does, or as it is recorded, by the connection `spool`."""
    return [key, name_of(key), f"{name_of(key)}-{spool}"]
