"""transports/framing.py: bytes in, messages out."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.transports.framing import Decoder, Fault, encode


def decode(
    pieces: list[bytes], *, allow_lines: bool = True, header: int = 64, message: int = 200
) -> list[bytes | Fault]:
    decoder = Decoder(header_limit=header, message_limit=message, allow_lines=allow_lines)
    found: list[bytes | Fault] = []
    for piece in [*pieces, None]:
        if piece is None:
            decoder.end()
        else:
            decoder.feed(piece)
        while (item := decoder.next()) is not None:
            found.append(item)
        assert decoder.held <= max(header, message) + max(map(len, pieces), default=0)
    return found


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[a:b] for a, b in pairwise(marks)]


places = st.lists(st.integers(0, 10_000), max_size=12)
streams = st.one_of(
    st.binary(max_size=400),
    st.lists(
        st.one_of(
            st.binary(max_size=80).map(lambda body: encode(body, False)),
            st.binary(max_size=40).map(lambda body: b"{" + body.replace(b"\n", b"") + b"\n"),
            st.sampled_from(
                [
                    b"Content-Length: 999\r\n\r\n",
                    b"content-LENGTH :\t 3 \r\nContent-Type: x; charset=utf-8\r\n\r\nabc",
                    b"Content-Length: 3\n\nabc",
                    b"Content-Length: +3\r\n\r\nabc",
                    b"Content-Type: x\r\n\r\n",
                    b"X" * 70,
                    b"\r\n",
                    b"\n",
                ]
            ),
        ),
        max_size=6,
    ).map(b"".join),
)


@given(streams, places, st.booleans())
def test_any_split_gives_the_same(stream: bytes, where: list[int], allow_lines: bool) -> None:
    """However a stream is cut into pieces, the same messages and the same fault come out of it."""
    assert decode(cut(stream, where), allow_lines=allow_lines) == decode([stream], allow_lines=allow_lines)


@given(streams)
def test_nothing_follows_a_fault(stream: bytes) -> None:
    """A fault is the last thing that a stream gives."""
    assert not any(isinstance(item, Fault) for item in decode([stream])[:-1])


@given(st.lists(st.binary(max_size=200), max_size=8), places)
def test_header_mode_is_inverse_of_encode(bodies: list[bytes], where: list[int]) -> None:
    """What encode writes with headers, the decoder gives back."""
    assert decode(cut(b"".join(encode(body, False) for body in bodies), where)) == bodies


@given(
    st.lists(st.binary(max_size=150).map(lambda b: b"{" + b.replace(b"\n", b" ").strip() + b"}"), max_size=8), places
)
def test_lines_mode_is_inverse_of_encode(bodies: list[bytes], where: list[int]) -> None:
    """What encode writes as lines, the decoder gives back."""
    assert decode(cut(b"".join(encode(body, True) for body in bodies), where)) == bodies


@pytest.mark.parametrize(
    "header",
    [
        b"content-length:5\r\n\r\n",
        b"CONTENT-LENGTH:   5  \r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 5\r\n\r\n",
        b"Content-Length: 5\r\nContent-Type: a\r\n\r\n",
        b"Content-Length: 5\n\n",
        b"Content-Length: 000000005\r\n\r\n",
    ],
)
def test_lenient_headers(header: bytes) -> None:
    """Letter case, blanks, a Content-Type and bare line feeds do not make it hang."""
    assert decode([header + b"hello"], header=200) == [b"hello"]


@pytest.mark.parametrize("value", [b"+5", b"-5", b"1_0", b"5 5", b"", b"0x5", b"5.0", "\u0665".encode(), b"five"])
def test_only_digits_are_a_length(value: bytes) -> None:
    """A length is decimal digits and nothing else that int() would take."""
    [fault] = decode([b"Content-Length: " + value + b"\r\n\r\nhello"])
    assert isinstance(fault, Fault)
    assert fault.kind == "parseError"


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x00\x01",
        b"Content-Type: x\r\n\r\n",
        b"\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        b"Content-Length: 5\r\nno colon\r\n\r\nhello",
        b"[1]",
    ],
)
def test_broken_header(stream: bytes) -> None:
    """A broken header is reported as soon as it can be seen, without waiting for its end."""
    found = decode([stream])
    assert [item.kind for item in found if isinstance(item, Fault)] == ["parseError"]


def test_limits_come_before_buffering() -> None:
    """A claimed length, a header and a line over the limit are refused before they are collected."""
    for stream in (b"Content-Length: 201\r\n\r\n", b"Content-Length: 99999999999\r\n", b"A" * 64, b"{" + b"a" * 200):
        decoder = Decoder(header_limit=64, message_limit=200, allow_lines=True)
        decoder.feed(stream)
        fault = decoder.next()
        assert isinstance(fault, Fault)
        assert (fault.kind, fault.limit) == ("tooLarge", 64 if stream[:1] == b"A" else 200)
        decoder.feed(b"x" * 1000)
        assert decoder.held == 0
        assert decoder.next() is None


def test_limit_may_rise_between_messages() -> None:
    """The limit that holds for a message is the one at the time it is asked for."""
    decoder = Decoder(header_limit=64, message_limit=3, allow_lines=False)
    decoder.feed(encode(b"abc", False) + encode(b"abcdef", False))
    assert decoder.next() == b"abc"
    decoder.message_limit = 6
    assert decoder.next() == b"abcdef"


def test_lines_only_where_allowed() -> None:
    """A transport that allows headers only takes a `{` for a broken header."""
    [fault] = decode([b'{"a":1}\n'], allow_lines=False)
    assert isinstance(fault, Fault)
    assert decode([b'{"a":1}\r\n\n  \n[2]\n{"last":1}']) == [b'{"a":1}', b"[2]", b'{"last":1}']


DRIBBLED = {
    "a long name": b"X" * 2**15,
    "blanks after a name": b"X" + b" " * 2**15,
    "a long value": b"X: " + b"v" * 2**15,
}


def seconds(header: bytes) -> float:
    """So long a header takes that comes byte by byte; the best of three."""
    best = 1e9
    for _ in range(3):
        decoder = Decoder(header_limit=2**20, message_limit=2**20, allow_lines=True)
        begun = time.process_time()
        for nth in range(len(header)):
            decoder.feed(header[nth : nth + 1])
            assert decoder.next() is None
        best = min(best, time.process_time() - begun)
    return best


@pytest.mark.parametrize("name", DRIBBLED)
def test_16_each_byte_of_a_header_is_looked_at_once(name: str) -> None:
    """Eight times as many bytes, one at a time, take about eight times as long, not sixty-four times."""
    header = DRIBBLED[name]
    assert seconds(header) < 24 * seconds(header[: len(header) // 8])


def test_16_a_header_has_few_lines() -> None:
    """Each costs more than its bytes, so thousands of short ones are refused after the first few."""
    decoder = Decoder(header_limit=2**20, message_limit=10, allow_lines=True)
    decoder.feed(b"a:\n" * 63 + b"Content-Length: 1\n\nx" + b"a:\n" * 65)
    assert decoder.next() == b"x"
    assert decoder.next() == Fault("tooLarge", "the header has more than 64 lines", 64)


@pytest.mark.parametrize("begin", [b"\r", b"Content-Length: 3\r\n\r"])
@pytest.mark.parametrize("rest", [b"abc", b" : abc"])
@pytest.mark.parametrize("cut_there", [False, True])
def test_a_cr_without_its_lf_is_told_at_once(begin: bytes, rest: bytes, cut_there: bool) -> None:
    """Where a blank line begins no other byte may follow, and nobody waits for the end of a line that cannot become one."""
    decoder = Decoder(header_limit=1000, message_limit=200, allow_lines=True)
    for piece in (begin, rest) if cut_there else (begin + rest,):
        assert decoder.next() is None
        decoder.feed(piece)
    found = decoder.next()
    assert isinstance(found, Fault)
    assert found.kind == "parseError"
