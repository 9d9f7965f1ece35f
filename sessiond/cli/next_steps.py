"""The next step after each kind of error, for those whose error says nothing of its own.

The reference of errors is written from this table, and a test goes through all kinds.
"""

from __future__ import annotations

NEXT_STEPS = {
    "internalError": "this is a fault of sessiond: `sessiond status` says where the log is; please report its last lines",
    "parseError": "the message is not JSON that the daemon takes; see `sessiond help errors`",
    "invalidRequest": "the message is not a JSON-RPC request; see `sessiond help errors`",
    "methodNotFound": "the daemon may be older than this command: run `sessiond stop`, then try again",
    "notInitialized": "send `initialize` first",
    "invalidParams": "see the command's --help for what it takes",
    "sessionNotFound": "`sessiond list` shows all sessions, `sessiond list --deleted` those in the trash",
    "conflict": "read the session again and repeat the request if it still makes sense",
    "alreadyExists": "choose another name, or remove what is there first",
    "badFile": "the file was left as it is; `sessiond doctor` says what is wrong with it",
    "tooLarge": "send less at once, or raise the limit in config.toml; see `sessiond help configuration`",
    "readOnly": "free some disk space; `sessiond doctor` says whether the daemon has to be started again",
    "indeterminate": "look whether it is there, and repeat it with the same id if not",
    "unavailable": "`sessiond status` says which store cannot be reached, and why",
    "unauthorized": "show the token from the file that `sessiond status` names",
    "cancelled": "repeat it; a search may need a simpler pattern",
    "configError": "correct config.toml, or let `sessiond doctor --repair` comment the line out; see `sessiond help configuration`",
    "daemonUnreachable": "run `sessiond doctor`",
}
"""Kind of error -> the next step, as one clause without a full stop."""


def next_step(kind: str, hint: str | None) -> str | None:
    """The error's own hint, or else what to do after any error of its kind; None for a kind that is not known here."""
    return hint or NEXT_STEPS.get(kind)
