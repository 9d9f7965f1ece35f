"""The findings about conversations of `sessiond acp` that are in no session yet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

from sessiond.acp.spool import head_of, is_locked, waiting
from sessiond.doctor.finding import Finding
from sessiond.endpoint import Places
from sessiond.words import in_bytes, local_time


def examine_spools(where: Places) -> Iterator[Finding]:
    """Yield each spool that nobody brings in now. OSError."""
    for path in waiting(os.path.join(where.data, "acp")):
        head = head_of(path)
        if is_locked(path) or not os.path.exists(path):  # it is being written or brought in, or was just now
            continue
        begun = os.stat(path).st_mtime if head is None else head.at / 1000
        since = local_time(datetime.fromtimestamp(begun, UTC).isoformat())
        agent = "an agent" if head is None else head.about.get("agent")
        problem = f"what was said to {agent} since {since} ({in_bytes(os.stat(path).st_size)}) is in no session yet"
        yield Finding(path, problem, "the next `sessiond acp` brings it in; so does `sessiond acp --recover`")
