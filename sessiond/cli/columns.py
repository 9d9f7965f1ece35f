"""A table that fits the terminal: one line a row, nothing wrapped. Columns that are empty or do not fit are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sessiond.cli.terminal import DIM, Paint

GAP = 2


class Column(NamedTuple):
    """Widths are in terminal cells. `least`: how narrow it may be cut (0: not at all); `most`: how wide it may get; `before_others`:
    how wide it is before columns of a higher rank have room.

    Columns of `rank` 0 are always shown; those of the highest rank are dropped first. `dull`: a value that says nothing
    when all rows have it. `keep_end`: show the end of a long value, as for paths.
    """

    heading: str
    code: str = ""
    right: bool = False
    least: int = 0
    before_others: int = 0
    most: int = 1000
    rank: int = 0
    dull: str = ""
    keep_end: bool = False


def fitted(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, paint: Paint) -> Iterator[str]:
    """A heading and the rows, as lines no wider than `width` (unless columns that may not be cut are wider)."""
    from rich.cells import cell_len

    natural = [
        min(column.most, max(cell_len(column.heading), *(cell_len(row[n]) for row in rows)))
        for n, column in enumerate(columns)
    ]
    shown = [n for n, column in enumerate(columns) if any(row[n] not in ("", column.dull) for row in rows)]
    shown = _those_with_room(columns, natural, shown, width)
    widths = _shrunk(columns, natural, shown, width)
    heading = [column.heading for column in columns]
    yield _line(columns, shown, widths, heading, Paint(on=False), DIM, paint)
    for row in rows:
        yield _line(columns, shown, widths, row, paint)


def _those_with_room(columns: Sequence[Column], natural: list[int], shown: list[int], width: int) -> list[int]:
    def needed() -> int:
        return (
            sum(min(natural[n], max(columns[n].least, columns[n].before_others) or natural[n]) + GAP for n in shown)
            - GAP
        )

    while needed() > width and (worst := max(shown, key=lambda n: (columns[n].rank, n))) and columns[worst].rank:
        shown = [n for n in shown if n != worst]
    return shown


def _shrunk(columns: Sequence[Column], natural: list[int], shown: list[int], width: int) -> dict[int, int]:
    """Takes one cell at a time from the widest column that may be cut, at last from those that have room before others."""
    widths = {n: natural[n] for n in shown}
    over = sum(widths.values()) + GAP * (len(shown) - 1) - width
    while over > 0:
        can = [n for n in shown if columns[n].least and widths[n] > max(columns[n].least, columns[n].before_others)]
        can = can or [n for n in shown if columns[n].least and widths[n] > columns[n].least]
        if not can:
            break
        widths[max(can, key=lambda n: widths[n])] -= 1
        over -= 1
    return widths


def _line(
    columns: Sequence[Column], shown: list[int], widths: dict[int, int], row: Sequence[str], paint: Paint,
    whole: str = "", all_paint: Paint | None = None,
) -> str:  # fmt: skip
    cells = []
    for n in shown:
        text, pad = _cut(row[n], widths[n], keep_end=columns[n].keep_end)
        painted = paint(text, columns[n].code) if columns[n].code else text
        cells.append(" " * pad + painted if columns[n].right else painted + " " * pad)
    line = (" " * GAP).join(cells).rstrip()
    return all_paint(line, whole) if all_paint is not None else line


def _cut(text: str, width: int, *, keep_end: bool) -> tuple[str, int]:
    """The text cut to `width` cells, and how many blanks of padding it needs."""
    from rich.cells import cell_len, chop_cells

    if cell_len(text) > width:
        room = max(1, width - 1)
        text = "…" + chop_cells(text[::-1], room)[0][::-1] if keep_end else chop_cells(text, room)[0] + "…"
    return text, width - cell_len(text)
