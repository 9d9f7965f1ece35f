"""An operation's body is its change, without what the hub has beside it."""

from __future__ import annotations

import contextlib
import random

import msgspec
import pytest

from sessiond.errors import BadFile
from sessiond.hub import bodies
from sessiond.hub.port import Ordered
from sessiond.model.changes import (
    Appended,
    Change,
    Cleared,
    Created,
    Extended,
    Finished,
    Noted,
    StateSet,
    Truncated,
    Updated,
)

AT = "2026-01-01T00:00:00.000Z"


def some_text(chance: random.Random) -> str:
    return chance.choice(
        ("", "ü\u2028\0\\", "word " * chance.randint(1, 400), "".join(chr(chance.randint(32, 900)) for _ in range(99)))
    )


def some_change(chance: random.Random, seq: int) -> Change:
    text = some_text(chance)
    message = {
        "id": f"m\0{seq}",
        "seq": seq,
        "role": "user",
        "content": text,
        "timestamp": AT,
        "metadata": {"a": [1, None, 2.5]},
        "author": "Eve",
    }
    note = {"id": "n", "seq": seq, "heading": text, "content": text, "thread": None, "tick": 3, "timestamp": AT}
    return chance.choice(
        [
            Created(seq=seq, at=AT, info={"name": text, "createdAt": AT}),
            Appended(seq=seq, at=AT, messages=[message]),
            Extended(seq=seq, at=AT, message_id="m", offset=7, text=text),
            Finished(seq=seq, at=AT, message_id="m", status="done", metadata={"x": text}, tool_calls=[{"id": "c"}]),
            Finished(seq=seq, at=AT, message_id="m", status="done"),
            Updated(seq=seq, at=AT, fields={"name": None, "tags": [text]}),
            Noted(seq=seq, at=AT, note=note),
            StateSet(seq=seq, at=AT, values={"k": {"seq": 5, "id": text}, "gone": None}),
            Cleared(seq=seq, at=AT),
            Truncated(seq=seq, at=AT, after_seq=4),
        ]
    )


@pytest.mark.parametrize("seed", range(300))
def test_a_change_comes_back_with_its_number(seed: int) -> None:
    """Whatever it is, and whatever seq it had: the hub's number is its seq afterwards, and everything else is as it was. The author
    of a message is who pushed it, whoever the message says it was.
    """
    chance = random.Random(seed)
    change = some_change(chance, chance.randint(0, 50))
    one = bodies.operation(3, change)
    ordered = Ordered(77, "a" * 32, 3, one.kind, one.id, "Ada", None, 0, one.body)
    moved = msgspec.structs.replace(change, seq=77)
    if isinstance(moved, Appended):
        body = bodies.unpack_json(one.body)
        assert isinstance(body, dict) and "author" not in body["messages"][0]
        moved = msgspec.structs.replace(moved, messages=[{**moved.messages[0], "seq": 77, "author": "Ada"}])
    if isinstance(moved, Noted):
        moved = msgspec.structs.replace(moved, note={**moved.note, "seq": 77})
    assert bodies.unpack(ordered) == moved


@pytest.mark.parametrize("seed", range(300))
def test_a_damaged_body_is_an_error_that_we_know(seed: int) -> None:
    """Cut, changed or of another way of writing: BadFile, or by chance another change; nothing else."""
    chance = random.Random(seed)
    one = bodies.operation(3, some_change(chance, 1))
    body = bytearray(one.body)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(body))
        match chance.choice(("cut", "flip", "other")):
            case "cut":
                del body[place:]
            case "flip":
                body[place] ^= 1 << chance.randrange(8)
            case "other":
                body[:1] = b"\x09"
        if not body:
            break
    with contextlib.suppress(BadFile):
        bodies.unpack(Ordered(1, "a" * 32, 3, one.kind, one.id, "Ada", None, 0, bytes(body)))


def test_a_body_cannot_be_a_bomb() -> None:
    """A body that claims to be larger than any operation is not unpacked."""
    import zstandard

    bomb = zstandard.ZstdCompressor(dict_data=zstandard.ZstdCompressionDict(bodies.DICTIONARY)).compress(
        bytes(100 * 1024 * 1024)
    )
    with pytest.raises(BadFile, match="too large"):
        bodies.unpack_json(bodies.PACKED + bomb)


def test_a_short_message_costs_less_than_its_json() -> None:
    """The dictionary has the words that every message has."""
    change = Appended(
        seq=1,
        at=AT,
        messages=[{"id": "x" * 26, "seq": 1, "role": "assistant", "content": "Sure, I can do that.", "timestamp": AT}],
    )
    assert len(bodies.operation(1, change).body) < len(msgspec.json.encode(change)) / 2
