"""Tells what a format's own system will not show of a session, so that users learn it before they move the session there. Pure.

Nothing is lost: sessiond keeps it in the sidecar. But people who open the file with that system should know.
"""

from __future__ import annotations

from collections.abc import Callable

from sessiond.model.session import Session

_Test = Callable[[Session], int]


def _roles_beyond(*roles: str) -> _Test:
    return lambda session: sum(1 for message in session.messages() if message.role not in roles)


def _having(key: str) -> _Test:
    return lambda session: sum(1 for message in session.messages() if message.rest.get(key))


def _blocks(session: Session) -> int:
    return sum(1 for message in session.messages() if not isinstance(message.content, str))


_THINGS: dict[str, tuple[str, _Test]] = {
    "name": ("its name", lambda session: 1 if session.name else 0),
    "model": ("its model", lambda session: 1 if session.model else 0),
    "summary": ("its summary", lambda session: 1 if session.summary else 0),
    "tags": ("{n} tag{s}", lambda session: len(session.tags)),
    "notes": ("{n} note{s}", lambda session: len(session.notes)),
    "state": ("{n} state value{s}", lambda session: len(session.state)),
    "tools": ("the tool calls of {n} message{s}", _having("toolCalls")),
    "thinking": ("the thinking in {n} message{s}", _having("thinking")),
    "blocks": ("the content blocks of {n} message{s} (their text is shown)", _blocks),
    "times": ("the times of {n} message{s}", len),
    "system": ("{n} system message{s}", lambda session: sum(1 for m in session.messages() if m.role == "system")),
    "others": ("{n} message{s} from neither the user nor the agent", _roles_beyond("user", "assistant")),
}
_HIDDEN: dict[str, tuple[str, ...]] = {
    "jsonl": (),
    "amacs": ("others", "name", "model", "summary", "tags", "state", "tools", "thinking", "blocks"),
    "cortex": ("name", "model", "summary", "tags", "notes", "state", "tools", "thinking", "blocks"),
    "agent-q": ("summary", "tags", "notes", "state", "thinking", "blocks"),
    "theia": ("name", "model", "summary", "tags", "notes", "tools", "thinking", "times"),
    "sibyl": ("system", "name", "model", "tags", "notes", "state", "thinking", "blocks"),
}


def lost(session: Session, fmt: str) -> list[str]:
    """In words, for people. Empty if the system shows everything."""
    told = []
    for key in _HIDDEN[fmt]:
        words, count = _THINGS[key]
        number = count(session)
        if number:
            told.append(words.format(n=number, s="" if number == 1 else "s"))
    return told
