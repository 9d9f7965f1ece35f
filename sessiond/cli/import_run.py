"""Imports for `sessiond import`: one request a path, a progress bar on a terminal, and a way to stop."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from sessiond.cli.client import Client
from sessiond.cli.output import clean, count, one_line
from sessiond.cli.paths import on_wire

Report = Callable[[dict[str, Any]], None]


class Target:
    """A path to import. `tool`: whose files to import there; None for whatever is recognised. `failed`: it is a file from
    which nothing could be imported.
    """

    def __init__(self, path: str, tool: str | None) -> None:
        self.path = path
        self.tool = tool
        self.failed = False

    def judge(self, result: dict[str, Any]) -> None:
        """Set `failed`. `result`: of the import. Nothing new, or nothing since a given time, is not a failure."""
        nothing = not (result["sessions"] or result["skipped"] or result.get("untouched"))
        # With a given time, single lines that were skipped do not explain why nothing was imported.
        asked = "untouched" in result
        told = any(warning["line"] is None or not asked for warning in result["warnings"])
        self.failed = nothing and told and not os.path.isdir(self.path)

    def size(self) -> tuple[int, int]:
        """How many files may be a tool's by their names, and their total bytes."""
        from sessiond.importers.registry import candidates

        sizes = []
        for path in candidates(self.path):
            if isinstance(path, str):
                try:
                    sizes.append(os.path.getsize(path))
                except OSError:
                    continue
        return len(sizes), sum(sizes)


def bring_in(client: Client, targets: Sequence[Target], params: dict[str, Any]) -> dict[str, Any]:
    """All of them, as one result of `session/import`. If interrupted, says what was imported and raises click.Abort."""
    whole: dict[str, Any] = {"sessions": [], "skipped": 0, "warnings": []}
    came = 0
    with _bar() as begin:
        for target in targets:
            last: dict[str, Any] = {}
            show = begin(target.path)

            def report(value: dict[str, Any], show: Report = show, last: dict[str, Any] = last) -> None:
                last.update(value)
                show(value)

            try:
                result = request(client, target, params, report)
            except KeyboardInterrupt:
                came = len(whole["sessions"]) + last.get("sessions", 0)
                break
            target.judge(result)
            _join(whole, result)
        else:
            return whole
    said = f"interrupted; imported {count(came, 'session')}, each complete. Run the same command again to continue."
    print(said, file=sys.stderr)
    raise click.Abort


def request(client: Client, target: Target, params: dict[str, Any], report: Report) -> dict[str, Any]:
    """One `session/import`. KeyboardInterrupt once the daemon has stopped it."""

    def notified(method: str, told: dict[str, Any]) -> None:
        if method == "$/progress":
            report(told.get("value", {}))

    wanted = {**params, "path": on_wire(target.path), "format": target.tool, "workDoneToken": "import"}
    try:
        result: dict[str, Any] = client.call("session/import", wanted, notified=notified)
    except KeyboardInterrupt:
        client.cancel(notified=notified)
        raise
    return result


def _join(whole: dict[str, Any], result: dict[str, Any]) -> None:
    """A session to which two paths added something counts once, as it is now."""
    fresh = {info["sessionId"] for info in result["sessions"]}
    whole["sessions"] = [info for info in whole["sessions"] if info["sessionId"] not in fresh] + result["sessions"]
    whole["skipped"] += result["skipped"]
    if "untouched" in result:
        whole["untouched"] = whole.get("untouched", 0) + result["untouched"]
    whole["warnings"] += result["warnings"]


@contextmanager
def _bar() -> Iterator[Callable[[str], Report]]:
    """A progress bar on stderr, if that is a terminal. Yields a function that begins a path and returns its reporter."""
    if not sys.stderr.isatty():
        yield lambda _path: lambda _value: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.fields[path]}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def begin(path: str) -> Report:
            shown = one_line(path)
            task = bar.add_task("looking", total=None, path=shown if len(shown) <= 30 else "…" + shown[-29:])
            started = time.monotonic()

            def report(value: dict[str, Any]) -> None:
                if "bytes" in value:
                    text = progress_text(value, time.monotonic() - started)
                    bar.update(task, description=text, total=value["totalBytes"], completed=value["bytes"])
                elif value.get("message"):
                    bar.update(task, description=clean(str(value["message"]))[:60])

            return report

        yield begin


def progress_text(value: dict[str, Any], seconds: float) -> str:
    """`12/40 files  3 sessions  1,200 messages  18.2 MB/s`."""
    speed = value["bytes"] / 1e6 / max(seconds, 0.001)
    return (
        f"{value['files']:,}/{value['totalFiles']:,} files  {count(value['sessions'], 'session')}"
        f"  {count(value['messages'], 'message')}  {speed:.1f} MB/s"
    )
