"""The event loop is never blocked."""

from __future__ import annotations

from pathlib import Path

from blockbuster import blockbuster_ctx

from tests.index.feeding import all_hits, info, listed, message, note, opened, search


async def test_nothing_blocks_the_loop(tmp_path: Path) -> None:
    """Opening, feeding, asking in every mode, and closing do no blocking call on the loop."""
    with blockbuster_ctx():
        async with opened(tmp_path) as index:
            index.put_session(
                info("s", name="word"), [message(seq, f"word {seq}") for seq in range(1, 200)], [note(300, "h", "word")]
            )
            index.add_messages("s", [message(200, "word")])
            index.drop_after("s", 199)
            await index.room()
            await index.settled()
            assert len(await all_hits(index, "word", limit=60)) == 201
            assert (await search(index, "wor.", mode="regex")).total == 201
            assert len((await listed(index)).items) == 1
            assert await index.info("s")
            assert await index.count("default") == 1
            assert await index.fingerprints("default") == {"s": ""}
            index.remove("s")
