"""The knowledge about one session's files between two calls of its store."""

from __future__ import annotations

from sessiond.formats.base import Problem
from sessiond.model.changes import Change
from sessiond.model.session import Session
from sessiond.store.files import Print


class FileState:
    __slots__ = ("displacing", "entry", "local_id", "pending", "prints", "problems", "recovered", "rewrite", "twice")

    def __init__(self, local_id: str, recovered: list[Change]) -> None:
        self.local_id = local_id
        self.pending = recovered
        """Durable in the journal, but not in the file yet."""
        self.recovered = bool(recovered)
        """`pending` came from the journal at start: a save may have been cut short."""
        self.prints: dict[str, Print] = {}
        """The versions of the files whose content is the session without `pending`."""
        self.displacing: Print | None = None
        """What is in the file's place and cannot be understood; everything that we knew of the file is in the trash."""
        self.problems: list[Problem] = []
        self.rewrite = False
        """The file lacks something that an append cannot add."""
        self.twice = False
        """A delete did not finish: the session may be in the trash as well. Its next save settles that."""
        self.entry: bytes | None = None
        """The mark of the entry that such a delete made, if the files are still those that it was made from, or grew from them."""

    @property
    def dirty(self) -> bool:
        return bool(self.pending) or self.rewrite or self.twice

    def current(self) -> None:
        """The file has everything."""
        self.rewrite = False
        self.recovered = False

    def forget(self) -> None:
        """The session is gone, from the files and from the journal."""
        self.pending, self.prints, self.problems = [], {}, []
        self.twice, self.entry = False, None
        self.current()

    def highest_seq(self, session: Session | None) -> int:
        return max(0 if session is None else session.seq, max((change.seq for change in self.pending), default=0))
