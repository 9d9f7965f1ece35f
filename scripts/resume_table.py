"""Writes the tables of copies in docs/resume.md:  python -m scripts.resume_table

Each row is of a source in tests/importers that has all that its tool writes, and of an editor's session in tests/resume. It is read by
its importer and copied for every target, and each copy is read back and compared. The tables say what was not copied.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scripts.importers_table import END, ROOT, between, events, sources
from sessiond.importers.record import Event, InfoUpdate, MessageRecord, SessionStart
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.resume.make import Made, make
from sessiond.resume.selection import selected

sys.path.insert(0, str(ROOT / "tests" / "resume"))
DOC = ROOT / "docs" / "resume.md"
BEGIN = "<!-- written by scripts/resume_table.py -->"
ROWS = (
    "claude-code",
    "codex",
    "pi",
    "gemini-cli",
    "qwen",
    "opencode",
    "cline",
    "llm",
    "aider",
    "continue",
    "goose",
    "zed",
    "cursor",
)
"""Tools whose sessions are most often copied; any other importer's can be, too."""
EDITOR = "an editor"


def sessions() -> Iterator[tuple[str, Session]]:
    """Where it came from, and the session."""
    from places import EDITED  # type: ignore[import-not-found]  # tests/resume is not a package

    yield EDITOR, _session(Message.from_wire({**one, "id": f"m{n}", "seq": n + 1}) for n, one in enumerate(EDITED))
    writers = sources()
    for tool in ROWS:
        yield tool, _first(events(tool, writers[tool]))


def _first(found: list[Event]) -> Session:
    """The session of a source that has the most messages."""
    ids = Counter(event.source_id for event in found if isinstance(event, MessageRecord))
    wanted = ids.most_common(1)[0][0]
    own = [event.message for event in found if isinstance(event, MessageRecord) and event.source_id == wanted]
    # Most end with a compaction, after which nothing but its summary would be copied.
    own = [one for one in own if not {"compaction", "checkpoint"} & one.get("metadata", {}).keys()]
    session = _session(Message.from_wire({**one, "seq": n + 1}) for n, one in enumerate(own))
    for event in found:
        if isinstance(event, SessionStart) and event.source_id == wanted:
            session.metadata = dict(event.info.get("metadata", {}))
        elif isinstance(event, InfoUpdate) and event.source_id == wanted:
            session.metadata |= event.fields.get("metadata", {})
    return session


def _session(messages: Iterator[Message]) -> Session:
    session = Session("a-session", "2026-01-01T00:00:00.000Z")
    for message in messages:
        session.add_message(message)
        session.seq = message.seq
    return session


def copied(session: Session) -> dict[str, Made]:
    """Target -> its copy, which was read back and compared."""
    from places import TARGETS, in_home

    found: dict[str, Made] = {}
    for name in TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = make(in_home(name, Path(folder)), session, "a-session", selected(session), folder)
    return found


def tables() -> str:
    common: list[str] = []
    pairs: list[str] = []
    targets: list[str] = []
    for name, session in sessions():
        made = copied(session)
        targets = list(made)
        least = {what: min(one.lost[what] for one in made.values()) for one in made.values() for what in one.lost}
        shared = Counter({what: count for what, count in least.items() if count})
        common.append(f"| {name} | {len(session.messages())} | {_words(shared)} |")
        cells = [_words(made[target].lost - shared) for target in targets]
        pairs.append(f"| {name} | {' | '.join(cells)} |")
    head = f"| from | {' | '.join(targets)} |\n| --- |{' --- |' * len(targets)}"
    first = "| from | messages | not copied into any tool |\n| --- | --- | --- |"
    return "\n".join([first, *common, "", "What only some tools have no place for:", "", head, *pairs])


def _words(lost: Counter[str]) -> str:
    return "; ".join(f"{count} × {what}" for what, count in sorted(lost.items())) or "–"


def page() -> str:
    """The document with the tables as they should be."""
    return between(DOC, BEGIN, END, tables())


if __name__ == "__main__":
    DOC.write_text(page())
