"""What an export for readers leaves out and marks."""

from __future__ import annotations

import pytest

from sessiond.exporters import export
from sessiond.model.message import Message
from sessiond.model.session import Session


def session(*messages: dict[str, object]) -> Session:
    made = Session("s", "2026-11-22T10:00:00.000Z")
    for seq, more in enumerate(messages, 1):
        wire = {"id": f"m{seq}", "seq": seq, "timestamp": made.created_at, "role": "system", "content": "", **more}
        made.add_message(Message.from_wire(wire))
    return made


@pytest.mark.parametrize("format", ["markdown", "org", "html", "text"])
def test_records_without_words_have_no_headings(format: str) -> None:
    """Only those that a tool put there; a person's empty message, a call and a thought are shown."""
    empty = {"metadata": {"injected": True, "record": {"type": "attachment"}}}
    call = {"id": "c", "name": "look", "arguments": {}}
    shown = session(empty, empty, {"role": "user"}, {**empty, "toolCalls": [call]}, {**empty, "thinking": "so"}, empty)
    text = "".join(export(shown, shown.messages(), format))
    assert text.count("injected by the tool") == 2
    assert text.count("10:00:00") >= 3
    assert "look" in text
    whole = "".join(export(shown, shown.messages(), "json"))
    assert whole.count('"injected"') == 5


def test_what_a_tool_has_dropped_is_marked() -> None:
    shown = session({"role": "user", "content": "before", "metadata": {"compacted": True}})
    assert "(no longer in the tool's history)" in "".join(export(shown, shown.messages(), "markdown"))
