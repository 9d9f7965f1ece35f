"""Who shares nothing pays nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.home import Home

NAMES = ("asyncpg", "cryptography", "sessiond/shared/", "sessiond/hub/")


def test_a_daemon_without_a_shared_store_loads_nothing_of_it(tmp_path: Path) -> None:
    """Not at its start, and not when it serves: Python says what it imports."""
    home = Home(tmp_path, env={"PYTHONVERBOSE": "1"})
    with home:
        client = home.client()
        session = client.call("session/new", name="one")["session"]["sessionId"]
        client.call("session/append", sessionId=session, messages=[{"role": "user", "content": "x"}])
        client.call("daemon/status")
    said = (tmp_path / "daemon.err").read_text(errors="replace")
    assert "sessiond/service/" in said
    assert [name for name in NAMES if name in said or name.replace("/", ".") in said] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cryptography"])
def test_a_daemon_with_one_does(name: str, tmp_path: Path) -> None:
    """So the other test would notice it. The hub need not be there, and cryptography is loaded only with a key."""
    config = '[stores.team]\nurl = "postgresql://ada@127.0.0.1:1/none"\n'
    home = Home(tmp_path, config, env={"PYTHONVERBOSE": "1"})
    with home:
        assert home.client().call("session/list")["sessions"] == []
    said = (tmp_path / "daemon.err").read_text(errors="replace")
    assert name in said
