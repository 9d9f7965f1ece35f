"""Times as a model gives them. No I/O."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sessiond.mcp.refusals import Refused

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def moment_of(field: str, text: str) -> str | None:
    """`2026-01-31`, or a time with or without a zone (UTC then) -> RFC 3339 in UTC with milliseconds. None for "". Refused."""
    if not text:
        return None
    try:
        if not _DAY.match(text):
            raise ValueError(text)
        moment = datetime.fromisoformat(text)
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Refused(f"`{field}` must be a time such as 2026-01-31 or 2026-01-31T14:00:00Z. Call again.") from None
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f".{moment.microsecond // 1000:03d}Z"
