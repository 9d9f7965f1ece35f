"""Almost valid input from outside: no decoder raises, hangs, or takes what it cannot understand for something else.

With `--budget` (`sh tests/run --all`) there are more inputs for each target than the few hundred of CI.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiond.formats import registry
from sessiond.index.query import parse
from sessiond.journal.record import SEGMENT_HEADER_BYTES, decode_segment_header
from sessiond.journal.recovery import read_journal
from sessiond.journal.scanner import scan
from sessiond.rpc.envelope import Envelope, InvalidMessage
from sessiond.rpc.envelope import decode as decode_envelope
from sessiond.transports.framing import Decoder, Fault
from tests.fakes.crashfs import CrashFS
from tests.fuzz.mutation import injured, seeds
from tests.journal.builders import HEADER, changes, gone, saved, segment
from tests.suite.explore import SEED, tries

TRIES = tries(few=40, usual=120)
fuzz = settings(
    max_examples=TRIES, deadline=None, derandomize=not SEED, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
GOLDEN = Path(__file__).parents[1] / "formats" / "golden"


@fuzz
@given(injured(seeds("framing")), st.lists(st.integers(1, 50), max_size=8))
def test_framing(stream: bytes, sizes: list[int]) -> None:
    """Whatever comes: messages within the limit and at most one fault, the same however it was cut."""
    assert _messages(stream, [len(stream)]) == _messages(stream, sizes)


def _messages(stream: bytes, sizes: list[int]) -> list[bytes | Fault]:
    decoder = Decoder(header_limit=64, message_limit=300, allow_lines=True)
    found: list[bytes | Fault] = []
    for size in [*sizes, len(stream)]:
        decoder.feed(stream[:size])
        stream = stream[size:]
        if not stream:
            decoder.end()
        while (item := decoder.next()) is not None:
            found.append(item)
            assert isinstance(item, Fault) or len(item) <= 300
    assert sum(isinstance(item, Fault) for item in found) <= 1
    return found


@fuzz
@given(injured(seeds("envelope")))
def test_envelope(message: bytes) -> None:
    """An envelope or a refusal whose answer is JSON-RPC; what is taken is valid JSON for everybody."""
    decoded = decode_envelope(message, 10)
    for item in decoded if isinstance(decoded, list) else [decoded]:
        if isinstance(item, InvalidMessage):
            answer = json.loads(item.answer())
            assert answer["jsonrpc"] == "2.0"
            assert answer["error"]["data"]["kind"]
        else:
            assert isinstance(item, Envelope)
    if isinstance(decoded, Envelope):
        json.loads(message.decode("utf-8"))


@fuzz
@given(injured(seeds("query")))
def test_query(typed: bytes) -> None:
    """Whatever is typed is a query."""
    query = parse(typed.decode("utf-8", "replace"))
    assert all(group for group in query.groups)


SEGMENT = segment(
    [[changes("a", 1, b'["x"]')], [changes("b", 1), saved("a", 1)], [gone("b"), changes("c", 9, b"y" * 80)]]
)[0]


@fuzz
@given(injured([SEGMENT]), st.booleans())
def test_journal(data: bytes, last: bool) -> None:
    """Records in the order of their lsns, and gaps for all other bytes: nothing is skipped silently. A whole recovery of
    such a file finishes, and the journal can be written again.
    """
    if decode_segment_header(data) == HEADER:
        found = scan(data, HEADER, last=last)
        lsns = [record.lsn for record in found.records]
        assert lsns == sorted(set(lsns))
        assert sum(gap.end - gap.start for gap in found.gaps) <= len(data) - SEGMENT_HEADER_BYTES
        if found.records == [] and len(data) > SEGMENT_HEADER_BYTES:
            assert found.gaps
    fs = CrashFS()
    fs.make_dirs("/j")
    fs.create("/j/00000001.journal", data)
    contents = read_journal(fs, "/j", 4)
    wrong = [one for one in contents.damage if not one.torn]
    assert contents.records or contents.damage or data[SEGMENT_HEADER_BYTES:].strip(b"\0") == b"" or wrong == []


def _files(name: str) -> list[tuple[str, dict[str, bytes]]]:
    """(id, files) of every golden session of a format."""
    fmt = registry.get(name)
    found = []
    for case in sorted((GOLDEN / name).iterdir()):
        expected = case / "expected.json"
        local_id = json.loads(expected.read_text()).get("id", "session-20260111-143022")
        paths = [path for path in fmt.paths(local_id) if (case / path).exists()]
        found.append((local_id, {path: (case / path).read_bytes() for path in paths}))
    assert all(files for _, files in found)
    return found


@pytest.mark.parametrize("name", registry.NAMES)
@fuzz
@given(data=st.data())
def test_formats(name: str, data: st.DataObject) -> None:
    """A decoder never raises: it gives a session with problems, or says that the file cannot be used. What it gives can be
    written, and reads the same again.
    """
    fmt: Any = registry.get(name)
    cases = _cases(name)
    local_id, files = data.draw(st.sampled_from(cases))
    victim = data.draw(st.sampled_from(sorted(files)))
    contents = [one[path] for _, one in cases for path in one if path.endswith(Path(victim).suffix)]
    broken = {**files, victim: data.draw(injured([files[victim], *contents]))}
    decoded = fmt.decode(local_id, broken)
    if decoded.fatal is not None:
        return
    seqs = [message.seq for message in decoded.session.messages()]
    assert seqs == sorted(set(seqs))
    after = dict(broken)
    for write in fmt.encode(decoded.session.snapshot(), broken):
        if write.how == "remove":
            after.pop(write.path, None)
        else:
            after[write.path] = write.data if write.how == "replace" else after.get(write.path, b"") + write.data
    again = fmt.decode(local_id, after)
    assert again.fatal is None
    assert [_said(m) for m in again.session.messages()] == [_said(m) for m in decoded.session.messages()]


def _said(message: Any) -> tuple[int, str, Any]:
    return message.seq, message.role, message.content


_known: dict[str, list[tuple[str, dict[str, bytes]]]] = {}


def _cases(name: str) -> list[tuple[str, dict[str, bytes]]]:
    if name not in _known:
        _known[name] = _files(name)
    return _known[name]
