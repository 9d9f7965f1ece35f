"""A place of another tool that is followed: what is known of it, and what its status says."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping

from sessiond.misfits import Misfits
from sessiond.schema.daemon import FollowedPlace
from sessiond.store.hints import Hints

log = logging.getLogger(__name__)
ALL = "all"
"""In place of a tool's name: all tools."""


class Place:
    """A folder or file in which a tool keeps its sessions."""

    def __init__(self, tool: str | None, path: str, *, is_folder: bool) -> None:
        """`tool`: whose files they are; None: those of any tool."""
        self.tool = tool
        self.path = path
        self.is_folder = is_folder
        self.asked = False
        """Whether only clients that are connected want it."""
        self.hints: Hints | None = None
        self.compare_at = 0.0
        """When it is compared next, if it cannot be watched (time of the loop)."""
        self.linked: set[str] = set()
        """Its files that are links: the system tells nothing of what is written behind them."""
        self.unwatched: str | None = None
        """Why it is not watched."""
        self.failed = Misfits(log, "could not be followed")
        """Its files that could not be read, and itself if its files could not be listed."""
        self.doubt: str | None = None
        """What showed in the file that was read last: that its tool writes more than is read, or what a write costs."""
        self.sessions: set[str] = set()
        """Sessions that were new or changed while it was followed."""
        self.last_at: str | None = None
        self.reading_s = 0.0
        """How long its files were read."""
        self.measuring: asyncio.Task[int | None] | None = None
        """Asks how large its files are that are to be read."""

    @property
    def root(self) -> str:
        """The folder to watch."""
        return self.path if self.is_folder else os.path.dirname(self.path)

    def covers(self, path: str) -> bool:
        return path == self.path or (self.is_folder and is_below(self.path, path))

    @property
    def problem(self) -> str | None:
        """The problem that a person should know: of a file rather than of the watching."""
        names = self.failed.names()
        if not names:
            return self.unwatched or self.doubt
        more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        return f"{names[-1]}: {self.failed.reason(names[-1])}{more}"

    def status(self, waiting: Mapping[str, float], size: int | None = None) -> FollowedPlace:
        """`waiting`: its files that are still to be read -> for how many seconds they have waited. `size`: of what is to be read in them,
        in bytes.
        """
        return FollowedPlace(
            tool=self.tool or ALL,
            path=self.path,
            sessions=len(self.sessions),
            last_at=self.last_at,
            problem=self.problem,
            waiting=len(waiting),
            waiting_bytes=size,
            waiting_seconds=round(max(waiting.values(), default=0.0), 3),
            reading_seconds=round(self.reading_s, 3),
            asked=self.asked,
        )


def is_below(folder: str, path: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
