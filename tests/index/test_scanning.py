"""Chunks searched as a whole: exactly the documents are found in which `re.search` finds something."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond.index import chunks
from sessiond.index.prepared import Packing
from sessiond.index.scanning import scanned
from sessiond.index.sieve import sieve
from tests.index.test_sieve import FLAGS, PATTERN, TEXT, compiled

KINDS = st.sampled_from(["text", "tool", "thought"])
DOCUMENT = st.tuples(TEXT, st.lists(st.tuples(KINDS, TEXT), max_size=3))


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(pattern=PATTERN, flags=FLAGS, documents=st.lists(DOCUMENT, min_size=1, max_size=8), blank=st.integers(0, 8))
def test_the_documents_that_match(
    pattern: str, flags: int, documents: list[tuple[str, list[tuple[str, str]]]], blank: int
) -> None:
    """With and without a sieve, whatever lies beside them; thoughts and keys are not searched, nor what was blanked."""
    asked = compiled(pattern, flags)
    packing = Packing()
    for key, texts in documents:
        packing.add(chunks.pack(key, texts))
    [chunk] = packing.end()
    data = bytearray(chunks.decompress(chunk.data))
    places = [*chunks.unpacked_starts(chunk.starts), len(data)]
    if blank < len(documents):
        data[places[blank] : places[blank + 1]] = bytes(places[blank + 1] - places[blank])
    expected = {
        7 + number: 3
        for number, (_, texts) in enumerate(documents)
        if number != blank and any(kind != "thought" and asked.search(text) for kind, text in texts)
    }
    rows = [(3, 7, chunk.starts, chunks.compress(bytes(data)))]
    assert scanned(asked, sieve(asked), rows) == expected
    assert scanned(asked, None, rows) == expected


@pytest.mark.parametrize("pattern", ["quix", "quix.*", r"quix\b", "(?s)quix.{3,80}tic", "q.*|x"])
def test_each_of_several_neighbours_is_found(pattern: str) -> None:
    """Though what may match, as it is read, begins in the first and reaches over the others."""
    packing = Packing()
    for _ in range(4):
        packing.add(chunks.pack("m", [("text", "a quix then otic")]))
    [chunk] = packing.end()
    asked = re.compile(pattern)
    found = scanned(asked, sieve(asked), [(1, 1, chunk.starts, chunk.data)])
    assert list(found) == ([1, 2, 3, 4] if asked.search("a quix then otic") else [])


def test_damage_is_not_taken_for_a_text() -> None:
    """Lengths that lead out of the chunk, and places that are no numbers."""
    packed = chunks.pack("m", [("text", "quix")])
    start = chunks.packed_starts([0])
    for row in (
        (1, 1, start, chunks.compress(packed[:-9] + b"\x00\x04")),
        (1, 1, start + b"\x00", chunks.compress(packed)),
    ):
        with pytest.raises(chunks.DamagedChunk):
            scanned(re.compile("x"), None, [row])
