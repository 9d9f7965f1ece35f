"""A home whose daemon the adapters find by themselves, and start again after it was killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from sessiond.adapters import clients
from sessiond.endpoint import read_endpoint
from tests.shell import Shell, wait_until


class KilledHome(Shell):
    def kill_now(self) -> bool:
        """kill -9 the daemon, if one runs at this moment, and wait until it has let go of the home."""
        record = read_endpoint(str(self.data))
        if record is None or not self.held():
            return False
        try:
            os.kill(record.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        wait_until(lambda: not _alive(record.pid))
        return True


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[KilledHome]:
    """Adapters without `home` use this one."""
    made = KilledHome()
    made.client().close()
    monkeypatch.setenv("SESSIOND_HOME", str(made.path))
    yield made
    clients.close()
    made.close()
