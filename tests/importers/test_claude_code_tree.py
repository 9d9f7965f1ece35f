"""What was taken back in a tree of Claude Code's."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.importers.claude_code_tree import ANSWER, COMMAND, OTHER, PROMPT, RESULT, _Tree

KINDS = st.sampled_from((PROMPT, COMMAND, ANSWER, RESULT, OTHER))
RECORDS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from((1, 1, 1, 1, 2, 3, 0, -1, None)), KINDS), max_size=12)


@settings(max_examples=500)
@given(RECORDS, st.booleans())
def test_a_straight_file_has_no_branches(records: list[tuple[int, int | None, int]], ids_in_order: bool) -> None:
    """A file whose records follow one another is not searched: a search would find nothing. Of any other it finds the same,
    with holes, cycles, repeated ids and children before their parents.
    """
    tree, searched = _Tree(), _Tree()
    for nth, (given_id, back, kind) in enumerate(records):
        number = nth if ids_in_order else given_id
        parent = None if back is None else f"u{number - back}"
        tree.add(f"u{number}", parent, kind)
        searched.add(f"u{number}", parent, kind)
    searched._straight = False
    assert tree.branches() == searched.branches()


def test_a_record_that_lost_its_parent_in_one_of_two_copies() -> None:
    """The other copy has it: the prompt that was taken back is found."""
    tree = _Tree()
    for uuid, parent, kind in (
        ("p", None, PROMPT),
        ("a", "p", ANSWER),
        ("left", "a", PROMPT),
        ("b", "left", ANSWER),
        ("taken", None, PROMPT),
        ("taken", "a", PROMPT),
        ("c", "taken", ANSWER),
    ):
        tree.add(uuid, parent, kind)
    assert tree.branches() == {"left", "b"}
