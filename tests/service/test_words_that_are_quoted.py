"""A source that is written again and quotes what was said, or goes on with it, takes nothing away here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.importers.collected import lines
from tests.service.test_follow_equals_import import read
from tests.service.test_intake import Served

BRIDGE = "Here were the user messages:\nfix the lock\ngo on\nThat was all."


@pytest.fixture
async def served(tmp_path: Path) -> Any:
    made = await Served(tmp_path / "home").start()
    yield made
    await made.close()


async def wire_id(served: Served) -> str:
    [info] = (await served.service.list())["sessions"]
    return str(info["sessionId"])


async def now(served: Served) -> list[tuple[str, bool]]:
    return await read(served, await wire_id(served))


def rollout(path: Path, *said: tuple[str, str]) -> Path:
    """Items as older versions of Codex wrote them: without ids."""
    head = {"timestamp": "2026-11-22T10:00:00Z", "type": "session_meta", "payload": {"id": "c1", "cwd": "/w"}}
    return lines(path, head, *(
        {
            "timestamp": f"2026-11-22T10:00:0{nth}Z",
            "type": "response_item",
            "payload": {"type": "message", "role": role, "content": [{"type": f"{kind}_text", "text": text}]},
        }
        for nth, (role, text) in enumerate(said, 1)
        for kind in ("input" if role == "user" else "output",)
    ))  # fmt: skip


def document(path: Path, *said: tuple[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"messages": [{"role": role, "content": text} for role, text in said]}))
    return path


@pytest.mark.parametrize(
    ("write", "name"), [(rollout, "rollout-2026-11-22T10-00-00-c1.jsonl"), (document, "chat.json")]
)
async def test_a_summary_that_quotes_what_was_said(served: Served, tmp_path: Path, write: Any, name: str) -> None:
    """Its role is the user's, too. What it quotes stays, marked, even the last that was said."""
    source = tmp_path / "source" / name
    await served.bring(write(source, ("user", "fix the lock"), ("assistant", "Fixed."), ("user", "go on")))
    await served.bring(write(source, ("user", BRIDGE), ("assistant", "So it goes.")))
    assert await now(served) == [
        ("fix the lock", True), ("Fixed.", True), ("go on", True), (BRIDGE, False), ("So it goes.", False),
    ]  # fmt: skip


async def test_words_before_the_last_are_not_taken_for_half_a_message(served: Served, tmp_path: Path) -> None:
    """A summary that begins with the first prompt does not replace it, because the prompt already had an answer."""
    source = tmp_path / "source" / "chat.json"
    await served.bring(document(source, ("user", "fix the lock"), ("assistant", "Fixed.")))
    await served.bring(document(source, ("user", "fix the lock was asked, and it was fixed"), ("assistant", "Yes.")))
    texts = [
        ("fix the lock", True),
        ("Fixed.", True),
        ("fix the lock was asked, and it was fixed", False),
        ("Yes.", False),
    ]
    assert await now(served) == texts


async def test_what_is_typed_where_something_was_cut_off(served: Served, tmp_path: Path) -> None:
    """It begins with the same word, but it is another prompt."""
    source = tmp_path / "source" / ".aider.chat.history.md"
    source.parent.mkdir()
    begun = "# aider chat started at 2026-11-22 10:00:00\n\n#### do it  \n\nShall I?\n\n"
    for text in (begun + "#### yes  \n", begun, begun + "#### yes but not so  \n\nOh.\n"):
        source.write_text(text)
        await served.bring(source)
    assert await now(served) == [
        ("do it", False), ("Shall I?", False), ("yes", True), ("yes but not so", False), ("Oh.", False),
    ]  # fmt: skip


async def test_an_answer_that_is_half_written_gives_way_to_the_whole(served: Served, tmp_path: Path) -> None:
    """Also if the document was looked at without it in between."""
    source = tmp_path / "source" / "chat.json"
    prompt = ("user", "why?")
    for said in ([prompt, ("assistant", "Bec")], [prompt, ("assistant", "Because of")], [prompt]):
        await served.bring(document(source, *said))
    assert await now(served) == [("why?", False), ("Because of", True)]
    await served.bring(document(source, prompt, ("assistant", "Because of it."), ("user", "I see")))
    assert await now(served) == [("why?", False), ("Because of it.", False), ("I see", False)]
