"""Writes the table of importers in docs/importers.md:  python -m scripts.importers_table

Each row is of a source in tests/importers that has all that its tool writes: the importer reads it, and the table says what came in,
and which records were only counted. How an importer was verified is what it declares; other tests hold it to that.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sessiond.importers import registry
from sessiond.importers.record import Event, Ignored, InfoUpdate, MessageRecord, SessionStart, open_source

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
    "opencode": "`opencode.db`, its exports, older `storage/`",
    "crush": "`crush.db`",
    "chatgpt": "`conversations.json` of the data export",
    "roo": "the extension's `tasks/*/api_conversation_history.json`",
    "kilo": "`kilo.db`; before version 7 the extension's tasks and `~/.kilocode/cli/global/tasks`",
    "claude-ai": "`conversations.json` of the data export",
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
    from older_sources import OLDER  # type: ignore[import-not-found]  # tests/importers is no package
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


def table() -> str:
    lines = ["| tool | verified | reads | what comes in | only counted |", "| --- | --- | --- | --- | --- |"]
    writers = sources()
    for tool in registry.BY_NAME:
        found = events(tool, writers[tool])
        silent = ", ".join(f"`{kind}`" for kind in counted(found))
        cells = (f"`{tool}`", registry.verified(tool), READS[tool], ", ".join(kept(found)), silent)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page() -> str:
    """The document with the table as it should be."""
    before, _, rest = DOC.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    DOC.write_text(page())
    print(DOC.relative_to(ROOT))
