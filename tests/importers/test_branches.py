"""Conversations that are trees."""

from __future__ import annotations

from sessiond.importers.branches import in_order, path_to

TREE = {"a": None, "b": "a", "c": "a", "d": "c", "e": "a", "x": "y", "y": "x"}


def test_the_way_to_a_leaf() -> None:
    """It holds the leaf and all before it; a leaf that is unknown has none, and a cycle ends."""
    assert path_to("d", TREE) == {"a", "c", "d"}
    assert path_to("none", TREE) == frozenset()
    assert path_to("x", TREE) == {"x", "y"}


def test_parents_come_before_children() -> None:
    """Branches off the path come first, the older before the newer, and a cycle comes last."""
    assert list(in_order(TREE, {"a", "c", "d"})) == ["a", "b", "e", "c", "d", "x", "y"]
    assert list(in_order(TREE, ())) == ["a", "b", "c", "d", "e", "x", "y"]
