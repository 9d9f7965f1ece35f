"""Imports for `sessiond import`: one request a path, a progress bar on a terminal, and a way to stop."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import click
import msgspec

from sessiond.cli.output import clean, one_line
from sessiond.cli.paths import on_wire
from sessiond.client import requests
from sessiond.client.blocking import Sessiond
from sessiond.client.requests import Answer
from sessiond.client.types import Imported, Progress
from sessiond.ready import ready
from sessiond.words import count

ready(Imported)
Report = Callable[[Progress], None]


class ImportChoice(NamedTuple):
    """The choice of what of a path is imported, and where to."""

    store: str | None
    since: str | None
    dry_run: bool
    report: bool = False


class ImportPath:
    """A path to import. `tool`: whose files to import there; None for whatever is recognised. `failed`: it is a file from
    which nothing could be imported.
    """

    def __init__(self, path: str, tool: str | None) -> None:
        self.path = path
        self.tool = tool
        self.failed = False

    def judge(self, result: Imported, *, since: str | None) -> None:
        """Set `failed`. `result`: of the import. Nothing new, or nothing since a given time, is not a failure."""
        nothing = not (result.sessions or result.skipped or result.untouched)
        # With a given time, single lines that were skipped do not explain why nothing was imported.
        told = any(warning.line is None or since is None for warning in result.warnings)
        self.failed = nothing and told and not os.path.isdir(self.path)

    def size(self) -> tuple[int, int]:
        """Return how many files may be a tool's by their names, and their total bytes."""
        from sessiond.importers.registry import candidates

        sizes = []
        for path in candidates(self.path):
            if isinstance(path, str):
                try:
                    sizes.append(os.path.getsize(path))
                except OSError:
                    continue
        return len(sizes), sum(sizes)


class Total:
    """The results of several imports as one."""

    def __init__(self) -> None:
        self.plain: dict[str, Any] = {"sessions": [], "skipped": 0, "warnings": []}
        """In the shape of one result, with every session as the daemon sent it."""

    @property
    def value(self) -> Imported:
        return msgspec.convert(self.plain, Imported)

    @property
    def tools(self) -> dict[str, dict[str, int]]:
        """Tool -> how many `sessions` were created or have changed, and how many `messages` are new; only tools that have any."""
        found = self.plain.get("report", ())
        return {one["tool"]: {key: one[key] for key in ("sessions", "messages")} for one in found if one["sessions"]}

    def add(self, result: dict[str, Any]) -> None:
        """A session to which two paths added something counts once, as it is now."""
        whole = self.plain
        fresh = {info["sessionId"] for info in result["sessions"]}
        whole["sessions"] = [info for info in whole["sessions"] if info["sessionId"] not in fresh] + result["sessions"]
        whole["skipped"] += result["skipped"]
        if "untouched" in result:
            whole["untouched"] = whole.get("untouched", 0) + result["untouched"]
        whole["warnings"] += result["warnings"]
        if "unknown" in result:
            whole["unknown"] = _sums(whole.get("unknown", {}), result["unknown"])
        if "report" in result:
            tools = {one["tool"]: one for one in whole.get("report", [])}
            for one in result["report"]:
                tools[one["tool"]] = _sums(tools.get(one["tool"], {}), one)
            whole["report"] = [tools[name] for name in sorted(tools)]


def _sums(one: dict[str, Any], other: dict[str, object]) -> dict[str, object]:
    """Counts added up, key by key, also in what they contain."""
    joined = dict(one)
    for key, value in other.items():
        if isinstance(value, dict):
            joined[key] = _sums(joined.get(key, {}), value)
        else:
            joined[key] = value if isinstance(value, str) else joined.get(key, 0) + value
    return joined


def bring_in(client: Sessiond, targets: Sequence[ImportPath], choice: ImportChoice) -> Total:
    """All of them. If interrupted, says what was imported and raises click.Abort."""
    total = Total()
    came = 0
    with _bar() as begin:
        for target in targets:
            last = [Progress()]
            show = begin(target.path)

            def report(progress: Progress, show: Report = show, last: list[Progress] = last) -> None:
                if progress.bytes is not None:  # the last one says only that it ended
                    last[0] = progress
                show(progress)

            try:
                answer = request(client, target, choice, report)
            except KeyboardInterrupt:
                came = len(total.plain["sessions"]) + last[0].sessions
                break
            target.judge(answer.value, since=choice.since)
            total.add(answer.plain)
        else:
            return total
    said = f"interrupted; imported {count(came, 'session')}, each complete. Run the same command again to continue."
    print(said, file=sys.stderr)
    raise click.Abort


def request(
    client: Sessiond, target: ImportPath, choice: ImportChoice, report: Report | None = None
) -> Answer[Imported]:
    """One `session/import`. KeyboardInterrupt; if it reports, only once the daemon has stopped it."""
    path = on_wire(target.path)
    return client.answer(requests.import_(path, format=target.tool, on_progress=report, **choice._asdict()))


@contextmanager
def _bar() -> Iterator[Callable[[str], Report]]:
    """A progress bar on stderr, if that is a terminal. Yields a function that begins a path and returns its reporter."""
    if not sys.stderr.isatty():
        yield lambda _path: lambda _progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.fields[path]}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:

        def begin(path: str) -> Report:
            shown = one_line(path)
            task = bar.add_task("looking", total=None, path=shown if len(shown) <= 30 else "…" + shown[-29:])
            started = time.monotonic()

            def report(progress: Progress) -> None:
                if progress.bytes is not None:
                    text = progress_text(progress, time.monotonic() - started)
                    bar.update(task, description=text, total=progress.total_bytes, completed=progress.bytes)
                elif progress.message:
                    bar.update(task, description=clean(progress.message)[:60])

            return report

        yield begin


def progress_text(progress: Progress, seconds: float) -> str:
    """`12/40 files  3 sessions  1,200 messages  18.2 MB/s`."""
    speed = (progress.bytes or 0) / 1e6 / max(seconds, 0.001)
    return (
        f"{progress.files:,}/{progress.total_files:,} files  {count(progress.sessions, 'session')}"
        f"  {count(progress.messages, 'message')}  {speed:.1f} MB/s"
    )
