"""What a later form of a message says of an earlier one, case by case; `tests/importers/test_said_less.py` tries it with every tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiond.service.later_form import Later, compare, earlier_form, earlier_id
from tests.importers.collected import lines
from tests.importers.test_agents_of_today import claude
from tests.service.test_intake import Served

PICTURE = {"type": "image", "source": {"data": "aGk="}}
TEXT = {"type": "text", "text": "An apple."}


def says(content: Any, role: str = "assistant", **more: Any) -> dict[str, Any]:
    return {"id": "m1", "role": role, "content": content, "timestamp": "2026-01-01T00:00:00.000Z", **more}


@pytest.mark.parametrize(
    ("ours", "theirs", "what"),
    [
        (says("An app"), says("An apple."), Later.ALL),
        (says("An apple."), says("I look. An apple, red."), Later.ALL),
        (says("An apple."), says([TEXT, PICTURE]), Later.ALL),
        (says("", toolCalls=[]), says("An apple."), Later.ALL),
        (says([{"type": "text", "text": "An a"}, PICTURE]), says([TEXT, PICTURE]), Later.ALL),
        (says("An ap", thinking="h"), says("hmm. An apple."), Later.OTHER),
        (says("hm. An apple."), says("An apple.", thinking="hm."), Later.ALL),
        (says("An apple."), says("", thinking="An apple."), Later.ALL),
        (says("I l", thinking="hm"), says("I look.", thinking="hm and so"), Later.ALL),
        (says("", toolCalls=[{"name": "ls", "arguments": '{"pa'}]), says("", toolCalls=[{"name": "ls", "arguments": {"path": "."}}]), Later.ALL),
        (says("An apple."), says(""), Later.LESS),
        (says("An apple."), says("An"), Later.LESS),
        (says([TEXT, PICTURE]), says("An apple."), Later.LESS),
        (says("x", toolCalls=[{"name": "ls"}]), says("x"), Later.LESS),
        (says("x", thinking="hm"), says("x"), Later.LESS),
        (says("An apple."), says("[cleared]"), Later.OTHER),
        (says("An aple."), says("An apple."), Later.OTHER),
        (says("An apple, a pear."), says("A pear, an apple."), Later.OTHER),
        (says([PICTURE]), says([{**PICTURE, "source": {"data": "aG8="}}]), Later.OTHER),
        (says("hi", role="user"), says("hi"), Later.OTHER),
        (says("", role="user"), says("hi"), Later.ALL),
    ],
)  # fmt: skip
def test_a_later_form(ours: Any, theirs: Any, what: Later) -> None:
    assert compare(theirs, ours) is what


def test_an_earlier_form_is_named_by_its_words() -> None:
    """So the same words are there once, however often the source goes back and forth. What it cost stays with the later form."""
    ours = says("An aple.", metadata={"usage": {"input": 5}, "tokens": {"input": 5}, "shortened": True, "model": "m"})
    form = earlier_form(ours)
    assert form["metadata"] == {"model": "m", "superseded": True}
    assert form["id"] == earlier_id(says("An aple.")) != earlier_id(says("An apple."))
    assert form["content"] == "An aple."


FORMS = {
    "blanked, then other words": (["a walnut", "", "a hazel"], [("a walnut", "superseded"), ("a hazel", "")]),
    "blanked, then back": (["a walnut", "", "a walnut"], [("a walnut", "")]),
    "blanked, then more": (["a walnut", "", "a walnut tree"], [("a walnut tree", "")]),
    "back and forth": (["a walnut", "a hazel", "a walnut", "a hazel"], [("a walnut", "superseded"), ("a hazel", "")]),
    "cut twice": (["a walnut tree", "a walnut", "a"], [("a walnut tree", "shortened")]),
    "corrected twice": (
        ["a wolnut", "a wallnut", "a walnut"],
        [("a wolnut", "superseded"), ("a wallnut", "superseded"), ("a walnut", "")],
    ),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("followed", [False, True])
async def test_several_later_forms(tmp_path: Path, name: str, followed: bool) -> None:
    """Each is looked at; the messages around it stay what they are, and so does one that was said here."""
    said, expected = FORMS[name]
    served = await Served(tmp_path / "home", str(tmp_path / "imports.db")).start()
    source = tmp_path / "s.jsonl"
    for text in said:
        answer = {"role": "assistant", "content": [{"type": "text", "text": f"chip {text}".strip()}]}
        lines(
            source,
            claude("u1", "user", parentUuid=None, message={"role": "user", "content": "how"}),
            claude("u2", "assistant", parentUuid="u1", message=answer),
            claude("u3", "user", parentUuid="u2", message={"role": "user", "content": "thanks"}),
        )
        store = served.service.stores["default"]
        await served.service.transfer.import_(
            str(source), store, format=None, since=None, dry_run=False, progress=None, followed=followed
        )
    page = await served.service.read("claude-code-s")
    found = [
        (one["content"].removeprefix("chip").strip(), next((key for key in ("shortened", "superseded") if one.get("metadata", {}).get(key)), ""))
        for one in page["messages"]
    ]  # fmt: skip
    assert found == [("how", ""), *expected, ("thanks", "")]
    exported = (await served.service.export("claude-code-s", "openai"))["content"]
    assert exported.count("chip") == 1, "a model is sent one form"
    await served.close()
