"""ChatGPT's data export: `conversations.json`, a list of conversations, each a tree of nodes under `mapping`.

Every node with content is a message. Nodes off the path to `current_node` (such as regenerated answers) are marked
`metadata.branch`. See docs/importers.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessiond.importers.blocks import simple, tool_call
from sessiond.importers.document import DocumentItem, items
from sessiond.importers.draft import SessionDraft, digest
from sessiond.importers.jsontext import as_text
from sessiond.importers.record import Event, Ignored, Opener, SkippedLine
from sessiond.importers.source_file import word
from sessiond.model.values import JsonObject

_ABOUT = frozenset({"mapping", "title", "create_time", "update_time", "default_model_slug"})
_CONTENT_TYPES = frozenset(
    {
        "text", "multimodal_text", "code", "execution_output", "thoughts", "reasoning_recap", "tether_quote",
        "tether_browsing_display", "tether_browsing_code", "system_error", "user_editable_context", "model_editable_context",
        "citable_code_output", "computer_output", "sonic_webpage", "super_widget", "app_pairing_content",
    }
)  # fmt: skip
_SAID = frozenset({"id", "author", "create_time", "content"})


class ChatGpt:
    name = "chatgpt"
    experimental = True

    def recognise(self, path: str, head: bytes) -> int:
        return (
            90
            if path.endswith(".json")
            and b'"mapping"' in head
            and (b'"create_time"' in head or b'"current_node"' in head)
            else 0
        )

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        single: JsonObject = {}
        for item in items(path, open_, frozenset({"conversations"})):
            if isinstance(item, SkippedLine):
                yield item
            elif item.element:
                yield from _conversation(path, item)
            else:
                single[item.member] = item.value
        if "mapping" in single:
            yield from _conversation(path, DocumentItem(None, single, element=True, line=1))


def _conversation(path: str, item: DocumentItem) -> Iterator[Event]:
    talk = item.value
    if not isinstance(talk, dict) or not isinstance(talk.get("mapping"), dict):
        yield SkippedLine(path, item.line, "not a conversation: it has no mapping")
        return
    given = talk.get("conversation_id") or talk.get("id")
    source_id = (
        given if isinstance(given, str) and given else digest(as_text([talk.get("title"), talk.get("create_time")]))
    )
    draft = SessionDraft(ChatGpt.name, path, source_id)
    about = {key: value for key, value in talk.items() if key not in _ABOUT}
    yield draft.start(
        name=talk.get("title"),
        createdAt=talk.get("create_time"),
        updatedAt=talk.get("update_time"),
        model=talk.get("default_model_slug"),
        metadata=about,
    )
    nodes: JsonObject = talk["mapping"]
    path_ids = _path_to(nodes, talk.get("current_node"))
    silent = 0
    for node_id in _in_order(nodes, path_ids):
        node = nodes[node_id]
        message = node.get("message") if isinstance(node, dict) else None
        if not isinstance(message, dict) or _is_silent(message):
            silent += 1
            continue
        yield from _message(draft, item.line, node_id, node, message, branch=bool(path_ids) and node_id not in path_ids)
    yield from draft.end()
    if silent:
        yield Ignored(path, "nodes that say nothing", silent)


def _path_to(nodes: JsonObject, leaf: Any) -> set[str]:
    """The nodes from the root to the leaf that the user saw last."""
    found: set[str] = set()
    while isinstance(leaf, str) and leaf in nodes and leaf not in found:
        found.add(leaf)
        leaf = _parent(nodes[leaf])
    return found


def _parent(node: Any) -> str | None:
    parent = node.get("parent") if isinstance(node, dict) else None
    return parent if isinstance(parent, str) else None


def _in_order(nodes: JsonObject, path: set[str]) -> Iterator[str]:
    """Every node once, parents before children, older branches first. Nodes that no root leads to (holes, cycles) come
    last.
    """
    roots = [key for key, node in nodes.items() if _parent(node) not in nodes]
    done: set[str] = set()
    for start in (*roots, *nodes):
        stack = [start]
        while stack:
            node_id = stack.pop()
            if node_id in done:
                continue
            done.add(node_id)
            yield node_id
            node = nodes[node_id]
            children = node.get("children") if isinstance(node, dict) else None
            if isinstance(children, list):
                known = [child for child in children if isinstance(child, str) and child in nodes]
                # The abandoned branch comes before the one that was taken, because it was said earlier.
                stack.extend(sorted(known, key=lambda child: child in path, reverse=True))


def _is_silent(message: JsonObject) -> bool:
    """Whether it says nothing, like the empty system message at the head of every conversation."""
    content = _content(message.get("content"))
    return (
        content == "" and _role(message) in ("system", "user", "assistant") and message.get("recipient", "all") == "all"
    )


def _role(message: JsonObject) -> str:
    author = message.get("author")
    role = author.get("role") if isinstance(author, dict) else None
    return role if isinstance(role, str) and role else "unknown"


def _content(content: Any) -> str | list[Any]:
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


def _thinking(content: Any) -> str | None:
    thoughts = content.get("thoughts") if isinstance(content, dict) else None
    if not isinstance(thoughts, list):
        return None
    said = [t.get("content") or t.get("summary") for t in thoughts if isinstance(t, dict)]
    return "\n\n".join(text for text in said if isinstance(text, str))


def _message(
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
    if isinstance(given.get("model_slug"), str):
        draft.model = given["model_slug"]
    message_id = message.get("id") or node_id
    yield from draft.message(
        role, content, line=line, id=message_id, time=message.get("create_time"), metadata=metadata, **fields
    )
