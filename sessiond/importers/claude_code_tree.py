"""Finds the records of a Claude Code file that are off the path to its last one: what followed a prompt that the user
took back and rewrote.

Real trees by `parentUuid` have holes, cycles, and siblings that are not branches: results of parallel calls, progress, a
prompt sent while an answer was being written. So only what begins with a prompt is marked, and where the path reaches a
hole it continues with the record before. After an error the prompt may be written again under a record from long before:
nobody went back, so it follows what the first one followed.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from sessiond.formats.shared_line import pieces_of
from sessiond.importers.alone import failed_on
from sessiond.importers.blocks import parts_of, text_of
from sessiond.importers.claude_code_user import marks
from sessiond.importers.lines import Position, raw_lines
from sessiond.importers.record import Opener, SkippedLine, digest_of_json

PROMPT, COMMAND, ANSWER, RESULT, OTHER = range(5)
_END, _OFF = -1, -2
_CLIMB = 50
"""Maximum number of the tool's own records between a turn and the next prompt."""

_STEPS = 5_000_000
"""How far all prompts that were sent again may be followed back, in records."""


class TreeRecord(msgspec.Struct, rename="camel"):
    """The part of a record that decides its place in the tree."""

    type: Any = None
    uuid: Any = None
    parent_uuid: Any = None
    is_sidechain: Any = None
    is_meta: Any = None
    is_compact_summary: Any = None
    is_api_error_message: Any = None
    message: msgspec.Raw = msgspec.Raw(b"")


class _Message(msgspec.Struct):
    content: Any = None


_record = msgspec.json.Decoder(TreeRecord).decode
_message = msgspec.json.Decoder(_Message).decode


Kind: TypeAlias = Callable[[TreeRecord], int]


class Tree:
    """`off_path`: the `uuid`s of all records on abandoned branches. `repeated`: those that the file has more than once. `lines`: how
    many whole ones the file had. `failed`: records whose place is not known, for an error of ours. `kind`: what a record is.
    """

    def __init__(self, kind: Kind) -> None:
        self.off_path: frozenset[str] = frozenset()
        self.repeated: frozenset[str] = frozenset()
        self.lines = 0
        self.failed: list[SkippedLine] = []
        self._kind = kind
        self._records = _Tree()

    def __deepcopy__(self, memo: dict[int, object]) -> Tree:
        return self  # who copies a reader reads no more with it

    def take(self, raw: bytes) -> None:
        """The next line."""
        if not _grown(self._records, raw, self._kind):
            for piece, whole in pieces_of(raw):
                if whole:
                    _grown(self._records, piece, self._kind)

    def settle(self) -> None:
        self.off_path = self._records.branches()
        self.repeated = frozenset(self._records.repeated)

    def stands_with(self, before: int, lines: Sequence[bytes]) -> bool:
        """Take more lines. Returns whether the records before them are still where they were, and none came again. False, too, if it
        was read before all of the lines so far were written.
        """
        if self.lines != before:
            return False
        known, off_path = len(self._records), self.off_path
        try:
            for raw in lines:
                self.take(raw)
        except Exception:  # a bug of ours with one of them, of which a reading of the whole file tells
            return False
        self.lines += len(lines)
        self.settle()
        moved = off_path ^ self.off_path
        return not self.repeated and all(self._records.number(uuid) >= known for uuid in moved)


def tree_of(path: str, open_: Opener, kind: Kind | None = None) -> Tree:
    """Reads a file's tree. Holds only ids and numbers. Raises OSError. `kind`: what a record is, where a tool other than Claude
    Code wrote it.
    """
    tree = Tree(kind or kind_of)
    at = Position()
    for line, raw in raw_lines(path, open_, at):
        if raw is None:
            continue
        try:
            tree.take(raw)
        except Exception as error:  # the record is a hole, and the others have their places
            tree.failed.append(failed_on(path, "the place of this record", error, line))
    tree.lines = at.line
    tree.settle()
    return tree


