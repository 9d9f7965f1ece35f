"""Claude.ai's data export: `conversations.json`, an array of conversations with `chat_messages` in Anthropic's blocks."""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.importers.alone import alone
from sessiond.importers.branches import path_to
from sessiond.importers.draft import SessionDraft, digest
from sessiond.importers.jsontext import as_text
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import conversations, listed, rest_of, word
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_ROLES = {"human": "user"}
_ABOUT = ("uuid", "name", "summary", "created_at", "updated_at", "chat_messages", "model", "current_leaf_message_uuid")
_USED = ("uuid", "text", "content", "sender", "created_at", "updated_at", "index")
_ROOT = "00000000-0000-4000-8000-000000000000"
"""What the first message has for a parent."""


class ClaudeAi(Tool):
    name = "claude-ai"

    def recognise(self, path: str, head: bytes) -> int:
        return 92 if path.endswith(".json") and b'"chat_messages"' in head and b'"uuid"' in head else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        for found in conversations(path, open_, "chat_messages"):
            if isinstance(found, SkippedLine):
                yield found
            else:
                yield from alone(path, "this conversation", _conversation(path, *found), found[0])


def _conversation(path: str, line: int, talk: JsonObject) -> Iterator[Event]:
    source_id = word(talk.get("uuid")) or digest(as_text([talk.get("name"), talk.get("created_at")]))
    draft = SessionDraft(ClaudeAi.name, path, source_id)
    yield draft.start(
        name=talk.get("name"),
        summary=talk.get("summary"),
        model=talk.get("model"),
        createdAt=talk.get("created_at"),
        updatedAt=talk.get("updated_at"),
        metadata=rest_of(talk, *_ABOUT),
    )
    messages = listed(talk["chat_messages"])
    seen = _seen_last(talk, [one for one in messages if isinstance(one, dict)])
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("sender"), str):
            yield SkippedLine(path, line, "an element of `chat_messages` that is not a message")
            continue
        said = _message(draft, line, message, branch=bool(seen) and word(message.get("uuid")) not in seen)
        yield from alone(path, f"message {message.get('uuid')}", said, line)
    yield from draft.end()


def _seen_last(talk: JsonObject, messages: list[JsonObject]) -> frozenset[str]:
    """The messages on the branch that was seen last; empty for an export without parents."""
    parents = {uuid: one.get("parent_message_uuid") for one in messages if isinstance(uuid := one.get("uuid"), str)}
    if not any(parent in parents for parent in parents.values() if isinstance(parent, str)):
        return frozenset()
    return path_to(talk.get("current_leaf_message_uuid") or messages[-1].get("uuid"), parents)


def _message(draft: SessionDraft, line: int, message: JsonObject, *, branch: bool) -> Iterator[Event]:
    sender = str(message["sender"])
    turn = Turn(_ROLES.get(sender, sender), rest_of(message, *_USED))
    if turn.metadata.get("parent_message_uuid") == _ROOT:
        del turn.metadata["parent_message_uuid"]
    if branch:
        turn.metadata["branch"] = True
    for block in listed(message.get("content")):
        turn.take([_plain(block)])
    if turn.is_empty:
        turn.say(message.get("text"))
    yield from turn.events(draft, line=line, id=message.get("uuid"), time=message.get("created_at"))


def _plain(block: object) -> object:
    """A block without the fields that say nothing."""
    if not isinstance(block, dict):
        return block
    kept = {key: value for key, value in block.items() if value not in (None, [], {}) or key in ("input", "content")}
    if kept.get("type") in ("text", "thinking"):
        kept = {key: value for key, value in kept.items() if key not in ("start_timestamp", "stop_timestamp", "flags")}
    return kept
