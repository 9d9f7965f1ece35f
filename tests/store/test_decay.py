"""A file of ours that decays is noticed at its next load; an edit is not taken for decay, and later writes never hide damage."""

from __future__ import annotations

import json
import os
import random
import zlib
from pathlib import Path

from sessiond.formats.base import Unlike
from sessiond.formats.checksum import flipped_bit
from sessiond.model.changes import Truncated
from tests.store.conftest import NOW, House, appended, begun

LATER_NS = 60_000_000_000


def flip(path: Path, offset: int, mask: int) -> None:
    """As a disk does it: no time changes."""
    stat = path.stat()
    content = bytearray(path.read_bytes())
    content[offset] ^= mask
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


async def saved(house: House, count: int = 3) -> Path:
    session = await begun(house.store, "a", count)
    await house.store.save("a")
    await house.store.release("a")
    assert session.seq == count
    return Path(house.store.file_path("a"))


async def warnings(house: House) -> list[str]:
    await house.open()
    loaded = await house.store.load("a")
    await house.store.release("a")
    return [f"{one.line}: {one.message}" for one in loaded.warnings]


async def test_one_flipped_bit_is_found_wherever_it_is(house: House) -> None:
    """A bit inside a message's text, and in every other line, is reported with its line, after one save and after several."""
    path = await saved(house)
    loaded = await house.store.load("a")
    for seq in (4, 5):
        await house.store.commit(loaded.session, [appended(seq)])
        await house.store.save("a")
    content = path.read_bytes()
    at = content.index(b"word 2")
    flip(path, at, 1)
    told = await warnings(house)
    assert len(told) == 1
    assert told[0].startswith("3: one bit") and f"(byte {at})" in told[0]
    flip(path, at, 1)
    assert await warnings(house) == []
    for offset in random.Random(1).sample(range(len(content)), 25):
        flip(path, offset, 1 << offset % 8)
        assert any(f"(byte {offset})" in one for one in await warnings(house)), offset
        flip(path, offset, 1 << offset % 8)


async def test_more_than_a_bit_is_told_where_nobody_wrote_the_file(house: House) -> None:
    """A damaged stretch is told; what is appended after it does not bless it."""
    path = await saved(house)
    at = path.read_bytes().index(b"word 1")
    flip(path, at, 0x1F)
    flip(path, at + 1, 0x0E)
    assert "and no program has written it since" in (await warnings(house))[0]
    loaded = await house.store.load("a")
    await house.store.commit(loaded.session, [appended(4)])
    await house.store.save("a")
    assert "and no program has written it since" in (await warnings(house))[0]


async def test_an_edit_is_the_users_will(house: House) -> None:
    """A file that was edited without a daemon is accepted as it is, and later decay is noticed again."""
    path = await saved(house)
    path.write_bytes(path.read_bytes().replace(b"word 2", b"other words"))
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + LATER_NS))
    assert await warnings(house) == []
    flip(path, path.read_bytes().index(b"other"), 1)
    assert "one bit" in (await warnings(house))[0]


async def test_an_edit_that_says_the_same_is_no_decay(house: House) -> None:
    """A blank line more, seen while the session is open, is taken into the sum."""
    path = await saved(house)
    loaded = await house.store.load("a")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n", 1))
    await house.store.look_at("a")
    await house.store.commit(loaded.session, [appended(4)])
    await house.store.save("a")
    assert await warnings(house) == []
    flip(path, path.read_bytes().index(b"word 4"), 1)
    assert "one bit" in (await warnings(house))[0]


async def test_a_rewritten_file_has_its_sum_too(house: House) -> None:
    """After a truncate, which writes the file again, a flipped bit is found."""
    path = await saved(house)
    loaded = await house.store.load("a")
    await house.store.commit(loaded.session, [Truncated(seq=4, at=NOW, after_seq=2)])
    await house.store.save("a")
    assert await warnings(house) == []
    flip(path, path.read_bytes().index(b"word 1"), 4)
    assert "one bit" in (await warnings(house))[0]


async def test_a_sidecar_of_before_says_nothing(house: House) -> None:
    """A file whose sidecar has no sum, as from earlier versions, is read as before."""
    path = await saved(house)
    side = path.parent / ".sessiond" / "a.json"
    content = json.loads(side.read_text())
    for later in ("before", "after", "data"):
        del content["append"][later]
    side.write_text(json.dumps(content))
    flip(path, path.read_bytes().index(b"word 1"), 4)
    assert await warnings(house) == []


def test_the_bit_is_the_one_that_was_flipped() -> None:
    """For every bit of a small file, and for random ones of larger files; two flipped bits are never taken for one."""
    rng = random.Random(7)
    for size in (1, 2, 64, 5000):
        content = rng.randbytes(size)
        unlike = Unlike(size, zlib.crc32(content))
        bits = range(8 * size) if size < 100 else rng.sample(range(8 * size), 40)
        for bit in bits:
            broken = bytearray(content)
            broken[bit // 8] ^= 1 << bit % 8
            assert flipped_bit(bytes(broken) + b"more", unlike) == (bit // 8, 1 << bit % 8)
        if size > 2:
            for _ in range(40):
                broken = bytearray(content)
                for bit in rng.sample(range(8 * size), 2):
                    broken[bit // 8] ^= 1 << bit % 8
                assert flipped_bit(bytes(broken), unlike) is None
        assert flipped_bit(content[:-1], unlike) is None
