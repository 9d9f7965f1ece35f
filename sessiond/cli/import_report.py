"""The result of an import, in words."""

from __future__ import annotations

import sys
from typing import Any

from sessiond.cli.output import count, one_line, say


def summary(result: dict[str, Any], dry_run: bool) -> None:
    """What was imported, on standard output; every line that was not, and why, on standard error."""
    sessions = result["sessions"]
    messages = sum(info["messageCount"] for info in sessions)
    verb = "would import" if dry_run else "imported"
    say(f"{verb} {count(len(sessions), 'session')} with {count(messages, 'message')}")
    if result["skipped"]:
        say(f"{count(result['skipped'], 'session')} had nothing new")
    if untouched := result.get("untouched", 0):
        say(f"skipped {count(untouched, 'file')} not changed since then")
    for warning in result["warnings"]:
        print(warning_text(warning), file=sys.stderr)


def warning_text(warning: dict[str, Any]) -> str:
    line = "" if warning.get("line") is None else f":{warning['line']}"
    return one_line(f"warning: {warning['path']}{line}: {warning['message']}")
