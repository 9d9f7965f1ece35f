"""The format of Agent-Q: `session-*.el`, comment lines and one property list in Emacs Lisp. docs/formats/agent-q.md has
the grammar.

Agent-Q rewrites a file from memory. Whatever the property list has no place for is in the sidecar (`lisp_session`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from sessiond.errors import InvalidParams
from sessiond.formats import lisp_session
from sessiond.formats.base import Abilities, Decoded, Files, Tail, Write
from sessiond.formats.lisp_file import Edit, LispFile
from sessiond.formats.lisp_schema import read_content, read_role, read_text
from sessiond.formats.lisp_session import Reader, Values
from sessiond.formats.lisp_times import emacs_time, print_emacs_time
from sessiond.formats.names import local_id_of, name_of
from sessiond.formats.sexp import Dialect, Node
from sessiond.formats.sexp_print import json_form, string, symbol
from sessiond.formats.sexp_values import SexpText
from sessiond.formats.sidecar import Seen, key_of, sidecar_path
from sessiond.model.changes import Change
from sessiond.model.message import Message, check_tool_calls
from sessiond.model.session import Session
from sessiond.model.values import Json, epoch_ms, is_session_id

name = "agent-q"
rewrites_whole = True
abilities = Abilities()

_EMACS = Dialect.EMACS
_FILE = re.compile(r"(session-.+)\.el", re.DOTALL)
_PREFIX = "session-"
_FOREIGN = "session-@"
"""Goes before a session id that does not begin as Agent-Q's own do, because `index.el` and the like are not sessions."""
_TOOL_CALLS = "tool-calls"
_NAME_CHARS = 200
"""The limit for the name in the header, which Agent-Q's list reads from the file's first 1,000 bytes."""


def matches(names: Sequence[str], head: Callable[[str], bytes]) -> int:
    found = [one for one in names if _FILE.fullmatch(one) and "/" not in one]
    heads = [head(one) for one in found[:20]]
    if any(b";; Agent-Q Session" in one for one in heads):
        return 95
    return 70 if any(b"(:version" in one and b":messages" in one for one in heads) else 0


def find(names: Iterable[str]) -> dict[str, str]:
    return {_local_id(one[: -len(".el")]): one for one in names if _FILE.fullmatch(one) and "/" not in one}


def _local_id(stem: str) -> str:
    given = stem.removeprefix(_FOREIGN)
    return given if given != stem and _is_foreign(given) else local_id_of(stem)


def _is_foreign(local_id: str) -> bool:
    return is_session_id(local_id) and not (local_id.startswith(_PREFIX) and local_id != _PREFIX)


def _stem(local_id: str) -> str:
    return _FOREIGN + local_id if _is_foreign(local_id) else name_of(local_id)


def main_path(local_id: str) -> str:
    return _stem(local_id) + ".el"


def paths(local_id: str) -> list[str]:
    return [main_path(local_id), sidecar_path(local_id)]


def side_files(local_id: str) -> list[str]:
    return [sidecar_path(local_id)]


def decode(local_id: str, files: Files, floor: int = 0) -> Decoded:
    return lisp_session.decode(_SCHEMA, local_id, files, floor)


def update(session: Session, tail: Tail, files: Files, changes: Sequence[Change]) -> list[Write] | None:
    return lisp_session.update(_SCHEMA, session, tail, files, changes)


def encode(session: Session, before: Files) -> list[Write]:
    return lisp_session.encode(_SCHEMA, session, before)


def adopt_numbering(decoded: Decoded, before: Files) -> list[Write]:
    return lisp_session.adopt_numbering(_SCHEMA, decoded, before)


# Reading


def _json(source: SexpText, node: Node) -> Json:
    return source.json(node)


def _metadata(source: SexpText, node: Node) -> tuple[dict[str, Json], list[Json] | None]:
    """Metadata without the tool calls, and the tool calls."""
    value = source.json(node)
    rest = dict(value) if isinstance(value, dict) else {}
    calls = rest.get(_TOOL_CALLS)
    if not isinstance(calls, list) or not calls:
        return rest, None
    calls = [{**call, "arguments": call.get("arguments") or {}} if isinstance(call, dict) else call for call in calls]
    try:
        check_tool_calls(calls, "")
    except InvalidParams:
        return rest, None
    del rest[_TOOL_CALLS]
    return rest, calls


def _message_metadata(source: SexpText, node: Node) -> Json:
    rest, calls = _metadata(source, node)
    return {"metadata": rest, "toolCalls": calls}


def _session_metadata(source: SexpText, node: Node) -> Json:
    value = source.json(node)
    return value if isinstance(value, dict) else {}


def _version(source: SexpText, node: Node) -> Json:
    return source.json(node)


# The schema


