"""The whole examination, one part after the other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import partial

from sessiond.client import requests
from sessiond.client.daemon_types import Status
from sessiond.config import StoreConfig, load
from sessiond.daemon.data_version import check_vintage
from sessiond.doctor.configuration import mend_config
from sessiond.doctor.finding import Ask, Finding
from sessiond.doctor.folders import examine_folders, examine_left_behind, note_unpromised
from sessiond.doctor.index import examine_index, examine_unfinished
from sessiond.doctor.journal import examine_journal
from sessiond.doctor.running import examine_daemon, examine_followed
from sessiond.doctor.spools import examine_spools
from sessiond.doctor.stores import StoreDoctor
from sessiond.endpoint import Places
from sessiond.errors import ConfigError, SessiondError
from sessiond.fs import FileSystem


def examine(where: Places, fs: FileSystem, ask: Ask, *, repairing: bool = False) -> Iterator[Finding]:
    """Yield all findings, problems included, each after what it depends on. `repairing`: the caller holds the lock, and applies
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
    yield from examine_folders(where)
    yield from examine_left_behind()
    yield from note_unpromised([where.data, *(store.path for store in config.stores if store.name != "default")])
    status: Status | None = None
    if not repairing:
        try:
            answer = ask(requests.status())
        except (SessiondError, OSError) as error:
            yield Finding("daemon", str(error), f"its log is in {where.log}")
        else:
            status = None if answer is None else answer.value
            yield from examine_daemon(where, status)
            if status is not None:
                yield from examine_followed(ask)
    if status is None and fs.stat(where.data + "/journal") is not None:
        yield from examine_journal(fs, where.data + "/journal", config.limits, repairing=repairing)
    for store in config.stores:
        yield from _store(fs, where, store, repairing=repairing)
    yield from examine_spools(where)
    if status is None:
        yield from examine_index(fs, where)
        yield from examine_unfinished(fs, where, config)


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
