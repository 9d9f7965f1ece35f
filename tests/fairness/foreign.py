"""Heavy clients whose files lie on a disk that is not the daemon's, and slow: each look at a file there takes seconds.

strace delays the calls on these files and folders, for as long as the load runs. It stops at every call of the daemon, so the
light client is slower than without it whatever the daemon does.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.durable import can_trace
from tests.fairness.light import PATIENCE_S
from tests.faults.injection import injected
from tests.home import Client, Home

if TYPE_CHECKING:
    from tests.fairness.loads import Scale

CLIENTS = 8
"""More than the daemon has threads for its own files, on two cores."""


def is_possible() -> bool:
    return os.geteuid() == 0 and can_trace()


@contextlib.contextmanager
def slow(home: Home, paths: Sequence[Path], delay_s: float) -> Iterator[None]:
    """Each call of the daemon that names one of `paths` takes so much longer."""
    assert home.process is not None
    with tempfile.TemporaryDirectory() as folder:
        calls = Path(folder) / "calls"
        how = f"delay_enter={round(delay_s * 1e6)}"
        with injected(home.process.pid, "%file", how, when="1+", paths=paths, calls=calls) as seen:
            yield
        assert seen.injected(), "no call was slow"


def together(home: Home, method: str, asked: Sequence[dict[str, object]]) -> None:
    """One request by each of several clients; all are answered, however."""
    clients = [home.client(PATIENCE_S) for _ in asked]
    sent: list[tuple[Client, int]] = [
        (client, client.send(method, one)) for client, one in zip(clients, asked, strict=True)
    ]
    for client, number in sent:
        client.answer(number)


def store(home: Home, scale: Scale) -> Iterator[str]:
    """Sessions of an adopted store are opened for the first time."""
    folder = home.path / "theirs"
    folder.mkdir()
    client = home.client(PATIENCE_S)
    client.call("store/adopt", path=str(folder), name="theirs", format="jsonl")
    names = [f"s{number}" for number in range(CLIENTS)]
    for one in names:
        client.call("session/new", sessionId=one, store="theirs", messages=[{"role": "user", "content": "x"}])
    client.call("session/save")
    home.stop()
    home.start()
    watcher = home.client(PATIENCE_S)
    while watcher.call("daemon/status")["index"]["state"] != "ready":
        pass
    with slow(home, [folder / f"{one}.jsonl" for one in names], scale.delay_s):
        yield f"{CLIENTS} clients open sessions of a store whose disk takes {scale.delay_s:g} s for each look"
        together(home, "session/open", [{"sessionId": f"theirs/{one}"} for one in names])


def source(home: Home, scale: Scale) -> Iterator[str]:
    folder = home.path / "source"
    folder.mkdir()
    files = [folder / f"{number}.json" for number in range(CLIENTS)]
    for file in files:
        file.write_text(json.dumps([{"role": "user", "content": "x"}]))
    home.client(PATIENCE_S).call("daemon/hello")
    with slow(home, files, scale.delay_s):
        yield f"{CLIENTS} clients import files from a disk that takes {scale.delay_s:g} s for each look"
        together(home, "session/import", [{"path": str(file), "format": "messages"} for file in files])


def target(home: Home, scale: Scale) -> Iterator[str]:
    client = home.client(PATIENCE_S)
    client.call("session/new", sessionId="s", messages=[{"role": "user", "content": "x"}])
    files = [home.path / f"copy{number}.html" for number in range(CLIENTS)]
    with slow(home, files, scale.delay_s):
        yield f"{CLIENTS} clients export to a disk that takes {scale.delay_s:g} s for each look"
        together(home, "session/export", [{"sessionId": "s", "format": "html", "path": str(file)} for file in files])


def copy(home: Home, scale: Scale) -> Iterator[str]:
    client, into = home.client(PATIENCE_S), home.path / "copies"
    into.mkdir()
    client.call("session/new", sessionId="s", messages=[{"role": "user", "content": "x"}])
    with slow(home, [into, into / "copy"], scale.delay_s):
        yield f"makes a backup on a disk that takes {scale.delay_s:g} s for each look"
        together(home, "daemon/backup", [{"path": str(into / "copy")}])


def follow(home: Home, scale: Scale) -> Iterator[str]:
    folder = home.path / "followed"
    folder.mkdir()
    files = [folder / f"{number:08}-1111-4222-8333-444444444444.jsonl" for number in range(CLIENTS // 2)]
    for file in files:
        _write_record(file, 1)
    client = home.client(PATIENCE_S)
    client.call("daemon/follow", add=[f"claude-code:{folder}"])
    _until_followed(client, len(files))
    with slow(home, files, scale.delay_s):
        yield f"follows {len(files)} files that grow on a disk that takes {scale.delay_s:g} s for each look"
        for file in files:
            _write_record(file, 2)
        watcher = home.client(PATIENCE_S)
        for file in files:
            while len(watcher.call("session/read", sessionId=f"claude-code-{file.stem}")["messages"]) < 2:
                time.sleep(0.1)


def _write_record(file: Path, number: int) -> None:
    message = {"role": "user", "content": f"word {number}"}
    written = {"type": "user", "uuid": f"u{number}", "parentUuid": None, "sessionId": file.stem, "message": message}
    with file.open("a") as out:
        out.write(json.dumps({**written, "timestamp": f"2026-01-11T14:00:0{number}.000Z"}) + "\n")


def _until_followed(client: Client, count: int) -> None:
    while sum(one["sessions"] for one in client.call("daemon/follow")["places"]) < count:
        time.sleep(0.1)


def _if_possible(load: Callable[[Home, Scale], Iterator[str]], home: Home, scale: Scale) -> Iterator[str]:
    if is_possible():
        yield from load(home, scale)
    else:
        yield "nothing: this machine traces no process"


FOREIGN = {
    f"slow {name}": (partial(_if_possible, load),)
    for name, load in {"store": store, "source": source, "target": target, "backup": copy, "follow": follow}.items()
}
