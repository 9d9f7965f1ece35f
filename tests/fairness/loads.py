"""What a heavy client does. A new load is a function here and a line in LOADS."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.measure import MB, Words
from tests.fairness.foreign import FOREIGN
from tests.fairness.light import PATIENCE_S
from tests.home import Client, Home

POLL_S = 0.2
WINDOW = 200
"""Requests of the heavy client that are under way at once."""


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    nothing_s: float
    sessions: int
    messages: int
    """That are searched, exported, copied and indexed, 500 bytes each; a thousand in a session."""
    files: int
    """That are imported, or adopted."""
    message_bytes: int
    file_bytes: int
    delay_s: float
    """What a disk that is not ours takes for each look."""


FULL = Scale(
    nothing_s=10.0,
    sessions=10_000,
    messages=100_000,
    files=5_000,
    message_bytes=60 * MB,
    file_bytes=100 * MB,
    delay_s=3.0,
)
SMOKE = Scale(
    nothing_s=0.2, sessions=30, messages=2_000, files=3, message_bytes=100_000, file_bytes=3_000_000, delay_s=0.3
)

Load = Callable[[Home, Scale], Iterator[str]]


def nothing(home: Home, scale: Scale) -> Iterator[str]:
    yield "nothing at all"
    time.sleep(scale.nothing_s)


def new(home: Home, scale: Scale) -> Iterator[str]:
    client = home.client(PATIENCE_S)
    yield f"makes {scale.sessions:,} sessions, with ids of the daemon's"
    yield took(lambda: make_sessions(client, scale.sessions), "made")


def leave(home: Home, scale: Scale, *, share: float) -> Iterator[str]:
    client, count = home.client(PATIENCE_S), int(scale.sessions * share)
    make_sessions(client, count)
    watcher = home.client(PATIENCE_S)
    yield f"leaves with {count:,} open, none of them saved"
    client.close()
    yield took(lambda: wait_till_saved(watcher), "saved")


def search(home: Home, scale: Scale) -> Iterator[str]:
    client = home.client(PATIENCE_S)
    fill(client, scale.messages)
    yield f"searches {scale.messages:,} messages for a prefix of two letters, ten times"
    yield took(lambda: [client.call("session/search", query="ba*", limit=50) for _ in range(10)], "found")


def regex(home: Home, scale: Scale) -> Iterator[str]:
    client = home.client(PATIENCE_S)
    fill(client, scale.messages)
    yield f"searches {scale.messages:,} messages for a regular expression without a literal"
    asked = {"query": "[a-c]{2}.*[x-z]$", "mode": "regex"}
    yield took(lambda: client.answer(client.send("session/search", asked)), "over")


def export(home: Home, scale: Scale) -> Iterator[str]:
    client = home.client(PATIENCE_S)
    sessions = fill(client, scale.messages)
    yield f"exports {len(sessions)} sessions of a thousand messages, each as HTML"
    yield took(lambda: [client.call("session/export", sessionId=one, format="html") for one in sessions], "done")


def backup(home: Home, scale: Scale) -> Iterator[str]:
    client = home.client(PATIENCE_S)
    fill(client, scale.messages)
    yield f"makes a backup of {scale.messages:,} messages"
    yield took(lambda: client.call("daemon/backup", path=str(home.path / "copy")), "made")


def import_(home: Home, scale: Scale) -> Iterator[str]:
    client, source, words = home.client(PATIENCE_S), home.path / "source", Words()
    source.mkdir()
    for number in range(scale.files):
        messages = [{"role": "user", "content": words.text(500)} for _ in range(20)]
        (source / f"{number}.json").write_text(json.dumps(messages))
    client.call("daemon/hello")
    yield f"imports {scale.files:,} files of 20 messages"
    yield took(lambda: client.call("session/import", path=str(source), format="messages"), "done")


def adopt(home: Home, scale: Scale) -> Iterator[str]:
    client = home.client(PATIENCE_S)
    make_sessions(client, scale.files)
    client.call("session/save")
    shutil.copytree(home.path / "data" / "sessions", home.path / "theirs")
    yield f"adopts a folder of {scale.files:,} files"
    folder = str(home.path / "theirs")
    yield took(lambda: client.call("store/adopt", path=folder, name="theirs", format="jsonl"), "done")


def message(home: Home, scale: Scale) -> Iterator[str]:
    client = home.client(PATIENCE_S)
    client.call("session/new", sessionId="large")
    text = Words().text(scale.message_bytes)
    yield f"appends one message of {scale.message_bytes // MB} MB, and reads it"
    yield took(
        lambda: client.call("session/append", sessionId="large", messages=[{"role": "user", "content": text}]),
        "appended",
    )
    yield took(lambda: client.call("session/read", sessionId="large"), "read")


def edit(home: Home, scale: Scale) -> Iterator[str]:
    client, words = home.client(PATIENCE_S), Words()
    client.call("session/new", sessionId="large")
    for _ in range(0, scale.file_bytes, MB):
        batch = [{"role": "user", "content": words.text(1000)} for _ in range(1000)]
        client.call("session/append", sessionId="large", messages=batch)
    path = Path(client.call("session/save", sessionId="large")["saved"][0]["path"])
    client.notifications.clear()
    yield f"has a session of {scale.file_bytes // MB} MB open, to whose file somebody adds a line"

    def merged() -> None:
        with path.open("a") as file:
            file.write('{"role":"user","content":"by hand"}\n')
        client.notification("session/reloaded")

    yield took(merged, "merged")


def index(home: Home, scale: Scale) -> Iterator[str]:
    fill(home.client(PATIENCE_S), scale.messages)
    home.stop()
    for file in (home.path / "cache").rglob("*.sqlite3*"):
        file.unlink()
    home.start()
    watcher = home.client(PATIENCE_S)
    watcher.call("daemon/hello")
    yield f"waits while a lost index of {scale.messages:,} messages is made anew"
    yield took(lambda: wait_till(lambda: watcher.call("daemon/status")["index"]["state"] == "ready"), "ready")


LOADS: dict[str, tuple[Load, ...]] = {
    "nothing": (nothing,),
    "new": (new,),
    "leave": (partial(leave, share=0.1), partial(leave, share=0.3), partial(leave, share=1.0)),
    "import": (import_,),
    "adopt": (adopt,),
    "export": (export,),
    "search": (search,),
    "regex": (regex,),
    "backup": (backup,),
    "message": (message,),
    "edit": (edit,),
    "index": (index,),
    **FOREIGN,
}
"""By name; each of a name's loads is measured in a home of its own."""


