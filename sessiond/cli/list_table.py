"""How `sessiond list` looks on a terminal."""

from __future__ import annotations

import os

from sessiond.cli.columns import Column, fitted
from sessiond.cli.output import one_line
from sessiond.cli.terminal import DIM, SESSION, Paint, columns, pager

_COLUMNS = (
    Column("id", SESSION),
    Column("name", least=12, most=48),
    Column("messages", right=True, rank=1),
    Column("changed", DIM),
    Column("model", least=10, most=28, rank=3),
    Column("tags", least=8, most=28, rank=2),
    Column("folder", least=14, most=40, rank=4, keep_end=True),
    Column("store", rank=2, dull="default"),
)
"""In this order. If they do not fit, those of the highest rank are dropped first."""


def show(rows: list[list[str]], *, more: bool, paint: Paint, paged: bool) -> None:
    """`rows`: a cell for each column. `more`: there are sessions that are not shown."""
    home = os.path.expanduser("~")
    for row in rows:
        if row[6] == home or row[6].startswith(home + "/"):
            row[6] = "~" + row[6][len(home) :]
    with pager(paged) as out:
        for line in fitted(_COLUMNS, [[one_line(cell) for cell in row] for row in rows], columns(), paint):
            out.write(line + "\n")
        if more:
            out.write(paint("there are more; --all shows them", DIM) + "\n")
