"""How a session and its source are combined, and what is remembered of a source."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from sessiond.importers.record import digest_of
from sessiond.model.values import derived_id
from sessiond.service.source_ledger import SourceLedger
from sessiond.service.source_merge import (
    SourceDigest,
    SourceGrowth,
    digest_of_message,
    is_marked,
    learned,
    marked,
    merged_order,
    replaced,
    supersedes,
)


def message(content: Any, **more: Any) -> dict[str, Any]:
    return {"id": "a", "role": "assistant", "content": content, "timestamp": "2026-11-22T10:00:00.000Z", **more}


@pytest.mark.parametrize("seed", range(200))
def test_the_order_is_the_source_s_and_nothing_leaves_its_place(seed: int) -> None:
    """Random sessions and sources. A message that only the session has follows the one that it followed; a second merge is a
    copy of the first.
    """
    chance = random.Random(seed)
    ids = [f"m{n}" for n in range(12)]
    here = chance.sample(ids, chance.randrange(13))
    source = chance.sample(ids, chance.randrange(13))
    if chance.random() < 0.7:  # usually a tool keeps its order
        here.sort(key=ids.index)
        source.sort(key=ids.index)
    order = merged_order(here, source)
    assert [one for one in order if one in source] == source
    assert sorted(order) == sorted({*here, *source})
    for before, one in zip([None, *here], here, strict=False):
        if one not in source and before is not None and before in source:
            assert order[order.index(before) + 1] == one
    assert merged_order(order, source) == order


GROWN = [
    ("", "words"),
    ("some", "some more"),
    ("some", [{"type": "text", "text": "some"}, {"type": "image"}]),
    ([{"type": "text", "text": "some"}], [{"type": "text", "text": "some more"}]),
    ([], [{"type": "text", "text": "words"}]),
]


@pytest.mark.parametrize(("ours", "theirs"), GROWN)
def test_what_has_grown_replaces_what_it_was(ours: Any, theirs: Any) -> None:
    """Without a memory of the source, only what has every word of ours; the other way round never."""
    assert supersedes(message(theirs), digest_of_message(message(theirs)), message(ours), ())
    assert not supersedes(message(ours), digest_of_message(message(ours)), message(theirs), ())


def test_calls_and_thinking_are_words() -> None:
    call = {"id": "c", "name": "ls", "arguments": {}}
    done = {**call, "arguments": {"path": "/"}}
    for less, more in (
        ({}, {"thinking": "so"}),
        ({"toolCalls": [call]}, {"toolCalls": [done]}),
        ({}, {"toolCalls": [call]}),
    ):
        assert supersedes(message("x", **more), b"1", message("x", **less), ())
        assert not supersedes(message("x", **less), b"1", message("x", **more), ())


def test_another_text_replaces_ours_only_if_ours_is_as_the_source_said_it() -> None:
    """Somebody changed it here: that stays."""
    ours, theirs = message("one"), message("other")
    assert supersedes(theirs, digest_of_message(theirs), ours, [digest_of_message(ours)])
    assert not supersedes(theirs, digest_of_message(theirs), ours, [digest_of_message(message("what it was"))])


def test_a_mark_is_no_change() -> None:
    ours = marked(message("x", metadata={"model": "m"}))
    theirs = message("x", metadata={"model": "m"})
    assert is_marked(ours)
    assert supersedes(theirs, digest_of_message(theirs), ours, ())
    assert not supersedes(theirs, digest_of_message(theirs), theirs, ())


def test_only_the_last_words_give_way_to_a_new_message_that_begins_with_them() -> None:
    """An id that is the source's own is kept, and so are words that are only quoted, that were not the last, or are far away."""
    old, own = derived_id(["x"]), "own"
    new = {"n": {**message("the beginning and the end"), "id": "n"}, "other": {**message("another"), "id": "other"}}
    kept = {"said": "assistant", "asked": "user", "result": "tool"}
    for lost, words, order, expected in (
        (old, "the beginning", [old, "n"], {old}),
        (old, "the beginning \ufffd", [old, "n"], {old}),
        (own, "the beginning", [own, "n"], set()),
        (old, "something else", [old, "n"], set()),
        (old, "and the end", [old, "n"], set()),
        (old, "the beginning", [old, "other", "n"], set()),
        (old, "the beginning and the end", [old, "other", "n"], {old}),
        (old, "the beginning and the end", [old, "asked", "n"], {old}),
        (old, "the beginning and the end", [old, "said", "n"], set()),
        (old, "the beginning", ["n", old], set()),
        (old, "the beginning", [old, "said", "n"], set()),
        (old, "the beginning", [old, "n", "said"], set()),
        (old, "the beginning", [old, "n", "asked"], set()),
        (old, "the beginning", [old, "n", "result"], {old}),
        (old, "the beginning", [old, "mine", "n"], {old}),
        (old, "the beginning", [old, *(f"mine{n}" for n in range(8)), "n"], set()),
    ):
        assert replaced(order, {lost: message(words)}, {}, new, kept) == expected, (words, order)
    later = derived_id(["later"])
    both = {old: message("the beginning"), later: message("of another")}
    assert replaced([old, later, "n"], both, {}, new, kept) == set()
    assert replaced([old, later, "n"], both | {later: message("", role="tool")}, {}, new, kept) == {old}


