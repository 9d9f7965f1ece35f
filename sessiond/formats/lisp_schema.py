"""The common part of the two Lisp formats: taking a session's file apart.

A format provides a `Schema`: the keys it knows, how to read their values, and how to show a session and a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from sessiond.formats.base import Problem
from sessiond.formats.lisp_file import Edit, LispFile, parse
from sessiond.formats.sexp import Dialect, Node, line_of
from sessiond.formats.sexp_strings import without_surrogates
from sessiond.formats.sexp_values import SexpText
from sessiond.formats.sidecar import EPOCH, Seen
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import Json, WireObject

Reader: TypeAlias = Callable[[SexpText, Node], Json]
Values: TypeAlias = WireObject
"""Key -> what its value reads as."""
_MAX_PROBLEMS = 100


class Schema(Protocol):
    """One Lisp format. Keys are written as in the file (`:role`)."""

    dialect: Dialect
    session_readers: Mapping[str, Reader]
    message_readers: Mapping[str, Reader]
    data_keys: frozenset[str]
    """Keys whose values are JSON of any size."""
    message_indent: int
    """Column of a message in a file that sessiond creates."""

    def main_path(self, local_id: str) -> str: ...

    def info(self, values: Values) -> dict[str, Json]:
        """SessionInfo fields (wire names) that the file shows. Missing times are left out."""

    def seen(self, values: Values) -> Seen | str:
        """One message as the file shows it, or why it is not a message."""

    def show_session(self, session: Session) -> dict[str, str]:
        """Wire name of every field that `info` may return -> its key and printed value, `":name \\"x\\""`."""

    def show_message(self, message: Message, indent: int) -> dict[str, str] | None:
        """Key -> printed value, or None if the file must not hold the message."""

    def fresh(self, session: Session, shown: Mapping[str, str], messages: Sequence[str]) -> str:
        """A new file. `shown`: from `show_session`; `messages`: already printed."""

    def header_edits(self, file: LispFile, session: Session) -> list[Edit]:
        """Edits before the form when the name changes."""

    def remarks(self, local_id: str, file: LispFile) -> str | None:
        """Say why the file is not in this format, or that its version is unknown: such a file is not read. Otherwise None."""

    def inner_id(self, local_id: str) -> str:
        """The id that the file should contain."""


class ReadFile(msgspec.Struct):
    """A main file taken apart, and what its messages say."""

    file: LispFile
    values: Values
    list_node: Node | None
    nodes: list[Node]
    """Elements of `:messages` that are messages."""
    seen: list[Seen]
    """What each of `nodes` shows."""
    known: list[bool]
    """For every element, whether it is a message."""
    problems: list[Problem]

    def fallback_time(self, info: Mapping[str, Json]) -> str:
        first = next((item.timestamp for item in self.seen if item.timestamp), None)
        return str(info.get("createdAt") or first or EPOCH)


def read_main(schema: Schema, local_id: str, raw: bytes) -> tuple[ReadFile | None, list[Problem]]:
    path = schema.main_path(local_id)
    file, problems = parse(path, raw, schema.dialect)
    if file is None:
        return None, problems
    reason = schema.remarks(local_id, file)
    if reason is not None:
        return None, [*problems, Problem(path, line_of(file.source.text, file.form.start), reason, fatal=True)]
    source, top = file.source, file.top
    values = values_of(source, top, schema.session_readers)
    list_node = top.get(":messages")
    elements = source.proper_list(list_node)
    if elements is None:
        line = line_of(source.text, list_node.start if list_node else 0)
        return None, [*problems, Problem(path, line, "has a :messages value that is not a list", fatal=True)]
    found = ReadFile(file, values, list_node, [], [], [], problems)
    inner = values.get(":id")
    if isinstance(inner, str) and inner != schema.inner_id(local_id):
        line = line_of(source.text, top[":id"].start)
        problems.append(Problem(path, line, f"names another id, {inner!r}; the id from the file name is used"))
    bad = 0
    for node in elements:
        shown = _seen(schema, source, node)
        found.known.append(isinstance(shown, Seen))
        if isinstance(shown, Seen):
            found.nodes.append(node)
            found.seen.append(shown)
        elif (bad := bad + 1) <= _MAX_PROBLEMS:
            problems.append(Problem(path, line_of(source.text, node.start), shown))
    return found, problems


def values_of(source: SexpText, pairs: Mapping[str, Node], readers: Mapping[str, Reader]) -> Values:
    return {key: reader(source, pairs[key]) for key, reader in readers.items() if key in pairs}


def _seen(schema: Schema, source: SexpText, node: Node) -> Seen | str:
    if source.proper_list(node) is None or not node.items:
        return "is not a message: expected a property list"
    return schema.seen(values_of(source, source.plist(node), schema.message_readers))


# Readers for values that both formats have


def read_text(source: SexpText, node: Node) -> str | None:
    return source.string(node)


def read_content(source: SexpText, node: Node) -> str:
    """Both systems write strings. Anything else is shown as it is in the file."""
    text = source.string(node)
    return text if text is not None else "" if source.is_nil(node) else without_surrogates(source.raw(node))


def read_role(source: SexpText, node: Node) -> str | None:
    if source.is_nil(node):
        return None
    role = source.string(node)
    role = source.symbol(node) if role is None else role
    return role.removeprefix(":") if role else role
