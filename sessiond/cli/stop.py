"""`sessiond stop`."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import click

from sessiond.cli.client import NAME, ask_if_running, connect_if_running
from sessiond.cli.options import as_json
from sessiond.cli.output import print_json, say
from sessiond.client import requests
from sessiond.endpoint import Places, places, read_endpoint
from sessiond.errors import DaemonUnreachable, SessiondError, TooLarge
from sessiond.limits import DEFAULT
from sessiond.reach import is_held

_GRACE_S = 5.0
_LOOK_AGAIN_S = 0.02


@click.command("stop", short_help="Save everything and stop the daemon.")
@as_json
def command(as_json: bool) -> int:
    """Save everything and stop the daemon. The next client starts it again."""
    attached = _attached()
    pid, another = stop()
    if as_json:
        found = {"another": another, "attached": attached}
        print_json({"stopped": pid is not None, "pid": pid} | {key: value for key, value in found.items() if value})
    elif pid is None:
        say("no daemon is running")
    elif another is not None:
        by = _starter(another)
        why = f"; {_in_words(attached)}" if attached else ""
        say(
            f"the daemon (pid {pid}) has stopped; another one (pid {another}) is running already{by and ', ' + by}{why}"
        )
    elif attached:
        say(f"the daemon (pid {pid}) has stopped; {_in_words(attached)} and may start it again")
    else:
        say(f"the daemon (pid {pid}) has stopped")
    return 0


def _attached() -> list[str]:
    """Names of the clients that are connected, editors for example, which start a daemon when they need one."""
    with contextlib.suppress(SessiondError, ConnectionError):  # `stop` itself says what is wrong
        answer = ask_if_running(places(), requests.status())
        return sorted(set(answer.value.clients) - {NAME}) if answer is not None else []
    return []


def _in_words(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last} were connected" if most else f"{last} was connected"


def stop() -> tuple[int | None, int | None]:
    """Stop the daemon and wait until it has released the data folder. Its pid, None if none was running; and the pid of another
    one that has taken the folder since. DaemonUnreachable.
    """
    where = places()
    try:
        told = _tell_it(where)
    except ConnectionError:  # it was just stopping
        told = _tell_it(where)
    if told is None:
        return None, None
    pid, instance = told
    deadline = time.monotonic() + DEFAULT.shutdown_s + _GRACE_S
    while is_held(where):
        # Only whoever holds the folder writes the record, so with another one in it ours has ended.
        record = read_endpoint(where.data)
        if record is not None and record.instance != instance:
            return pid, record.pid
        if time.monotonic() > deadline:
            if not _lives(pid):
                raise DaemonUnreachable(
                    f"the daemon (pid {pid}) has stopped, but another one has begun to start and is not ready",
                    hint="`sessiond status` shows whether it is by now",
                )
            raise DaemonUnreachable(
                f"the daemon (pid {pid}) was told to stop but is still running", hint=f"if it stays so: kill {pid}"
            )
        time.sleep(_LOOK_AGAIN_S)
    return pid, None


def _tell_it(where: Places) -> tuple[int, str] | None:
    """Its pid and instance; None if no daemon is running."""
    connection = connect_if_running(where)
    if connection is None:
        return None
    with connection:
        try:
            hello = connection.ask(requests.hello()).value
        except TooLarge:  # it has as many connections as it takes
            return _signal_it(where)
        with contextlib.suppress(ConnectionError):  # it may stop before its answer arrives: that is what was asked for
            connection.ask(requests.stop())
    return hello.pid, hello.instance_id


def _signal_it(where: Places) -> tuple[int, str] | None:
    record = read_endpoint(where.data)
    if record is None:
        return None
    os.kill(record.pid, signal.SIGTERM)  # it saves everything, as when it is told
    return record.pid, record.instance


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's by now
        return True
    return True


def _starter(pid: int) -> str:
    """Say who started a daemon, as far as its command line says so; "" if that cannot be read, as on macOS."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read().split(b"\0")
    except OSError:
        return ""
    return "started by a client" if b"--ready-fd" in arguments else "started by `sessiond serve`, as a service does"
