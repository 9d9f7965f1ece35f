"""The words that exist: which of them have a part, who reads them and when, and that no search lacks any."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.index import documents
from sessiond.index.chunks import decompress
from sessiond.index.index import Index
from sessiond.index.narrowing import WordPart
from sessiond.index.vocabulary import CUT_BYTES, MOST_WORDS, Vocabulary, packed
from sessiond.index.vocabulary_builder import VocabularyBuilder
from tests import inside
from tests.index.feeding import all_hits, info, key, message, opened, search

WORDS = st.text(st.sampled_from("abiıé日1"), min_size=1, max_size=6)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vocabulary is read after every change."""
    monkeypatch.setattr(documents, "LEAST_CHUNKS", 0)
    monkeypatch.setattr(documents, "LEAST_SHARE", 1_000_000)
    monkeypatch.setattr("sessiond.index.writer.MERGE_IDLE_S", 0.0)


def facts(index: Index) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(index._writer.path)) as db:
        return dict(db.execute("SELECT key, value FROM meta"))


async def covered(index: Index) -> None:
    """Until it has the words of everything."""
    while (now := facts(index))["vocabulary"] < now["next_chunk"] - 1:
        await asyncio.sleep(0.005)


def stored(path: Path) -> set[bytes]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return {word for (row,) in db.execute("SELECT words FROM vocabulary") for word in decompress(row).split(b"\n")}


@settings(max_examples=300, deadline=None)
@given(words=st.sets(WORDS), token=st.text(st.sampled_from("abi1"), min_size=1, max_size=3), part=st.tuples(*[st.booleans()] * 3))  # fmt: skip
def test_the_words_that_have_a_part(words: set[str], token: str, part: tuple[bool, bool, bool]) -> None:
    """What a look at every single word finds."""
    begins, ends, dotless = part
    dotless = dotless and "i" in token
    wanted = "[iı]".join(token.split("i")) if dotless else token
    pattern = re.compile(("^" if begins else "") + wanted + ("$" if ends else ""))
    found = Vocabulary(1, packed(sorted(word.encode() for word in words))).holding(
        WordPart(token, begins=begins, ends=ends, dotless=dotless)
    )
    if found is None:  # nothing of the token is sure
        assert dotless and not token.strip("i")
    else:
        assert sorted(found) == sorted(filter(pattern.search, words))


def test_what_is_in_too_many_words_narrows_nothing() -> None:
    """One word more than there may be."""
    words = [f"a{number}b".encode() for number in range(MOST_WORDS + 1)]
    part = WordPart("b", begins=False, ends=False, dotless=False)
    assert Vocabulary(1, packed(words)).holding(part) is None
    assert len(Vocabulary(1, packed(words[1:])).holding(part) or ()) == MOST_WORDS


def test_a_word_that_was_cut_may_have_anything() -> None:
    """What FTS5 cut off of a long word is not known; where that is so of many, nothing is."""
    long = [bytes([97 + number]) * CUT_BYTES for number in range(17)]
    part = WordPart("needle", begins=False, ends=True, dotless=False)
    assert Vocabulary(1, packed([b"needles", *long[:1], b"anneedle"])).holding(part) == [long[0].decode(), "anneedle"]
    assert Vocabulary(1, packed(long)).holding(part) is None


STEMS = ["quix", "otic", "foo", "bar", "i", "ı", "K", "日本", "é", "_", "-", " ", " ", "1", "\u0301"]
PATTERNS = ["uixot", "(?i)QUIXOTIC", "oba", "foo.?bar", "ix1|xfo", "barfoo$", r"(?i)foo\w+i", "本foo", "xo", "tic\\b", "fooé", "o_b", "zzz"]  # fmt: skip


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", range(4))
async def test_finds_what_a_scan_finds_through_every_change(tmp_path: Path, seed: int) -> None:
    """Sessions that are fed, changed, cut, archived, deleted and brought back, with the vocabulary read before, between and
    after: a pattern finds exactly the texts in which `re.search` finds it.
    """
    rng = random.Random(seed)
    texts: dict[str, dict[int, str]] = {f"s{number}": {} for number in range(4)}
    shelf = dict.fromkeys(texts, "live")
    async with opened(tmp_path) as index:
        for step in range(50):
            session = rng.choice(sorted(texts))
            match rng.choice(("add", "add", "add", "many", "cut", "shelf", "shelf", "rest")):
                case "add":
                    seq = rng.randrange(1, 12)
                    texts[session][seq] = "".join(rng.choices(STEMS, k=rng.randrange(1, 8)))
                    index.add_messages(session, [message(seq, texts[session][seq])])
                case "many":
                    seqs = range(20, 20 + rng.randrange(5, 60))
                    texts[session] |= {seq: "".join(rng.choices(STEMS, k=5)) + f" {step}" for seq in seqs}
                    index.add_messages(session, [message(seq, texts[session][seq]) for seq in seqs])
                case "cut":
                    last = rng.randrange(30)
                    index.drop_after(session, last)
                    texts[session] = {seq: text for seq, text in texts[session].items() if seq <= last}
                case "shelf":
                    shelf[session] = rng.choice(("live", "live", "archived", "deleted"))
                    is_now = shelf[session]
                    index.put_info(info(session, archived=is_now == "archived", deleted=is_now == "deleted"))
                case "rest":
                    await index.settled()
                    await covered(index)
            if step == 0:
                for one in texts:
                    index.put_info(info(one))
            if step % 5 == 4:
                await index.settled()
                pattern = rng.choice(PATTERNS)
                expected = {
                    (one, seq)
                    for one, said in texts.items()
                    for seq, text in said.items()
                    if shelf[one] == "live" and re.search(pattern, text)
                }
                assert {key(hit) for hit in await all_hits(index, pattern, mode="regex")} == expected, pattern


