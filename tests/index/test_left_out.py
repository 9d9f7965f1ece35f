"""A message that cannot be indexed costs itself: the rest of its session is found, and the session is named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sessiond.index import prepared
from sessiond.index.index import Index
from sessiond.index.text import Texts, searchable
from sessiond.model.message import Message
from tests.index.feeding import all_hits, info, key, message, note, opened

SAID = [message(1, "word before"), message(2, "word spoilt"), message(3, "word after")]
UNWRITABLE = msgspec.structs.replace(SAID[1], role="x\udcff")


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a bug in what finds the words of a message."""

    def buggy(one: Message) -> Texts:
        if one.content == "word spoilt":
            raise TypeError("unhashable type: 'list'")
        return searchable(one)

    monkeypatch.setattr(prepared, "searchable", buggy)


def feed(index: Index, how: str, said: list[Message]) -> None:
    """`s` is fed as a whole, in parts, or one change after another; its fingerprint is `f`."""
    if how == "whole":
        index.put_session(info("s", fingerprint="f"), said, [note(9, "word", "noted")])
        return
    stamp = index.begin_session(info("s", fingerprint="f"), frozenset(m.id for m in said), frozenset({"n-9"}))
    if how == "parts":
        index.add_part("s", said)
    else:
        index.add_messages("s", said)
    index.end_session(info("s", fingerprint="f"), [note(9, "word", "noted")], stamp)


@pytest.mark.parametrize("how", ["whole", "parts", "changes"])
@pytest.mark.usefixtures("spoilt")
async def test_a_message_without_words_costs_itself(tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """The other messages and the notes are found; the index is complete; its session has no fingerprint, so that the next
    start tries again, and is named until it is fed without that message. The log tells it once.
    """
    async with opened(tmp_path) as index:
        index.incomplete = False
        for _ in range(2):
            feed(index, how, SAID)
            await index.settled()
        assert sorted(map(key, await all_hits(index, "word"))) == [("s", 1), ("s", 3), ("s", 9)]
        assert (index.left_out, index.incomplete, index.problem) == (["s"], False, None)
        assert (await index.fingerprints("default"))["s"] == ""
        assert caplog.text.count("could not be indexed completely: message m-2: TypeError") == 1
        feed(index, how, [SAID[0], SAID[2]])
        await index.settled()
        assert index.left_out == []
        assert (await index.fingerprints("default"))["s"] == "f"


@pytest.mark.parametrize("how", ["whole", "parts", "changes"])
async def test_a_message_that_the_file_refuses_costs_itself(tmp_path: Path, how: str) -> None:
    """Those that would have been written with it are written without it, and so is the end of its session."""
    async with opened(tmp_path) as index:
        index.incomplete = False
        feed(index, how, [SAID[0], UNWRITABLE, SAID[2]])
        await index.settled()
        assert sorted(map(key, await all_hits(index, "word"))) == [("s", 1), ("s", 3), ("s", 9)]
        assert (index.left_out, index.incomplete) == (["s"], False)


@pytest.mark.usefixtures("spoilt")
async def test_a_session_that_is_gone_is_not_named(tmp_path: Path) -> None:
    """Whoever deletes the session has nothing left to mend."""
    async with opened(tmp_path) as index:
        feed(index, "changes", SAID)
        await index.settled()
        assert index.left_out == ["s"]
        index.remove("s")
        await index.settled()
        assert index.left_out == []
