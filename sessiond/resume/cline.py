"""Cline: a folder with the messages, and beside them what the list shows."""

from __future__ import annotations

import glob
import os
import secrets

import msgspec

from sessiond.exporters.conversation import ExportedTurn, result_of
from sessiond.importers.came_from import PARENT
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.source_file import mapped
from sessiond.limits import MIB
from sessiond.model.values import JsonObject, timestamp
from sessiond.resume.target import TEXTS, FileTarget, SessionCopy, Written, check_size, milliseconds

_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ClineTarget(FileTarget):
    name = program = importer = "cline"
    holds = TEXTS

    def command(self, written: Written) -> list[str]:
        return ["cline", "--id", written.id]

    def write(self, copy: SessionCopy) -> Written:
        """The messages first: without what the list shows, they are not there for Cline."""
        written, data = self.document(copy)
        check_size(len(data))
        self.put(written.path, data)
        about = msgspec.json.encode(self._about(copy, written))
        try:
            self.put(written.path.removesuffix(".messages.json") + ".json", about)
        except BaseException:
            self.remove(written)
            raise
        return written

    def remove(self, written: Written) -> None:
        about = written.path.removesuffix(".messages.json") + ".json"
        self.withdraw([about, written.path])

    def document(self, copy: SessionCopy) -> tuple[Written, bytes]:
        own = f"{copy.moment}_{''.join(secrets.choice(_LETTERS) for _ in range(5))}"
        path = os.path.join(self._base(), own, own + ".messages.json")
        messages = [one for turn in copy.turns for one in _turn(turn)]
        for nth, message in enumerate(messages):
            message["id"] = f"m{nth + 1}"
        document = {
            "version": 1, "updated_at": timestamp(copy.moment), "agent": "lead", "sessionId": own, "messages": messages,
        }  # fmt: skip
        return Written(own, path), msgspec.json.encode(document)

    def _base(self) -> str:
        return os.path.join(self.home, ".cline", "data", "sessions")

    def _about(self, copy: SessionCopy, written: Written) -> JsonObject:
        now = timestamp(copy.moment)
        prompt = next(
            (block["text"] for turn in copy.turns if turn.role == "user" for block in turn.blocks), copy.name or ""
        )
        return {
            "version": 1, "source": "cli", "pid": 1, "started_at": now, "ended_at": now, "exit_code": 0, "status": "completed",
            "interactive": False, **self._provider(), "cwd": copy.cwd, "workspace_root": copy.cwd, "enable_tools": True,
            "enable_spawn": True, "enable_teams": True, "prompt": prompt[:1000], "session_id": written.id,
            "messages_path": written.path, "metadata": {"title": copy.name or prompt[:80], PARENT: copy.parent},
        }  # fmt: skip

    def _provider(self) -> JsonObject:
        """The provider and model of the newest session: Cline does not list one without."""
        for path in sorted(glob.glob(os.path.join(glob.escape(self._base()), "*", "*.json")), reverse=True):
            if path.endswith(".messages.json"):
                continue
            try:
                with open(path, "rb") as file:
                    found = mapped(decode(file.read(MIB))[0])
            except (OSError, NotJson):
                continue
            if isinstance(found.get("provider"), str) and isinstance(found.get("model"), str):
                return {"provider": found["provider"], "model": found["model"]}
        return {"provider": "cline", "model": "unknown"}


def _turn(turn: ExportedTurn) -> list[JsonObject]:
    time = milliseconds(turn.timestamp)
    if turn.role == "user":
        blocks = [
            {"type": "text", "text": f'<user_input mode="act">\n{block["text"]}\n</user_input>'}
            for block in turn.blocks
        ]
        return [{"role": "user", "content": blocks, "ts": time}]
    uses = [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments} for one in turn.calls]
    found = [{"role": "assistant", "content": [*turn.blocks, *uses], "ts": time}]
    for call in turn.calls:
        result: JsonObject = {
            "type": "tool_result",
            "tool_use_id": call.id,
            "name": call.name,
            "content": result_of(call),
        }
        if call.failed:
            result["is_error"] = True
        found.append({"role": "user", "content": [result], "ts": time})
    return found
