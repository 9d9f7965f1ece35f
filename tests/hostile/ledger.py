"""What must be there in the end: acknowledged words, and which of them the adversary may have destroyed."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

WORD = re.compile(rb"t[0-9]+x[0-9]+y*z")
"""A whole message. What was cut anywhere is not one any more."""


def words_in(content: bytes) -> set[str]:
    return {found.decode() for found in WORD.findall(content)}


def last_words(content: bytes) -> list[str]:
    """The last one, if there is any."""
    return [found.decode() for found in WORD.findall(content)[-1:]]


def words_below(path: Path) -> set[str]:
    """In a regular file, or in all of a folder. Links are not followed, nothing is opened that might block."""
    if path.is_symlink() or not path.exists():
        return set()
    if path.is_dir():
        return {word for one in path.iterdir() for word in words_below(one)}
    return words_in(path.read_bytes()) if path.is_file() else set()


class Ledger:
    """Of one life. Used by all clients at once."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.answers = 0
        self.acked: dict[str, str] = {}
        """Word -> the session that it was said in."""
        self.sent: dict[str, str] = {}
        """The same of all that was said, answered or not."""
        self.sessions: set[str] = set()
        """All that were ever named."""
        self.faults: list[str] = []
        self.done: list[str] = []
        """What was done, and by whom, for people."""
        self.lost: dict[str, set[str]] = {}
        """What may be nowhere, and why: it was in files that somebody destroyed, where no daemon could know of it. What was
        cleared was in the trash, and in the session's file as well until that was saved.
        """
        self.exposed: dict[str, tuple[str, str]] = {}
        """Word -> (session, what happened to its file), while the daemon has it in memory and was not asked since."""
        self.held: set[str] = set()
        """Sessions that this daemon has in memory for certain."""
        self.unread: set[str] = set()
        """What somebody else wrote into a session's file, and no daemon has read for certain."""
        self.anonymous: dict[str, str] = {}
        """What may be there twice, and why: its id stood only in a file next to the session that somebody destroyed."""

    def fault(self, what: str) -> None:
        with self.lock:
            self.faults.append(what)

    def answered(self) -> None:
        with self.lock:
            self.answers += 1

    def named(self, session: str) -> None:
        with self.lock:
            self.sessions.add(session)

    def sending(self, words: Iterable[str], session: str) -> None:
        with self.lock:
            self.sessions.add(session)
            self.sent |= dict.fromkeys(words, session)

    def acknowledged(self, words: Sequence[str], session: str) -> None:
        with self.lock:
            self.sessions.add(session)
            for word in words:
                self.acked[word] = session
            self.done.append(f"acknowledged in {session}: {' '.join(word[:12] for word in words)}")

    # What somebody else destroys

    def destroyed(self, words: Iterable[str], session: str, what: str, *, runs: bool) -> None:
        """Words stand no more where they stood. `runs`: a daemon does."""
        with self.lock:
            for word in words:
                if runs and session in self.held and word not in self.unread:
                    self.exposed.setdefault(word, (session, what))
                else:
                    self._may_be_nowhere(word, what)

    def _may_be_nowhere(self, word: str, why: str) -> None:
        self.lost.setdefault(word, set()).add(why)

    def found(self, words: Iterable[str], what: str) -> None:
        """What was away is back in its place."""
        with self.lock:
            for word in words:
                reasons = {one for one in self.lost.pop(word, ()) if not one.startswith(what)}
                if reasons:
                    self.lost[word] = reasons

    def without_ids(self, session: str, store: str, what: str) -> None:
        """The ids of what was said so far may be gone: in one session, or (`session` empty) in all of a store. Whoever says it again
        is not known.
        """
        with self.lock:
            for word, one in self.sent.items():
                if one == session or (not session and (one.rpartition("/")[0] or "default") == store):
                    self.anonymous.setdefault(word, what)

    def noticed(self, session: str, *, read: bool) -> None:
        """The daemon has compared the files of a session with what it knows: from here on it answers for all of it, and where it could
        read them, for what others wrote, too.
        """
        with self.lock:
            self.done.append(f"asked for {session}")
            self.exposed = {word: one for word, one in self.exposed.items() if one[0] != session}
            if read:
                self.unread = {word for word in self.unread if self.acked.get(word) != session}

    def ended(self) -> None:
        """The daemon ends, and with it what it alone knew."""
        with self.lock:
            for word, (_, what) in self.exposed.items():
                self._may_be_nowhere(word, f"{what}, and the daemon ended before it was asked")
            self.exposed.clear()
            self.held.clear()

    # In the end

    def judge(self, there: dict[str, list[str]], kept: set[str]) -> None:
        """`there`: the texts of each session's messages. `kept`: the words in the trash."""
        found = {word for texts in there.values() for text in texts for word in words_in(text.encode())}
        for word, session in sorted(self.acked.items()):
            if word not in found and word not in kept and word not in self.lost:
                self.fault(f"LOST {word[:12]} of {session}: acknowledged, and neither in a session nor in the trash")
        for session, texts in there.items():
            times = Counter(word for text in texts for word in words_in(text.encode()))
            for word, count in times.items():
                if count > 1 and word not in self.anonymous:
                    self.fault(f"DOUBLED {word} is in {session} {count} times")
