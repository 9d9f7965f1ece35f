"""`sessiond doctor`: examines everything and starts nothing; with `--repair` it repairs what it can."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial

import click

from sessiond.cli.client import ask_if_running, connect_if_running
from sessiond.cli.doctor_files import StoreDoctor, describe, examine_index
from sessiond.cli.doctor_index import index_again, unfinished
from sessiond.cli.doctor_journal import acknowledge, examine_journal, lost
from sessiond.cli.findings import Finding
from sessiond.cli.options import as_json
from sessiond.cli.output import clean, count, print_json, say
from sessiond.cli.pages import index_problem
from sessiond.cli.repair_config import mend_config
from sessiond.cli.status import ask, problem_of, unpromised_in_words
from sessiond.client import requests
from sessiond.client.daemon_types import Status
from sessiond.config import StoreConfig, load
from sessiond.daemon.data_version import check_vintage
from sessiond.endpoint import Places, places, privacy_problem, read_endpoint
from sessiond.errors import ConfigError, SessiondError
from sessiond.fs import FileSystem, Lock, RealFileSystem
from sessiond.fs.network import unpromised
from sessiond.journal import Loss

_WRITTEN = {
    "data": "sessions cannot be saved",
    "cache": "searches cannot find anything new",
    "log": "nothing is logged",
}
"""Folders that must be writable, and the consequence if they are not."""

_ENDING_S = 3.0
"""How long to wait for a daemon that is ending."""


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
    if repair and (tried := index_again(where)):
        return _report(tried, as_json=as_json)
    lock = _alone(fs, where) if repair else None
    shown: list[dict[str, str | None]] = []
    left: list[Finding] = []
    try:
        if acknowledging:
            _acknowledged(where, fs, locked=repair, quietly=as_json)
        for finding in examine(where, fs, repairing=repair):
            mended = _mended(finding) if repair and finding.problem is not None else None
            if finding.problem is not None and mended is None:
                left.append(finding)
            shown.append(describe(finding, mended))
            if not as_json:
                _tell(finding, mended)
    finally:
        if lock is not None:
            lock.release()
    return _end(left, shown, repairing=repair, as_json=as_json)


def _end(left: Sequence[Finding], shown: list[dict[str, str | None]], *, repairing: bool, as_json: bool) -> int:
    if as_json:
        print_json({"healthy": not left, "findings": shown})
    else:
        say(verdict(left, repairing=repairing))
    return 1 if left else 0


def _report(tried: Sequence[tuple[Finding, str | None]], *, as_json: bool) -> int:
    """Report what a running daemon tried again."""
    if not as_json:
        for finding, mended in tried:
            _tell(finding, mended)
    left = [finding for finding, mended in tried if mended is None]
    return _end(left, [describe(*one) for one in tried], repairing=True, as_json=as_json)


def verdict(left: Sequence[Finding], *, repairing: bool) -> str:
    """One sentence: all is well, or what to do about the problems that are left."""
    if not left:
        return "All is well."
    found = count(len(left), "problem")
    if not repairing and any(finding.mend is not None for finding in left):
        return f"{found}: run `sessiond stop`, then `sessiond doctor --repair`, which keeps a copy of what it changes."
    first = next((finding for finding in left if finding.hint), left[0])
    todo = first.hint or f"look at {first.what}, and restore it from a backup if you need what it held"
    rest = "" if len(left) == 1 else "; then run `sessiond doctor` again"
    return f"{found}: {todo}{rest}."


def _tell(finding: Finding, mended: str | None) -> None:
    if finding.problem is None:
        say(f"ok       {finding.what}" + (f"; {finding.hint}" if finding.hint else ""))
    elif mended is not None:
        say(f"MENDED   {finding.what}: {finding.problem}; {mended}")
    else:
        say(f"PROBLEM  {finding.what}: {finding.problem}" + (f"; {finding.hint}" if finding.hint else ""))


def _alone(fs: FileSystem, where: Places) -> Lock | None:
    """The data folder's lock, so that no daemon starts meanwhile; None if there is no such folder yet."""
    if fs.stat(where.data) is None:
        return None
    ends = time.monotonic() + _ENDING_S
    while True:
        try:
            return fs.lock(where.lock_file)
        except BlockingIOError:
            if time.monotonic() > ends or _responds(where):
                raise SessiondError(
                    "the daemon is running; stop it before repairing files", hint="run `sessiond stop` first"
                ) from None
        time.sleep(0.05)


def _responds(where: Places) -> bool:
    """Return whether a daemon is there, and not only the end of one: a daemon that could not start holds the lock until it is gone."""
    try:
        client = connect_if_running(where)
    except SessiondError:
        return True
    if client is None:
        return False
    with client:
        return True


def _acknowledged(where: Places, fs: FileSystem, *, locked: bool, quietly: bool) -> None:
    """Acknowledge everything that a damaged journal has lost. SessiondError."""
    client = None if locked else connect_if_running(where)
    if client is not None:
        with client:
            count = client.ask(requests.acknowledge()).value.acknowledged
    else:
        lock = None if locked else _alone(fs, where)
        try:
            count = acknowledge(fs, where.data + "/journal")
        finally:
            if lock is not None:
                lock.release()
    if not quietly:
        say(f"acknowledged: {count}")


def _mended(finding: Finding) -> str | None:
    if finding.mend is None:
        return None
    try:
        return finding.mend()
    except (OSError, SessiondError) as error:
        print(clean(f"could not repair {finding.what}: {error}"), file=sys.stderr)
        return None


