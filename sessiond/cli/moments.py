"""Times as people say them at the command line: a date, a moment, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_AGO = re.compile(r"(\d{1,6})\s*(min|h|d|w)")
_UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_DAYS = {"today": 0, "yesterday": 1}
FORMS = "2026-01-11, 2026-01-11T14:30:22Z, yesterday, 7d or 2h"


def moment_of(text: str, now: datetime) -> datetime:
    """The moment, in UTC. A day begins in local time; `2h`, `7d`: so long before `now`. ValueError or OverflowError if it is
    not a time.
    """
    said = text.strip().lower()
    if said in _DAYS:
        day = now.astimezone().date() - timedelta(days=_DAYS[said])
        return datetime(day.year, day.month, day.day).astimezone(UTC)
    ago = _AGO.fullmatch(said)
    if ago is not None:
        return now.astimezone(UTC) - int(ago[1]) * _UNITS[ago[2]]
    return datetime.fromisoformat(text).astimezone(UTC)
