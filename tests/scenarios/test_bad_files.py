"""A broken file in a folder affects only itself, in each of the five systems."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.home import Home
from tests.programs import need
from tests.scenarios.systems import texts, until, wire
from tests.test_adopt import SYSTEMS, made, problem

FILES = {
    "agent-q": "session-{}.el", "sibyl": "session-{}/session.lisp", "amacs": "{}.org",
    "cortex": "transcripts/{}/transcript.jsonl", "theia": "{}.json",
}  # fmt: skip


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_no_file_is_a_bad_file_of_its_own(home: Home, folder: Path, system: str) -> None:
    """A FIFO, a folder, a link to nowhere and a link to itself: named at adoption, `badFile` when opened; the others work."""
    made(folder, system)
    paths = {kind: folder / FILES[system].format(kind) for kind in ("fifo", "folder", "dangling", "itself")}
    for path in paths.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(paths["fifo"])
    paths["folder"].mkdir()
    paths["dangling"].symlink_to("nowhere")
    paths["itself"].symlink_to(paths["itself"].name)
    client = home.client()
    adopted = client.call("store/adopt", path=str(folder), name=folder.parent.name, format=system)
    assert {one["path"] for one in adopted["warnings"]} == {str(path) for path in paths.values()}
    for kind, path in paths.items():
        local = f"session-{kind}" if system in ("agent-q", "sibyl") else kind
        error = client.fails("session/open", sessionId=wire(folder, local))["data"]
        assert (error["kind"], error["path"]) == ("badFile", str(path))
    assert texts(client, wire(folder, SYSTEMS[system][1])) == SYSTEMS[system][2]


class Bound(Home):
    """A daemon that permissions bind, whoever runs the tests."""

    def start(self) -> None:
        command = [sys.executable, "-m", "sessiond", "serve"]
        if os.geteuid() == 0:
            drop = ["--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all"]
            command = [need("setpriv"), *drop, *command]
        with (self.path / "daemon.err").open("ab") as err:
            self.process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        self.client().close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs setpriv where root runs the tests")
def test_a_folder_without_permission(folder: Path, tmp_path: Path) -> None:
    """Its store alone is unavailable, while it is mounted and at a start of the daemon; given back, all is there."""
    config = "\n".join(f'[stores.{s}]\npath = "{made(folder / s, s)}"\nformat = "{s}"' for s in ("theia", "cortex"))
    try:
        with Bound(tmp_path, config=config) as home:
            client = home.client()
            assert texts(client, "theia/pr-1") == SYSTEMS["theia"][2]
            (folder / "theia").chmod(0)
            until(lambda: problem(client, "theia") == "unavailable")
            assert texts(client, "cortex/helper") == SYSTEMS["cortex"][2]
            home.stop()
            home.start()
            client = home.client()
            assert problem(client, "theia") == "unavailable"
            assert texts(client, "cortex/helper") == SYSTEMS["cortex"][2]
            (folder / "theia").chmod(0o700)
            until(lambda: problem(client, "theia") is None)
            assert texts(client, "theia/pr-1") == SYSTEMS["theia"][2]
    finally:
        (folder / "theia").chmod(0o700)


def test_a_damaged_marker(folder: Path, tmp_path: Path) -> None:
    """The store's own marker is cut: the daemon starts, and the store works."""
    made(folder, "cortex")
    with Home(tmp_path, config=f'[stores.s]\npath = "{folder}"\nformat = "cortex"\n') as home:
        home.client().call("session/save")
        home.stop()
        (folder / ".sessiond" / "store.json").write_bytes(b'{"id": "\xff')
        home.start()
        client = home.client()
        assert problem(client, "s") is None
        assert texts(client, "s/helper") == SYSTEMS["cortex"][2]
