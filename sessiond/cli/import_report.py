"""The result of an import, in words."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from sessiond.cli.output import one_line, say
from sessiond.client.types import FileWarning, Imported, ToolReport
from sessiond.importers.freshness import doubt
from sessiond.words import count


def summary(result: Imported, dry_run: bool, tools: Mapping[str, Mapping[str, int]] | None = None) -> None:
    """Print what was imported, on standard output; every line that was not, and why, on standard error. `tools`: how many sessions and
    messages came from each tool; one tool has no line of its own, and a report says it better.
    """
    messages = sum(info.message_count for info in result.sessions)
    verb = "would import" if dry_run else "imported"
    say(f"{verb} {count(len(result.sessions), 'session')} with {count(messages, 'message')}")
    for tool, counts in (tools or {}).items() if len(tools or {}) > 1 and not result.report else ():
        say(f"{tool}: {count(counts['sessions'], 'session')}, {count(counts['messages'], 'message')}")
    if result.skipped:
        say(f"{count(result.skipped, 'session')} had nothing new")
    if result.untouched:
        say(f"skipped {count(result.untouched, 'file')} not changed since then")
    for one in result.report:
        _tool(one)
    for warning in result.warnings:
        print(warning_text(warning), file=sys.stderr)
    for kind, number in result.unknown.items():
        table = kind.partition(" ")[2].startswith("table ")
        what = "not read, and newer than what was" if table else "kept as they are"
        text = f"{count(number, 'record')} of an unknown kind: {kind} ({what}; please report this kind)"
        print(one_line(f"note: {text}"), file=sys.stderr)


def _tool(tool: ToolReport) -> None:
    """`claude-code: 12 files (3 unchanged), 9 sessions, 412 messages` and what else was in them."""
    unchanged = f" ({tool.unchanged:,} unchanged)" if tool.unchanged else ""
    parts = [
        f"{count(tool.files, 'file')}{unchanged}",
        count(tool.sessions, "session"),
        count(tool.messages, "message"),
    ]
    if tool.nothing_new:
        parts.append(f"{count(tool.nothing_new, 'session')} with nothing new")
    if tool.warnings:
        parts.append(count(tool.warnings, "warning"))
    say(one_line(f"{tool.tool}: {', '.join(parts)}"))
    for title, kinds in (("not messages", tool.ignored), ("unknown", tool.unknown)):
        if kinds:
            say("  " + one_line(f"{title}: " + ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())))
    if stale := doubt(tool.newest, tool.written):
        say("  " + one_line(f"stale: {stale}"))


def warning_text(warning: FileWarning) -> str:
    line = "" if warning.line is None else f":{warning.line}"
    return one_line(f"warning: {warning.path}{line}: {warning.message}")