class _Schema:
    dialect = _EMACS
    data_keys = frozenset({":metadata", ":context-snapshot"})
    message_indent = 2
    session_readers: Mapping[str, Reader] = {
        ":version": _version,
        ":id": read_text,
        ":name": read_text,
        ":created-at": emacs_time,
        ":updated-at": emacs_time,
        ":model": read_text,
        ":metadata": _session_metadata,
    }
    message_readers: Mapping[str, Reader] = {
        ":id": read_text,
        ":role": read_role,
        ":content": read_content,
        ":timestamp": emacs_time,
        ":context-snapshot": _json,
        ":metadata": _message_metadata,
    }

    def main_path(self, local_id: str) -> str:
        return main_path(local_id)

    def inner_id(self, local_id: str) -> str:
        return _stem(local_id)

    def remarks(self, local_id: str, file: LispFile) -> str | None:
        top = file.top
        if ":messages" not in top and ":id" not in top:
            return "is not a session: it has neither :id nor :messages"
        version = file.source.json(top[":version"]) if ":version" in top else 1
        return None if version in (1, None) else f"has version {version}, which this sessiond does not know"

    def info(self, values: Values) -> dict[str, Json]:
        shown = {
            "name": values.get(":name"),
            "model": values.get(":model"),
            "metadata": values.get(":metadata") or {},
            "createdAt": values.get(":created-at"),
            "updatedAt": values.get(":updated-at"),
        }
        return {key: value for key, value in shown.items() if value is not None or not key.endswith("At")}

    def seen(self, values: Values) -> Seen | str:
        role = values.get(":role")
        if role is None:
            return "is not a message: it has no :role"
        both = values.get(":metadata") or {}
        rest = {
            "contextSnapshot": values.get(":context-snapshot"),
            "metadata": both.get("metadata") or None,
            "toolCalls": both.get("toolCalls"),
        }
        rest = {key: value for key, value in rest.items() if value is not None}
        content, at = values.get(":content", ""), values.get(":timestamp")
        message_id = values.get(":id")
        usable = isinstance(message_id, str) and 0 < len(message_id) <= 256
        return Seen(
            key=key_of(role, content, at, rest),
            role=role,
            content=content,
            timestamp=at,
            id=message_id if usable else None,
            rest=rest,
            near=None if usable else key_of(role, at),
        )

    def show_message(self, message: Message, indent: int) -> dict[str, str]:
        column = indent + 1
        context = message.rest.get("contextSnapshot")
        return {
            ":id": string(message.id, _EMACS),
            ":role": "unknown" if message.role in ("", "nil") else symbol(message.role, _EMACS),
            ":content": string(message.text(), _EMACS),
            ":timestamp": print_emacs_time(message.timestamp),
            ":context-snapshot": json_form(context, _EMACS, column + len(":context-snapshot ")),
            ":metadata": _print_metadata(message, column + len(":metadata ")),
        }

    def show_session(self, session: Session) -> dict[str, str]:
        return {
            "name": f":name {_string_or_nil(session.name)}",
            "createdAt": f":created-at {print_emacs_time(session.created_at)}",
            "updatedAt": f":updated-at {print_emacs_time(session.updated_at)}",
            "model": f":model {_string_or_nil(session.model)}",
            "metadata": f":metadata {json_form(session.metadata, _EMACS, len(' :metadata '))}",
        }

    def fresh(self, session: Session, shown: Mapping[str, str], messages: Sequence[str]) -> str:
        listed = "\n (" + "\n  ".join(messages) + ")" if messages else " nil"
        lines = [
            "(:version 1",
            f":id {string(_stem(session.local_id), _EMACS)}",
            *(shown[key] for key in ("name", "createdAt", "updatedAt", "model")),
            f":messages{listed}",
            f"{shown['metadata']})",
        ]
        header = [
            ";; -*- mode: emacs-lisp; lexical-binding: t; coding: utf-8-unix -*-",
            ";; Agent-Q Session",
            f";; Created: {_local_time(session.created_at)}",
            *([_name_line(session.name)] if session.name else []),
        ]
        return "\n".join(header) + "\n\n" + "\n ".join(lines) + "\n"

    def header_edits(self, file: LispFile, session: Session) -> list[Edit]:
        """Agent-Q lists sessions by the comment lines at the top, so the name there must match the one in the form."""
        text = file.source.text
        lines = list(re.finditer(r"^;[^\n]*\n", text[: file.form.start], re.MULTILINE))
        old = next((line for line in lines if line[0].startswith(";; Name:")), None)
        new = _name_line(session.name) + "\n" if session.name else ""
        if file.ascii_only:
            new = new.encode("ascii", "replace").decode()
        if old is not None:
            return [(old.start(), old.end(), new)] if old[0] != new else []
        after = next((line for line in lines if line[0].startswith(";; Created:")), None)
        return [(after.end(), after.end(), new)] if after and new else []


def _string_or_nil(text: str | None) -> str:
    return "nil" if text is None else string(text, _EMACS)


def _name_line(text: str | None) -> str:
    """One line, whatever the name contains, without anything that Emacs would take for local variables."""
    line = " ".join((text or "").split())[:_NAME_CHARS]
    line = re.sub(r"(local) (variables:)", r"\1  \2", line, flags=re.IGNORECASE)
    return f";; Name: {''.join(char if char.isprintable() else ' ' for char in line)}"


def _local_time(at: str) -> str:
    """Local time, as Agent-Q writes it."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms(at))
    with suppress(OverflowError, ValueError, OSError):  # a year outside the C library's range stays in UTC
        moment = moment.astimezone()
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}"


def _print_metadata(message: Message, indent: int) -> str:
    """`(:tool-calls ((:id ...) ...) :key value ...)`; the sidecar keeps what cannot be shown this way."""
    pairs = []
    calls = message.tool_calls
    try:
        check_tool_calls(calls, "")
    except InvalidParams:
        calls = []
    if calls:
        inner = indent + len("(:tool-calls (")
        printed = ("\n" + " " * inner).join(json_form(call, _EMACS, inner) for call in calls)
        pairs.append(f":{_TOOL_CALLS} ({printed})")
    for key, value in message.metadata.items():
        if key != _TOOL_CALLS:
            pairs.append(f"{symbol(':' + key, _EMACS)} {json_form(value, _EMACS, indent + 2)}")
    if not pairs:
        return "nil"
    return "(" + ("\n" + " " * (indent + 1)).join(pairs) + ")"


_SCHEMA = _Schema()
