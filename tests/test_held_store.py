"""With a real daemon: a disk is away for long, with unsaved words, and everything else continues."""

from __future__ import annotations

import time
from pathlib import Path

from sessiond.backups.verify import prove
from sessiond.fs import RealFileSystem
from tests.home import Client, Home

CONFIG = """\
[autosave]
interval_s = 0
idle_s = 0
[limits]
segment_bytes = 20000
journal_bytes = 60000
reserve_bytes = 4096
"""
PATIENCE_S = 60.0


def journal(client: Client) -> dict[str, int]:
    return client.call("daemon/status")["journal"]


def wait_for(client: Client, what: str) -> None:
    """Until the store is as it says."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        stores = {one["name"]: one["problem"] for one in client.call("daemon/status")["stores"]}
        if (stores["disk"] or {"kind": "well"})["kind"] == what:
            return
        time.sleep(0.05)
    raise AssertionError(f"the store is not {what}")


def test_13_a_disk_that_is_away_keeps_neither_the_journal_nor_loses_its_words(tmp_path: Path) -> None:
    """The journal remains within its limit; after kill -9, and when the disk is back, the words are there and nothing is held."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with Home(tmp_path, CONFIG) as home:
        client = home.client()
        client.call("store/adopt", path=str(disk), name="disk", format="jsonl")
        client.call("session/new", sessionId="x", store="disk", name="X")
        client.call(
            "session/append", sessionId="disk/x", messages=[{"id": "m", "role": "user", "content": "held words"}]
        )
        disk.rename(tmp_path / "aside")
        wait_for(client, "unavailable")
        client.call("session/new", sessionId="y", name="Y")
        for _ in range(120):
            client.call("session/append", sessionId="y", messages=[{"role": "user", "content": "y" * 2000}])
        deadline = time.monotonic() + PATIENCE_S
        while journal(client)["bytes"] > 60_000:
            assert time.monotonic() < deadline, "the journal is not trimmed"
            time.sleep(0.05)
        assert 0 < journal(client)["held"] < 20_000  # on a slow machine a little of the other session, too
        assert [path.suffix for path in (tmp_path / "data" / "held").iterdir()] == [".held"]
        client.call("daemon/backup", path=str(tmp_path / "copy"))
        assert [path.suffix for path in (tmp_path / "copy" / "data" / "held").iterdir()] == [".held"]
        assert [one for one in prove(RealFileSystem(), str(tmp_path / "copy")) if one.problem] == []
        home.kill()
        home.forget_clients()
        home.start()
        client = home.client()
        (tmp_path / "aside").rename(disk)
        wait_for(client, "well")
        [message] = client.call("session/read", sessionId="disk/x")["messages"]
        assert message["content"] == "held words"
        client.call("session/save", sessionId="disk/x")
        assert b"held words" in (disk / "x.jsonl").read_bytes()
        while journal(client)["held"]:
            assert time.monotonic() < deadline + PATIENCE_S, "what is saved is still held"
            time.sleep(0.05)
        assert client.call("daemon/status")["damage"] == []
        assert client.call("session/list")["sessions"]


def test_a_folder_that_another_daemon_gives_back_is_mounted(tmp_path: Path) -> None:
    """It was adopted while the other one used it: it is a store from then on, with a problem until the other one ends."""
    folder = tmp_path / "disk"
    for path in (folder, tmp_path / "one", tmp_path / "other"):
        path.mkdir()
    with Home(tmp_path / "one", CONFIG) as mine:
        with Home(tmp_path / "other", CONFIG) as other:
            client = other.client()
            client.call("store/adopt", path=str(folder), name="disk", format="jsonl")
            client.call("session/new", sessionId="x", store="disk", name="X")
            client.call("session/save", sessionId="disk/x")
            client = mine.client()
            refused = client.fails("store/adopt", path=str(folder), name="disk", format="jsonl")
            assert refused["data"]["kind"] == "unavailable"
            wait_for(client, "unavailable")
        wait_for(client, "well")
        deadline = time.monotonic() + PATIENCE_S
        while not (listed := client.call("session/list", filter={"store": "disk"}))[
            "sessions"
        ]:  # its files are being looked at
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert [one["sessionId"] for one in listed["sessions"]] == ["disk/x"]


def test_sessions_of_a_store_that_was_taken_out_are_not_listed(tmp_path: Path) -> None:
    """Whoever removes a store from the configuration has its sessions neither in lists nor in searches, and keeps the files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    kept = f'{CONFIG}[stores.disk]\npath = "{folder}"\nformat = "jsonl"\n'
    with Home(tmp_path, kept) as home:
        client = home.client()
        for store in ("default", "disk"):
            said = [{"role": "user", "content": f"swordfish of {store}"}]
            client.call("session/new", sessionId="x", store=store, messages=said)
        assert len(client.call("session/search", query="swordfish")["hits"]) == 2
    home = Home(tmp_path, CONFIG)
    with home:
        client = home.client()
        deadline = time.monotonic() + PATIENCE_S
        while client.call("daemon/status")["index"]["state"] != "ready":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert [one["sessionId"] for one in client.call("session/list")["sessions"]] == ["x"]
        assert [one["sessionId"] for one in client.call("session/search", query="swordfish")["hits"]] == ["x"]
    assert (folder / "x.jsonl").exists()
