"""Cline, both layouts: `<id>.messages.json` (`{version, sessionId, messages}`) and the older
`tasks/<id>/api_conversation_history.json`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from sessiond.importers.alone import alone
from sessiond.importers.blocks import MessageParts, parts_of, text_of
from sessiond.importers.came_from import PARENT, came_from
from sessiond.importers.document import DocumentItem, items, members
from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import mapped
from sessiond.importers.usage import apart, usage
from sessiond.limits import MIB
from sessiond.model.values import JsonObject

_ARRAYS = frozenset({"messages"})
_OLD_NAME = "api_conversation_history.json"
_WORDS = (b'"sessionId"', b'"messages"', b'"role"')
_TIME = re.compile(rb'"ts"\s*:\s*[0-9]{12,14}\b')
"""Milliseconds since 1970."""
_USED = frozenset({"id", "role", "content", "ts"})
_BESIDE_BYTES = MIB
_USER_INPUT = re.compile(r'\s*<user_input(?: mode="([^"]*)")?[^>]*>\n?(.*?)\n?</user_input>\s*', re.DOTALL)
"""Since 3.0 a prompt is in an element of its own, with the mode in which it was typed."""


class Cline:
    name = "cline"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if os.path.basename(path) == _OLD_NAME:
            return 90
        if not path.endswith(".json"):
            return 0
        if not all(word in head for word in _WORDS) or b'"projectHash"' in head:
            return 0
        # Any tool may write those words: the file name or a message's time must be Cline's.
        return 85 if path.endswith(".messages.json") else 70 if _TIME.search(head) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        about = {} if os.path.basename(path) == _OLD_NAME else members(path, open_, _ARRAYS)
        draft = SessionDraft(Cline.name, path, _source_id(path, about), fallback_time=_task_time(path))
        for item in items(path, open_, _ARRAYS):
            if isinstance(item, SkippedLine):
                yield item
            elif item.element:
                if not draft.started:
                    yield _start(draft, {**_beside(path), **about}, item.value)
                yield from alone(path, "this message", _message(draft, item), item.line)
        yield from draft.end(updatedAt=about.get("updated_at"))


def _beside(path: str) -> JsonObject:
    """Title and folder from `<id>.json` next to `<id>.messages.json`; empty if it is not there."""
    if not path.endswith(".messages.json"):
        return {}
    try:
        with open(path.removesuffix(".messages.json") + ".json", "rb") as file:
            found, _ = decode(file.read(_BESIDE_BYTES))
    except (OSError, NotJson):
        return {}
    if not isinstance(found, dict):
        return {}
    more = found.get("metadata")
    more = more if isinstance(more, dict) else {}
    return {
        "title": found.get("title") or more.get("title"),
        "cwd": found.get("cwd") or found.get("workspace_root") or found.get("workspaceRoot"),
        **({PARENT: more[PARENT]} if PARENT in more else {}),
    }


def _source_id(path: str, about: JsonObject) -> str:
    if isinstance(about.get("sessionId"), str) and about["sessionId"]:
        return str(about["sessionId"])
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.basename(folder) if name == _OLD_NAME else name.removesuffix(".json").removesuffix(".messages")


def _task_time(path: str) -> str | None:
    """The older layout names a task's folder after its time in milliseconds; its messages may have no times."""
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return moment(int(folder)) if folder.isascii() and folder.isdigit() and 12 <= len(folder) <= 14 else None


def _start(draft: SessionDraft, about: JsonObject, first: object) -> Event:
    time = first.get("ts") if isinstance(first, dict) else None
    metadata = {
        key: value for key, value in about.items() if key not in ("sessionId", "title", "cwd", "updated_at", PARENT)
    }
    created = moment(time) or _task_time(draft.path) or moment(about.get("updated_at"))
    return draft.start(
        createdAt=created, name=about.get("title"), cwd=about.get("cwd"), parent=came_from(about), metadata=metadata
    )


def _unwrap(parts: MessageParts) -> str | None:
    """Take a person's words out of the element that Cline puts them into; returns its mode."""
    content = parts.content
    texts = (
        [content] if isinstance(content, str) else [block.get("text") for block in content if isinstance(block, dict)]
    )
    found = [_USER_INPUT.fullmatch(text) if isinstance(text, str) else None for text in texts]
    if not any(found):
        return None
    if isinstance(content, str):
        parts.content = found[0][2] if found[0] else content
    else:
        blocks = iter(found)
        parts.content = [
            {**block, "text": match[2]} if isinstance(block, dict) and (match := next(blocks)) else block
            for block in content
        ]
    return next(match[1] for match in found if match)


def _message(draft: SessionDraft, item: DocumentItem) -> Iterator[Event]:
    message = item.value
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        yield SkippedLine(draft.path, item.line, "an element of `messages` that is not a message")
        return
    parts = parts_of(message.get("content"))
    mode = _unwrap(parts) if message["role"] == "user" else None
    metadata = {
        **({"mode": mode} if mode else {}),
        **{key: value for key, value in message.items() if key not in _USED},
        **parts.metadata,
        **_tokens(message),
    }
    model = message.get("modelInfo")
    if isinstance(model, dict) and isinstance(model_id := model.get("id"), str):
        draft.model = model_id
    if (
        message["role"] == "user"
        and not parts.result_ids
        and text_of(parts.content).strip().startswith("<environment_details>")
    ):
        metadata["injected"] = True
    yield from draft.message(
        "tool" if parts.result_ids else message["role"],
        parts.content,
        line=item.line,
        id=message.get("id"),
        time=message.get("ts"),
        metadata=metadata,
        **parts.fields(),
    )


def _tokens(message: JsonObject) -> JsonObject:
    """The older layout has `metrics.tokens`. Cached tokens are in the input."""
    metrics = mapped(message.get("metrics"))
    older = mapped(metrics.get("tokens"))
    read, written = metrics.get("cacheReadTokens", older.get("cached")), metrics.get("cacheWriteTokens")
    return usage(
        apart(metrics.get("inputTokens", older.get("prompt")), read, written),
        metrics.get("outputTokens", older.get("completion")),
        cache_read=read,
        cache_write=written,
        cost=metrics.get("cost"),
        model=mapped(message.get("modelInfo")).get("id"),
    )
