"""What an import brought, in words."""

from __future__ import annotations

import sys
from typing import Any

from sessiond.cli.output import count, one_line, say


def summary(result: dict[str, Any], dry_run: bool) -> None:
    """What came in, on standard output; every line that did not, and why, on standard error."""
    sessions = result["sessions"]
    messages = sum(info["messageCount"] for info in sessions)
    verb = "would come in" if dry_run else "came in"
    say(f"{count(len(sessions), 'session')} with {count(messages, 'message')} {verb}")
    if result["skipped"]:
        say(f"{count(result['skipped'], 'session')} brought nothing new")
    if untouched := result.get("untouched", 0):
        were = "was" if untouched == 1 else "were"
        say(f"{count(untouched, 'file')} not touched since then {were} not opened")
    for warning in result["warnings"]:
        print(warning_text(warning), file=sys.stderr)


def warning_text(warning: dict[str, Any]) -> str:
    line = "" if warning.get("line") is None else f":{warning['line']}"
    return one_line(f"warning: {warning['path']}{line}: {warning['message']}")
