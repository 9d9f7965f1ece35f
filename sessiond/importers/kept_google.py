"""Long outputs of Gemini CLI and Qwen Code, which they keep in files of their own for a day or a month: see `kept_output`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from sessiond.importers.kept_output import FOLDER, OUTPUT_BYTES, KeptOutputs
from sessiond.importers.record import Opener
from sessiond.importers.source_file import mapped
from sessiond.limits import KIB
from sessiond.model.values import JsonObject

GEMINI_FOLDER = "tool-outputs"
"""Gemini CLI's, in a project's folder, with a folder in it for each session."""
_QWEN_TMP = "tmp"
_SAID_WITHIN = 8 * KIB
_OF_SESSION = "session-"


class _Outputs:
    """`said`: where a result names its file. `base`: a folder of the tool's."""

    said: re.Pattern[str]

    def __init__(self, base: str, open_: Opener) -> None:
        self._kept = KeptOutputs(base, open_)

    def take(self, content: str | list[object]) -> tuple[str | list[object], list[JsonObject]]:
        """A result's content with the whole of each text that is only the beginning of an output, and notes of their files."""
        notes: list[JsonObject] = []
        if isinstance(content, str):
            return self._text(content, notes), notes
        return [self._block(block, notes) for block in content], notes

    def _block(self, block: Any, notes: list[JsonObject]) -> object:
        text = mapped(block).get("text")
        return {**block, "text": self._text(text, notes)} if isinstance(text, str) else block

    def _text(self, text: str, notes: list[JsonObject]) -> str:
        # What the tool says of the file is before the output's beginning, or after a short piece of it.
        about = text[:_SAID_WITHIN] + text[_SAID_WITHIN:][-_SAID_WITHIN:]
        said = self.said.search(about) if len(text) <= OUTPUT_BYTES else None
        if said is None:
            return text
        path = next(filter(None, said.groups())).strip()
        folders = self._folders([part for part in re.split(r"[/\\]", path) if part])
        if folders is None:
            return text
        whole, note = self._kept.whole(text, path, *folders)
        notes.append(note)
        return whole

    def _folders(self, parts: Sequence[str]) -> list[str] | None:
        """The folders below the base in which the file with this path lies; None if it is not where the tool keeps outputs."""
        raise NotImplementedError


class GeminiOutputs(_Outputs):
    """Those of a chat in `<project>/chats` or, for a subagent, in a folder there."""

    said = re.compile(
        r"\AOutput too large\.[^\n]*For full output see:[ \t]*([^\r\n]+)"
        r"|\nOutput too large\. Full output available at:[ \t]*([^\r\n]+)\n</tool_output_masked>"
        r"|\A<tool_output_masked>\n\[Tool [^\n]*Full string saved to:[ \t]*([^\r\n]+)\]\n</tool_output_masked>"
    )

    def __init__(self, path: str, open_: Opener) -> None:
        folder = os.path.dirname(os.path.abspath(path))
        super().__init__(
            os.path.dirname(folder if os.path.basename(folder) == "chats" else os.path.dirname(folder)), open_
        )

    def _folders(self, parts: Sequence[str]) -> list[str] | None:
        if parts[-2:-1] == [GEMINI_FOLDER]:
            return [GEMINI_FOLDER]
        in_session = len(parts) > 2 and parts[-3] == GEMINI_FOLDER and parts[-2].startswith(_OF_SESSION)
        return [GEMINI_FOLDER, parts[-2]] if in_session else None


class QwenOutputs(_Outputs):
    """Those of a chat in `projects/<folder>/chats`: beside `projects`, in `tmp/<hash>`."""

    said = re.compile(
        r"\A<persisted-output>\nOutput too large[^\n]*saved to:[ \t]*([^\r\n]+)"
        r"|Tool output was too large and has been truncated\.\nThe full output has been saved to:[ \t]*([^\r\n]+)"
    )

    def __init__(self, path: str, open_: Opener) -> None:
        chats = os.path.dirname(os.path.abspath(path))
        super().__init__(os.path.dirname(os.path.dirname(os.path.dirname(chats))), open_)

    def _folders(self, parts: Sequence[str]) -> list[str] | None:
        if len(parts) > 3 and parts[-2] == FOLDER and parts[-4] == _QWEN_TMP:
            return [_QWEN_TMP, parts[-3], FOLDER]
        return [_QWEN_TMP, parts[-2]] if len(parts) > 2 and parts[-3] == _QWEN_TMP else None


def is_output(path: str) -> bool:
    """Return whether one of these tools keeps an output in this file, by the folders that it is in."""
    parts = path.split("/")[-4:-1]
    return (len(parts) > 1 and parts[-2] == GEMINI_FOLDER and parts[-1].startswith(_OF_SESSION)) or (
        len(parts) > 2 and parts[-1] == FOLDER and parts[-3] == _QWEN_TMP
    )
