"""`sessiond stop`."""

from __future__ import annotations

import contextlib
import time

import click

from sessiond.cli.client import connect_if_running
from sessiond.cli.options import as_json
from sessiond.cli.output import print_json, say
from sessiond.client import requests
from sessiond.endpoint import Places, places
from sessiond.errors import DaemonUnreachable
from sessiond.limits import DEFAULT
from sessiond.reach import is_held

_GRACE_S = 5.0
_LOOK_AGAIN_S = 0.02


@click.command("stop", short_help="Save everything and stop the daemon.")
@as_json
def command(as_json: bool) -> int:
    """Save everything and stop the daemon. The next client starts it again."""
    pid = stop()
    if as_json:
        print_json({"stopped": pid is not None, "pid": pid})
    else:
        say("no daemon is running" if pid is None else f"the daemon (pid {pid}) has stopped")
    return 0


def stop() -> int | None:
    """Stop the daemon and wait until it has released the data folder. Its pid; None if none was running. DaemonUnreachable."""
    where = places()
    try:
        pid = _tell_it(where)
    except ConnectionError:  # it was just stopping
        pid = _tell_it(where)
    if pid is None:
        return None
    deadline = time.monotonic() + DEFAULT.shutdown_s + _GRACE_S
    while is_held(where):
        if time.monotonic() > deadline:
            raise DaemonUnreachable(
                f"the daemon (pid {pid}) was told to stop but is still running", hint=f"if it stays so: kill {pid}"
            )
        time.sleep(_LOOK_AGAIN_S)
    return pid


def _tell_it(where: Places) -> int | None:
    """Its pid; None if no daemon is running."""
    connection = connect_if_running(where)
    if connection is None:
        return None
    with connection:
        pid = connection.ask(requests.hello()).value.pid
        with contextlib.suppress(ConnectionError):  # it may stop before its answer arrives: that is what was asked for
            connection.ask(requests.stop())
    return pid
