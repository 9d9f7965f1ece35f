"""`sessiond service`: the daemon starts at every login, under systemd or launchd."""

from __future__ import annotations

import os
import sys

import click

from sessiond import autostart
from sessiond.cli.options import as_json
from sessiond.cli.output import note, print_json, say
from sessiond.cli.status import ask

_FILES = {
    "missing": "not installed; install it with: sessiond service install",
    "foreign": "{path} was not written by sessiond",
    "outdated": "{path} is for another installation or home; update it with: sessiond service install",
    "current": "{path} is up to date",
}
_RUNNING = {
    True: "running",
    False: "not running; start it with: {start}",
    None: "{manager} cannot be reached, so it is unknown whether the service runs",
}
_force = click.option("--force", is_flag=True, help="Also if the file was not written by sessiond.")


@click.group("service", short_help="Start the daemon at every login, under systemd or launchd.")
def command() -> None:
    """Start the daemon at every login, under systemd (Linux) or launchd (macOS).

    Clients start a daemon when they need one, so no service is required. With a service the daemon is there before the first
    client, never exits when idle, and is restarted after a crash.
    """


@command.command("install", short_help="Write the service's file and start the service.")
@_force
@click.option("--no-start", is_flag=True, help="Only write the file.")
@as_json
def install(force: bool, no_start: bool, as_json: bool) -> int:
    """Write the service's file for this installation and this home, and start the service, now and at every login."""
    manager = autostart.manager_of(sys.platform, os.environ)
    definition = autostart.this_command(os.environ)
    autostart.check_runs(definition, os.environ)
    other = None if no_start or manager.running() else ask()
    pid = other.value.pid if other is not None else None
    done = autostart.install(manager, definition, force=force, start=not no_start)
    if as_json:
        print_json(
            {
                "manager": manager.name,
                "path": manager.path,
                "changed": done.changed,
                "started": not no_start and done.problem is None,
                "problem": done.problem,
                "otherDaemon": pid,
                "command": list(definition.command),
            }
        )
        return 0 if done.problem is None else 1
    say(f"wrote {manager.path}" if done.changed else f"{manager.path} is up to date")
    if done.problem is not None:
        note(f"the service was not started: {done.problem}; in a login session, run: {manager.start_by_hand()}")
        return 1
    if no_start:
        say(f"start it with: {manager.start_by_hand()}")
    elif pid is None:
        say("the daemon runs now, and will start at every login")
    else:
        say(f"a client has already started a daemon (pid {pid}), so the service takes over at the next login")
        say(f"to let it take over now, run: sessiond stop && {manager.start_by_hand()}")
    return 0


@command.command("remove", short_help="Stop the service and remove its file.")
@_force
@as_json
def remove(force: bool, as_json: bool) -> int:
    """Stop the service and remove its file. Sessions are not touched, and clients start a daemon again when they need one."""
    manager = autostart.manager_of(sys.platform, os.environ)
    done = autostart.remove(manager, force=force)
    if as_json:
        print_json({"manager": manager.name, "path": manager.path, "removed": done.changed, "problem": done.problem})
    elif done.changed:
        say(f"removed {manager.path}")
        if done.problem is not None:
            note(f"the service manager was not told: {done.problem}")
    else:
        say("the service is not installed")
    return 0 if done.problem is None else 1


@command.command("status", short_help="Say whether the service is installed and running.")
@as_json
def status(as_json: bool) -> int:
    """Say whether the service is installed, up to date and running. `sessiond status` describes the daemon itself."""
    manager = autostart.manager_of(sys.platform, os.environ)
    found = autostart.state(manager, autostart.this_command(os.environ))
    if as_json:
        print_json({"manager": manager.name, "path": manager.path, "file": found.file, "running": found.running})
        return 0
    say(_FILES[found.file].format(path=manager.path))
    if found.file != "missing":
        say(_RUNNING[found.running].format(manager=manager.name, start=manager.start_by_hand()))
    return 0
