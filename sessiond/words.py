"""Numbers, sizes and times in words, as a person reads them in the output of a command."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """`1 session`, `1,200 sessions`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def in_bytes(size: int) -> str:
    """`900 bytes`, `12 MB`: as much as a person needs."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size //= 1000
    return f"{size} GB"


def local_time(stamp: str) -> str:
    """`2026-01-11T14:30:22.000Z` -> local date and time to the minute; other text unchanged."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return stamp
