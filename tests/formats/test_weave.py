"""A main file and its sidecar, put together by the rules of `weave`."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.formats.sidecar import (
    EPOCH,
    Mark,
    Seen,
    ShownInMain,
    Sidecar,
    SidecarEntry,
    Woven,
    build,
    decode_sidecar,
    encode_sidecar,
    key_of,
    merge_info,
    sidecar_path,
    weave,
)
from tests.formats.lisp_sessions import message, session_of

MAIN = b"main"
AT = "2026-01-11T14:30:22.000Z"


def seen(text: str, **more: Any) -> Seen:
    return Seen(key=key_of(text), role="user", content=text, timestamp=AT, near="n", **more)


def entry(number: int, text: str, *, copy: bool = False, **more: Any) -> SidecarEntry:
    whole = {**message(number, content=text).wire()} if copy else None
    return SidecarEntry(id=f"id-{number}", seq=number, key=key_of(text), copy=whole, near="n", **more)


def woven(items: list[Seen], side: Sidecar | None = None, main: bytes = MAIN, floor: int = 0) -> Woven:
    return weave(items, side, main, floor=floor, fallback_time=EPOCH, rewrites_whole=True)


def told(result: Woven) -> list[tuple[str, int, Any]]:
    return [(one.id, one.seq, one.content) for one in result.messages]


def side(*entries: SidecarEntry, mark: bytes | None = None, was: bytes | None = None, **more: Any) -> Sidecar:
    """By default for a version that another program overwrote."""
    return Sidecar(
        id="s", seq=9, through=9, entries=list(entries), mark=Mark.of(mark if mark is not None else b"ours", 9),
        was=Mark.of(was, 5) if was is not None else None, **more,
    )  # fmt: skip


def test_an_adopted_file_is_numbered_from_one() -> None:
    """Without a sidecar messages get seqs in their order, above the floor, and ids that are the same each time."""
    items = [seen("a"), seen("a"), seen("b", id="own")]
    result = woven(items)
    assert [one.seq for one in result.messages] == [1, 2, 3]
    assert result.messages[2].id == "own"
    assert len({one.id for one in result.messages}) == 3
    assert (result.renumbered, result.put_back, result.through, result.standing) == (True, False, 0, "alone")
    assert told(woven(items)) == told(result)
    assert [one.seq for one in woven(items, floor=7).messages] == [8, 9, 10]


def test_a_seen_message_finds_its_entry_by_id_then_by_what_it_says() -> None:
    """An id beats a digest; equal messages without ids are taken in order; what was kept beside comes back."""
    known = side(entry(1, "a"), entry(2, "a", beside={"thinking": "hm"}), entry(3, "c"))
    result = woven([seen("a"), seen("a"), seen("edited", id="id-3")], known)
    assert told(result) == [("id-1", 1, "a"), ("id-2", 2, "a"), ("id-3", 3, "edited")]
    assert result.messages[1].rest == {"thinking": "hm"}
    assert not result.renumbered


def test_an_id_that_is_there_twice_is_two_messages() -> None:
    """The second one gets its own id, and keeps it once the sidecar knows it."""
    items = [seen("a", id="x"), seen("b", id="x")]
    first = woven(items)
    assert len({one.id for one in first.messages}) == 2
    known = side(
        *[SidecarEntry(id=one.id, seq=one.seq, key=item.key) for one, item in zip(first.messages, items, strict=True)]
    )
    again = woven(items, known)
    assert told(again) == told(first)
    assert not again.renumbered


def test_what_an_edit_brings_in_gets_seqs_above_all() -> None:
    """A new message in the middle of the file has the highest seq."""
    result = woven([seen("a"), seen("new"), seen("b")], side(entry(1, "a"), entry(2, "b")))
    assert [(one.seq, one.content) for one in result.messages] == [(1, "a"), (2, "b"), (10, "new")]
    assert result.renumbered


def test_an_unseen_message_that_others_know_was_taken_out() -> None:
    """So was one of ours before another of ours that is there; one of ours at the end is put back."""
    known = side(
        entry(1, "a"), entry(2, "b"), entry(3, "c", copy=True), entry(4, "d", copy=True), entry(5, "e", copy=True)
    )
    result = woven([seen("a"), seen("d")], known)
    assert told(result) == [("id-1", 1, "a"), ("id-4", 4, "d"), ("id-5", 5, "e")]
    assert result.put_back


def test_a_hidden_message_stays() -> None:
    """What the main file must not hold remains there, whoever wrote it, and does not cause a write."""
    hidden = SidecarEntry(id="h", seq=2, copy=message(2, "system", "hidden").wire())
    result = woven([seen("a"), seen("b")], side(entry(1, "a"), hidden, entry(3, "b")))
    assert [one.content for one in result.messages] == ["a", "hidden", "b"]
    assert not result.put_back


@pytest.mark.parametrize("copies", [True, False], ids=["with copies", "without"])
def test_the_version_from_before_a_crash(copies: bool) -> None:
    """It is what it was, with the messages that were cut since, and what is newer is put back where it is known whole."""
    known = side(entry(1, "a"), entry(7, "new", copy=copies), was=MAIN, cut=[entry(2, "b")])
    result = woven([seen("a"), seen("b")], known)
    assert told(result) == [("id-1", 1, "a"), ("id-2", 2, "b"), *([("id-7", 7, "new")] if copies else [])]
    assert (result.through, result.put_back, result.renumbered) == (5, copies, False)


def test_a_stream_seen_half_written_is_whole() -> None:
    """The beginning of a streamed text that only the daemon has whole is an old state of it, not an edit."""
    grown = SidecarEntry(
        id="id-1", seq=1, key=key_of("Hello"), copy=message(1, content="Hello", status="done").wire(), near="n"
    )
    result = woven([seen("Hel")], side(grown))
    assert told(result) == [("id-1", 1, "Hello")]
    assert (result.put_back, result.stale) == (True, {0})


def test_an_edit_without_an_id_is_found_by_its_place() -> None:
    """Between its neighbours, by role and time; a message of another time is another message."""
    known = side(entry(1, "a"), entry(2, "b", beside={"thinking": "hm"}), entry(3, "c"))
    result = woven([seen("a"), seen("edited"), seen("c")], known)
    assert told(result) == [("id-1", 1, "a"), ("id-2", 2, "edited"), ("id-3", 3, "c")]
    assert result.messages[1].rest == {"thinking": "hm"}
    other = seen("other")
    other.near = "another time"
    assert [one.seq for one in woven([seen("a"), other, seen("c")], known).messages] == [1, 3, 10]


def test_a_file_with_nothing_in_common_costs_little() -> None:
    """Thousands of strangers against thousands of entries are not square."""
    known = side(*[entry(n, f"ours {n}") for n in range(1, 5000)])
    strangers = [seen(f"theirs {n}") for n in range(5000)]
    for one in strangers:
        one.near = "another time"
    assert len(woven(strangers, known).messages) == 5000


def test_a_sidecar_comes_back() -> None:
    """What `build` makes is read as the same, and has no claim on anything but its own main file."""
    session = session_of(message(1, thinking="hm"), message(2, "system"), tags=["t"])
    shown = {1: ShownInMain.of(session.messages()[0], seen("text 1"))}
    built = build(
        session, lambda one: shown.get(one.seq), before=None, main_before=None, main_after=MAIN, info={"tags": ["t"], "name": None},
        keep_copies=True, shown_info={"name": None},
    )  # fmt: skip
    again, problems = decode_sidecar(sidecar_path("s"), encode_sidecar(built))
    assert (again, problems) == (built, [])
    assert built.info == {"tags": ["t"]}
    assert [(one.key is None, one.copy is not None) for one in built.entries] == [(False, True), (True, True)]
    assert built.entries[0].beside == {"thinking": "hm", "timestamp": session.messages()[0].timestamp}


def test_fields_of_an_old_copy_are_ours_and_of_any_other_version_theirs() -> None:
    """A name that an earlier save had comes back only with messages that were put back; what is shown as it was has its exact value."""
    known = side(
        info={"name": "new", "metadata": {"e": {}}, "tags": ["t"]},
        shown={"name": key_of("new"), "metadata": key_of({"e": None})},
        older={"name": [key_of("old")]},
    )  # fmt: skip
    now = {"name": "old", "metadata": {"e": None}}
    old_copy = Woven([], 9, 9, renumbered=False, put_back=True, standing="outside")
    edit = Woven([], 9, 9, renumbered=False, put_back=False, standing="outside")
    merged, rewrite = merge_info(known, now, old_copy)
    assert (merged["name"], merged["metadata"], merged["tags"], rewrite) == ("new", {"e": {}}, ["t"], True)
    merged, rewrite = merge_info(known, now, edit)
    assert (merged["name"], merged["metadata"], rewrite) == ("old", {"e": {}}, False)
    assert merge_info(None, now, edit) == (now, False)
