"""Almost valid inputs: a file of the corpus with a few small changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st

CORPUS = Path(__file__).parent / "corpus"
TOKENS = (
    b"", b"\0", b"\xff", b"\n", b"\r\n", b'"', b"\\", b"{", b"}", b"[", b"]", b"(", b")", b"#.", b"#1=", b"'", b";", b"\xef\xbb\xbf", b"\x1b[2J",
    b"* Tick 1\n", b"null", b"-1", b"1e999", b"18446744073709551616", b'"seq":', b'"id":', b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xffREC",
    b"Content-Length: ", b"9" * 30, b"[" * 200, b"(" * 1200,
)  # fmt: skip


def seeds(folder: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / folder).iterdir())]


def injured(inputs: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """One of `inputs` after up to six injuries: bytes changed, cut out, doubled, tokens put in, the end of another put on."""
    place = st.floats(0, 1, exclude_max=True)
    injury = st.one_of(
        st.tuples(st.just("flip"), place, st.integers(0, 255)),
        st.tuples(st.just("cut"), place, st.integers(1, 40)),
        st.tuples(st.just("double"), place, st.integers(1, 400)),
        st.tuples(st.just("put"), place, st.sampled_from(TOKENS)),
        st.tuples(st.just("splice"), place, st.sampled_from(inputs)),
        st.tuples(st.just("end"), place, st.just(0)),
    )
    return st.tuples(st.sampled_from(inputs), st.lists(injury, max_size=6)).map(lambda both: _injure(*both))


def _injure(data: bytes, injuries: list[tuple[str, float, int | bytes]]) -> bytes:
    for kind, where, what in injuries:
        at = int(where * (len(data) + 1))
        head, tail = data[:at], data[at:]
        match kind, what:
            case "flip", int():
                data = head + bytes([what]) + tail[1:]
            case "cut", int():
                data = head + tail[what:]
            case "double", int():
                data = head + tail[:what] + tail
            case "put", bytes():
                data = head + what + tail
            case "splice", bytes():
                data = head + what[int(where * len(what)) :]
            case _:
                data = head
    return data