def test_a_marked_message_gives_way_only_to_one_in_its_place() -> None:
    """The source was looked at when the message was not there, and then had a later form of it. A prompt is complete when it is
    sent, so another one that begins like it is another one.
    """
    old, own, other = derived_id(["x"]), "own", derived_id(["other"])
    new = {"n": {**message("the beginning and the end"), "id": "n"}}
    marks = {old: message("the beginning"), own: message("the beginning"), other: message("of another")}
    kept = {"between": "assistant"}
    for order, expected in (
        ([old, "n"], {old}),
        (["n", old], set()),
        ([old, other, "n"], set()),
        ([other, old, "n"], {old}),
        ([own, "n"], set()),
        ([old, "between", "n"], set()),
        ([old, "n", "between"], set()),
        ([other, "n"], set()),
    ):
        assert replaced(order, {}, marks, new, kept) == expected, order
    assert replaced([old, "n"], {}, {old: message("and the end")}, new, {}) == set()
    asked = {"n": {**new["n"], "role": "user"}}
    assert replaced([old, "n"], {}, {old: message("the beginning", role="user")}, asked, {}) == set()
    assert replaced([old, "n"], {old: message("the beginning", role="user")}, {}, asked, {}) == {old}


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ({"cwd": "/w"}, {"cwd": "/w", "command": "ls"}, True),
        ({"cwd": "/w"}, {"command": "ls"}, False),
        ({"cwd": "/w"}, {"cwd": "/v", "command": "ls"}, False),
        ({"cwd": "/w"}, "ls", False),
        (None, {"command": "ls"}, True),
        ({"command": "l"}, {"command": "ls"}, True),
        ({"deep": {"of": "a"}}, {"deep": {"of": "ab"}, "more": 1}, True),
        ({"count": 0}, {"count": 1}, False),
    ],
)
def test_a_call_whose_arguments_grow_is_the_same_call(before: Any, after: Any, same: bool) -> None:
    """A message without an id of its own gets another one when its call is completed: the earlier one goes."""

    def called(arguments: Any) -> dict[str, Any]:
        calls = [{"id": "c", "name": "bash", "arguments": arguments}]
        return {"role": "assistant", "content": "I look.", "toolCalls": calls}

    old, new = derived_id(["before"]), derived_id(["after"])
    gone = replaced([old, new], {old: called(before)}, {}, {new: called(after)}, {})
    assert gone == ({old} if same else set())


def test_a_field_follows_the_source_until_it_is_changed_here() -> None:
    before = SourceDigest(fields={"name": digest_of("one"), "metadata.k": digest_of(1), "summary": digest_of("s")})
    assert learned({"name": "one"}, {"name": "two"}, before) == {"name": "two"}
    assert learned({"name": "mine"}, {"name": "two"}, before) == {}
    assert learned({}, {"name": "two"}, before) == {}, "a person removed it"
    assert learned({}, {"name": "two"}, before.vanished()) == {}
    announced = SourceDigest(expected_fields={"name": [digest_of("one")]})
    assert learned({}, {"name": "two"}, announced) == {"name": "two"}, "a crash came before it was there"
    assert learned({"k": 1, "own": 2}, {}, before, "metadata.") == {"k": None}
    assert learned({"summary": "s"}, {"summary": None}, before) == {}


def test_two_crashes_in_a_row_leave_both_versions_known() -> None:
    """What the session has may be of the first attempt or of the second."""
    one, two = digest_of("one"), digest_of("two")
    digest = SourceDigest().ahead({b"m": one}, {"name": one}).ahead({b"m": two}, {"name": two})
    assert digest.field("name") == (one, two)
    assert digest.expected == {b"m": [one, two]}
    assert digest.now({b"m": two}, {"name": two}) == SourceDigest(messages={b"m": two}, fields={"name": two})


@pytest.mark.parametrize("source", ["/file", "/a name in Latin-1: caf\udce9"])
async def test_a_ledger_outlives_its_daemon(tmp_path: Path, source: str) -> None:
    path = str(tmp_path / "imports.db")
    digest = SourceDigest(messages={b"a": b"b"}, gone={b"c": b"d"}, fields={"name": b"e"})
    ledger = SourceLedger(path)
    await ledger.keep("default", "s", source, digest)
    ledger.read_to_end("default", source, "codex", "mark")
    assert await ledger.digest("default", "s", source) == digest
    await ledger.close()
    ledger = SourceLedger(path)
    assert await ledger.digest("default", "s", source) == digest
    assert await ledger.digest("other", "s", source) is None
    assert await ledger.sessions("default", source) == ["s"]
    [file] = await ledger.files("default")
    assert (file.path, file.tool, file.mark, file.local_ids) == (source, "codex", "mark", ["s"])
    await ledger.close()


