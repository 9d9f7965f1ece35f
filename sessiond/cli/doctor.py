"""`sessiond doctor`: looks at everything, changes nothing, starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from sessiond.cli.options import as_json
from sessiond.cli.output import count, print_json, say
from sessiond.cli.status import ask, problem_of
from sessiond.config import Config, StoreConfig, load
from sessiond.endpoint import Places, places, privacy_problem, read_endpoint
from sessiond.errors import SessiondError
from sessiond.formats import registry
from sessiond.fs import FileSystem, RealFileSystem
from sessiond.journal.recovery import read_journal
from sessiond.store.files import OutsideChange, StoreFiles


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at. `problem` None: it is well."""

    what: str
    problem: str | None = None
    hint: str | None = None


@click.command("doctor", short_help="Is everything healthy, is every file readable?")
@as_json
def command(as_json: bool) -> int:
    """Look at the daemon, its folders, the journal and every session file. Exit code 1 if anything is unhealthy.

    Never starts a daemon, never changes a file.
    """
    findings = list(examine(places(), RealFileSystem()))
    bad = [finding for finding in findings if finding.problem is not None]
    if as_json:
        print_json({"healthy": not bad, "findings": [msgspec.to_builtins(finding) for finding in findings]})
        return 1 if bad else 0
    for finding in findings:
        if finding.problem is None:
            say(f"ok       {finding.what}")
        else:
            say(f"PROBLEM  {finding.what}: {finding.problem}" + (f"; {finding.hint}" if finding.hint else ""))
    return 1 if bad else 0


def examine(where: Places, fs: FileSystem) -> Iterator[Finding]:
    """All findings, problems among them, in the order of what depends on what."""
    try:
        config = load(fs, where)
    except SessiondError as error:
        yield Finding("configuration", error.message, error.hint)
        return
    yield Finding(f"configuration {config.file}")
    yield from _folders(where)
    status = None
    try:
        status = ask()
    except (SessiondError, OSError) as error:
        yield Finding("daemon", str(error), f"its log is in {where.log}")
    else:
        yield from _daemon(where, status)
    if status is None and fs.stat(where.data + "/journal") is not None:
        yield from _journal(fs, where.data + "/journal", config)
    for store in config.stores:
        yield from _store(fs, store)


def _folders(where: Places) -> Iterator[Finding]:
    """The daemon's own folders are ours alone, those that are there."""
    for name in ("data", "config", "cache", "run", "log"):
        path = getattr(where, name)
        if not os.path.lexists(path):
            continue
        problem = None if name == "config" else privacy_problem(os.path.realpath(path))
        yield Finding(f"{name} folder {path}", problem, f"chmod 700 {path}" if problem else None)


def _daemon(where: Places, status: dict[str, Any] | None) -> Iterator[Finding]:
    if status is None:
        record = read_endpoint(where.data)
        yield Finding("no daemon runs" + (f" (the last one had pid {record.pid})" if record else ""))
        return
    yield Finding(f"daemon version {status['version']}, pid {status['pid']}, at {status['socket']}")
    if status.get("readOnly"):
        hint = "make room, then run `sessiond stop`: the next client starts it again"
        yield Finding("journal", f"read-only: {status['readOnly']['reason']}", hint)
    for store in status["stores"]:
        problem = problem_of(store)
        if problem is not None:
            yield Finding(f"store {store['name']}", problem, f"look at {store['path']}")


def _journal(fs: FileSystem, folder: str, config: Config) -> Iterator[Finding]:
    """Only while no daemon writes to it: an end that is being written looks torn."""
    try:
        contents = read_journal(fs, folder, config.limits.damaged_copies)
    except (SessiondError, OSError) as error:
        yield Finding(f"journal {folder}", str(error))
        return
    yield Finding(f"journal {folder}, {len(contents.records)} records")
    for damage in contents.damage:
        where = f"{damage.path}, bytes {damage.start} to {damage.end}"
        if damage.torn:
            yield Finding(f"{where}: {damage.reason}, as any crash may leave it")
        else:
            yield Finding(where, damage.reason, "the next start keeps these bytes aside and goes on without them")


def _store(fs: FileSystem, store: StoreConfig) -> Iterator[Finding]:
    """Every session file, read as the daemon reads it."""
    label = f"store {store.name} ({store.format}) {store.path}"
    if fs.stat(store.path) is None:
        missing = None if store.name == "default" else "the folder is not there"
        yield Finding(label, missing, "mount it, or take the store out of config.toml" if missing else None)
        return
    try:
        fmt = registry.get(store.format)
        files = StoreFiles(fs, store.path, fmt)
        found = files.find()
    except (ImportError, OSError) as error:
        yield Finding(label, str(error))
        return
    problems = [problem for local_id, main in found.items() for problem in _session(files, local_id, main)]
    yield from problems
    yield Finding(f"{label}: {count(len(found), 'session')}, {count(len(problems), 'problem')}")


def _session(files: StoreFiles, local_id: str, main: str) -> Iterator[Finding]:
    path = files.path(main)
    try:
        decoded = files.format.decode(local_id, files.read(local_id).files)
    except OutsideChange:
        return  # it is being written this very moment
    except (SessiondError, OSError) as error:
        yield Finding(path, str(error))
        return
    for problem in decoded.problems:
        line = "" if problem.line is None else f":{problem.line}"
        hint = "the file is left untouched" if problem.fatal else "the rest of the file is read"
        yield Finding(f"{files.path(problem.path)}{line}", problem.message, hint)