@pytest.mark.usefixtures("eager")
async def test_only_the_texts_that_have_the_word_are_read(tmp_path: Path) -> None:
    """A literal inside a word: all other chunks may be broken. What came since is looked through."""
    async with opened(tmp_path) as index:
        for number in range(3):
            index.put_info(info(f"s{number}"))
            index.add_messages(f"s{number}", [message(1, f"an unrare{number}ly " + "filler " * 5000)])
            await index.settled()
        await covered(index)
        inside.database(index).execute("UPDATE chunk SET data = x'00' WHERE id != (SELECT chunk FROM doc WHERE id = 2)")
        assert (await search(index, "rare1", mode="regex")).total == 1
        assert (await search(index, "rare[1]ly", mode="regex")).incomplete  # more words may have it


@pytest.mark.usefixtures("eager")
async def test_no_word_stays_that_was_erased(tmp_path: Path) -> None:
    """Neither in the vocabulary that was there, nor by one that is being read meanwhile; what is left is found."""
    async with opened(tmp_path) as index:
        for session, word in (("kept", "staying"), ("gone", "xyzzyplugh")):
            index.put_info(info(session))
            index.add_messages(session, [message(1, f"so {word} here")])
        await index.settled()
        await covered(index)
        assert b"xyzzyplugh" in stored(tmp_path / "index.db")
        index.remove("gone")
        await index.settled()
        assert await index.erased()
        assert b"xyzzyplugh" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
        await covered(index)
        assert b"xyzzyplugh" not in stored(tmp_path / "index.db")
        assert (await search(index, "tayin", mode="regex")).total == 1


@pytest.mark.usefixtures("eager")
async def test_words_that_come_late_are_not_missed(tmp_path: Path) -> None:
    """A deleted session's words are in no vocabulary; brought back while one is being read, it is found all the same."""
    async with opened(tmp_path) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(1, "unquixotically")])
        index.put_info(info("s", deleted=True))
        index.put_info(info("t"))
        index.add_messages("t", [message(1, "other")])
        await index.settled()
        await covered(index)
        assert b"unquixotically" not in stored(tmp_path / "index.db")
        index.put_info(info("s"))
        await index.settled()
        assert (await search(index, "quixotic", mode="regex")).total == 1
        await covered(index)
        assert b"unquixotically" in stored(tmp_path / "index.db")
        assert (await search(index, "quixotic", mode="regex")).total == 1


@pytest.mark.usefixtures("eager")
async def test_a_damaged_vocabulary_has_the_index_replaced(tmp_path: Path) -> None:
    """It is part of the file, and is made anew with it."""
    refilled = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with opened(tmp_path, on_refill=lambda: loop.call_soon_threadsafe(refilled.set)) as index:
        index.put_info(info("s"))
        index.add_messages("s", [message(1, "unquixotically")])
        await index.settled()
        await covered(index)
        inside.database(index).execute("UPDATE vocabulary SET words = x'00'")
        assert (await search(index, "quixotic", mode="regex")).incomplete
        await asyncio.wait_for(refilled.wait(), 60)


def test_it_is_due_once_much_is_new() -> None:
    """A part of all, and never for a little; what failed is not tried again before that."""
    builder = VocabularyBuilder("/nowhere", lambda: None)
    least, share = documents.LEAST_CHUNKS, documents.LEAST_SHARE
    assert not builder.due(0, least) and builder.due(0, least + 1)
    large = 100 * least
    assert not builder.due(large - large // share, large) and builder.due(large - large // share - 1, large)


def test_a_process_that_fails_builds_nothing(tmp_path: Path) -> None:
    """Whoever waits is woken, and it is due again when much more was written."""
    over = threading.Event()
    builder = VocabularyBuilder(str(tmp_path / "none.db"), over.set)
    last = documents.LEAST_CHUNKS + 1
    builder.start(last, 0)
    assert not builder.due(0, last)
    assert over.wait(60)
    assert builder.take() is None
    assert not builder.due(0, last) and builder.due(0, 2 * last)
