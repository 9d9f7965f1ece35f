"""ChatGPT's data export: `conversations.json`, a list of conversations, each a tree of nodes under `mapping`.

Every node with content is a message. Nodes off the path to `current_node` (such as regenerated answers) are marked
`metadata.branch`. See docs/importers.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.importers.alone import alone
from sessiond.importers.chatgpt_message import is_silent, messages
from sessiond.importers.chatgpt_tree import in_order, path_to
from sessiond.importers.document import DocumentItem, items
from sessiond.importers.draft import SessionDraft, digest
from sessiond.importers.jsontext import as_text
from sessiond.importers.record import Event, Ignored, Opener, SkippedLine
from sessiond.model.values import JsonObject

_ABOUT = frozenset({"mapping", "title", "create_time", "update_time", "default_model_slug", "is_archived"})


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
                yield from alone(path, "this conversation", _conversation(path, item), item.line)
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
        archived=talk.get("is_archived"),
        metadata=about,
    )
    nodes: JsonObject = talk["mapping"]
    path_ids = path_to(nodes, talk.get("current_node"))
    silent = 0
    for node_id in in_order(nodes, path_ids):
        node = nodes[node_id]
        message = node.get("message") if isinstance(node, dict) else None
        if not isinstance(node, dict) or not isinstance(message, dict) or is_silent(message):
            silent += 1
            continue
        is_branch = bool(path_ids) and node_id not in path_ids
        said = messages(draft, item.line, node_id, node, message, branch=is_branch)
        yield from alone(path, f"node {node_id}", said, item.line)
    yield from draft.end()
    if silent:
        yield Ignored(path, "nodes that say nothing", silent)
