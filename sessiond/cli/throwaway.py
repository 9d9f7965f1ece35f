"""A folder that lives as long as one command, whatever ends the command."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from sessiond.endpoint import read_endpoint

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_STOP_S = 60.0


class _Ended(BaseException):
    """A signal arrived: the programs that were started are to be ended, and the folder removed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Interrupts:
    """Raises _Ended on the main thread, and only once, so that a second signal does not interrupt the cleanup. While `held`, it
    waits: a program that has just been started must first be known to the code that will end it.
    """

    def __init__(self) -> None:
        self._came: int | None = None
        self._held = False

    def __call__(self, number: int, _frame: object) -> None:
        if self._came is None:
            self._came = number
            if not self._held:
                raise _Ended(number)

    @contextmanager
    def held(self) -> Iterator[None]:
        if self._came is not None:  # the cleanup starts programs too
            yield
            return
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._came is not None:
            raise _Ended(self._came)


interrupts = _Interrupts()


def run_in_throwaway_home(run: Callable[[str], bool], *, keep: bool) -> int:
    """Give `run` the path of an empty folder, and remove it afterwards, unless `keep`. Returns 0 if `run` returns true, else 1.
    After a signal it cleans up, and the signal then ends the process.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, interrupts)
    home = tempfile.mkdtemp(prefix="sessiond-demo-")
    try:
        return 0 if run(home) else 1
    except _Ended as ended:
        by = ended.number
    finally:
        if keep:
            print(f"The throwaway home is {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    signal.signal(by, signal.SIG_DFL)
    os.kill(os.getpid(), by)  # so the sender sees that the signal ended the process
    return 1


def environment_of(home: str) -> dict[str, str]:
    """For programs that use `home` as their SESSIOND_HOME. The package that runs now is theirs, whatever else is installed."""
    package_parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SESSIOND_")}
    path = os.pathsep.join(filter(None, (package_parent, kept.get("PYTHONPATH"))))
    return {**kept, "SESSIOND_HOME": home, "PYTHONPATH": path}


def stop_daemon(environment: Mapping[str, str]) -> None:
    """Stop the daemon of this SESSIOND_HOME, with SIGKILL if it does not end by itself."""
    command = [sys.executable, "-m", "sessiond", "stop"]
    try:
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=_STOP_S, check=False)
    except subprocess.TimeoutExpired:
        record = read_endpoint(f"{environment['SESSIOND_HOME']}/data")
        if record is not None:
            with suppress(ProcessLookupError):
                os.kill(record.pid, signal.SIGKILL)
