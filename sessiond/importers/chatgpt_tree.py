"""The tree of nodes of a ChatGPT conversation, and the order in which they were said."""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.model.values import JsonObject


def path_to(nodes: JsonObject, leaf: object) -> set[str]:
    """The nodes from the root to the leaf that the user saw last."""
    found: set[str] = set()
    while isinstance(leaf, str) and leaf in nodes and leaf not in found:
        found.add(leaf)
        leaf = parent_of(nodes[leaf])
    return found


def parent_of(node: object) -> str | None:
    parent = node.get("parent") if isinstance(node, dict) else None
    return parent if isinstance(parent, str) else None


def in_order(nodes: JsonObject, path: set[str]) -> Iterator[str]:
    """Every node once, parents before children, older branches first. Nodes that no root leads to (holes, cycles) come
    last.
    """
    roots = [key for key, node in nodes.items() if parent_of(node) not in nodes]
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
