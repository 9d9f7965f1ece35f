"""Decides what a source's later form of a message may do to ours, so that no word is lost that was once here. Pure.

    it has every word of ours, in order   ours is replaced: the tool completed it, or wrote it in another shape
    it has only some words of ours        ours stays, with `metadata.shortened`: the tool blanked it, or cut it short
    it has other words                    ours is replaced; what it was stays in front of it as a message of its own, with
                                          `metadata.superseded`: a correction, a placeholder, a rewrite

A word is a run of letters and digits, in the text, the thinking, or the calls. A picture or file is one word. The last word of a text
may have been cut off while it was written, whatever stands behind that text: tools write on in a block when others have begun.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from sessiond.importers.record import digest_of
from sessiond.model.values import Json, JsonObject

SHORTENED = "shortened"
"""Key in a message's metadata: its source says less of it than it once did."""
SUPERSEDED = "superseded"
"""Key in a message's metadata: it is an earlier form of the message behind it."""
_WORDS = re.compile(r"\w+")
_SPENT = ("tokens", "usage", "cost", "costUSD", "request")
"""Keys in the metadata of a message that say what it cost: its later form says it too."""


class _Word(NamedTuple):
    letters: str
    may_be_cut: bool = False


class Later(enum.Enum):
    """The part of what ours says that a later form says."""

    ALL = "all of it"
    LESS = "only a part of it"
    OTHER = "something else"


def compare(theirs: JsonObject, ours: JsonObject) -> Later:
    before, now = _words(ours), _words(theirs)
    if theirs.get("role") != ours.get("role"):
        return Later.OTHER if any(before) else Later.ALL
    if _all_in_order(before, now):
        return Later.ALL
    return Later.LESS if _all_in_order(now, before) else Later.OTHER


def is_shortened(wire: Mapping[str, Json]) -> bool:
    return _metadata(wire).get(SHORTENED) is True


def shortened(ours: JsonObject) -> JsonObject:
    return {**ours, "metadata": {**_metadata(ours), SHORTENED: True}}


def earlier_form(ours: JsonObject) -> JsonObject:
    """A message with what `ours` said, to stand before its later form. What it cost is left to that."""
    metadata = {key: value for key, value in _metadata(ours).items() if key not in (SHORTENED, *_SPENT)}
    return {**ours, "id": earlier_id(ours), "metadata": {**metadata, SUPERSEDED: True}}


def earlier_id(wire: JsonObject) -> str:
    """The id of a message's form with these words as an earlier form; the same for the same words."""
    said = {key: wire.get(key) for key in ("role", "content", "thinking", "toolCalls")}
    return f"{wire['id']}~{digest_of(said)[:4].hex()}"


def _all_in_order(some: Sequence[list[_Word]], many: Sequence[list[_Word]]) -> bool:
    """By field; or all together: what was in the text may be in the thinking now."""
    if all(_in_order(*pair) for pair in zip(some, many, strict=True)):
        return True
    text, thinking, calls = many
    together = [*chain(*some)]
    return _in_order(together, [*text, *thinking, *calls]) or _in_order(together, [*thinking, *text, *calls])


def _in_order(some: Sequence[_Word], many: Sequence[_Word]) -> bool:
    """Return whether `some` can be had from `many` by leaving words out, or letters at the end of those that may have been cut off."""
    there = iter(many)
    return all(
        any(other.letters == letters or (may_be_cut and other.letters.startswith(letters)) for other in there)
        for letters, may_be_cut in some
    )


def _words(wire: Mapping[str, Json]) -> tuple[list[_Word], list[_Word], list[_Word]]:
    """Return the words of the text, of the thinking, and of the calls."""
    calls: list[_Word] = []
    given = wire.get("toolCalls")
    for call in given if isinstance(given, list) else []:
        if isinstance(call, dict):
            calls += _of_text(call.get("name"))
            calls += _of_any(call.get("arguments"))
    return list(_of_content(wire.get("content"))), list(_of_content(wire.get("thinking"))), calls


def _of_content(content: Json) -> Iterator[_Word]:
    if not isinstance(content, list):
        yield from _of_text(content)
        return
    for block in content:
        text = block.get("text") if isinstance(block, dict) else block
        if isinstance(text, str):
            yield from _of_text(text)
        else:
            yield _Word(digest_of(block).hex())


def _of_text(text: Json) -> Iterator[_Word]:
    found = _WORDS.findall(text) if isinstance(text, str) else []
    for place, letters in enumerate(found, 1):
        yield _Word(letters, place == len(found))


def _of_any(value: Json) -> Iterator[_Word]:
    yield from _of_text(
        value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    )


def _metadata(wire: Mapping[str, Json]) -> JsonObject:
    found = wire.get("metadata")
    return found if isinstance(found, dict) else {}
