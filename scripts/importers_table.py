"""Writes the table of importers in docs/importers.md:  python -m scripts.importers_table

Each row is of a source in tests/importers that has all that its tool writes: the importer reads it, and the table says what came in,
which records were only counted, and which fields of the source are nowhere in the session. Tools that tests run are those of
tests/agents, in the version that is installed; otherwise it is what the importer declares, and tests hold it to that.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sessiond.importers import registry
from sessiond.importers.draft import moment
from sessiond.importers.record import Event, Ignored, InfoUpdate, MessageRecord, SessionStart, open_source
from sessiond.importers.source_file import path_of
from sessiond.model.values import is_derived_id

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "importers"))
DOC = ROOT / "docs" / "importers.md"
BEGIN, END = "<!-- written by scripts/importers_table.py -->", "<!-- end -->"
READS = {
    "claude-code": "`~/.claude/projects/**/*.jsonl`",
    "codex": "`~/.codex/sessions/**/rollout-*.jsonl`, also `.jsonl.zst`",
    "pi": "`~/.pi/agent/sessions/**/*.jsonl`",
    "aider": "`.aider.chat.history.md`",
    "cline": "`~/.cline/data`, the extension's `tasks/`",
    "gemini-cli": "`~/.gemini/tmp/*/chats/*`",
    "qwen": "`~/.qwen/projects/**/*.jsonl`",
    "continue": "`~/.continue/sessions/*.json`",
    "gptel": "saved buffers: Org, Markdown, text",
    "llm": "`logs.db`",
    "goose": "`sessions.db`, older `*.jsonl`",
    "opencode": "`opencode.db` of versions 1 and 2, its exports, older `storage/`",
    "crush": "`crush.db`",
    "chatgpt": "the data export: its ZIP file, or its `conversations.json` or `conversations-*.json`",
    "roo": "the extension's `tasks/*/api_conversation_history.json`",
    "kilo": "`kilo.db`; before version 7 the extension's tasks and `~/.kilocode/cli/global/tasks`",
    "claude-ai": "the data export: its ZIP file, or its `conversations.json`",
    "copilot-chat": "workspaces' `chatSessions/*.json` and `*.jsonl`",
    "copilot-cli": "`~/.copilot/session-state/*/events.jsonl`",
    "vibe": "`~/.vibe/logs/session`, versions 1 to 3",
    "openhands": "`~/.openhands/conversations/*/base_state.json`, older `events/0.json`, trajectories",
    "cursor": "`globalStorage/state.vscdb`, the workspaces' `state.vscdb`",
    "zed": "`threads/threads.db`",
    "open-webui": "`webui.db`, the JSON export of chats",
    "librechat": "the JSON export of a conversation",
    "amp": "`~/.local/share/amp/threads/T-*.json`",
    "droid": "`~/.factory/sessions/**/*.jsonl`",
    "specstory": "`.specstory/history/*.md`",
    "agent-shell": "`.agent-shell/transcripts/*.md`",
    "codecompanion": "`codecompanion-history/chats/*.json`",
    "avante": "`avante/projects/*/history/*.json`",
    "kiro": "`~/.kiro/sessions`, `data.sqlite3`, the editor's `workspace-sessions`",
    "lm-studio": "`~/.lmstudio/conversations/**/*.conversation.json`",
    "gemini-takeout": "`My Activity` of Gemini Apps, as JSON",
    "windsurf": "`~/.windsurf/transcripts/*.jsonl`; its own store is encrypted",
    "warp": "`warp.sqlite`",
    "cursor-agent": "`~/.cursor/chats/*/*/store.db`",
    "acpx": "`~/.acpx/sessions/*.json`, journals `*.stream.ndjson`",
    "messages": "lists of `{role, content}`",
}
_IMAGES = frozenset(
    {"image", "image_url", "input_image", "inlineData", "file", "image_file", "image_asset_pointer", "binary"}
)


def sources() -> dict[str, list[Any]]:
    """Tool -> what writes its sources into a folder."""
    from older_sources import OLDER  # type: ignore[import-not-found]  # tests/importers is not a package
    from sources import FILES, TEXTS  # type: ignore[import-not-found]

    found: dict[str, list[Any]] = {tool: [write] for tool, write in (OLDER | TEXTS).items()}
    for tool, write in FILES.values():
        found.setdefault(tool, []).append(write)
    return found


def events(tool: str, writers: Iterable[Any]) -> list[Event]:
    found: list[Event] = []
    for write in writers:
        with tempfile.TemporaryDirectory() as folder:
            found += registry.BY_NAME[tool].read(str(write(Path(folder))), open_source)
    return found


def kept(found: Iterable[Event]) -> list[str]:
    """What came in, in words."""
    messages = [event.message for event in found if isinstance(event, MessageRecord)]
    info: dict[str, Any] = {}
    for event in found:
        if isinstance(event, SessionStart):
            info |= {key: value for key, value in event.info.items() if value is not None}
        elif isinstance(event, InfoUpdate):
            info |= {key: value for key, value in event.fields.items() if value is not None}
    metadata = [one.get("metadata", {}) for one in messages]
    blocks = [block for one in messages if isinstance(one["content"], list) for block in one["content"]]
    kinds = {str(block.get("type", next(iter(block), ""))) if isinstance(block, dict) else "" for block in blocks}
    kinds |= {str(block.get("content_type")) for block in blocks if isinstance(block, dict)}
    tokens = [one["tokens"] for one in metadata if "tokens" in one]
    words = {
        "thinking": any(one.get("thinking") for one in messages),
        "calls": any(one.get("toolCalls") for one in messages),
        "results": any(one["role"] == "tool" and one.get("toolCallId") for one in messages),
        "images and files": bool(kinds & _IMAGES),
        "branches": any(one.get("branch") or one.get("rewound") for one in metadata),
        "summaries": any(one.get("compaction") or one.get("checkpoint") for one in metadata),
        "the tool's own prompts": any(one.get("injected") for one in metadata),
        "names": bool(info.get("name")) and "untitled" not in info.get("metadata", {}),
        "folder": bool(info.get("cwd")),
        "model": bool(info.get("model")),
        "times": len({one["timestamp"] for one in messages}) > 1,
        "parent": bool(info.get("parent")),
        "tokens": bool(tokens),
        "costs": any("cost" in one for one in tokens),
    }
    return ["texts", *(word for word, there in words.items() if there)]


def counted(found: Iterable[Event]) -> list[str]:
    """Kinds of records that hold nobody's words."""
    return sorted({event.reason for event in found if isinstance(event, Ignored)})


