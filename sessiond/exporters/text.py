"""Plain text: a rule and a line for each turn, then its text. Contains nothing that a terminal would act upon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sessiond.exporters import turns
from sessiond.model.message import Message
from sessiond.model.session import Session

_RULE = "-" * 72


def render(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    yield f"{turns.title(session)}\n\n"
    for label, value in turns.facts(session):
        yield f"{label}: {value}\n"
    for message in messages:
        yield from _turn(message)
    for note in session.notes:
        yield f"\n{_RULE}\nNote: {turns.one_line(note.heading)} ({turns.moment(note.timestamp)})\n\n"
        yield turns.readable(note.content).rstrip("\n") + "\n"
    if session.state:
        yield f"\n{_RULE}\nState\n\n{turns.readable(turns.pretty(session.state))}\n"
    # Emacs does not look for local variables before a form feed.
    yield "\n\f\n"


def _turn(message: Message) -> Iterator[str]:
    extra = "".join(f" [{mark}]" for mark in turns.marks(message))
    answered = turns.called(message)
    yield f"\n{_RULE}\n{turns.speaker(message)} ({turns.moment(message.timestamp)}){extra}"
    yield f" for call {answered}\n" if answered else "\n"
    if thought := turns.thinking(message):
        yield f"\n(thinking)\n{_indented(thought)}\n"
    for piece in turns.pieces(message):
        if isinstance(piece, turns.TextBlock):
            yield f"\n{piece.text.rstrip()}\n"
        elif isinstance(piece, turns.Image):
            yield f"\n[image: {turns.one_line(piece.url or piece.label)}]\n"
        else:
            yield f"\n[{piece.kind}]\n{_shown(turns.shown(piece.value))}"
    for name, call_id, arguments in turns.calls(message):
        yield f"\n[calls {name}{' as ' + call_id if call_id else ''}]\n{_shown(turns.arguments(arguments))}"


def _shown(parts: list[turns.ValueText]) -> str:
    return "".join(f"{part.label + ':' + chr(10) if part.label else ''}{_indented(part.text)}\n" for part in parts)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.rstrip().split("\n"))
