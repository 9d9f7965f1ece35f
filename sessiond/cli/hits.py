"""Prints search hits: the lines that match, as grep prints them.

A hit's snippet is a piece of one of its message's texts, so the matching lines are in it. Context lines are read from the
message itself. The output is clean: no text can colour or retitle a terminal, or change its writing direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple, TextIO

from sessiond.cli.output import content_text, in_place, one_line
from sessiond.cli.pages import read
from sessiond.cli.terminal import MATCH, PLACE, ROLE, SESSION, TIME, Paint
from sessiond.client.blocking import Sessiond
from sessiond.client.types import Hit
from sessiond.errors import SessiondError
from sessiond.words import local_time

_TAB = 4


class HitLine(NamedTuple):
    """A line of a hit's text. `ranges`: what matched in it; empty for a context line, or a hit without a position."""

    text: str
    ranges: list[tuple[int, int]]
    matches: bool


def grouped(out: TextIO, client: Sessiond, hits: list[Hit], paint: Paint, before: int, after: int) -> None:
    """For people: the hits in one session are grouped under its name, where the best of them is."""
    last = None
    by_session: dict[str, list[Hit]] = {}
    for hit in hits:
        by_session.setdefault(hit.session_id, []).append(hit)
    for hit in chain.from_iterable(by_session.values()):
        if hit.session_id != last:
            if last is not None:
                out.write("\n")
            name = one_line(hit.name or "")
            out.write(paint(one_line(hit.session_id), SESSION) + (f"  {name}" if name else "") + "\n")
            last = hit.session_id
        facts = [paint(_number(hit), PLACE), paint(_role(hit), ROLE), paint(_time(hit), TIME)]
        found = list(text_lines(client, hit, before, after))
        out.write("  ".join(filter(None, facts)) + "\n")
        for line in found:
            mark = ":" if line.matches else "-"
            out.write(f"{paint(mark, PLACE) if before or after else ' '} {_painted(paint, line)}\n")


def lines(out: TextIO, client: Sessiond, hits: list[Hit], paint: Paint, before: int, after: int) -> None:
    """For scripts: session, number, role, time and text, separated by tabs; context lines likewise."""
    separate = False
    for hit in hits:
        if separate:
            out.write("--\n")
        facts = [
            paint(one_line(hit.session_id), SESSION), paint(_number(hit), PLACE), paint(_role(hit), ROLE), paint(_time(hit), TIME),
        ]  # fmt: skip
        out.writelines(
            "\t".join([*facts, _painted(paint, line)]) + "\n" for line in text_lines(client, hit, before, after)
        )
        separate = bool(before or after)


def sessions(out: TextIO, hits: list[Hit], paint: Paint, limit: int | None, *, people: bool) -> None:
    """Every session once, best first, at most `limit` of them."""
    names = {hit.session_id: hit.name for hit in hits}
    for session_id, name in islice(names.items(), limit):
        shown = f"  {one_line(name)}" if people and name else ""
        out.write(paint(one_line(session_id), SESSION) + shown + "\n")


def counts(out: TextIO, hits: list[Hit], paint: Paint, limit: int | None) -> None:
    """Every session with its number of hits, best first, at most `limit` of them."""
    numbers: dict[str, int] = {}
    for hit in hits:
        numbers[hit.session_id] = numbers.get(hit.session_id, 0) + 1
    shown = islice(numbers.items(), limit)
    out.writelines(f"{paint(one_line(session_id), SESSION)}\t{number}\n" for session_id, number in shown)


def text_lines(client: Sessiond, hit: Hit, before: int, after: int) -> Iterator[HitLine]:
    """The lines of a hit that match, with the lines around them; without a match, how it begins."""
    snippet = hit.snippet
    ranges = [(start, end) for start, end in hit.ranges]
    text, shift = snippet, 0
    if before or after:
        whole = _whole(client, hit)
        at = whole.find(snippet)
        if at >= 0:
            text, shift = whole, at
    split = list(_split(text, [(start + shift, end + shift) for start, end in ranges]))
    matching = [number for number, line in enumerate(split) if line.matches]
    if not matching:
        first = text.count("\n", 0, shift)
        matching = [next((n for n in range(first, len(split)) if split[n].text.strip()), first)] if split else []
        split = [HitLine(line.text, [], number in matching) for number, line in enumerate(split)]
    wanted = {near for number in matching for near in range(number - before, number + after + 1)}
    return (split[number] for number in sorted(wanted) if 0 <= number < len(split))


def _split(text: str, ranges: Iterable[tuple[int, int]]) -> Iterator[HitLine]:
    """Lines with their own parts of the ranges. A range that crosses a line's end belongs to both lines."""
    found = list(ranges)
    at = 0
    for line in text.split("\n"):
        end = at + len(line)
        here = [(max(a, at) - at, min(b, end) - at) for a, b in found if a < end and b > at]
        # An empty match (a regex such as ^) has a position, but nothing to colour.
        empty = any(a == b and at <= a <= end for a, b in found)
        yield HitLine(line, here, bool(here) or empty)
        at = end + 1


def _whole(client: Sessiond, hit: Hit) -> str:
    """The content of a hit's message as text; empty if the hit is not a message, or the message is gone by now."""
    if hit.message_id is None or not hit.seq:
        return ""
    try:
        page = client.answer(read(hit.session_id, hit.seq - 1, 1)).value
    except SessiondError:
        return ""
    found = [message for message in page.messages if message.id == hit.message_id]
    return content_text(found[0].content) if found else ""


def _painted(paint: Paint, line: HitLine) -> str:
    """Indented as it is in the text. A tab becomes blanks, because a script takes it for the end of a column."""
    text = in_place(line.text)
    blank = len(text) - len(text.lstrip())
    indent = in_place(line.text[:blank].expandtabs(_TAB))
    moved = [(max(0, a - blank), b - blank) for a, b in line.ranges if b > blank]
    return (indent + paint.ranges(text[blank:], moved, MATCH)).rstrip()


def _number(hit: Hit) -> str:
    return "" if hit.seq is None else f"#{hit.seq}"


def _role(hit: Hit) -> str:
    if hit.message_id is None:
        return "name" if hit.seq is None else "note"
    return one_line(hit.role or "")


def _time(hit: Hit) -> str:
    return local_time(hit.timestamp)
