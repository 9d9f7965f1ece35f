"""`sessiond doctor`: examines everything and starts nothing; with `--repair` it repairs what it can."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import click

from sessiond.cli.client import ask_if_running
from sessiond.cli.options import as_json
from sessiond.cli.output import clean, print_json, say
from sessiond.doctor.examination import examine
from sessiond.doctor.exclusive import acknowledge_losses, lock_data
from sessiond.doctor.finding import Finding
from sessiond.doctor.index import index_again
from sessiond.endpoint import places
from sessiond.errors import SessiondError
from sessiond.fs import RealFileSystem
from sessiond.words import count


@click.command("doctor", short_help="Check that everything is healthy and every file is readable.")
@click.option("--repair", is_flag=True, help="Repair what can be repaired, keeping a copy. Stop the daemon first.")
@click.option("--acknowledge", "acknowledging", is_flag=True, help="Stop reporting what a damaged journal has lost.")
@as_json
def command(repair: bool, acknowledging: bool, as_json: bool) -> int:
    """Check the daemon, its folders, the journal and every session file. Exit code 1 if anything is unhealthy.

    Never starts a daemon, and never changes a file without --repair or --acknowledge. With --repair the exit code is 1 if
    any problem is left; while a daemon runs, it only has the daemon index again what it could not index. Losses from a
    damaged journal count as unhealthy until --acknowledge, with or without a daemon.
    """
    where, fs = places(), RealFileSystem()
    ask = partial(ask_if_running, where)
    report = _Report(repairing=repair, as_json=as_json)
    if repair and (tried := index_again(where, ask)):
        for finding, mended in tried:
            report.add(finding, mended)
        return report.end()
    lock = lock_data(fs, where, ask) if repair else None
    try:
        if acknowledging:
            acknowledged = acknowledge_losses(fs, where, ask, locked=repair)
            if not as_json:
                say(f"acknowledged: {acknowledged}")
        for finding in examine(where, fs, ask, repairing=repair):
            report.add(finding, _mended(finding) if repair else None)
    finally:
        if lock is not None:
            lock.release()
    return report.end()


def _mended(finding: Finding) -> str | None:
    if finding.problem is None or finding.mend is None:
        return None
    try:
        return finding.mend()
    except (OSError, SessiondError) as error:
        print(clean(f"could not repair {finding.what}: {error}"), file=sys.stderr)
        return None


class _Report:
    """The findings as they come, and the verdict at the end."""

    def __init__(self, *, repairing: bool, as_json: bool) -> None:
        self._repairing = repairing
        self._as_json = as_json
        self._shown: list[dict[str, str | None]] = []
        self._left: list[Finding] = []

    def add(self, finding: Finding, mended: str | None) -> None:
        if finding.problem is not None and mended is None:
            self._left.append(finding)
        if self._as_json:
            shown = {"what": finding.what, "problem": finding.problem, "hint": finding.hint}
            self._shown.append(shown if mended is None else {**shown, "mended": mended})
        else:
            say(_in_words(finding, mended))

    def end(self) -> int:
        """Print what is to be printed at the end, and return the exit code."""
        if self._as_json:
            print_json({"healthy": not self._left, "findings": self._shown})
        else:
            say(verdict(self._left, repairing=self._repairing))
        return 1 if self._left else 0


def _in_words(finding: Finding, mended: str | None) -> str:
    hint = f"; {finding.hint}" if finding.hint else ""
    if finding.problem is None:
        return f"ok       {finding.what}{hint}"
    if mended is not None:
        return f"MENDED   {finding.what}: {finding.problem}; {mended}"
    return f"PROBLEM  {finding.what}: {finding.problem}{hint}"


def verdict(left: Sequence[Finding], *, repairing: bool) -> str:
    """Say in one sentence that all is well, or what to do about the problems that are left."""
    if not left:
        return "All is well."
    found = count(len(left), "problem")
    if not repairing and any(finding.mend is not None for finding in left):
        return f"{found}: run `sessiond stop`, then `sessiond doctor --repair`, which keeps a copy of what it changes."
    first = next((finding for finding in left if finding.hint), left[0])
    todo = first.hint or f"look at {first.what}, and restore it from a backup if you need what it held"
    rest = "" if len(left) == 1 else "; then run `sessiond doctor` again"
    return f"{found}: {todo}{rest}."
