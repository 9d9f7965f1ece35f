"""rpc/envelope.py: any bytes in, an envelope or a refusal out."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.rpc import envelope
from sessiond.rpc.envelope import Envelope, InvalidMessage, decode, depth, recover_id, success

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def levels(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(levels, value.values()), default=0)
    return 1 + max(map(levels, value), default=0) if isinstance(value, list) else 0


def too_big(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(too_big, value.values()))
    if isinstance(value, list):
        return any(map(too_big, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**64


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,\\ idjsonrpc20.eE+-NaInfty', max_size=80).map(str.encode))
def test_any_bytes(message: bytes) -> None:
    """No bytes raise; what is refused can be answered, and the answer is JSON."""
    found = decode(message, 10)
    for item in found if isinstance(found, list) else [found]:
        if isinstance(item, InvalidMessage):
            assert json.loads(item.answer())["error"]["data"]["kind"] in (
                "parseError",
                "invalidRequest",
                "invalidParams",
                "tooLarge",
            )


@given(values, st.booleans())
def test_params_come_through(params: Any, ascii_only: bool) -> None:
    """Params that can be kept come through as they are; an integer that can not be kept is found, and nothing else is
    taken for one.
    """
    request = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}
    found = decode(json.dumps(request, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"), 10)
    if too_big(params):
        assert isinstance(found, InvalidMessage)
        assert found.error.kind == "invalidParams"
    else:
        assert isinstance(found, Envelope)
        assert json.loads(bytes(found.params)) == params


@given(values)
def test_depth(value: Any) -> None:
    """The depth of a JSON text is that of its value."""
    assert depth(json.dumps(value).encode()) == levels(value)


@given(st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20), st.binary(max_size=20), st.booleans())
def test_id_of_a_broken_message(request_id: Any, rubbish: bytes, first: bool) -> None:
    """The id is found in a message that breaks after it, and one that belongs to params is not taken for it."""
    head = (
        b'{"jsonrpc":"2.0","params":{"id":99,"x":"\\"id\\":98"},"id":%s,' if first else b'{"id":%s,"params":{"id":99},'
    )
    assert json.loads(recover_id(head % msgspec.json.encode(request_id) + rubbish)) == request_id


def test_answers() -> None:
    """An answer carries the id's own bytes."""
    assert success(b'"\\u0061"', {"a": None}) == b'{"jsonrpc":"2.0","id":"\\u0061","result":{"a":null}}'


@pytest.mark.parametrize(
    "number", ["1.00000000000000000001", "0.12345678901234567890", "123456789.123456789123", "1e-400", "9007199254740993.0", "1e-99999999999999999999", "0." + "1" * 2000]
)  # fmt: skip
def test_23_a_number_that_would_be_rounded_is_refused(number: str) -> None:
    """Nothing is rounded: what no double holds is invalidParams, anywhere in the message."""
    found = decode(
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":["1.00000000000000000001",%s]}}' % number.encode(), 10
    )
    assert isinstance(found, InvalidMessage)
    assert found.error.kind == "invalidParams"
    assert "would be rounded" in found.error.message


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["r", ".16e", ".17g"]))
def test_23_a_number_that_a_double_holds_is_kept(value: float, form: str) -> None:
    """However a program writes its doubles: as short as can be, or with 17 digits."""
    number = repr(value) if form == "r" else format(value, form)
    found = decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":[0.1,1.50,-0.0,0e-400,%s]}' % number.encode(), 10)
    if number.lstrip("-").isdigit() and not -(2**63) <= int(number) < 2**64:
        return  # written as an integer, it is one
    assert isinstance(found, Envelope)
    assert json.loads(bytes(found.params))[-1] == value


STRINGS = st.text(st.sampled_from('"\\\n[]{}0123456789.e- é'), max_size=30)
LONG = st.recursive(
    STRINGS | st.integers(-(2**70), 2**70) | st.sampled_from([0.5, None]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=10,
)


@given(LONG, st.booleans(), st.integers(1, 40), st.integers(2, 40), st.integers(1, 4))
def test_what_is_in_long_strings_makes_no_difference(
    params: Any, ascii_only: bool, long: int, quotes: int, escapes: int
) -> None:
    """A large message is taken or refused as the same one that counts as small is, wherever the search for strings ends."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}
    message = json.dumps(request, ensure_ascii=ascii_only).encode()
    before = decode(message, 10)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("_LARGE", 0),
            ("_LONG_STRING", long),
            ("_MOST_QUOTES", quotes),
            ("_MOST_ESCAPES", escapes),
        ):
            patch.setattr(envelope, name, value)
        without = envelope.without_long_strings(message)
        assert decode(message, 10) == before or isinstance(before, InvalidMessage)
        assert isinstance(decode(message, 10), type(before))
    assert depth(without) == depth(message)
    assert len(without) <= len(message)


def test_a_large_message_is_not_read_again_and_again() -> None:
    """The checks of a text of 20 MB see next to nothing of it; a text of quotes or backslashes ends the search soon."""
    for text, most in (
        ("0123456789[{ " * 1_500_000, 200),
        ('"' * 10_000_000, 21_000_000),
        ("\\" * 10_000_000, 21_000_000),
    ):
        message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "m", "params": [text]}).encode()
        assert len(envelope.without_long_strings(message)) < most
        assert isinstance(decode(message, 10), Envelope)
