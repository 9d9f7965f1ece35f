"""Copies of real sessions into every target: each reads back as what was said, turn by turn."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from places import TARGETS, in_home
from test_copies import session_of

from sessiond.errors import InvalidParams
from sessiond.importers.record import MessageRecord, open_source
from sessiond.importers.registry import BY_NAME
from sessiond.model.message import Message
from sessiond.resume.make import make
from sessiond.resume.selection import selected
from tests.importers.collected import CORPUS

MOST = 20
"""Of the sessions of one tool. Aider's file holds more than a thousand short ones, of which every so many is taken."""


def sessions(tool: str) -> list[list[Message]]:
    found: dict[str, list[Message]] = defaultdict(list)
    for path in sorted((CORPUS / tool).rglob("*")):
        if path.is_file():
            for event in BY_NAME[tool].read(str(path), open_source):
                if isinstance(event, MessageRecord):
                    own = found[f"{path} {event.source_id}"]
                    own.append(Message.from_wire({**event.message, "seq": len(own) + 1}))
    every = list(found.values())
    return every[:: len(every) // MOST + 1]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no corpus at {CORPUS}")
@pytest.mark.parametrize("tool", ["aider", "claude-code", "cline", "codex", "pi"])
@pytest.mark.parametrize("name", TARGETS)
def test_a_real_session_is_copied(name: str, tool: str, tmp_path: Path) -> None:
    """`make` compares. Without calls, and the last messages alone, too."""
    copied = 0
    for messages in sessions(tool):
        session = session_of(messages)
        for calls, last in ((True, None), (False, None), (True, 5)):
            try:
                told = selected(session, last=last)
                made = make(in_home(name, tmp_path), session, "a-session", told, str(tmp_path), calls=calls)
            except InvalidParams:  # nothing is said in it
                continue
            copied += made.written is not None and made.messages > 0
    assert copied
