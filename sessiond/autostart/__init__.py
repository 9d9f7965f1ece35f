"""Starting the daemon when its user logs in: one file for the system's service manager, systemd or launchd."""

from sessiond.autostart.definition import Definition, Manager
from sessiond.autostart.install import Result, State, install, remove, state
from sessiond.autostart.this_system import check_runs, manager_of, this_command

__all__ = [
    "Definition",
    "Manager",
    "Result",
    "State",
    "check_runs",
    "install",
    "manager_of",
    "remove",
    "state",
    "this_command",
]
