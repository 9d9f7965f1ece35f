"""What was taken back in a tree of Claude Code's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from collected import lines
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.importers import claude_code_tree
from sessiond.importers.claude_code_tree import ANSWER, COMMAND, OTHER, PROMPT, RESULT, _Tree, tree_of
from sessiond.importers.record import open_source

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


def marked(folder: Path, *records: tuple[Any, ...]) -> set[str]:
    """The ids on abandoned branches, of a file of (id, parent, words[, fields]). Words that begin with ">" are the user's."""
    made = []
    for uuid, parent, words, *more in records:
        role = "user" if words.startswith(">") else "assistant"
        made.append(
            {
                "uuid": uuid,
                "parentUuid": parent,
                "type": role,
                "message": {"role": role, "content": words.removeprefix(">")},
            }
            | (more[0] if more else {})
        )
    return set(tree_of(str(lines(folder / "t.jsonl", *made)), open_source).off_path)


PROGRESS: dict[str, Any] = {"type": "progress"}
FAILED: dict[str, Any] = {"isApiErrorMessage": True}
TURNS = [
    ("1", None, ">plant"), ("2", "1", "planted"), ("g", "2", "", PROGRESS), ("h", "g", "", PROGRESS),
    ("3", "2", ">water"), ("4", "3", "watered"), ("5", "4", ">weed"), ("6", "5", "weeded"),
]  # fmt: skip


@pytest.mark.parametrize("parent", ["h", "2"])
def test_a_prompt_that_is_sent_again_after_an_error(tmp_path: Path, parent: str) -> None:
    """It is under an old record, but nobody went back there: only what failed is left out."""
    again = [("b", parent, ">prune"), ("c", parent, ">prune"), ("d", "c", "pruned")]
    assert marked(tmp_path, *TURNS, ("a", "6", ">prune"), *again) == {"a", "b"}
    error = ("e", "a", "Error 403", FAILED)
    assert marked(tmp_path, *TURNS, ("a", "6", ">prune"), error, *again) == {"a", "b", "e"}
    # An error after a part of the answer, and the same words as a block.
    part = ("p", "a", "pru")
    blocks = {"message": {"role": "user", "content": [{"type": "text", "text": "prune"}]}}
    again = [("c", parent, ">", blocks), ("d", "c", "pruned")]
    assert marked(tmp_path, *TURNS, ("a", "6", ">prune"), part, ("e", "p", "Error", FAILED), *again) == {
        "a", "p", "e",
    }  # fmt: skip


def test_a_prompt_that_is_sent_again_by_going_back(tmp_path: Path) -> None:
    """Other words, an answer, an answer that was stopped, or the words of the prompt that was there: what came after was left."""
    left = {"3", "4", "5", "6"}
    first = ("a", "6", ">prune")
    again = [("b", "2", ">prune"), ("c", "b", "pruned")]
    assert marked(tmp_path, *TURNS, ("a", "6", ">graft"), *again) == {*left, "a"}
    assert marked(tmp_path, *TURNS, first, ("d", "a", "done"), *again) == {*left, "a", "d"}
    assert marked(tmp_path, *TURNS, first, ("d", "a", ">[Request interrupted by user]"), *again) == {*left, "a"} | {"d"}
    back = [("b", "2", ">water"), ("c", "b", "watered well")]
    assert marked(tmp_path, *TURNS, ("a", "6", ">water"), *back) == {*left, "a"}
    assert marked(tmp_path, *TURNS, first, ("b", "a", ">prune"), ("c", "b", "pruned")) == set()


def test_following_prompts_back_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that would cost too much is read as if its user had gone back."""
    records = (*TURNS, ("a", "6", ">prune"), ("b", "2", ">prune"), ("c", "b", "pruned"))
    assert marked(tmp_path, *records) == {"a"}
    monkeypatch.setattr(claude_code_tree, "_STEPS", 2)
    assert marked(tmp_path, *records) == {"3", "4", "5", "6", "a"}
