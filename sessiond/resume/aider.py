"""Aider: a chat history of its own in the working directory. Texts only, because Aider has no calls."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime

from sessiond.exporters.conversation import ExportedTurn, text_block
from sessiond.importers.came_from import PARENT
from sessiond.importers.record import Event, MessageRecord
from sessiond.resume.target import TEXTS, FileTarget, SessionCopy, Written

_MARKS = ("# ", "> ", "#### ")
"""What begins a line that is not the assistant's."""


class AiderTarget(FileTarget):
    name = program = importer = "aider"
    holds = TEXTS
    calls = False

    def command(self, written: Written) -> list[str]:
        return ["aider", "--chat-history-file", written.path, "--restore-chat-history"]

    def shaped(self, turns: list[ExportedTurn]) -> list[ExportedTurn]:
        return [ExportedTurn(one.role, [text_block(_said(one))], [], one.timestamp, one.messages) for one in turns]

    def document(self, copy: SessionCopy) -> tuple[Written, bytes]:
        own = secrets.token_hex(4)
        began = datetime.fromtimestamp(copy.moment / 1000, UTC).astimezone()
        parts = [f"\n# aider chat started at {began:%Y-%m-%d %H:%M:%S}\n\n> {PARENT} {json.dumps(copy.parent)}\n"]
        for turn in copy.turns:
            text = turn.blocks[0]["text"]
            if turn.role == "user":
                text = "\n".join(f"#### {line}  " for line in text.split("\n"))
            parts.append(f"\n{text}\n")
        written = Written(own, os.path.join(copy.cwd, f".aider.sessiond-{own}.md"))
        return written, "".join(parts).encode()

    def read(self, written: Written) -> Iterator[Event]:
        """Without Aider's own lines."""
        for event in super().read(written):
            if not isinstance(event, MessageRecord) or event.message["role"] != "tool":
                yield event


def _said(turn: ExportedTurn) -> str:
    """The text as lines that Aider does not take for its marks. It ends a line wherever Python does."""
    lines = "\n\n".join(block["text"] for block in turn.blocks).splitlines()
    if turn.role == "assistant":
        lines = [" " + line if line.startswith(_MARKS) else line for line in lines]
    text = "\n".join(lines)
    return text.strip("\n")
