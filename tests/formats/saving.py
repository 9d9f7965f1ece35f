"""Files in memory for the tests of the formats: saving, one step at a time, as the store does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from sessiond.formats.base import TAIL_BYTES, Decoded, Files, Tail, Write
from sessiond.model.changes import Change
from sessiond.model.message import Message
from sessiond.model.session import Session
from tests.formats import lisp_sessions
from tests.formats.lisp_sessions import NASTY, blocks, json, objects, rests, text

ID = "session-20260111-143022"
ORG = [
    "* heading",
    "** Human",
    "** Agent",
    "*** deep\ntext",
    "* Tick 9\n:PROPERTIES:\n:TIMESTAMP: 2020-01-01\n:END:",
    ":PROPERTIES:\n:X: 1\n:END:",
    ":END:",
    "#+begin_src emacs-lisp :results none\n(error)\n#+end_src",
    "  #+end_src",
    ",* x",
    ",,#+x",
    ", x",
    ",:END:",
    "DEADLINE: <2025-01-01>",
    "%%(error)",
    "<%%(error)>",
    "Local Variables:\neval: (error)\nEnd:",
    "# Local Variables:\n# eval: (error)\n# End:",
    "local\u200b variables:",
    "Local Variables\u200b:",
    "\n\nlead",
    "trail\n\n",
    "  indent\n",
    "\t",
    "*",
    "* ",
    "*bold*",
    "```\n```\n* x\n```\n```",
    "a\x0cb",
    "#+SETUPFILE: x",
    "text\r\nwith\r\nCRLF",
    "\x1b$B",
    ":a:\n:END:",
    "[fn:1] x",
    "| a | b |",
    "-*- mode: org; eval: (error) -*-",
    "TODO x :tag:",
    "\ufeff* x",
]
words_of_org = st.lists(st.sampled_from([*ORG, *NASTY]), max_size=3).map("\n".join)
any_text = st.one_of(words_of_org, text)
turns = st.sampled_from(["user", "assistant"])
wires = st.fixed_dictionaries(
    {"role": turns | lisp_sessions.roles, "content": any_text | blocks},
    optional={
        "rest": rests,
        "extra": st.dictionaries(st.sampled_from(["sessiond", "change", "through", "seqs", "at"]), json),
    },
)


@st.composite
def sessions(draw: st.DrawFn, local_id: str = ID) -> Session:
    """Any session, with conversations among them."""
    session = draw(lisp_sessions.sessions(local_id))
    for _ in range(draw(st.integers(0, 6))):
        wire = draw(wires)
        session.seq += 1
        rest = {**wire.get("rest", {}), **wire.get("extra", {})}
        status = draw(st.sampled_from([None, None, "done", "interrupted", "streaming"]))
        session.add_message(
            Message(
                id=f"w{session.seq}",
                seq=session.seq,
                role=wire["role"],
                content=wire["content"],
                timestamp=draw(lisp_sessions.times),
                status=status,
                rest=rest,
            )
        )
    session.created_at, session.updated_at = sorted([session.created_at, session.updated_at])
    return session


operations: st.SearchStrategy[lisp_sessions.Operation] = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(turns, any_text | blocks, rests), min_size=1, max_size=3)),
    st.tuples(st.just("append"), st.lists(st.tuples(turns, any_text, st.just({})), min_size=1, max_size=4)),
    st.tuples(st.just("begin"), any_text),
    st.tuples(st.just("extend"), any_text),
    st.tuples(st.just("finish"), st.none() | objects),
    st.tuples(st.just("note"), any_text),
    lisp_sessions.operations,
)


def states(files: Files, writes: Sequence[Write]) -> Iterator[dict[str, bytes]]:
    """The files before the first write and after each."""
    after = dict(files)
    yield dict(after)
    for write in writes:
        if write.how == "append":
            after[write.path] = after.get(write.path, b"") + write.data
        elif write.how == "replace":
            after[write.path] = write.data
        else:
            del after[write.path]
        yield dict(after)


def written(files: Files, writes: Sequence[Write]) -> dict[str, bytes]:
    return list(states(files, writes))[-1]


def tail_of(content: bytes | None) -> Tail:
    return Tail(exists=content is not None, size=len(content or b""), end=(content or b"")[-TAIL_BYTES:])


def steps(fmt: ModuleType, session: Session, files: Files, changes: Sequence[Change]) -> list[Write]:
    """The writes of one save, cheap where the format can."""
    main = files.get(fmt.main_path(session.local_id))
    side = {path: files[path] for path in fmt.side_files(session.local_id) if path in files}
    cheap: list[Write] | None = fmt.update(session.snapshot(), tail_of(main), side, changes)
    if cheap is not None:
        return cheap
    whole: list[Write] = fmt.encode(session.snapshot(), files)
    return whole


def save(fmt: ModuleType, session: Session, files: Files | None = None) -> dict[str, bytes]:
    return written(files or {}, fmt.encode(session, files or {}))


def load(fmt: ModuleType, files: Files, local_id: str = ID, floor: int = 0) -> Decoded:
    decoded: Decoded = fmt.decode(local_id, files, floor)
    assert decoded.fatal is None, decoded.problems
    return decoded


def settle(fmt: ModuleType, files: Files, local_id: str = ID) -> tuple[Decoded, dict[str, bytes]]:
    """What the store does with files that somebody else wrote: read them, and make the numbering durable."""
    decoded = load(fmt, files, local_id)
    return decoded, written(files, fmt.adopt_numbering(decoded, files)) if decoded.renumbered else dict(files)


def show(session: Session) -> dict[str, Any]:
    """All of a session, for a readable difference."""
    return {
        "info": {
            key: getattr(session, key)
            for key in ("name", "created_at", "updated_at", "tags", "summary", "metadata", "seq", "state")
        },
        "messages": [message.wire() for message in session.messages()],
        "notes": [note.wire() for note in session.notes],
    }