def _grown(tree: _Tree, raw: bytes, kind: Kind) -> bool:
    """Put a record into the tree. Returns whether it could be read."""
    try:
        record = _record(raw)
        if isinstance(record.uuid, str):
            new = tree.note(record.uuid)
            if record.is_sidechain is not True:
                tree.add(record.uuid, record.parent_uuid, found := kind(record))
                if new:
                    tree.retries.take(record, found)
            else:
                tree.aside.add(record.uuid)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False  # reported when it is read as a turn; here it is a hole
    return True


def kind_of(record: TreeRecord) -> int:
    if record.type == "assistant":
        return ANSWER
    if record.type != "user" or record.is_meta is True or record.is_compact_summary is True:
        return OTHER
    message = bytes(record.message)
    if b'"tool_result"' in message:  # the usual case, and often large; in a text the quotation marks would be escaped
        return RESULT
    if not message.lstrip().startswith(b"{"):
        return OTHER
    parts = parts_of(_message(message).content)
    if parts.result_ids:
        return RESULT
    found = marks({}, text_of(parts.content))
    return OTHER if "injected" in found else COMMAND if "command" in found else PROMPT


def _is_stopped(record: TreeRecord) -> bool:
    """Return whether the user broke the answer off: then the same prompt under an older record was sent by going back there."""
    return record.type == "user" and b"[Request interrupted by user" in bytes(record.message)


def _same_words(one: bytes, other: bytes) -> bool:
    if one == other:
        return True
    words = text_of(parts_of(_message(one).content).content)
    return words != "" and words == text_of(parts_of(_message(other).content).content)


class _Retries:
    """Finds prompts that say what the last one said, while that one has no answer but an error."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        """A prompt, and the one that it repeats."""
        self.words: dict[str, bytes] = {}
        """Of each prompt, a digest of what it says."""
        self._last: tuple[str, bytes] | None = None
        self._open = False
        """Whether nothing answered the last prompt, or an error came after the answer."""

    def take(self, record: TreeRecord, kind: int) -> None:
        """Each record, in the file's order. `record.uuid` is a text."""
        if kind == PROMPT:
            said = bytes(record.message)
            if self._open and self._last is not None and _same_words(self._last[1], said):
                self.found.append((record.uuid, self._last[0]))
            self.words[record.uuid] = digest_of_json(said)
            self._last, self._open = (record.uuid, said), True
        elif kind == ANSWER:
            self._open = record.is_api_error_message is True
        elif kind != OTHER or _is_stopped(record):
            self._open = False


