"""A tool that blanks, cuts, corrects or rewrites what it wrote, where it stands, takes no word away here, whether its source is
imported or followed; nothing is there twice, the order stays, and a model is sent each message once. For every tool.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import zstandard
from test_databases_that_grow import WRITERS as TABLES
from test_databases_that_grow import quick
from test_files_that_grow import WRITERS

from sessiond.exporters.conversation import conversation
from sessiond.model.message import Message
from sessiond.model.values import is_derived_id
from tests.importers.growing import touch
from tests.importers.test_taken_away import look, messages, tables, words
from tests.service.test_follow_equals_import import shown
from tests.service.test_intake import Served
from tests.suite.explore import seeds

__all__ = ["quick"]
TOO_SHORT = ("avante entries", "crush")
"""Sources whose messages have one short word each, which stands in other places too."""
NAMED_BY_LINES = ("agent-shell", "specstory")
OPAQUE = {
    "cursor-agent": "its blobs are named by their digests",
    "warp": "its tasks are Protocol Buffers",
    "windsurf": "its files are encrypted",
}
"""Sources in which a text cannot simply be changed."""
TEXTS = ("#", "\n#", "<!--")
"""How the files begin in which a text is not in quotes."""
_ZSTD = b"\x28\xb5\x2f\xfd"


def blanked(_: str) -> str:
    return ""


def cleared(_: str) -> str:
    return "[Old tool result content cleared]"


def cut(text: str) -> str:
    return text[: len(text) // 2]


def corrected(text: str) -> str:
    first = re.findall(r"\w+", text)[0]
    return text.replace(first, first + "x")


def rewritten(_: str) -> str:
    return "Quite another answer instead"


def continued(text: str) -> str:
    return text + " and more of it"


CHANGES = (blanked, cleared, cut, corrected, rewritten, continued)


def change(source: Path, text: str, later: str) -> bool:
    """Put `later` where `text` stands in any of the files. False if it does not stand anywhere as a text of its own."""
    found = False
    for path in sorted(source.parent.rglob("*")):
        if path.is_file() and not path.name.endswith(("-wal", "-shm")):
            raw = path.read_bytes()
            if raw.startswith(b"SQLite format 3"):
                found |= _change_rows(path, text, later)
            elif (changed := _changed(raw, text, later)) != raw:
                path.write_bytes(changed)
                found = True
    return found


def _change_rows(path: Path, text: str, later: str) -> bool:
    found = False
    with closing(sqlite3.connect(path)) as db, db:
        for name in tables(db):
            columns = [one[1] for one in db.execute(f'PRAGMA table_info("{name}")')]
            for rowid, *cells in db.execute(f'SELECT rowid, * FROM "{name}"').fetchall():
                for column, cell in zip(columns, cells, strict=True):
                    if isinstance(cell, (str, bytes)) and (changed := _changed(cell, text, later)) != cell:
                        db.execute(f'UPDATE "{name}" SET "{column}" = ? WHERE rowid = ?', (changed, rowid))
                        found = True
    return found


def _changed(raw: Any, text: str, later: str) -> Any:
    if isinstance(raw, bytes) and raw.startswith(_ZSTD):
        plain = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
        changed = _changed(plain, text, later)
        return raw if changed == plain else zstandard.ZstdCompressor().compress(changed)
    if isinstance(raw, bytes):
        try:
            return _changed(raw.decode(), text, later).encode()
        except UnicodeDecodeError:
            return raw
    if raw == text or (raw.startswith(TEXTS) and raw.count(text) == 1):
        return raw.replace(text, later)
    for plain in (True, False):
        before, after = (json.dumps(one, ensure_ascii=plain) for one in (text, later))
        for _ in range(2):  # some keep JSON in a text of JSON
            raw = raw.replace(before, after)
            before, after = json.dumps(before)[1:-1], json.dumps(after)[1:-1]
    return raw


def all_words(many: dict[str, list[dict[str, Any]]]) -> set[str]:
    return set(re.findall(r"\w{3,}", json.dumps([[words(one) for one in one] for one in many.values()])))


def named(ids: list[str]) -> list[str]:
    """Those that do not depend on the words: of the others, a changed message is another one."""
    return [one for one in ids if not is_derived_id(one)]


def current(many: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in many if not one.get("metadata", {}).get("superseded")]


def sent(many: list[dict[str, Any]]) -> list[Any]:
    told = conversation(Message.from_wire(one, nth) for nth, one in enumerate(many, 1))
    return [block for turn in told.turns for block in turn.blocks]


def texts(many: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Those that a message consists of, and that no other message has."""
    found = []
    for one in [one for some in many.values() for one in some]:
        content = one["content"]
        blocks = content if isinstance(content, list) else [content]
        found += [
            text
            for block in blocks
            if isinstance(text := block.get("text") if isinstance(block, dict) else block, str)
            and len(re.findall(r"\w+", text)) > 1
        ]
    return [text for text in found if sum(text in other for other in found) == 1]


