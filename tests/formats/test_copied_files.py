"""A session's file that was copied, cloned or renamed without what is kept beside it shows its messages in the order of the file."""

from __future__ import annotations

import json
import random

import pytest

from sessiond.formats import cortex, jsonl
from sessiond.formats.base import Decoded
from tests.suite.explore import SEED, seeds


def lines(rng: random.Random) -> list[dict[str, object]]:
    """What a daemon and another program wrote in turns: the other one's lines have neither id nor seq, and took one each."""
    found: list[dict[str, object]] = []
    seq = 0
    for number in range(rng.randrange(1, 20)):
        seq += rng.choice((1, 1, 1, 4))  # a clear or a note took some
        ours = {"id": f"m{number}", "seq": seq} if rng.random() < 0.5 else {}
        found.append({"role": "user", "content": f"word {number}", **ours})
    return found


def told(decoded: Decoded) -> list[tuple[int, object]]:
    return [(message.seq, message.content) for message in decoded.session.messages()]


def same_again(fmt: object, path: str, content: bytes, expected: list[object]) -> None:
    decoded = fmt.decode("s", {path: content})  # type: ignore[attr-defined]
    assert [content for _, content in told(decoded)] == expected
    writes = fmt.adopt_numbering(decoded, {path: content})  # type: ignore[attr-defined]
    assert writes or not decoded.renumbered
    beside = {write.path: write.data for write in writes}
    again = fmt.decode("s", {path: content, **beside})  # type: ignore[attr-defined]
    assert told(again) == told(decoded) and not again.renumbered


@pytest.mark.parametrize("seed", seeds(few=20, usual=200))
def test_a_native_file(seed: int) -> None:
    written = lines(random.Random(f"{seed} {SEED}"))
    at = "2026-01-11T14:30:00.000Z"
    header = {"sessiond": 1, "id": "s", "createdAt": at}
    content = b"".join(
        json.dumps(one).encode() + b"\n" for one in (header, *({**one, "timestamp": at} for one in written))
    )
    same_again(jsonl, "s.jsonl", content, [one["content"] for one in written])


@pytest.mark.parametrize("seed", seeds(few=20, usual=200))
def test_a_file_of_another_system(seed: int) -> None:
    written = lines(random.Random(f"{seed} {SEED}"))
    content = b"".join(
        json.dumps({**one, "timestamp": 1_790_000_000_000 + number}).encode() + b"\n"
        for number, one in enumerate(written)
    )
    same_again(cortex, "transcripts/s/transcript.jsonl", content, [one["content"] for one in written])


def test_a_line_for_which_there_is_no_room_comes_last() -> None:
    """Somebody wrote it between two lines of ours: the others keep the seqs that clients know."""
    at = "2026-01-11T14:30:00.000Z"
    ours = [
        {"role": "user", "content": f"word {seq}", "id": f"m{seq}", "seq": seq, "timestamp": at} for seq in (1, 2, 3)
    ]
    written = [{"sessiond": 1, "id": "s", "createdAt": at}, ours[0], {"role": "user", "content": "between"}, *ours[1:]]
    content = b"".join(json.dumps(one).encode() + b"\n" for one in written)
    assert told(jsonl.decode("s", {"s.jsonl": content})) == [
        (1, "word 1"),
        (2, "word 2"),
        (3, "word 3"),
        (4, "between"),
    ]