class _Tree:
    """Records by their number in the file, from 0; -1 means no record."""

    def __init__(self) -> None:
        self.repeated: set[str] = set()
        self.aside: set[str] = set()
        """Those of subagents' records, which are not in the tree."""
        self.retries = _Retries()
        self._numbers: dict[str, int] = {}
        self._parents = array("q")
        self._kinds = bytearray()
        self._later: list[tuple[int, str]] = []
        """Children read before their parent: number of the child, uuid of the parent."""
        self._straight = True
        """Each record follows the one before: nothing was taken back, as in most files."""

    def note(self, uuid: str) -> bool:
        """Returns whether it is the first record with this id."""
        known = uuid in self._numbers or uuid in self.aside
        if known:
            self.repeated.add(uuid)
        return not known

    def add(self, uuid: str, parent: object, kind: int) -> None:
        if uuid in self._numbers:
            self._join(self._numbers[uuid], parent)
            return
        number = self._numbers[uuid] = len(self._parents)
        self._kinds.append(kind)
        known = self._numbers.get(parent, -1) if isinstance(parent, str) else -1
        self._parents.append(known if known != number else -1)
        if isinstance(parent, str) and known < 0:
            self._later.append((number, parent))
            self._straight = False
        elif known != number - 1:
            self._straight = False

    def _join(self, number: int, parent: object) -> None:
        """Give a record the parent that another copy of it names: of two copies, one may have lost its parent."""
        known = self._numbers.get(parent, -1) if isinstance(parent, str) else -1
        if self._parents[number] < 0 and known not in (-1, number):
            self._parents[number] = known
            self._straight = False

    def __len__(self) -> int:
        return len(self._parents)

    def number(self, uuid: str) -> int:
        return self._numbers[uuid]

    def branches(self) -> frozenset[str]:
        if self._straight:
            return frozenset()
        given = self._parents[:]
        try:
            return self._branches()
        finally:
            self._parents = given

    def _branches(self) -> frozenset[str]:
        for number, name in self._later:
            self._parents[number] = self._numbers.get(name, -1)
        self._put_retries()
        following = self._path()
        starts = [
            number
            for number, kind in enumerate(self._kinds)
            if kind in (PROMPT, COMMAND) and following[number] == _OFF and self._leaves(number, following) >= 0
        ]
        if not starts:
            return frozenset()
        children: dict[int, list[int]] = {}
        for number, parent in enumerate(self._parents):
            if parent >= 0 and following[number] == _OFF:
                children.setdefault(parent, []).append(number)
        found: set[int] = set()
        for start in starts:
            below = _below(start, children)
            answered = any(self._kinds[number] == ANSWER for number in below)
            if answered or (self._kinds[start] == PROMPT and self._anew(self._leaves(start, following), following)):
                found |= below
        return frozenset(uuid for uuid, number in self._numbers.items() if number in found)

    def _put_retries(self) -> None:
        """Put prompts that were sent again, under a turn that the first one came after, where they belong."""
        words = self.retries.words
        sent_again = {again for again, _ in self.retries.found}
        beside = Counter(
            (self._parents[self._numbers[one]], said) for one, said in words.items() if one not in sent_again
        )
        room = _STEPS
        for uuid, uuid_of_first in self.retries.found:
            again, first = self._numbers[uuid], self._numbers[uuid_of_first]
            parent, after = self._parents[again], self._parents[first]
            # Behind the first one it just goes on; beside one with the same words, the user went back to that one.
            if parent < 0 or parent >= first or beside[parent, words[uuid]]:
                continue
            goal, at = self._turn(parent), after
            while at >= 0 and at != goal and room > 0:
                room -= 1
                at = self._parents[at]
            if goal >= 0 and at == goal:
                self._parents[again] = after

    def _turn(self, number: int) -> int:
        """The nearest turn at or above a record, skipping the tool's own records, or -1."""
        for _ in range(_CLIMB):
            if number < 0 or self._kinds[number] != OTHER:
                return number
            number = self._parents[number]
        return -1

    def _path(self) -> array[int]:
        """For each record on the path, the next one on it (_END at an end); _OFF for all others."""
        following = array("q", [_OFF]) * len(self._parents)
        at = next((n for n in range(len(self._kinds) - 1, -1, -1) if self._kinds[n] != OTHER), -1)
        first = at
        while at >= 0:
            after = _END
            while at >= 0 and following[at] == _OFF:
                following[at] = after
                first, after, at = min(first, at), at, self._parents[at]
            # A root, a hole or a cycle: continue with the record before.
            at = first - 1
            while at >= 0 and following[at] != _OFF:
                at -= 1
            first = at
        return following

    def _leaves(self, number: int, following: array[int]) -> int:
        """The record on the path that this prompt follows, ignoring the tool's own records, or -1."""
        for _ in range(_CLIMB):
            number = self._parents[number]
            if number < 0:
                return -1
            if following[number] != _OFF:
                return number if following[number] != _END else -1
            if self._kinds[number] != OTHER:
                return -1
        return -1

    def _anew(self, number: int, following: array[int]) -> bool:
        """Return whether a prompt comes next on the path, too."""
        for _ in range(_CLIMB):
            number = following[number]
            if number < 0 or self._kinds[number] != OTHER:
                break
        return number >= 0 and self._kinds[number] in (PROMPT, COMMAND)


def _below(start: int, children: dict[int, list[int]]) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found
