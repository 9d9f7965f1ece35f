"""Starting the daemon when its user logs in: one file for the system's service manager, systemd or launchd."""

from sessiond.autostart.definition import Definition, Manager
from sessiond.autostart.here import check_runs, manager_of, this_command
from sessiond.autostart.install import Installed, State, install, remove, state

__all__ = [
    "Definition",
    "Installed",
    "Manager",
    "State",
    "check_runs",
    "install",
    "manager_of",
    "remove",
    "state",
    "this_command",
]
