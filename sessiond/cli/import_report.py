"""The result of an import, in words."""

from __future__ import annotations

import sys

from sessiond.cli.output import count, one_line, say
from sessiond.client.types import FileWarning, Imported


def summary(result: Imported, dry_run: bool) -> None:
    """What was imported, on standard output; every line that was not, and why, on standard error."""
    messages = sum(info.message_count for info in result.sessions)
    verb = "would import" if dry_run else "imported"
    say(f"{verb} {count(len(result.sessions), 'session')} with {count(messages, 'message')}")
    if result.skipped:
        say(f"{count(result.skipped, 'session')} had nothing new")
    if result.untouched:
        say(f"skipped {count(result.untouched, 'file')} not changed since then")
    for warning in result.warnings:
        print(warning_text(warning), file=sys.stderr)


def warning_text(warning: FileWarning) -> str:
    line = "" if warning.line is None else f":{warning.line}"
    return one_line(f"warning: {warning.path}{line}: {warning.message}")
