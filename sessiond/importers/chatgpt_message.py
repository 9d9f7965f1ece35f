"""The message of a node of a ChatGPT conversation."""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.importers.blocks import simple, tool_call
from sessiond.importers.draft import SessionDraft
from sessiond.importers.jsontext import as_text
from sessiond.importers.record import Event
from sessiond.importers.source_file import word
from sessiond.model.values import JsonObject

_CONTENT_TYPES = frozenset(
    {
        "text", "multimodal_text", "code", "execution_output", "thoughts", "reasoning_recap", "tether_quote",
        "tether_browsing_display", "tether_browsing_code", "system_error", "user_editable_context", "model_editable_context",
        "citable_code_output", "computer_output", "sonic_webpage", "super_widget", "app_pairing_content",
    }
)  # fmt: skip
_SAID = frozenset({"id", "author", "create_time", "content"})


def is_silent(message: JsonObject) -> bool:
    """Return whether a message says nothing, like the empty system message at the head of every conversation."""
    content = _content(message.get("content"))
    return (
        content == ""
        and not _thinking(message.get("content"))
        and _role(message) in ("system", "user", "assistant")
        and message.get("recipient", "all") == "all"
    )


def _role(message: JsonObject) -> str:
    author = message.get("author")
    role = author.get("role") if isinstance(author, dict) else None
    return role if isinstance(role, str) and role else "unknown"


def _content(content: object) -> str | list[object]:
    if not isinstance(content, dict):
        return content if isinstance(content, str) else ""
    parts = content.get("parts")
    if isinstance(parts, list):
        kept = [part for part in parts if part not in ("", None)]
        return simple([{"type": "text", "text": part} if isinstance(part, str) else part for part in kept])
    for key in ("text", "result", "content", "user_instructions"):
        if isinstance(content.get(key), str):
            return str(content[key])
    return "" if "thoughts" in content else as_text(content)


def _thinking(content: object) -> str | None:
    thoughts = content.get("thoughts") if isinstance(content, dict) else None
    if not isinstance(thoughts, list):
        return None
    said = [t.get("content") or t.get("summary") for t in thoughts if isinstance(t, dict)]
    return "\n\n".join(text for text in said if isinstance(text, str)) or None


def messages(
    draft: SessionDraft, line: int, node_id: str, node: JsonObject, message: JsonObject, *, branch: bool
) -> Iterator[Event]:
    role, raw = _role(message), message.get("content")
    if isinstance(raw, dict) and word(raw.get("content_type")) not in ("", *_CONTENT_TYPES):
        draft.unknown(raw["content_type"])
    content = _content(raw)
    given = message.get("metadata") if isinstance(message.get("metadata"), dict) else {}
    assert isinstance(given, dict)
    metadata = {key: value for key, value in message.items() if key not in _SAID and value is not None}
    metadata["parentId"] = node.get("parent")
    author = message.get("author")
    if isinstance(author, dict) and author.keys() - {"role"}:
        metadata["author"] = author
    if isinstance(raw, dict) and (more := {key: value for key, value in raw.items() if key not in ("parts", "text")}):
        metadata["content"] = more
    if branch:
        metadata["branch"] = True
    if role in ("user", "system") and (
        given.get("is_visually_hidden_from_conversation") or given.get("is_user_system_message")
    ):
        metadata["injected"] = True
    fields: JsonObject = {"thinking": _thinking(raw)}
    recipient = message.get("recipient")
    if role == "assistant" and isinstance(recipient, str) and recipient != "all":
        fields["toolCalls"] = [tool_call(node_id, recipient, content if isinstance(content, str) else as_text(content))]
        content = ""
    if role == "tool" and isinstance(node.get("parent"), str):
        fields["toolCallId"] = node["parent"]
    if isinstance(model_slug := given.get("model_slug"), str):
        draft.model = model_slug
    message_id = message.get("id") or node_id
    yield from draft.message(
        role, content, line=line, id=message_id, time=message.get("create_time"), metadata=metadata, **fields
    )
