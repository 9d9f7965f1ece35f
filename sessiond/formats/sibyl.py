"""The format of sibyl: `<id>/session.lisp`, one property list in Common Lisp. docs/formats/sibyl.md has the grammar.

`system` messages and thinking are never in the file: the sidecar keeps them and everything else that the file has no
place for (`lisp_session`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sessiond.errors import InvalidParams
from sessiond.formats import lisp_session
from sessiond.formats.base import Abilities, Decoded, Files, Tail, Write
from sessiond.formats.lisp_file import Edit, LispFile
from sessiond.formats.lisp_schema import read_content, read_role, read_text
from sessiond.formats.lisp_session import Reader, Values
from sessiond.formats.lisp_times import print_universal_time, universal_time
from sessiond.formats.names import local_id_of, name_of
from sessiond.formats.sexp import Dialect, Node
from sessiond.formats.sexp_print import json_form, string, symbol
from sessiond.formats.sexp_values import SexpText
from sessiond.formats.sidecar import Seen, key_of, sidecar_path
from sessiond.model.changes import Change
from sessiond.model.message import Message, check_tool_calls
from sessiond.model.session import Session
from sessiond.model.values import Json, check_json

name = "sibyl"
rewrites_whole = True

_LISP = Dialect.COMMON
_FILE = "/session.lisp"


def matches(names: Sequence[str], head: Callable[[str], bytes]) -> int:
    found = [one for one in names if one.endswith(_FILE) and one.count("/") == 1]
    heads = [first.lower() for one in found[:20] if (first := head(one))]
    if not heads:
        return 0
    return 95 if any(b":messages" in one or b":version" in one for one in heads) else 40


def find(names: Iterable[str]) -> dict[str, str]:
    return {
        local_id_of(one[: -len(_FILE)]): one
        for one in names
        if one.endswith(_FILE) and one.count("/") == 1 and not one.startswith((".", "/"))
    }


def sessions_under(folder: str) -> list[str]:
    return [] if "/" in folder or folder.startswith(".") else list(find([folder + _FILE]))


abilities = Abilities(sessions_under=sessions_under)


def main_path(local_id: str) -> str:
    return name_of(local_id) + _FILE


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


def _version(source: SexpText, node: Node) -> Json:
    return source.json(node)


def _calls(source: SexpText, node: Node) -> Json:
    """`((:id "..." :name "..." :arguments (("key" . value) ...)) ...)`, or None for anything else."""
    items = source.proper_list(node)
    if not items:
        return None
    calls = [source.json(item) for item in items]
    calls = [{**call, "arguments": call.get("arguments") or {}} if isinstance(call, dict) else call for call in calls]
    try:
        check_tool_calls(calls, "")
    except InvalidParams:
        return None
    return calls


# The schema


class _Schema:
    dialect = _LISP
    data_keys = frozenset({":tool-calls"})
    message_indent = 2
    session_readers: Mapping[str, Reader] = {
        ":version": _version,
        ":id": read_text,
        ":created-at": universal_time,
        ":summary": read_text,
    }
    message_readers: Mapping[str, Reader] = {
        ":role": read_role,
        ":content": read_content,
        ":timestamp": universal_time,
        ":tool-calls": _calls,
        ":tool-call-id": read_text,
    }

    def main_path(self, local_id: str) -> str:
        return main_path(local_id)

    def inner_id(self, local_id: str) -> str:
        return name_of(local_id)

    def remarks(self, local_id: str, file: LispFile) -> str | None:
        top = file.top
        if ":messages" not in top and ":id" not in top:
            return "is not a session: it has neither :id nor :messages"
        version = file.source.json(top[":version"]) if ":version" in top else 1
        return None if version in (1, None) else f"has version {version}, which this sessiond does not know"

    def info(self, values: Values) -> dict[str, Json]:
        created = values.get(":created-at")
        return {"summary": values.get(":summary")} | ({"createdAt": created} if created is not None else {})

    def seen(self, values: Values) -> Seen | str:
        role = values.get(":role")
        if role is None:
            return "is not a message: it has no :role"
        content, at = values.get(":content", ""), values.get(":timestamp")
        rest = {"toolCalls": values.get(":tool-calls"), "toolCallId": values.get(":tool-call-id")}
        rest = {key: value for key, value in rest.items() if value is not None}
        key = key_of(role, content, at, rest)
        return Seen(key=key, role=role, content=content, timestamp=at, rest=rest, near=key_of(role, at))

    def show_message(self, message: Message, indent: int) -> dict[str, str] | None:
        if message.role.lower() == "system":
            return None
        printed = {
            ":role": ":unknown" if message.role.lower() in ("", "nil") else symbol(":" + message.role, _LISP),
            ":content": string(message.text(), _LISP),
            ":timestamp": print_universal_time(message.timestamp),
        }
        calls = message.tool_calls
        if calls and _valid(calls):
            printed[":tool-calls"] = _print_calls(calls, indent + len(" :tool-calls "))
        answered = message.rest.get("toolCallId")
        if isinstance(answered, str):
            printed[":tool-call-id"] = string(answered, _LISP)
        return printed

    def show_session(self, session: Session) -> dict[str, str]:
        summary = "nil" if session.summary is None else string(session.summary, _LISP)
        return {
            "createdAt": f":created-at {print_universal_time(session.created_at)}",
            "summary": f":summary {summary}",
        }

    def fresh(self, session: Session, shown: Mapping[str, str], messages: Sequence[str]) -> str:
        lines = [
            "(:version 1",
            f":id {string(name_of(session.local_id), _LISP)}",
            shown["createdAt"],
            shown["summary"],
            ":messages" + ("\n (" + "\n  ".join(messages) + ")" if messages else " nil"),
        ]
        return "\n ".join(lines) + ")\n"

    def header_edits(self, file: LispFile, session: Session) -> list[Edit]:
        return []


def _valid(calls: list[Json]) -> bool:
    try:
        check_tool_calls(calls, "")
    except InvalidParams:
        return False
    return True


def _print_calls(calls: list[Any], indent: int) -> str:
    """Each call as a property list; only its arguments are an association list."""
    blank = "\n" + " " * (indent + 1)
    return "(" + blank.join(_print_call(call, indent + 1) for call in calls) + ")"


def _print_call(call: dict[str, Any], indent: int) -> str:
    pairs = []
    for key, value in call.items():
        shown = _arguments(value) if key == "arguments" else value
        pairs.append(f"{symbol(':' + key, _LISP)} {json_form(shown, _LISP, indent + len(key) + 3)}")
    return "(" + ("\n" + " " * (indent + 1)).join(pairs) + ")"


def _arguments(value: dict[str, Json] | str) -> Json:
    """Sibyl accepts only an association list: the object from a JSON text, otherwise nil."""
    if isinstance(value, dict):
        return value
    try:
        found = msgspec.json.decode(value)
        check_json(found, "")
    except (msgspec.MsgspecError, InvalidParams, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_SCHEMA = _Schema()