def said_of(number: int) -> dict[bytes, bytes]:
    return {digest_of(f"m{number}"): digest_of(number)}


@pytest.mark.parametrize("source", ["/file", "/a name in Latin-1: caf\udce9"])
async def test_what_a_source_said_since_is_part_of_its_digest(tmp_path: Path, source: str) -> None:
    """In memory, in the file, after a restart, and when there is so much that it is put into the digest."""
    path = str(tmp_path / "imports.db")
    ledger = SourceLedger(path)
    expected = SourceDigest(messages=said_of(0), fields={"name": b"a"})
    await ledger.keep("default", "s", source, expected)
    for number in range(1, 2200):
        new = said_of(number)
        ledger.grow("default", "s", source, SourceGrowth(new, [], {"name": b"b"}, announced=True))
        ledger.grow(
            "default", "s", source, SourceGrowth(new, [*said_of(number - 1)], None if number % 2 else {"name": b"c"})
        )
        expected = expected.ahead(new, {"name": b"b"})
        expected = expected.now(new, expected.fields if number % 2 else {"name": b"c"})
        if number in (1, 3, 1000, 2199):
            assert await ledger.digest("default", "s", source) == expected
            await asyncio.gather(ledger.flush(), ledger.flush())
            assert await ledger.digest("default", "s", source) == expected
    ledger.grow("default", "s", source, SourceGrowth(said_of(3000)))
    expected = expected.now({**expected.messages, **said_of(3000)}, expected.fields)
    await ledger.close()
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM grown").fetchone()[0] <= 2000
    ledger = SourceLedger(path)
    assert await ledger.digest("default", "s", source) == expected
    await ledger.keep("default", "s", source, SourceDigest(messages=said_of(1)))
    assert await ledger.digest("default", "s", source) == SourceDigest(messages=said_of(1))
    await ledger.close()
    ledger = SourceLedger(path)
    assert await ledger.digest("default", "s", source) == SourceDigest(messages=said_of(1))
    await ledger.close()


async def test_what_was_said_since_comes_once_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writes at a time, and more is said meanwhile."""
    ledger = SourceLedger(str(tmp_path / "imports.db"))
    expected = SourceDigest()
    await ledger.keep("default", "s", "/file", expected)
    await ledger.flush()
    flushes = []
    for number in range(40):
        ledger.grow("default", "s", "/file", SourceGrowth(said_of(number)))
        expected = expected.now({**expected.messages, **said_of(number)}, {})
        flushes.append(asyncio.create_task(ledger.flush()))
        if number % 3 == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*flushes)
    assert await ledger.digest("default", "s", "/file") == expected
    await ledger.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "imports.db")) as file:
        assert file.execute("SELECT count(*) FROM grown").fetchone()[0] == 40


@pytest.mark.parametrize("seed", range(20))
async def test_a_damaged_ledger_begins_again(tmp_path: Path, seed: int) -> None:
    """Cut or overwritten anywhere: it is a help, so it never keeps an import from its work."""
    path = tmp_path / "imports.db"
    ledger = SourceLedger(str(path))
    for number in range(50):
        await ledger.keep("default", f"s{number}", "/file", SourceDigest(messages={bytes([number]) * 8: b"x" * 8}))
    await ledger.close()
    chance = random.Random(seed)
    raw = bytearray(path.read_bytes())
    if chance.random() < 0.5:
        del raw[chance.randrange(len(raw)) :]
    else:
        for _ in range(200):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
    path.write_bytes(raw)
    ledger = SourceLedger(str(path))
    await ledger.digest("default", "s1", "/file")
    await ledger.files("default")
    digest = SourceDigest(messages={b"a": b"b"})
    await ledger.keep("default", "s", "/file", digest)
    await ledger.flush()
    await ledger.close()
    ledger = SourceLedger(str(path))
    assert await ledger.digest("default", "s", "/file") in (digest, None)
    await ledger.close()


async def test_a_ledger_that_cannot_be_written_is_a_help_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its folder is missing: what it is told stays in memory, up to a limit, and is written once there is a folder."""
    path = tmp_path / "data" / "imports.db"
    ledger = SourceLedger(str(path))
    for number in range(4000):
        await ledger.keep("default", f"s{number}", "/file", SourceDigest(messages={b"a": b"b"}))
    assert await ledger.files("default") == []
    assert await ledger.digest("default", "s0", "/file") is None
    assert await ledger.digest("default", "s3999", "/file") is not None
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 1
    path.parent.mkdir()
    await ledger.close()
    ledger = SourceLedger(str(path))
    assert await ledger.digest("default", "s3999", "/file") is not None
    await ledger.close()
