"""opencode since 2: a row of `session_message` is a message with its parts in `data`, or an event of the session.

The tables of before stay beside these, and a session may be in both: opencode 2 copies it once, and an opencode 1 that is
still in use goes on writing the old ones. `opencode.py` puts the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from sessiond.importers.blocks import simple
from sessiond.importers.database import Database, from_json
from sessiond.importers.draft import SessionDraft
from sessiond.importers.opencode_message import message_of
from sessiond.importers.record import Event, digest_of
from sessiond.importers.source_file import listed, mapped, rest_of, word
from sessiond.importers.usage import of_opencode, request_of_opencode
from sessiond.model.token_usage import KEY
from sessiond.model.values import JsonObject

MESSAGES = "session_message"
SILENT = frozenset({"agent-switched", "model-switched", "location-switched", "idle"})
"""Types of rows with nothing that a person or a model said. opencode 1 wrote the first two of them as well."""
_SPOKEN = frozenset({"user", "assistant", "system", "synthetic", "skill", "shell", "compaction"})
_SYNTHETIC = frozenset({"synthetic", "skill"})
_ROLES = {"synthetic": "user", "skill": "user", "shell": "user", "compaction": "system"}
_LONGEST_CHAIN = 100
"""Forks of forks that are followed back."""


class Form(msgspec.Struct, frozen=True):
    """One message in the shape that `message_of` takes, whichever tables it is from."""

    about: JsonObject
    time: Any
    parts: list[tuple[str, Any]]

    @property
    def mark(self) -> bytes:
        """The same for a message and its copy in the other tables, if that has another id."""
        texts = [part.get("text") for _, part in self.parts if mapped(part).get("type") == "text"]
        calls = [part.get("callID") for _, part in self.parts if mapped(part).get("type") == "tool"]
        return digest_of([self.about.get("role"), self.time, texts, calls])

    @property
    def words(self) -> int:
        """The length of what it says, in characters."""
        return sum(_length(part) for _, part in self.parts)

    @property
    def result_ids(self) -> dict[str, str]:
        """The ids of its parts with a call, by the call's."""
        return {word(part.get("callID")): part_id for part_id, part in self.parts if mapped(part).get("type") == "tool"}


def _length(part: object) -> int:
    state = mapped(mapped(part).get("state"))
    said = (mapped(part).get("text"), state.get("input"), state.get("output"), state.get("error"))
    return sum(len(one) if isinstance(one, str) else len(msgspec.json.encode(one)) for one in said if one)


def form_of(row: JsonObject, result_ids: Mapping[str, str] | None = None) -> Form | None:
    """Return what a row of `session_message` says; None if it is not a message. `result_ids`: ids that its results have already, by those
    of the calls.
    """
    kind = word(row.get("type"))
    if kind not in _SPOKEN:
        return None
    data = mapped(from_json(row.get("data")))
    about: JsonObject = {"id": row["id"], "role": _ROLES.get(kind, kind)}
    about |= rest_of(data, "id", "type", "role", "model", "content", "text", "files", "command", "output", "summary")
    if kind not in ("user", "assistant"):
        about["type"] = kind
    if kind == "compaction":
        about["compaction"] = {key: about.pop(key) for key in ("status", "reason", "recent") if key in about}
    model = mapped(data.get("model"))
    about |= {key: model[of] for key, of in (("modelID", "id"), ("providerID", "providerID")) if of in model}
    if model.get("variant"):
        about["variant"] = model["variant"]
    time = mapped(data.get("time")).get("created") or row.get("time_created")
    return Form(about, time, list(_parts(kind, str(row["id"]), data, result_ids or {})))


def _parts(kind: str, row_id: str, data: JsonObject, result_ids: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    text = data.get("summary") if kind == "compaction" else data.get("text")
    if isinstance(text, str) and text:
        yield row_id, {"type": "text", "text": text} | ({"synthetic": True} if kind in _SYNTHETIC else {})
    for file in listed(data.get("files")):
        yield row_id, {"type": "file"} | mapped(file)
    if kind == "shell":
        call_id = word(data.get("shellID")) or row_id
        output = data.get("output")
        shown = output.get("output") if isinstance(output, dict) else output
        state = {"input": {"command": data.get("command")}} | ({} if shown is None else {"output": shown})
        yield result_ids.get(call_id, f"{row_id}-{call_id}"), _call(call_id, "shell", state)
    for part in listed(data.get("content")):
        if mapped(part).get("type") != "tool":
            yield row_id, part
            continue
        call_id = word(part.get("id") or part.get("callID"))
        state = _state(mapped(part.get("state")))
        if "time" in part:
            times = mapped(part["time"])
            state["time"] = {"start": times.get("ran") or times.get("created"), "end": times.get("completed")}
        yield result_ids.get(call_id, f"{row_id}-{call_id}"), _call(call_id, part.get("name"), state)


def _call(call_id: str, name: object, state: JsonObject) -> JsonObject:
    return {"type": "tool", "callID": call_id, "tool": name, "state": state}


def _state(given: JsonObject) -> JsonObject:
    """Return what came of a call: its output is a text, or blocks in `content`; an error is an object."""
    state = rest_of(given, "content", "error")
    blocks = [] if "output" in given else listed(given.get("content"))
    if all(mapped(block).get("type") == "text" for block in blocks):
        blocks = (
            [{"type": "text", "text": "\n".join(str(block.get("text") or "") for block in blocks)}] if blocks else []
        )
    error = given.get("error")
    if error is not None:
        said = mapped(error).get("message")
        state["error"] = said if isinstance(said, str) else error
        if blocks:
            blocks.append({"type": "text", "text": state["error"]})
    if blocks:
        state["output"] = simple(blocks)
    return state


def tell(draft: SessionDraft, form: Form, request: str | None) -> Iterator[Event]:
    """The messages of one row. `request`: whose tokens it reports, if that is another row's (see `Forks`)."""
    used = of_opencode(form.about, (part for _, part in form.parts))
    if request is not None and KEY in used:
        used[KEY]["request"] = request
    yield from message_of(draft, form.about, form.time, form.parts, used)


class Forks:
    """A fork has copies of the messages of the session that it came from: other ids, the same `seq`. What a message cost is
    counted once, with the request of the original.
    """

    def __init__(self, database: Database, came_from: Mapping[str, str], old: Any) -> None:
        """`came_from`: of each fork, the session. `old(message_id)`: the Form in the old tables, if it is there."""
        self._database = database
        self._came_from = came_from
        self._old = old

    def request(self, row: JsonObject, form: Form) -> str | None:
        """The request of the original, if the row is a copy."""
        origin, said = row, _said(form)
        for _ in range(_LONGEST_CHAIN):
            session_id = self._came_from.get(str(origin["session_id"]))
            if session_id is None:
                break
            sql = "SELECT * FROM session_message WHERE session_id = ? AND seq = ?"
            found = next(self._database.rows(sql, session_id, origin["seq"]), None)
            copied = form_of(found) if found is not None else None
            if found is None or copied is None or _said(copied) != said:
                break
            origin, form = found, copied
        if origin is row:
            return None
        known = self._old(str(origin["id"])) or form
        request = request_of_opencode(known.about, (part for _, part in known.parts))
        return request if isinstance(request, str) else None


def _said(form: Form) -> bytes:
    """Return a digest of what a copy has in common with its original."""
    texts = [part.get("text") for _, part in form.parts if mapped(part).get("type") == "text"]
    keys = ("role", "modelID", "providerID", "tokens", "cost")
    return digest_of([*(form.about.get(key) for key in keys), texts, list(form.result_ids)])
