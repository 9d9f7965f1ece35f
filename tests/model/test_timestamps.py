"""Times: what a client may send, what is read from files, and that all of them can be written again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sessiond.errors import InvalidParams
from sessiond.model.message import check_message, wire_from_client
from sessiond.model.values import epoch_ms, normal_timestamp, strict_timestamp, timestamp

RFC3339 = {
    "2026-01-11T14:30:22.000Z": "2026-01-11T14:30:22.000Z",
    "2026-01-11T14:30:22Z": "2026-01-11T14:30:22.000Z",
    "2026-01-11t14:30:22.5z": "2026-01-11T14:30:22.500Z",
    "2026-01-11T14:30:22.12345678901234567890Z": "2026-01-11T14:30:22.123Z",
    "2026-01-11T14:30:22.000+09:00": "2026-01-11T05:30:22.000Z",
    "2026-01-11T14:30:22-23:59": "2026-01-12T14:29:22.000Z",
    "2026-01-11T14:30:22-00:00": "2026-01-11T14:30:22.000Z",
    "2016-12-31T23:59:60.25Z": "2017-01-01T00:00:00.250Z",
    "2017-01-01T08:59:60+09:00": "2017-01-01T00:00:00.000Z",
    "0001-01-01T00:00:00.000Z": "0001-01-01T00:00:00.000Z",
    "9999-12-31T23:59:59.999Z": "9999-12-31T23:59:59.999Z",
    "2024-02-29T00:00:00Z": "2024-02-29T00:00:00.000Z",
}
OTHERS = [
    "2026-W02-7T14:30:22.000Z",
    "20260111T143022.000+0000",
    "2026-01-11T14:30:22.0Z ",
    " 2026-01-11T14:30:22Z",
    "2026-01-11 14:30:22Z",
    "2026-01-11T14:30:22",
    "2026-01-11T14:30Z",
    "2026-01-11T14:30:22,5Z",
    "2026-01-11T14:30:22.Z",
    "2026-01-11T14:30:22+0900",
    "2026-01-11T14:30:22+09",
    "2026-01-11T14:30:22+24:00",
    "2026-01-11T14:30:22+09:60",
    "2026-01-11T24:00:00.000Z",
    "2026-01-11T14:60:22Z",
    "2026-01-11T14:30:61Z",
    "2026-01-11T14:30:60.000Z",
    "2025-02-29T00:00:00Z",
    "2026-13-01T00:00:00.000Z",
    "2026-00-01T00:00:00.000Z",
    "0000-01-01T00:00:00.000Z",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
    "9999-12-31T23:59:60Z",
    "-2026-01-11T14:30:22Z",
    "+002026-01-11T14:30:22Z",
    "２０２６-01-11T14:30:22.000Z",
    "2026-01-11T14:30:22.000Ｚ",
    "2026-01-11T14:30:22.000Z\n",
    "2026-01-11T14:30:22.000\0",
    "",
]
shapes = st.from_regex(
    r"\A[0-9]{4}-?(W[0-9]{2}-[0-9]|[0-9]{2}-?[0-9]{2})[Tt _]?[0-9]{2}:?[0-9]{2}(:?[0-9]{2}([.,][0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?\Z"
)


@pytest.mark.parametrize("sent", RFC3339)
def test_a_client_may_send_any_rfc_3339(sent: str) -> None:
    """9. It is kept in UTC with milliseconds."""
    check_message({"role": "user", "content": "", "timestamp": sent}, "m")
    wire = wire_from_client({"role": "user", "content": "", "timestamp": sent}, message_id="m", seq=1, now="")
    assert wire["timestamp"] == RFC3339[sent] == timestamp(epoch_ms(RFC3339[sent]))


@pytest.mark.parametrize("sent", OTHERS)
def test_a_client_may_send_nothing_else(sent: str) -> None:
    """9. `2026-W02-7T14:30:22.000Z` was accepted, and no save of the session succeeded any more."""
    with pytest.raises(InvalidParams):
        check_message({"role": "user", "content": "", "timestamp": sent}, "m")


@given(st.one_of(shapes, st.text(max_size=40), st.sampled_from([*RFC3339, *OTHERS])))
@example("0001-01-01T00:00:00+05:00")
@example("0001-01-01T00:00:00")
@example("9999-12-31T23:59:59")
def test_what_is_read_can_be_written(text: str) -> None:
    """9. A time in a file is read or refused by ValueError, and what was read is in the protocol's shape from then on."""
    normal = _or_none(normal_timestamp, text)
    strict = _or_none(strict_timestamp, text)
    if strict is not None:
        assert strict == normal
    if normal is not None:
        assert timestamp(epoch_ms(normal)) == normal == normal_timestamp(normal) == strict_timestamp(normal)


def _or_none(read: Any, text: str) -> str | None:
    try:
        found: str = read(text)
    except ValueError:
        return None
    return found
