"""The things that the tools share: the client, the scope, the redaction, and how a session is described."""

from __future__ import annotations

from typing import Any

from sessiond.client.aio.client import AsyncSessiond
from sessiond.client.types import SessionInfo
from sessiond.exporters.redact import Redactor
from sessiond.mcp.cursors import Cursors
from sessiond.mcp.quoting import brief, inline
from sessiond.mcp.redaction import Blanks
from sessiond.mcp.scope import Scope, ScopeGate, tool_of
from sessiond.mcp.shapes import ListedSession


class Memory:
    """Everything that a request needs."""

    def __init__(self, client: AsyncSessiond, scope: Scope, *, redact: bool = False) -> None:
        self.client = client
        self.scope = scope
        self.blanks = Blanks(client, on=redact)
        self.cursors = Cursors()

    def gate(self) -> ScopeGate:
        """For one request."""
        return ScopeGate(self.client, self.scope)


def blanked(redactor: Redactor | None, value: object) -> Any:
    return value if redactor is None else redactor.value(value)


def session_of(gate: ScopeGate, info: SessionInfo, redactor: Redactor | None) -> ListedSession:
    """Describe a session to a model."""

    def clean(text: str | None) -> str | None:
        return None if text is None else brief(blanked(redactor, text))

    return ListedSession(
        session_id=info.session_id, name=clean(info.name), project=clean(info.cwd), tool=clean(tool_of(info)) or "",
        model=clean(info.model), created=info.created_at, updated=info.updated_at, messages=info.message_count,
        tags=[clean(tag) or "" for tag in info.tags[:50]], archived=info.archived, parent=gate.parent_of(info),
    )  # fmt: skip


def line_of(one: ListedSession) -> str:
    """A session on one line of a tool's text."""
    parts = [one.session_id, f"updated {inline(one.updated)}", f"{one.messages} messages"]
    parts += [inline(word) for word in (one.name, one.tool, one.model, one.project) if word]
    if one.tags:
        parts.append("tags " + ", ".join(map(inline, one.tags)))
    if one.archived:
        parts.append("archived")
    if one.parent:
        parts.append(f"from {one.parent}")
    return " · ".join(parts)
