"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-*.jsonl`, and the single JSON documents of its older versions.

A message is written again whenever it grows (the last version counts), `$rewindTo` takes messages back, and `$set` changes
the header. So the file is read twice: first to find which line of each id counts, then for the messages.

`$set.messages` is a checkpoint of all that is sent to the model. Most of it is there as records, too; the rest is the tool's own:
its first words about the machine, and the summary of a compression. A result is kept inside its call, and written once more as a
message of the user's, which is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from sessiond.importers.alone import alone
from sessiond.importers.came_from import PARENT, came_from
from sessiond.importers.draft import SessionDraft, suggest_id
from sessiond.importers.gemini_message import messages
from sessiond.importers.gemini_survey import Survey, entries, unknown_kind
from sessiond.importers.kept_google import GeminiOutputs
from sessiond.importers.lines import head_objects
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.model.values import JsonObject


class GeminiCli:
    name = "gemini-cli"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if path.endswith(".json"):
            return 90 if b'"projectHash"' in head and b'"sessionId"' in head else 0
        if not path.endswith(".jsonl"):
            return 0
        return 90 if any("projectHash" in record and "sessionId" in record for record in head_objects(head)[:5]) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        survey = Survey(path, open_)
        about = survey.about
        draft = SessionDraft(
            self.name, path, str(about.get("sessionId") or os.path.splitext(os.path.basename(path))[0])
        )
        folder = os.path.basename(os.path.dirname(path))
        parent = (
            {"sessionId": suggest_id(self.name, folder), "seq": None}
            if about.get("kind") == "subagent" and folder != "chats"
            else None
        )
        directories = about.get("directories")
        yield draft.start(
            createdAt=about.get("startTime"),
            name=about.get("summary"),
            cwd=directories[0] if isinstance(directories, list) and directories else _project_root(path),
            parent=parent or came_from(about),
            metadata={
                **{
                    key: value
                    for key, value in about.items()
                    if key not in ("sessionId", "summary", "startTime", PARENT)
                },
                **({"sidechain": True} if parent else {}),
            },
        )
        yield from survey.failed
        outputs = GeminiOutputs(path, open_)
        for entry in entries(path, open_):
            if isinstance(entry, SkippedLine):
                yield entry
                continue
            line, record = entry
            yield from alone(path, "this record", _record(draft, survey, line, record, outputs), line)
        yield from draft.end(updatedAt=about.get("lastUpdated"))


def _record(
    draft: SessionDraft, survey: Survey, line: int, record: JsonObject, outputs: GeminiOutputs
) -> Iterator[Event]:
    if (unknown := unknown_kind(record)) is not None:
        draft.unknown(unknown)
    for message, marks in survey.counted(line, record):
        said = messages(draft, line, message, marks, outputs)
        yield from alone(draft.path, f"message {message.get('id')}", said, line)


def _project_root(path: str) -> str | None:
    """The folder that the sessions of a `chats` folder belong to."""
    try:
        with open(os.path.join(os.path.dirname(os.path.dirname(path)), ".project_root"), encoding="utf-8") as file:
            return file.read(4096).strip() or None
    except (OSError, UnicodeDecodeError):
        return None
