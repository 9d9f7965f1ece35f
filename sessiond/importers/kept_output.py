"""Long outputs that a tool keeps in files of their own, beside a record that has only their beginning. A clean-up of the tool
takes them away, so they come in with the record.

A record may name any path. Only the name of the file counts, and it is looked for in the tool's own folder, one folder at a
time, through no link.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sessiond.importers.record import Opener
from sessiond.importers.source_file import mapped
from sessiond.limits import KIB, MIB
from sessiond.model.values import JsonObject

FOLDER = "tool-results"
"""Claude Code's, in the folder of a session."""
OPENCODE_FOLDER = "tool-output"
"""opencode's, beside its database."""
KEY = "keptOutput"
"""In a message's metadata: the files of its output, `[{path, bytes, taken}]`. `taken`: how many bytes of it came in."""
OUTPUT_BYTES = 2 * MIB
"""Of one output that come in."""
TOTAL_BYTES = 64 * MIB
"""Of all outputs of one source that come in."""
_SAID_WITHIN = 4 * KIB
_TAG = "<persisted-output>"
_SAVED_TO = re.compile(r"saved to:[ \t]*([^\r\n]+)")


class KeptOutputs:
    """The outputs of one source. `base`: a folder of the tool's. Records of one source are taken in their order."""

    def __init__(self, base: str, open_: Opener) -> None:
        self._base = base
        self._open = open_
        self._room = TOTAL_BYTES

    def whole(self, shown: str, path: str, *folders: str) -> tuple[str, JsonObject]:
        """Return what is `shown` of an output with all of it, and what to say of its file. `path`: what the record calls it; it is
        looked for by its last part, in `folders` below the base. What was shown stays, so that each form has the words of it.
        """
        name = re.split(r"[/\\]", path)[-1].strip()
        note: JsonObject = {"path": path, "taken": 0}
        with _opened(self._base, [*folders, name]) as found:
            if found is None:
                return shown, note
            note["bytes"] = os.fstat(found).st_size
            with self._open(f"/dev/fd/{found}") as file:
                data = file.read(min(OUTPUT_BYTES, self._room))
        self._room -= len(data)
        note["taken"] = len(data)
        text = data.decode("utf-8", "replace")
        return shown if text.strip() in shown else f"{shown}\n\n{text}", note


@contextmanager
def _opened(base: str, parts: Sequence[str]) -> Iterator[int | None]:
    """A descriptor of a regular file; None if it is not there, or if a link or a parent folder is on the way to it."""
    if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
        yield None
        return
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    held: list[int] = []
    try:
        with suppress(OSError):
            held.append(os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for part in parts:
                folder = os.O_DIRECTORY if part is not parts[-1] else 0
                held.append(os.open(part, flags | folder, dir_fd=held[-1]))
        whole = len(held) == len(parts) + 1
        yield held[-1] if whole and stat.S_ISREG(os.fstat(held[-1]).st_mode) else None
    finally:
        for one in held:
            os.close(one)


class ClaudeCodeOutputs:
    """Those of a transcript: in `tool-results` of the folder that is named like the session, or that the record names."""

    def __init__(self, path: str, open_: Opener) -> None:
        folder, name = os.path.split(path)
        self._own = name.removesuffix(".jsonl")
        if os.path.basename(folder) == "subagents":
            folder, self._own = os.path.split(os.path.dirname(folder))
        self._kept = KeptOutputs(folder, open_)

    def take(self, content: object) -> tuple[object, list[JsonObject]]:
        """The content of a record with the whole of each result that it shows only the beginning of, and their notes."""
        if not isinstance(content, list):
            return content, []
        notes: list[JsonObject] = []
        return [self._result(block, notes) for block in content], notes

    def _result(self, block: Any, notes: list[JsonObject]) -> object:
        if mapped(block).get("type") != "tool_result":
            return block
        inner = block.get("content")
        if isinstance(inner, list):
            return {**block, "content": [self._text(one, notes) for one in inner]}
        return {**block, "content": self._shown(inner, notes)}

    def _text(self, block: Any, notes: list[JsonObject]) -> object:
        if mapped(block).get("type") != "text":
            return block
        return {**block, "text": self._shown(block.get("text"), notes)}

    def _shown(self, text: object, notes: list[JsonObject]) -> object:
        if not isinstance(text, str) or not text.startswith(_TAG):
            return text
        said = _SAVED_TO.search(text, 0, _SAID_WITHIN)
        if said is None or len(text) > OUTPUT_BYTES:
            return text
        path = said[1].strip()
        parts = re.split(r"[/\\]", path)
        whole, note = self._kept.whole(text, path, self._own, FOLDER)
        if "bytes" not in note and len(parts) > 2 and parts[-2] == FOLDER:  # a session that went on in another file
            whole, note = self._kept.whole(text, path, parts[-3], FOLDER)
        notes.append(note)
        return whole


def fingerprint_beside(path: str) -> str:
    """Changes whenever a file does that has an output of this source; "" if there are none."""
    parent, name = os.path.split(path)
    if name == "opencode.db":
        folder = os.path.join(parent, OPENCODE_FOLDER)
    elif os.path.basename(parent) == "subagents":
        folder = os.path.join(os.path.dirname(parent), FOLDER)
    elif name.endswith(".jsonl"):
        folder = os.path.join(path.removesuffix(".jsonl"), FOLDER)
    else:
        return ""
    count = size = newest = 0
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            with suppress(OSError):  # it went while we looked
                state = one.stat(follow_symlinks=False)
                count, size, newest = count + 1, size + state.st_size, max(newest, state.st_mtime_ns)
    return f"{count}-{size}-{newest}" if count else ""


def transcript_of(path: str) -> str | None:
    """The transcript that an output in this file belongs to, if the file is where Claude Code keeps them."""
    folder = os.path.dirname(path)
    return f"{os.path.dirname(folder)}.jsonl" if os.path.basename(folder) == FOLDER else None