_OF_SHAPE = frozenset(
    {
        "type",
        "kind",
        "op",
        "verb",
        "status",
        "state",
        "jsonrpc",
        "schema",
        "version",
        "data_type",
        "key",
        "value",
        "size",
    }
)
"""Fields that say what their record is: its place in the session says the same."""
_TOKENS = re.compile(r"tokens?$|^(input|total|usage)$", re.IGNORECASE)
"""Counts of tokens are in `metadata.tokens`, in one shape for all tools."""


def passed_over(writers: Iterable[Any], found: Iterable[Event]) -> list[str]:
    """Fields of the sources, none of whose values is anywhere in the sessions: not as it is, as a time, or as a path."""
    whole = {str(value) for event in found for value in _told(event)}
    text = "\n".join(whole)
    kept: dict[str, bool] = {}
    for write in writers:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            for path in sorted(Path(folder).rglob("*")):
                for key, value in _values(path):
                    forms = (str(value), moment(value), path_of(value))
                    in_text = isinstance(value, str) and len(value) > 1 and not value.isdigit() and value in text
                    kept[key] = kept.get(key, False) or in_text or not whole.isdisjoint(forms)
    return [key for key, is_kept in kept.items() if not (is_kept or key in _OF_SHAPE or _TOKENS.search(key))]


def _told(event: Event) -> Iterator[Any]:
    """All values of a session's fields or of a message, without what the importer adds: where the source is, ids, guessed times."""
    if isinstance(event, MessageRecord):
        yield from (value for key, value in _leaves(event.message, "") if key != "id" or not is_derived_id(str(value)))
    elif isinstance(event, (SessionStart, InfoUpdate)):
        info = event.info if isinstance(event, SessionStart) else event.fields
        yield event.source_id
        metadata = {key: value for key, value in info.get("metadata", {}).items() if key != "source"}
        yield from (value for _, value in _leaves({**info, "metadata": metadata}, ""))


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """The fields of a JSON document, of JSON Lines or of a database, with those of the documents in them."""
    if path.suffix in (".db", ".sqlite", ".sqlite3", ".vscdb"):
        with closing(sqlite3.connect(path)) as db:
            for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                rows = db.execute(f'SELECT * FROM "{table}"')  # noqa: S608  # the name of a table that is there
                for row in rows:
                    for column, value in zip(rows.description, row, strict=True):
                        yield from _leaves(value, column[0])
    elif path.suffix in (".jsonl", ".ndjson"):
        for line in path.read_text().splitlines():
            yield from _leaves(json.loads(line), "")
    elif path.suffix == ".json":
        yield from _leaves(json.loads(path.read_text()), "")


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    from growing import document_of  # type: ignore[import-not-found]  # tests/importers is not a package

    if isinstance(value, (str, bytes)):
        try:
            inner = document_of(value)
        except ValueError:
            inner = None
        if inner is None:
            if value and isinstance(value, str):
                yield key, value
            return
        value = inner
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _leaves(one, str(name))
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one, key)
    elif value is not None and not isinstance(value, bool):
        yield key, value


def how_verified(tool: str) -> str:
    """With the version of the tool that the tests run."""
    from tests.agents.agents import AGENTS, GEMINI, versions

    agent = next((one for one in (*AGENTS, GEMINI) if one.tool == tool), None)
    declared = registry.verified(tool)
    return declared if agent is None else f"{declared}, {versions()[agent.name]}"


def table() -> str:
    lines = ["| tool | verified | reads | what comes in | not kept |", "| --- | --- | --- | --- | --- |"]
    writers = sources()
    for tool in registry.BY_NAME:
        found = events(tool, writers[tool])
        fields = ", ".join(f"`{key}`" for key in passed_over(writers[tool], found))
        records = ", ".join(f"`{kind}`" for kind in counted(found))
        silent = "; ".join(f"{what} {names}" for what, names in (("records:", records), ("fields:", fields)) if names)
        lines.append(
            f"| {' | '.join((f'`{tool}`', how_verified(tool), READS[tool], ', '.join(kept(found)), silent))} |"
        )
    return "\n".join(lines)


def page() -> str:
    """The document with the table as it should be."""
    return between(DOC, BEGIN, END, table())


def between(path: Path, begin: str, end: str, content: str) -> str:
    """The text of a document with other content between two of its lines."""
    before, _, rest = path.read_text().partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


if __name__ == "__main__":
    DOC.write_text(page())
    print(DOC.relative_to(ROOT))
