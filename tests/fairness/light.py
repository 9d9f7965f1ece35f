"""The light client: a separate process that makes small calls and records how long each took."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

from tests.home import Client, Home

PAUSE_S = 0.002
PATIENCE_S = 600.0
"""A call that takes longer fails the run."""
KINDS = ("append", "read", "list", "hello")
Times = dict[str, list[float]]
"""Seconds of each call, by kind."""


@contextmanager
def beside(home: Home) -> Iterator[Times]:
    """The light client runs meanwhile; its times are there at the end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    stop = context.Event()
    process = context.Process(target=_run, args=(str(home.path), stop, theirs))
    process.start()
    times: Times = {}
    assert ours.recv() == "ready"
    try:
        yield times
    finally:
        stop.set()
        times |= ours.recv()
        process.join()


def _run(path: str, stop: Event, tell: Connection) -> None:
    from pathlib import Path

    client = Home(Path(path)).client(answer_s=PATIENCE_S)
    times = _calls(client, stop, tell)
    client.close()
    tell.send(times)


def _calls(client: Client, stop: Event, tell: Connection) -> Times:
    client.call("session/new", sessionId="light")
    calls = {
        "append": lambda: client.call("session/append", sessionId="light", messages=[{"role": "user", "content": "x" * 200}]),
        "read": lambda: client.call("session/read", sessionId="light", last=20),
        "list": lambda: client.call("session/list", limit=20),
        "hello": lambda: client.call("daemon/hello"),
    }  # fmt: skip
    for call in calls.values():  # caches warm, files made
        call()
    times: Times = {kind: [] for kind in KINDS}
    tell.send("ready")
    while not stop.is_set():
        for kind, call in calls.items():
            began = time.perf_counter()
            call()
            times[kind].append(time.perf_counter() - began)
            time.sleep(PAUSE_S)
    return times
