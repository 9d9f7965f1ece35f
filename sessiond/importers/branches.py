"""Conversations that are trees: each message names the one before it, and only one branch was seen last."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping


def path_to(leaf: object, parents: Mapping[str, object]) -> frozenset[str]:
    """The messages from the root to `leaf`; empty if there is no such message. `parents`: of each id, the one before it."""
    found: set[str] = set()
    while isinstance(leaf, str) and leaf in parents and leaf not in found:
        found.add(leaf)
        leaf = parents[leaf]
    return frozenset(found)


def in_order(parents: Mapping[str, object], path: Collection[str]) -> Iterator[str]:
    """Every id once, parents before children. Of two branches the one off the path comes first: it was said earlier. Ids that
    no root leads to (cycles) come last.
    """
    children: dict[str, list[str]] = {}
    roots: list[str] = []
    for one, parent in parents.items():
        if isinstance(parent, str) and parent in parents:
            children.setdefault(parent, []).append(one)
        else:
            roots.append(one)
    done: set[str] = set()
    for start in (*sorted(roots, key=lambda one: one in path), *parents):
        stack = [start]
        while stack:
            one = stack.pop()
            if one not in done:
                done.add(one)
                yield one
                following = sorted(children.get(one, []), key=lambda child: child in path)
                stack += following[::-1]
