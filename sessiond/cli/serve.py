"""`sessiond serve`: the daemon itself."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click


@click.command("serve", short_help="The daemon in the foreground, for a service manager.")
@click.option("--autosave-interval", type=float, metavar="S", help="Save changed sessions every S seconds; 0: never.")
@click.option("--autosave-idle", type=float, metavar="S", help="Save a session that was quiet for S seconds; 0: off.")
@click.option("--idle-exit", type=float, metavar="S", help="End after S seconds with nobody there; 0: never.")
@click.option("--ready-fd", type=int, hidden=True, help="Say there how the start went.")
def command(
    autosave_interval: float | None, autosave_idle: float | None, idle_exit: float | None, ready_fd: int | None
) -> NoReturn:
    """Run the daemon in the foreground till SIGTERM or SIGINT.

    Clients start one by themselves; this is for systemd and launchd. The log goes to standard error and into the log
    folder. Exit code 75: another daemon owns the data folder.
    """
    from sessiond.daemon.process import main

    if sys.getfilesystemencoding() != "utf-8":
        # The daemon is everybody's: what this shell's locale makes of file names is for this shell.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606  the same once more
    flags = {
        "autosave.interval_s": autosave_interval,
        "autosave.idle_s": autosave_idle,
        "daemon.idle_exit_s": idle_exit,
    }
    main({name: value for name, value in flags.items() if value is not None}, ready_fd)
