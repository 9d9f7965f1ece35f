"""The copy that a machine still has of a shared store that it left. Another store of the same name must not get it."""

from __future__ import annotations

import os
from itertools import count

from sessiond.endpoint import Places
from sessiond.errors import ConfigError, Conflict
from sessiond.fs import FileSystem
from sessiond.reach import is_held
from sessiond.shared.ledger_file import count_now, fold_in, identity_of


def waiting_in(ledger: str) -> int:
    """Return how many changes are waiting in a ledger, even while a daemon has it open; 0 without a ledger. ConfigError if it is damaged."""
    try:
        return count_now(ledger) if os.path.lexists(ledger) else 0
    except ValueError as error:
        raise ConfigError(
            f"{ledger} {error}", hint="put a backup of the file into its place, or move it away"
        ) from None


def set_aside(fs: FileSystem, where: Places, name: str, identity: str) -> str | None:
    """Give what is there of another store called `name` another name, and return the new path of its folder. None if
    nothing is there, or if it belongs to the store with this identity. Conflict: a daemon may still use it. ConfigError: it cannot be moved.
    """
    folder = f"{where.data}/shared/{name}"
    ledger = folder + ".ledger"
    if not os.path.lexists(ledger) or identity_of(ledger) == identity:
        return None
    if is_held(where):
        raise Conflict(
            f"the daemon that is running may still use the store that was called {name} before",
            hint="run `sessiond stop`, then join again",
        )
    aside = next(
        path for path in (f"{folder}.left-{number}" for number in count(1)) if not os.path.lexists(path + ".ledger")
    )
    try:
        fold_in(ledger)
        if os.path.lexists(folder):
            fs.replace(folder, aside)
        fs.replace(ledger, aside + ".ledger")
        fs.sync_dir(os.path.dirname(folder))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        hint = f"move {folder} and the files {ledger}* away, or join with --as ANOTHER-NAME"
        raise ConfigError(
            f"{ledger}, of another store that was called {name}, is in the way: {reason}", hint=hint
        ) from None
    return aside
