"""`sessiond import --follow`: imports what the tools write as they write it.

Folders are watched; single files (databases, a history in the home folder) are checked ten times a second. The next pass
brings what one pass misses: a file is always read as a whole, and parts that are already known add nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from sessiond.cli.client import connect
from sessiond.cli.import_report import summary, warning_text
from sessiond.cli.import_run import Choice, ImportPath, bring_in, request
from sessiond.cli.output import count, one_line, print_json, say
from sessiond.cli.streams import must_be_read
from sessiond.client.blocking import Sessiond
from sessiond.client.failures import AnswerLost
from sessiond.client.types import SessionInfo
from sessiond.errors import SessiondError
from sessiond.importers import registry

_LOOK_MS = 100
_GATHER_MS = 250
"""A tool that writes without a pause is read this often."""
_REST = 2.0
"""After it is read, a file is left alone for this many times as long as reading it took: a large file that grows fast
costs a third of a core at most."""


def follow(targets: list[ImportPath], choice: Choice, as_json: bool) -> None:
    """Import what is written, until interrupted or until nobody reads the output. If the daemon ends, go on with the next one."""
    follower = _Follower(targets, choice, as_json)
    first = True
    watching = _changes([target.path for target in targets])
    next(watching)  # from here on nothing is missed
    while True:
        must_be_read()
        try:
            with connect() as client:
                follower.everything(client, first=first)
                first = False
                for paths in watching:
                    must_be_read()
                    follower.changed(client, paths)
        except AnswerLost:
            continue


def _changes(targets: list[str]) -> Iterator[set[str]]:
    """Sets of paths, as soon as they are written; empty sets in between, the first of them once the watch is set up."""
    import watchfiles

    folders = [path for path in targets if os.path.isdir(path)]
    files = {path: _mark(path) for path in targets if path not in folders}
    waking = watchfiles.watch(
        *folders, watch_filter=_matters, debounce=_GATHER_MS, step=50, rust_timeout=_LOOK_MS, yield_on_timeout=True,
        ignore_permission_denied=True,
    ) if folders else _ticks()  # fmt: skip
    for changes in waking:
        written = {path.removesuffix("-wal") for _, path in changes}
        for path, mark in files.items():
            if (now := _mark(path)) != mark:
                files[path] = now
                written.add(path)
        yield written


def _ticks() -> Iterator[set[tuple[Any, str]]]:
    while True:
        yield set()
        time.sleep(_LOOK_MS / 1000)


def _matters(change: object, path: str) -> bool:
    del change
    return registry.may_be_known(os.path.basename(path).removesuffix("-wal"))


def _mark(path: str) -> str | None:
    try:
        return registry.fingerprint(path)
    except OSError:
        return None


class _Follower:
    def __init__(self, targets: list[ImportPath], choice: Choice, as_json: bool) -> None:
        self._targets = targets
        self._choice = choice
        self._as_json = as_json
        self._waiting: dict[str, float] = {}
        """Path of a file that was written -> when it may be read (monotonic)."""
        self._free: dict[str, float] = {}
        """Path of a file that was read -> when it may be read again."""
        self._suspect: set[str] = set()
        """Warnings seen once: a line that is still being written is not damage."""
        self._told: set[str] = set()

    def everything(self, client: Sessiond, *, first: bool) -> None:
        """Import everything: at first, and again after a daemon ended, because nobody knows how far it got."""
        total = bring_in(client, self._targets, self._choice)
        result = total.value
        self._told.update(warning_text(warning) for warning in result.warnings)
        if not first:
            self._show(result.sessions, total.plain, [])
        elif self._as_json:
            print_json(total.plain)
        else:
            summary(result, dry_run=False)
            say(f"following {count(len(self._targets), 'place')}; press Ctrl-C to end")
        sys.stdout.flush()

    def changed(self, client: Sessiond, paths: set[str]) -> None:
        now = time.monotonic()
        for path in paths:
            self._waiting.setdefault(path, self._free.pop(path, now))
        for path in [path for path, due in self._waiting.items() if due <= now]:
            del self._waiting[path]
            if os.path.isfile(path):
                self._read(client, path)

    def _read(self, client: Sessiond, path: str) -> None:
        target = self._target(path)
        if target is None:
            return
        begun = time.monotonic()
        try:
            answer = request(client, target, self._choice, lambda _: None)
        except AnswerLost:
            raise
        except SessiondError as error:
            print(one_line(f"sessiond: {path}: {error.message}"), file=sys.stderr)
            return
        ended = time.monotonic()
        self._free[path] = ended + _REST * (ended - begun)
        met = {warning_text(warning) for warning in answer.value.warnings}
        fresh = sorted((met & self._suspect) - self._told)
        self._suspect = {text for text in self._suspect if path not in text} | met
        self._told.update(fresh)
        self._show(answer.value.sessions, answer.plain, fresh)

    def _target(self, path: str) -> ImportPath | None:
        """The file as a target of its own, if one of the targets covers it."""
        for target in self._targets:
            if path == target.path:
                return target
            if path.startswith(target.path.rstrip("/") + "/"):
                found = registry.identify(path, target.tool, named=False)
                if isinstance(found, registry.Found):
                    return ImportPath(path, None if found.importer == registry.NATIVE else found.importer)
        return None

    def _show(self, sessions: list[SessionInfo], plain: dict[str, Any], warnings: list[str]) -> None:
        """`plain`: the result as the daemon sent it."""
        for text in warnings:
            print(text, file=sys.stderr, flush=True)
        if not sessions:
            return
        if self._as_json:
            print_json(plain)
            return
        for info in sessions:
            say(one_line(f"{info.session_id}  {count(info.message_count, 'message')}  {info.name or ''}"))
        sys.stdout.flush()
