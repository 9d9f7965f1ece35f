"""Gemini CLI: a header and messages, one line each, with results inside their calls."""

from __future__ import annotations

import hashlib
import os
import re
import uuid

from sessiond.errors import InvalidParams, Unavailable
from sessiond.exporters.conversation import ExportedTurn
from sessiond.importers.came_from import PARENT
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.source_file import mapped
from sessiond.limits import MIB
from sessiond.model.values import JsonObject, timestamp
from sessiond.resume.google import function_response, part
from sessiond.resume.target import (
    NOT_A_COMMAND,
    PICTURES_IN_RESULTS,
    FileTarget,
    SessionCopy,
    Written,
    check_size,
    lines,
)

_ROOT = ".project_root"
_LIKE_A_COMMAND = ("/", "?", "<session_context>", "<hook_context>")


class GeminiTarget(FileTarget):
    name = program = "gemini"
    importer = "gemini-cli"
    holds = PICTURES_IN_RESULTS
    _mark: str | None = None
    """The mark of a project that was made here."""

    def command(self, written: Written) -> list[str]:
        return ["gemini", "--resume", written.id]

    def document(self, copy: SessionCopy) -> tuple[Written, bytes]:
        if copy.cwd != copy.cwd.strip():  # it does so itself when it reads which folder a project is of
            message = "Gemini CLI does not find its sessions in a folder whose name ends with white space"
            raise InvalidParams(message, hint="rename the folder, or name another one with --cwd", field="cwd")
        session_id, now = str(uuid.uuid4()), timestamp(copy.moment)
        name = f"session-{now[:16].replace(':', '-')}-{session_id[:8]}.jsonl"
        path = os.path.join(self._project(copy.cwd), "chats", name)
        header = {
            "sessionId": session_id, "projectHash": hashlib.sha256(copy.cwd.encode()).hexdigest(), "startTime": now,
            "lastUpdated": now, "kind": "main", PARENT: copy.parent, **({"summary": copy.name} if copy.name else {}),
        }  # fmt: skip
        records = [_record(turn, copy.model) for turn in copy.turns]
        return Written(session_id, path), lines([header, *records])

    def _project(self, cwd: str) -> str:
        """The folder of a project's sessions. A new one is marked as Gemini CLI does, which then finds it by the mark."""
        base = os.path.join(self.base(cwd, "GEMINI_CLI_HOME"), ".gemini")
        bases = [os.path.join(base, "tmp"), os.path.join(base, "history")]
        known = _registered(base)
        named = known.get(cwd)
        if isinstance(named, str) and all(_owner(one, named) in (None, cwd) for one in bases):
            return os.path.join(bases[0], named)
        for one in bases:
            for slug in sorted(os.listdir(one)) if os.path.isdir(one) else []:
                if _owner(one, slug) == cwd:
                    return os.path.join(bases[0], slug)
        return self._free_name(cwd, bases, set(map(str, known.values())))

    def _free_name(self, cwd: str, bases: list[str], taken: set[str]) -> str:
        slug = re.sub(r"[^a-z0-9]+", "-", os.path.basename(cwd).lower()).strip("-") or "project"
        name, nth = slug, 0
        # Another copy for this project may have claimed a name since we looked.
        while name in taken or any(_owner(one, name) not in (None, cwd) for one in bases):
            nth += 1
            name = f"{slug}-{nth}"
        return os.path.join(bases[0], name)

    def write(self, copy: SessionCopy) -> Written:
        written, data = self.document(copy)
        check_size(len(data))
        folder = os.path.dirname(os.path.dirname(written.path))
        if _owner(*os.path.split(folder)) is None:
            self._claim(folder, copy.cwd)
        try:
            self.put(written.path, data)
        except BaseException:
            self.remove(written)
            raise
        return written

    def _claim(self, folder: str, cwd: str) -> None:
        try:
            self.put(os.path.join(folder, _ROOT), cwd.encode())
            self._mark = os.path.join(folder, _ROOT)
        except FileExistsError:
            if _owner(*os.path.split(folder)) != cwd:
                message = f"another project has just taken {folder}"
                raise Unavailable(
                    message, hint="run the command again; this time it finds a name that is free"
                ) from None

    def remove(self, written: Written) -> None:
        """The project's mark too, if it was made here and no other copy relies on it by now."""
        self.withdraw([written.path])
        chats = os.path.dirname(written.path)
        if self._mark is not None and not os.path.isdir(chats):
            self.withdraw([self._mark])


def _registered(base: str) -> JsonObject:
    """Project folder -> the name of its folder, as Gemini CLI lists them."""
    try:
        with open(os.path.join(base, "projects.json"), "rb") as file:
            return mapped(mapped(decode(file.read(MIB))[0]).get("projects"))
    except (OSError, NotJson):
        return {}


def _owner(base: str, slug: str) -> str | None:
    """The project folder that a name belongs to; None if nobody has claimed it."""
    try:
        with open(os.path.join(base, slug, _ROOT), encoding="utf-8", errors="replace") as file:
            return file.read(MIB).strip()
    except OSError:
        return None


def _record(turn: ExportedTurn, model: str | None) -> JsonObject:
    parts = [part(block) for block in turn.blocks]
    record: JsonObject = {"id": str(uuid.uuid4()), "timestamp": turn.timestamp, "type": "user", "content": parts}
    if turn.role == "user":
        said = "".join(one.get("text", "") for one in parts).strip()
        if said.startswith(_LIKE_A_COMMAND):
            parts.insert(0, {"text": NOT_A_COMMAND})
        return record
    record |= {"type": "gemini", "model": model or "unknown"}
    if turn.calls:
        record["toolCalls"] = [
            {
                "id": call.id, "name": call.name, "args": call.arguments, "result": function_response(call),
                "status": "error" if call.failed else "success", "timestamp": turn.timestamp,
            }
            for call in turn.calls
        ]  # fmt: skip
    return record
