"""The view of a session file that a stock editor is shown: the port between the LSP half of the wire and the code that understands
the formats.

Everything is in lines, counted from 0, the end included; names and texts are as in the file, the wire makes them fit to
show. Documents outside all stores get empty answers. `text` is what the editor has open, or None: then the file on disk
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from sessiond.model.values import JsonObject

Severity = Literal["error", "warning", "information", "hint"]


class OutlineNode(msgspec.Struct, frozen=True, kw_only=True):
    """A turn, a tool call, a note. `kind`: `session`, a role, `note`, `thinking`, or another word."""

    name: str
    kind: str
    detail: str = ""
    start_line: int
    end_line: int
    children: Sequence[OutlineNode] = ()


class Hover(msgspec.Struct, frozen=True, kw_only=True):
    """`markdown` about the lines from `start_line` to `end_line`."""

    markdown: str
    start_line: int
    end_line: int


class DocumentProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A line that could not be understood."""

    line: int
    message: str
    severity: Severity = "warning"


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be done at a place: one of our own requests, which the editor sends as a command."""

    title: str
    method: str
    params: JsonObject


class Symbol(msgspec.Struct, frozen=True, kw_only=True):
    """A hit of a search over all sessions. `uri` of the session file, `line` of the message in it."""

    name: str
    kind: str
    container: str
    uri: str
    line: int


class Documents(Protocol):
    async def outline(self, uri: str, text: str | None) -> Sequence[OutlineNode]:
        """A node for every turn, in order."""

    async def hover(self, uri: str, text: str | None, line: int) -> Hover | None: ...

    async def diagnostics(self, uri: str, text: str | None) -> Sequence[DocumentProblem]: ...

    async def actions(self, uri: str, text: str | None, start_line: int, end_line: int) -> Sequence[Action]: ...

    async def symbols(self, query: str) -> Sequence[Symbol]: ...
