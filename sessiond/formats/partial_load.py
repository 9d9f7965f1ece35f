"""A large native session as seen from its sidecar and the end of its file, before anyone has read the whole file. Pure.

The sidecar of a save carries a brief: everything a response needs besides the last messages. A partial load is provisional:
whoever uses it must have the whole file read next (docs/decisions/0017-a-large-session-is-glanced-at-first.md). If that is too
large to be kept, `PassingCheck` reads it a part at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from sessiond.formats.base import TAIL_BYTES, Decoded, Problem, Write
from sessiond.formats.jsonl_reader import JsonlReader, lines_of
from sessiond.formats.sidecar import Sidecar, decode_sidecar, encode_sidecar, sidecar_path
from sessiond.formats.sidecar_file import Appending
from sessiond.model.message import Message, Note
from sessiond.model.session import UPDATABLE, Session
from sessiond.model.values import Json, JsonObject

RECENT = 256
"""Messages whose seqs are in a brief. A partial load never shows more."""
_ENOUGH = 2 * RECENT
"""Lines that usually contain that many messages; if they do not, all lines that were read are used."""
_BRIEF_BYTES = 64 * 1024
"""The cost of a save must not grow with the session, so a session with more notes and state than this has no brief."""
_KEY, _SUM = "brief", "briefCrc"


class Brief(msgspec.Struct, frozen=True, rename="camel"):
    """Everything in a session except its messages, as the main file has it once the append in the same sidecar is done."""

    count: int
    """Number of messages."""
    recent: list[int]
    """The seqs of the last ones, at most RECENT."""
    created_at: str
    updated_at: str
    saved_at: str | None
    name: str | None
    model: str | None
    cwd: str | None
    tags: list[str]
    archived: bool
    summary: str | None
    parent: JsonObject | None
    metadata: JsonObject
    notes: list[Note]
    state: JsonObject


_decoder = msgspec.json.Decoder(Brief)


class Passed(msgspec.Struct):
    """The facts about the messages of a session that a brief needs."""

    count: int = 0
    recent: list[int] = []
    streaming: bool = False

    def add(self, messages: Sequence[Message]) -> None:
        self.count += len(messages)
        self.streaming = self.streaming or any(message.status == "streaming" for message in messages)
        self.recent = [*self.recent, *(message.seq for message in messages)][-RECENT:]


def remember(writes: Sequence[Write], session: Session, least: int, passed: Passed | None = None) -> Sequence[Write]:
    """The `writes` of a save of `session`, with a brief in the sidecar if the main file will have at least `least` bytes.

    Only for a session whose files were fully understood and which has no streaming message. `passed`: its messages, if
    it does not hold them itself.
    """
    path = sidecar_path(session.local_id)
    if passed is None:
        count = len(session)
        passed = Passed(count, [message.seq for message in session.messages(max(session.absent, count - RECENT))])
    return [
        _remembering(one, session, passed, least) if (one.path, one.how) == (path, "replace") else one for one in writes
    ]


def _remembering(write: Write, session: Session, passed: Passed, least: int) -> Write:
    side, _ = decode_sidecar(write.path, write.data)
    intent = side.append if side else None
    if (
        passed.streaming
        or side is None
        or intent is None
        or side.entries
        or side.seq != session.seq
        or intent.size + intent.length < least
    ):
        return write
    brief = Brief(
        count=passed.count,
        recent=passed.recent,
        created_at=session.created_at,
        updated_at=session.updated_at,
        saved_at=session.saved_at,
        notes=session.notes,
        state=session.state,
        **{key: getattr(session, key) for key in UPDATABLE},
    )
    encoded = msgspec.json.encode(brief)
    if len(encoded) > _BRIEF_BYTES:
        return write
    # As text, because the sidecar sorts the keys of objects.
    fresh = msgspec.structs.replace(side, main={**side.main, _KEY: encoded.decode(), _SUM: zlib.crc32(encoded)})
    return msgspec.structs.replace(write, data=encode_sidecar(fresh))


def glance(local_id: str, side: bytes | None, size: int, end: bytes, pending_from: int | None) -> Decoded | None:
    """The session without most of its messages (`Session.absent`), or None if the file must be read whole.

    `size`: size of the main file; `end`: its last bytes. `pending_from`: seq of the first change still in the journal.
    """
    known, problems = decode_sidecar("", side)
    brief = _brief_of(known)
    if brief is None or known is None or known.append is None or problems or known.entries or not brief.recent:
        return None
    intent = known.append
    if size != intent.size + intent.length or not end.endswith(b"\n"):
        return None
    # If the journal knew of the last append, it would have dropped what that append contains.
    if pending_from is not None and pending_from <= known.through and not _came(intent, end):
        return None
    lines = [line for _, line in lines_of(end if len(end) == size else end.partition(b"\n")[2])]
    messages = _last_messages(local_id, lines[-_ENOUGH:], brief)
    if len(messages) < len(brief.recent) and len(lines) > _ENOUGH:
        messages = _last_messages(local_id, lines, brief)
    absent = brief.count - len(messages)
    if not messages or absent <= 0:
        return None
    session = Session(local_id, brief.created_at, absent=absent)
    session.update({key: getattr(brief, key) for key in UPDATABLE})
    session.updated_at, session.saved_at, session.state = brief.updated_at, brief.saved_at, dict(brief.state)
    for note in brief.notes:
        session.add_note(note)
    for message in messages:
        session.add_message(message)
    session.seq = max(session.seq, known.seq)
    return Decoded(session=session, problems=[], through=known.through)


class _Line(msgspec.Struct, gc=False):
    id: str = ""
    seq: int = 0
    role: str = ""


class PassingCheck:
    """Checks the file of a partial load without keeping it. `side`: the sidecar that the load has used. Give `take` all bytes of
    the file in order.
    """

    def __init__(self, side: bytes | None) -> None:
        known, _ = decode_sidecar("", side)
        self._sum = known.append.after if known and known.append else None
        self._crc = 0
        self._rest: list[bytes] = []
        self._decode = msgspec.json.Decoder(_Line).decode

    def take(self, part: bytes, before: int) -> list[str]:
        """Return the ids of messages in `part` with a seq below `before`. ValueError for a line that we did not write."""
        self._crc = zlib.crc32(part, self._crc)
        whole, newline, rest = part.rpartition(b"\n")
        if not newline:
            self._rest.append(part)
            return []
        whole = b"".join([*self._rest, whole])
        self._rest = [rest] if rest else []
        lines = [self._decode(line) for line in whole.split(b"\n") if line]
        return [line.id for line in lines if line.role and line.seq < before]

    @property
    def agrees(self) -> bool:
        """True if the bytes are those that were written when the sidecar was."""
        return self._crc == self._sum and not self._rest


def _brief_of(side: Sidecar | None) -> Brief | None:
    encoded: Json = side.main.get(_KEY) if side else None
    if side is None or not isinstance(encoded, str):
        return None
    try:
        raw = encoded.encode()
        # A wrong sum: somebody changed it by hand, or the disk damaged it. The file is then read whole.
        return _decoder.decode(raw) if zlib.crc32(raw) == side.main.get(_SUM) else None
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None


def _came(intent: Appending, end: bytes) -> bool:
    """Return whether the last append is complete in the file. False if `end` is too short to tell."""
    needed = intent.length + min(TAIL_BYTES, intent.size)
    if len(end) < needed:
        return False
    anchor, done = end[len(end) - needed : len(end) - intent.length], end[len(end) - intent.length :]
    return zlib.crc32(anchor) == intent.anchor and zlib.crc32(done) == intent.crc


def _last_messages(local_id: str, lines: Sequence[bytes], brief: Brief) -> list[Message]:
    """The newest messages that the file's last lines contain without a gap, by seq; empty if a line is strange."""
    problems: list[Problem] = []
    reader = JsonlReader(local_id, "", problems)
    for line in lines:
        reader.take(line, 0)
    if problems or reader.unnumbered:
        return []
    # The last line of a message counts, and the last lines are all here, so each message found is in its final state.
    found = {message.seq: message for message in reader.messages.values()}
    shown: list[Message] = []
    for seq in reversed(brief.recent):
        if seq not in found:
            break
        shown.append(found.pop(seq))
    # Anything else that was found is a later line of an older message.
    if not shown or any(seq > shown[-1].seq for seq in found):
        return []
    return shown[::-1]
