"""The ways in which people name a session at the command line: by its id, by how that begins, or by how recent it is.

| | |
| --- | --- |
| `20260111-143022` | the session with this id |
| `202601` | the only session whose id begins so |
| `@1` or `-` | the session that was changed last; `@2` the one before, and so on |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sessiond.cli.client import connect
from sessiond.cli.output import note
from sessiond.cli.pages import sessions
from sessiond.client.blocking import Sessiond
from sessiond.client.types import SessionInfo
from sessiond.doctor.wording import index_problem
from sessiond.errors import BadFile, InvalidParams, SessionNotFound, Unavailable
from sessiond.words import count

_NTH = re.compile(r"@([1-9]\d{0,4})")
_LEAST = 4
"""So many characters say that the beginning of an id is meant. Shorter ids are typed whole."""
_FEW = 5
"""So many are named where it is not clear which one is meant."""
_TRIES = 10
"""So often is a list asked for that is not whole yet. The daemon takes a second and more for each of them."""


def resolved(names: Sequence[str], *, by_beginning: bool = True) -> list[str]:
    """The ids. What names no session comes back as it is, and the command that is given it says so. InvalidParams if several
    sessions may be meant by one of the names, or if there are fewer than N for @N; Unavailable while the index is being built.
    Connects only if one of them may be no id. Without `by_beginning` only ids are taken.
    """
    if not by_beginning:
        for named in names:
            if _nth(named) is not None:
                raise InvalidParams(
                    f"{named}: what is deleted for good must be named by its id", hint="`sessiond list` shows the ids"
                )
    if not by_beginning or all(_nth(named) is None and len(named) < _LEAST for named in names):
        return list(names)
    with connect() as client:
        return [_resolved(client, named) for named in names]


def _nth(named: str) -> int | None:
    if named == "-":
        return 1
    return int(found[1]) if (found := _NTH.fullmatch(named)) else None


def _resolved(client: Sessiond, named: str) -> str:
    if (nth := _nth(named)) is not None:
        newest = _listed(client, named, nth, {})
        if len(newest) < nth:
            raise InvalidParams(
                f"{named}: there are only {count(len(newest), 'session')}", hint="`sessiond list` shows them"
            )
        return newest[-1].session_id
    if len(named) < _LEAST or _exists(client, named):
        return named
    begun = [
        info.session_id
        for archived in ({}, {"archived": True})
        for info in _listed(client, named, None, archived)
        if info.session_id.startswith(named)
    ]
    if len(begun) > 1:
        few = ", ".join(begun[:_FEW]) + (", ..." if len(begun) > _FEW else "")
        raise InvalidParams(f"{len(begun)} sessions begin with {named!r}", hint=f"one of {few}")
    if not begun:
        return named
    if begun[0] != named:
        note(f"{named} is short for {begun[0]}")  # nobody's words go silently to a session that was not meant
    return begun[0]


def _listed(client: Sessiond, named: str, limit: int | None, wanted: Mapping[str, object]) -> list[SessionInfo]:
    """Return the newest sessions as an index that is whole knows them: one that is being built would name others. Unavailable."""
    for _ in range(_TRIES):
        page = sessions(client, limit, "-updatedAt", wanted)
        if not page.incomplete:
            return page.sessions
    problem = index_problem(client.status().index) or "the index is still being built"
    raise Unavailable(
        f"which session {named!r} means is not certain now: {problem}",
        hint="name the session by its whole id, or try again",
    )


def _exists(client: Sessiond, session_id: str) -> bool:
    try:
        client.call("session/read", {"sessionId": session_id, "last": 1}, again=True)
    except (BadFile, Unavailable):
        return True
    except (SessionNotFound, InvalidParams):
        return False
    return True