def examine(where: Places, fs: FileSystem, *, repairing: bool = False) -> Iterator[Finding]:
    """All findings, problems included, each after what it depends on. `repairing`: the caller holds the lock, and applies
    each finding's repair before asking for the next finding.
    """
    try:
        config = load(fs, where)
    except SessiondError as error:
        mend = None
        if isinstance(error, ConfigError) and fs.stat(where.config + "/config.toml") is not None:
            mend = partial(mend_config, fs, where.config + "/config.toml", where, os.environ)
        yield Finding("configuration", error.message, error.hint, mend)
        try:
            config = load(fs, where)  # repaired by now, if it could be
        except SessiondError:
            return
    yield Finding(f"configuration {config.file}")
    try:
        check_vintage(fs, where)
    except ConfigError as error:
        yield Finding("data folder", error.message, error.hint)
        return  # nothing in it is ours to judge or repair
    yield from _folders(where)
    yield from _unpromised([where.data, *(store.path for store in config.stores if store.name != "default")])
    status: Status | None = None
    if not repairing:
        try:
            answer = ask()
        except (SessiondError, OSError) as error:
            yield Finding("daemon", str(error), f"its log is in {where.log}")
        else:
            status = None if answer is None else answer.value
            yield from _daemon(where, status)
            if status is not None:
                yield from _followed(where)
    if status is None and fs.stat(where.data + "/journal") is not None:
        yield from examine_journal(fs, where.data + "/journal", config.limits, repairing=repairing)
    for store in config.stores:
        yield from _store(fs, where, store, repairing=repairing)
    if status is None:
        yield from examine_index(fs, where)
        yield from unfinished(fs, where, config)


def _store(fs: FileSystem, where: Places, store: StoreConfig, *, repairing: bool) -> Iterator[Finding]:
    with contextlib.ExitStack() as held:
        marker = f"{store.path}/.sessiond/lock"
        if repairing and fs.stat(marker) is not None:
            try:
                held.callback(fs.lock(marker).release)
            except BlockingIOError:
                yield Finding(f"store {store.name}", "another sessiond is using it", "stop that one first")
                return
        yield from StoreDoctor(fs, where, store).examine()


def _folders(where: Places) -> Iterator[Finding]:
    """The daemon's own folders: private if they exist, and writable or possible to create."""
    for name in ("data", "config", "cache", "run", "log"):
        path = getattr(where, name)
        if name in _WRITTEN and (held := _unwritable(path)) is not None:
            hint = f"check the mode and owner of {held}, or set SESSIOND_HOME to a folder of yours"
            yield Finding(f"{name} folder {path}", f"{_WRITTEN[name]}: {held} is not writable", hint)
            continue
        if not os.path.lexists(path):
            continue
        problem = None if name == "config" else privacy_problem(os.path.realpath(path))
        mend = partial(_close_folder, path) if problem else None
        yield Finding(f"{name} folder {path}", problem, f"chmod 700 {path}" if problem else None, mend)


def _unpromised(paths: list[str]) -> Iterator[Finding]:
    """Notes, not problems: nothing here could repair them, and the rest is checked as usual."""
    for path in paths:
        kind = unpromised(path)
        if kind is not None:
            hint = "move it to a local disk, or keep a backup"
            yield Finding(f"note: {unpromised_in_words(path, kind)}", hint=hint)


def _unwritable(path: str) -> str | None:
    """The folder that would have to be writable but is not: `path` itself, or the one it would be created in."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    able = os.access(path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)
    return None if able else path


def _close_folder(path: str) -> str | None:
    os.chmod(os.path.realpath(path), 0o700)
    return None if privacy_problem(os.path.realpath(path)) else "its mode is now 0700"


def _daemon(where: Places, status: Status | None) -> Iterator[Finding]:
    if status is None:
        record = read_endpoint(where.data)
        yield Finding("no daemon is running" + (f" (the last one had pid {record.pid})" if record else ""))
        return
    yield Finding(f"daemon version {status.version}, pid {status.pid}, at {status.socket}")
    if status.read_only is not None:
        hint = "free some disk space, then run `sessiond stop`; the next client starts the daemon again"
        yield Finding("journal", f"read-only: {status.read_only.reason}", hint)
    for damage in status.damage:
        yield lost(Loss(damage.path, damage.records, damage.reason, damage.since))
    for store in status.stores:
        problem = problem_of(store)
        if problem is not None:
            yield Finding(f"store {store.name}", problem, f"check {store.path}")
    if status.index.state == "failing":
        hint = f"free disk space for {where.cache}, or make it writable; indexing then resumes by itself"
        yield Finding("search index", index_problem(status.index), hint)
    elif status.index.problem is not None:
        hint = f"the rest is found; {where.log} says why, and `sessiond doctor --repair` tries it again"
        yield Finding("search index", status.index.problem, hint)


def _followed(where: Places) -> Iterator[Finding]:
    """Yield what the daemon cannot follow now."""
    try:
        answer = ask_if_running(where, requests.follow(None))
    except (SessiondError, OSError) as error:  # an older daemon, for example, follows nothing
        yield Finding(f"note: what the daemon follows is not known ({error})")
        return
    for place in answer.value.places if answer is not None else ():
        if place.problem is not None:
            yield Finding(f"following {place.tool}", place.problem, "it is tried again by itself")
