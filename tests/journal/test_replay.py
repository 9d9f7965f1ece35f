"""What is pending, computed twice: with payloads at the start, by segments while running. Both must agree."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sessiond.journal.record import Record, RecordEntry, RecordKind
from sessiond.journal.replay import SegmentLedger, replay
from tests.journal.builders import changes, gone, saved

sessions = st.sampled_from("abc")
entries = st.one_of(
    st.builds(changes, sessions, st.integers(1, 6)),
    st.builds(saved, sessions, st.integers(0, 6)),
    st.builds(gone, sessions),
)


def _records(*given_entries: RecordEntry) -> list[Record]:
    return [Record(place + 1, entry) for place, entry in enumerate(given_entries)]


def _pending(*given_entries: RecordEntry) -> dict[str, list[int]]:
    found = replay(_records(*given_entries))
    return {session: [record.entry.seq for record in records] for (_, session), records in found.items()}


def test_changes_are_pending_until_saved() -> None:
    """A mark ends what it names and what came before it, and leaves the rest in order."""
    assert _pending(changes("a", 1), changes("b", 4), changes("a", 3), changes("a", 5)) == {"a": [1, 3, 5], "b": [4]}
    assert _pending(changes("a", 1), changes("a", 3), changes("a", 5), saved("a", 3)) == {"a": [5]}
    assert _pending(changes("a", 1), saved("a", 1)) == {}


def test_a_mark_says_nothing_of_the_future() -> None:
    """After GONE a session of the same name begins again, with seqs that were there before."""
    assert _pending(changes("a", 5), saved("a", 5), gone("a"), changes("a", 1)) == {"a": [1]}
    assert _pending(changes("a", 5), gone("a")) == {}


def test_stores_are_kept_apart() -> None:
    """The same id in two stores is two sessions."""
    found = replay(_records(changes("a", 1, store="x"), changes("a", 2, store="y"), gone("a", store="x")))
    assert list(found) == [("y", "a")]


def test_void_records_mean_nothing() -> None:
    """Removed records neither add nor end anything."""
    assert _pending(changes("a", 1), RecordEntry(RecordKind.VOID, "", "", 3)) == {"a": [1]}


@given(st.lists(st.tuples(entries, st.booleans()), max_size=30))
def test_the_running_state_agrees_with_replay(steps: list[tuple[RecordEntry, bool]]) -> None:
    """After any history the ledger knows the same sessions as a replay of it, and needs the segments of what is
    pending.
    """
    ledger, segment, history = SegmentLedger(), 1, []
    for lsn, (entry, rotate) in enumerate(steps, 1):
        segment += rotate
        ledger.apply(entry, segment)
        history.append((segment, Record(lsn, entry)))
    pending = replay(record for _, record in history)
    assert set(ledger.pending()) == set(pending)
    where = {record.lsn: number for number, record in history}
    needed = {where[record.lsn] for records in pending.values() for record in records}
    assert {number for number in range(1, segment + 1) if ledger.needs(number)} == needed
    oldest = {key for key, records in pending.items() if any(where[r.lsn] == min(needed) for r in records)}
    assert set(ledger.oldest_pending()) == oldest


@given(st.lists(entries, max_size=30), st.data())
def test_trimmed_segments_change_nothing_that_is_pending(history: list[RecordEntry], data: st.DataObject) -> None:
    """Replaying from the oldest segment that is needed gives what replaying from the first one gives."""
    records = _records(*history)
    ledger = SegmentLedger()
    for record in records:
        ledger.apply(record.entry, record.lsn)  # a segment for each
    first = min((record.lsn for record in records if ledger.needs(record.lsn)), default=len(records) + 1)
    start = data.draw(st.integers(1, first))
    assert replay(record for record in records if record.lsn >= start) == replay(records)
