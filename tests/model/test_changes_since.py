"""What changed after a seq is told whole or not at all, whatever happened to the session and its file."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sessiond.formats import jsonl
from sessiond.model.changes import Appended, Change, StateSet, Truncated
from sessiond.model.session import Session
from sessiond.store.merge import replay
from tests.formats.lisp_sessions import message, perform, save

ID = "s"
AT = "2026-01-11T14:30:22.000Z"
SAID = st.tuples(st.just("append"), st.lists(st.just(("user", "x", {})), min_size=1, max_size=2))
STEPS = st.one_of(
    SAID,
    SAID,
    st.tuples(st.just("truncate"), st.integers(0, 8)),
    st.tuples(st.sampled_from(["begin", "extend", "note"]), st.just("more")),
    st.tuples(st.just("update"), st.just({"name": "n"})),
    st.tuples(st.just("state"), st.fixed_dictionaries({"a": st.integers(0, 9)})),
    st.tuples(st.sampled_from(["finish", "clear", "save", "reload", "delete", "restore"]), st.none()),
    st.tuples(st.just("edit"), st.integers(1, 5)),
)


def flat(change: Change) -> list[tuple[int, str]]:
    """Seq and kind, once for each seq."""
    seqs = [one["seq"] for one in change.messages] if isinstance(change, Appended) else [change.seq]
    return [(seq, type(change).__name__) for seq in seqs]


class Life:
    """A session, its file, and what happened to it."""

    def __init__(self) -> None:
        self.session = Session(ID, AT)
        self.files: dict[str, bytes] = save(jsonl, self.session)
        self.pending: list[Change] = []
        self.happened: list[tuple[int, str]] = []
        self.trash: dict[str, bytes] | None = None

    def step(self, kind: str, value: Any) -> None:
        match kind:
            case "save":
                self.files, self.pending = save(jsonl, self.session, self.files), []
            case "reload":
                self._take(self.files)
            case "delete":
                self.trash = save(jsonl, self.session)
            case "restore" if self.trash is not None:
                self.files, self.pending = self.trash, []
                self._take(self.files)
                self.happened = [one for one in self.happened if one[0] <= self.session.seq]
            case "edit":
                self._edit(value)
            case "restore":
                pass
            case _:
                change = perform(self.session, (kind, value))
                if change is not None:
                    self.pending.append(change)
                    self.happened += flat(change)

    def _take(self, files: dict[str, bytes], floor: int = 0) -> None:
        decoded = jsonl.decode(ID, files, floor)
        replay(decoded, self.pending)
        self.session = decoded.session

    def _edit(self, place: int) -> None:
        """Another program takes a line out, which is a change that nobody can tell."""
        path = jsonl.main_path(ID)
        lines = self.files[path].splitlines(keepends=True)
        self._take({**self.files, path: b"".join(lines[:place] + lines[place + 1 :])}, self.session.seq)
        self.session.seq += 1
        self.happened.append((self.session.seq, "an edit"))
        self.step("save", None)


@given(st.lists(STEPS, max_size=14))
def test_all_that_happened_or_nothing_is_told(steps: list[tuple[str, Any]]) -> None:
    life = Life()
    for kind, value in steps:
        life.step(kind, value)
        for since in range(life.session.seq + 1):
            changes = life.session.changes_since(since)
            if changes is not None:
                told = [one for change in changes for one in flat(change)]
                assert told == [one for one in life.happened if one[0] > since], (since, steps)
                assert [seq for seq, _ in told] == list(range(since + 1, life.session.seq + 1))


def test_a_seq_that_stands_for_two_things_hides_no_gap() -> None:
    """The change with seq 3 is not known; a message of the file has the seq of a later change."""
    session = Session(ID, AT)
    for seq in (1, 2, 4):
        session.add_message(message(seq))
    session.apply(StateSet(seq=4, at=AT, values={"a": 1}))
    assert session.changes_since(1) is None
    assert session.changes_since(4) == []


def test_after_a_restore_and_a_truncate() -> None:
    """A restored session has forgotten what happened to it; the cut is told to those who know all before it."""
    life = Life()
    for step in (
        ("append", [("user", "x", {})] * 3),
        ("note", "n"),
        ("delete", None),
        ("restore", None),
        ("truncate", 2),
    ):
        life.step(*step)
    session = life.session
    assert [type(one) for one in session.changes_since(4) or []] == [Truncated]
    assert [session.changes_since(since) for since in range(4)] == [None] * 4
