"""The program is updated under a daemon that runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond import program
from sessiond.cli.status import _lines
from sessiond.client.daemon_types import Status
from sessiond.doctor.running import examine_daemon
from sessiond.endpoint import places
from sessiond.rpc.errors import wire_error
from tests.home import Home
from tests.shell import ROOT, wait_until

_SOON = "[daemon]\nidle_exit_s = 2\n"
_AS_A_SERVICE = '[daemon]\nidle_exit_s = 0\n[follow]\ntools = ["codex"]\n'


class Updated:
    """A daemon with a copy of the program, and its update."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "package" / "sessiond"
        shutil.copytree(ROOT / "sessiond", self.package, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "home").mkdir()
        env = {"PYTHONPATH": str(self.package.parent), "PYTHONSAFEPATH": "1", "HOME": str(folder)}
        self.home = Home(folder / "home", env=env)

    def update(self) -> None:
        new = self.package / "new.py"
        new.write_bytes((self.package / "__init__.py").read_bytes())
        os.utime(new, (1, 1))
        new.rename(self.package / "__init__.py")


@pytest.fixture
def updated(tmp_path: Path) -> Iterator[Updated]:
    made = Updated(tmp_path)
    yield made
    made.home.stop()


@pytest.mark.parametrize("config", [_SOON, _AS_A_SERVICE], ids=["alone", "service"])
def test_a_daemon_that_nobody_needs_ends(updated: Updated, config: str) -> None:
    """With the code after which a service manager starts the next one. One that has clients stays, and tells them."""
    home = updated.home
    home.configure(config)
    home.start()
    client = home.client()
    client.call("session/new", sessionId="s", name="S")
    updated.update()
    assert "updated" in client.notification("window/logMessage")["message"]
    assert client.call("session/read", sessionId="s")["messages"] == []
    client.close()
    process = home.process
    assert process is not None
    wait_until(lambda: process.poll() is not None)
    assert process.returncode == 1


def test_what_fails_after_an_update_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told = wire_error(ImportError("cannot import name"))
    assert "bug" in str(told.data["hint"])
    monkeypatch.setattr(program, "_at_start", (1, 1))
    told = wire_error(ImportError("cannot import name"))
    assert told.message == f"internal error: {program.UPDATED}"
    assert told.data["hint"] == program.WHAT_TO_DO


@pytest.mark.parametrize(
    ("started", "is_told"), [("2001-01-01T00:00:00.000Z", True), ("2999-01-01T00:00:00.000Z", False)]
)
def test_an_old_daemon_is_named(started: str, is_told: bool) -> None:
    status = Status(started_at=started)
    assert (program.UPDATED in [one.problem for one in examine_daemon(places(), status)]) == is_told
    assert any(program.UPDATED in line for _, line in _lines(status)) == is_told
