"""The appearance of `sessiond stats` on a terminal: a table, and a bar for each row."""

from __future__ import annotations

import os
import sys
from typing import Any

from sessiond.cli.columns import GAP, Column, fitted
from sessiond.cli.output import clean, one_line
from sessiond.cli.terminal import DIM, PLACE, SESSION, Paint, columns
from sessiond.words import count

_BAR, _LEAST_BAR = 36, 8
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEADINGS = {
    "day": "day",
    "month": "month",
    "model": "model",
    "tool": "tool",
    "project": "folder",
    "session": "session",
}


def show(report: dict[str, Any], by: str, paint: Paint, most_rows: int) -> None:
    """`report`: the result of `session/usage`, with at least one row, and at most `most_rows`."""
    keep_end = by == "project"
    layout = (
        Column(_HEADINGS[by], SESSION, least=0 if by == "session" else 10, most=60, keep_end=keep_end),
        Column("name", least=10, most=32, rank=6),
        Column("input", right=True, rank=3),
        Column("cache write", right=True, rank=4),
        Column("cache read", right=True, rank=5),
        Column("output", right=True, rank=2),
        Column("tokens", right=True),
        Column("cost", right=True, rank=1),
        Column("sessions", DIM, right=True, rank=7),
    )
    rows = [_row(row["key"], row["name"], row["total"], row["sessions"]) for row in report["rows"]]
    rows.append(_row("total", None, report["total"], report["sessions"]))
    width = columns() - GAP - _LEAST_BAR
    plain = list(fitted(layout, rows, width, Paint(on=False)))
    painted = list(fitted(layout, rows, width, paint))
    edge = max(_cells(line) for line in plain)
    room = min(_BAR, columns() - edge - GAP)
    most = max(_tokens(row["total"]) for row in report["rows"])
    amounts: list[int] = [0, *(_tokens(row["total"]) for row in report["rows"]), 0]
    for line, bare, amount in zip(painted, plain, amounts, strict=True):
        bar = _bar(amount / most * room if most else 0.0)
        pad = " " * (edge - _cells(bare) + GAP)
        print((line + pad + paint(bar, PLACE)).rstrip() if bar else line)
    for text in _remarks(report, by, most_rows):
        print(paint(clean(text), DIM))


def _remarks(report: dict[str, Any], by: str, most_rows: int) -> list[str]:
    total, found = report["total"], []
    if report["omitted"]:
        way = "--all shows them" if len(report["rows"]) < most_rows else "--since, --until and the filters lead to them"
        found.append(f"{count(report['omitted'], 'row')} more; {way}, and the total includes them")
    if by in ("day", "month"):
        found.append(f"{by}s in {report['timeZone']}")
    if 0 < total["priced"] < total["requests"]:
        found.append(f"+ {count(total['requests'] - total['priced'], 'request')} without a cost; see --prices")
    return found


def _row(key: str | None, name: str | None, total: dict[str, object], sessions: int) -> list[str]:
    counts = [total[part] for part in ("input", "cacheWrite", "cacheRead", "output")]
    shown = [f"{number:,}" if number else "" for number in counts]
    whole = f"{_tokens(total):,}"
    return [
        _shortened(one_line(key or "(unknown)")),
        one_line(name or ""),
        *shown,
        whole,
        _cost(total),
        f"{sessions:,}",
    ]


def _shortened(key: str) -> str:
    home = os.path.expanduser("~")
    return "~" + key[len(home) :] if key == home or key.startswith(home + "/") else key


def _cost(total: dict[str, Any]) -> str:
    """With a plus if some of the requests have no cost."""
    if not total["priced"]:
        return ""
    return f"${total['cost']:,.2f}" + ("+" if total["priced"] < total["requests"] else "")


def _tokens(total: dict[str, Any]) -> int:
    return int(total["input"] + total["cacheWrite"] + total["cacheRead"] + total["output"])


def _bar(length: float) -> str:
    """`length` in cells. Something that is not zero shows."""
    if length <= 0:
        return ""
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        return "#" * max(1, round(length))
    eighths = max(1, round(length * 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
