"""`sessiond serve`: the daemon itself."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click


@click.command("serve", short_help="Run the daemon in the foreground, for a service manager.")
@click.option("--autosave-interval", type=float, metavar="S", help="Save changed sessions every S seconds; 0: never.")
@click.option(
    "--autosave-idle", type=float, metavar="S", help="Save a session once it was quiet for S seconds; 0: off."
)
@click.option("--idle-exit", type=float, metavar="S", help="Exit after S seconds without clients; 0: never.")
@click.option("--ready-fd", type=int, hidden=True, help="Where to report how the start went.")
def command(
    autosave_interval: float | None, autosave_idle: float | None, idle_exit: float | None, ready_fd: int | None
) -> NoReturn:
    """Run the daemon in the foreground until SIGTERM or SIGINT.

    Clients start a daemon by themselves; this command is for systemd and launchd. The log goes to standard error and to the
    log folder. Exit code 75: another daemon owns the data folder.
    """
    from sessiond.daemon.process import main

    if sys.getfilesystemencoding() != "utf-8":
        # The daemon serves everybody, so this shell's encoding of file names must not matter to it.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606  the same once more
    flags = {
        "autosave.interval_s": autosave_interval,
        "autosave.idle_s": autosave_idle,
        "daemon.idle_exit_s": idle_exit,
    }
    main({name: value for name, value in flags.items() if value is not None}, ready_fd)