NAMES = sorted(name for name in {**WRITERS, **TABLES} if name not in OPAQUE)


@pytest.mark.parametrize(
    ("name", "how"), list(zip(NAMES, cycle(CHANGES))), ids=lambda one: getattr(one, "__name__", one)
)
async def test_each_tool_changes_one_thing(tmp_path: Path, name: str, how: Callable[[str], str]) -> None:
    await _no_word_is_gone_and_none_is_there_twice(tmp_path, name, how, 0)


@pytest.mark.parametrize("seed", seeds(few=1, usual=10))
@pytest.mark.parametrize("how", CHANGES, ids=lambda how: how.__name__)
@pytest.mark.parametrize("name", NAMES)
async def test_each_tool_changes_everything(tmp_path: Path, name: str, how: Callable[[str], str], seed: int) -> None:
    await _no_word_is_gone_and_none_is_there_twice(tmp_path, name, how, seed)


async def _no_word_is_gone_and_none_is_there_twice(
    tmp_path: Path, name: str, how: Callable[[str], str], seed: int
) -> None:
    chance = random.Random(f"{name} {how.__name__} {seed}")
    folder = tmp_path / "source"
    folder.mkdir()
    source = {**WRITERS, **TABLES}[name](folder)
    whole = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    importing, following = [
        await Served(tmp_path / one, str(tmp_path / f"{one}.db")).start() for one in ("importing", "following")
    ]
    looks = 0

    async def seen() -> dict[str, list[dict[str, Any]]]:
        """The messages that both have then."""
        nonlocal looks
        looks += 1
        for path in whole:
            touch(path, 1_700_000_000, looks)
        for served, followed in ((importing, False), (following, True)):
            await look(served, source, followed=followed)
        assert await shown(importing) == await shown(following)
        return await messages(importing)

    before = await seen()
    candidates = texts(before)
    most = 1 if how in (cleared, rewritten) else 2  # which say the same of every text
    chance.shuffle(candidates)
    changed = 0
    for text in candidates:
        changed += changed < most and change(source, text, how(text))
    if not changed:
        assert name in TOO_SHORT
        pytest.skip("none of its texts stands alone in its source")
    after = await seen()
    assert all_words(before) <= all_words(after)
    for wire_id, many in before.items():
        order = [one["id"] for one in current(after[wire_id])]
        known = [one["id"] for one in many]
        assert [one for one in order if one in known] == [one for one in known if one in order]
        assert len(order) == len(set(order))
        assert name in NAMED_BY_LINES or named(order) == named(known)
        if order == known:
            told, had = (Counter(json.dumps(block) for block in sent(some)) for some in (after[wire_id], many))
            assert max(told.values(), default=1) <= max(had.values(), default=1), "a model is sent something twice"
    for path, raw in whole.items():
        path.write_bytes(raw)
    again = await seen()
    for wire_id, many in before.items():
        kept = after[wire_id] if how is continued else many  # what it took back, it had said
        said_first = [words(one) for one in many]
        there = {one["id"]: one for one in current(again[wire_id])}
        for one in [one for one in current(kept) if not is_derived_id(one["id"])]:
            assert words(there[one["id"]]) == words(one)
            assert bool(there[one["id"]].get("metadata", {}).get("shortened")) == (
                how is continued and words(one) not in said_first
            )
    assert all_words(after) <= all_words(again)
    await importing.close()
    await following.close()