def took(work: Callable[[], object], what: str) -> str:
    began = time.perf_counter()
    work()
    return f"{what} after {time.perf_counter() - began:.1f} s"


def make_sessions(client: Client, count: int) -> None:
    """The client has them open then, each with one message."""
    text = "a first message of some fifty characters, like many"
    for start in range(0, count, WINDOW):
        asked = [
            client.send("session/new", {"messages": [{"role": "user", "content": text}]})
            for _ in range(start, min(count, start + WINDOW))
        ]
        for number in asked:
            assert "result" in client.answer(number)


def fill(client: Client, messages: int) -> list[str]:
    """So many messages in sessions of a thousand, saved and indexed. Their ids."""
    words = Words()
    sessions = [f"s{number}" for number in range(messages // 1000)]
    for one in sessions:
        batch = [{"role": "user", "content": words.text(500)} for _ in range(1000)]
        client.call("session/new", sessionId=one, messages=batch)
    client.call("session/save")
    wait_till(lambda: client.call("session/search", query="nothing")["total"] == 0)
    return sessions


def wait_till_saved(watcher: Client) -> None:
    """But for the light client's own."""
    wait_till(lambda: watcher.call("daemon/status")["dirtySessions"] <= 1)


def wait_till(so: Callable[[], bool]) -> None:
    while not so():
        time.sleep(POLL_S)
