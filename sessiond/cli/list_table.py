"""The appearance of `sessiond list` on a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sessiond.cli.columns import Column, fitted
from sessiond.cli.output import one_line
from sessiond.cli.terminal import DIM, SESSION, TIME, Paint, columns, pager

_COLUMNS = (
    Column("name", least=12, before_others=28, most=48),
    Column("now", TIME, least=10, most=28),
    Column("id", SESSION),
    Column("messages", right=True, rank=1),
    Column("changed", DIM),
    Column("model", least=10, most=28, rank=3),
    Column("tags", least=8, most=28, rank=2),
    Column("folder", least=14, most=40, rank=4, keep_end=True),
    Column("store", rank=2, dull="default"),
)
"""In this order. If they do not fit, those of the highest rank are dropped first."""
_ID = 26
"""So many characters of an id are shown at least. Those that sessiond makes are shorter, and whole."""


def show(
    rows: list[list[str]], doing: Mapping[str, str], *, more: bool, short: bool, paint: Paint, paged: bool
) -> None:
    """`rows`: a cell for each column, without the one of `doing`, which is by id. `more`: there are sessions that are not
    shown. `short`: ids may be cut.
    """
    home = os.path.expanduser("~")
    known_as = shortened([row[0] for row in rows]) if short else {}
    rows = [[row[1], doing.get(row[0], ""), known_as.get(row[0], row[0]), *row[2:]] for row in rows]
    for row in rows:
        if row[7] == home or row[7].startswith(home + "/"):
            row[7] = "~" + row[7][len(home) :]
    with pager(paged) as out:
        for line in fitted(_COLUMNS, [[one_line(cell) for cell in row] for row in rows], columns(), paint):
            out.write(line + "\n")
        if more:
            out.write(paint("there are more; --all shows them", DIM) + "\n")


def shortened(ids: list[str]) -> dict[str, str]:
    """Each id -> how it begins, as far as no other of these begins so; commands take that for the id."""
    ordered = sorted(ids)
    found = {}
    for n, session_id in enumerate(ordered):
        # Of all others, those beside it have most in common with it.
        others = (*ordered[max(n - 1, 0) : n], *ordered[n + 1 : n + 2])
        sizes = range(_ID, len(session_id))
        size = next((size for size in sizes if not any(one.startswith(session_id[:size]) for one in others)), None)
        found[session_id] = session_id[:size]
    return found
