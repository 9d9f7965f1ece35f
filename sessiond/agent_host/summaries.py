"""Says what a session is called in the list."""

from __future__ import annotations

import ntpath
import posixpath
import re
from pathlib import PurePosixPath, PureWindowsPath

import msgspec

from sessiond.agent_host import shapes
from sessiond.schema.types import Activity, SessionInfo

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def summary(info: SessionInfo) -> shapes.SessionSummary:
    """Nothing here says who has read what, so all of it is read: otherwise every row would be bold."""
    folder = _uri(info.cwd)
    return shapes.SessionSummary(
        resource=shapes.session_uri(info.session_id),
        provider=shapes.PROVIDER,
        title=info.name or info.session_id,
        status=_doing(info.activity) | shapes.READ | (shapes.ARCHIVED if info.archived else 0),
        created_at=info.created_at,
        modified_at=info.updated_at,
        working_directories=None if folder is None else (folder,),
        project=None if folder is None else shapes.Project(uri=folder, display_name=_name(info.cwd or "")),
        activity=info.activity.text if isinstance(info.activity, Activity) else None,
    )


def with_activity(row: shapes.SessionSummary, activity: Activity | None) -> shapes.SessionSummary:
    status = row.status & ~shapes.ACTIVITY | _doing(activity)
    return msgspec.structs.replace(row, status=status, activity=None if activity is None else activity.text)


def _doing(activity: Activity | msgspec.UnsetType | None) -> int:
    if not isinstance(activity, Activity):
        return shapes.IDLE
    return shapes.INPUT_NEEDED if activity.state == "waiting" else shapes.IN_PROGRESS


def draft(wire_id: str, cwd: str | None, at: str) -> shapes.SessionSummary:
    """Return the summary of a session in which nothing was said."""
    folder = _uri(cwd)
    return shapes.SessionSummary(
        resource=shapes.session_uri(wire_id),
        provider=shapes.PROVIDER,
        title="New session",
        status=shapes.IDLE | shapes.READ,
        created_at=at,
        modified_at=at,
        working_directories=None if folder is None else (folder,),
    )


def _uri(folder: str | None) -> str | None:
    """None also where a tool wrote something else than an absolute path."""
    if not folder:
        return None
    try:
        if _DRIVE.match(folder):
            return PureWindowsPath(folder).as_uri()
        return PurePosixPath(folder).as_uri() if folder.startswith("/") else None
    except ValueError:
        return None


def _name(folder: str) -> str:
    path = ntpath if _DRIVE.match(folder) else posixpath
    return path.basename(folder.rstrip("\\/")) or folder
