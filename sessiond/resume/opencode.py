"""opencode: a document that its own `import` puts into its database."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from sessiond.errors import SessiondError, Unavailable
from sessiond.exporters.conversation import ExportedCall, ExportedTurn, result_of
from sessiond.exporters.picture import data_url
from sessiond.importers.came_from import PARENT
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.opencode_files import exported
from sessiond.importers.record import Event, open_source
from sessiond.importers.source_file import listed, mapped
from sessiond.limits import MIB
from sessiond.model.values import JsonObject
from sessiond.resume.target import SessionCopy, Target, Written, check_size, milliseconds, text_of

_VERSION = "1.18.0"
_WAIT_S = 120.0
_LOOK = "see whether `opencode session list` works in that folder"
_NOT_THERE = "Session not found"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SHOWN_LINES, _SHOWN_CHARS = 3, 160
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NO_TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


class OpenCodeTarget(Target):
    name = program = importer = "opencode"

    def command(self, written: Written) -> list[str]:
        return ["opencode", "--session", written.id]

    def write(self, copy: SessionCopy) -> Written:
        self._cwd = copy.cwd
        document = Document(copy, self._model(copy))
        data = msgspec.json.encode(document.whole)
        check_size(len(data))
        data_home = self.base(copy.cwd, "XDG_DATA_HOME", ".local", "share")
        written = Written(document.id, os.path.join(data_home, "opencode", "opencode.db"))
        try:
            with _nameless() as file:
                file.write(data)
                file.flush()
                said = self._run("import", f"/dev/fd/{file.fileno()}", keep=file.fileno())
            if document.id not in said:
                raise Unavailable(f"opencode did not import the copy: {_shortly(said)}", hint=_LOOK)
        except SessiondError as error:
            self._forget(written, error)
            raise
        return written

    def _forget(self, written: Written, error: SessiondError) -> None:
        """Take away what a failed import left: opencode writes message by message."""
        try:
            self.remove(written)
        except Unavailable as another:
            if _NOT_THERE not in another.message:
                error.hint = f"a part of the copy may be left: delete the session {written.id} in opencode"

    def read(self, written: Written) -> Iterator[Event]:
        with _nameless() as file:  # a pipe would not get all of it
            self._run("export", written.id, output=file.fileno())
            file.seek(0)
            yield from exported(f"/dev/fd/{file.fileno()}", open_source)

    def remove(self, written: Written) -> None:
        self._run("session", "delete", written.id)

    def _run(self, *arguments: str, output: int = subprocess.PIPE, keep: int | None = None) -> str:
        """Run opencode and return what it said. `keep`: a descriptor that it is given. A session of its own, so that Ctrl-C does not stop it
        halfway. Unavailable if it fails.
        """
        program = self.found() or self.program
        kept = () if keep is None else (keep,)
        try:
            done = subprocess.run(  # noqa: S603
                [program, *arguments], cwd=self._cwd, env=dict(self.env), stdin=subprocess.DEVNULL, stdout=output, pass_fds=kept,
                stderr=subprocess.PIPE, timeout=_WAIT_S, check=False, start_new_session=True,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"opencode {arguments[0]} failed: {error}", hint=_LOOK) from None
        said = (done.stdout or b"").decode("utf-8", "replace")
        if done.returncode != 0:
            complaint = _shortly(said + done.stderr.decode("utf-8", "replace"))
            raise Unavailable(f"opencode {arguments[0]} failed: {complaint}", hint=_LOOK)
        return said

    def _model(self, copy: SessionCopy) -> JsonObject:
        """A model that opencode knows, because it refuses to go on with any other: the session's, the last one used, or any."""
        known = [one for one in self._run("models").split() if "/" in one]
        if not known:
            raise Unavailable("opencode knows no model", hint="start opencode and choose one")
        own = [one for one in known if copy.model in (one, one.partition("/")[2])]
        return _model([*own, *(one for one in self._used() if one in known), *known][0])

    def _used(self) -> list[str]:
        state = self.base(self._cwd, "XDG_STATE_HOME", ".local", "state")
        try:
            with open(os.path.join(state, "opencode", "model.json"), "rb") as file:
                recent = listed(mapped(decode(file.read(MIB))[0]).get("recent"))
        except (OSError, NotJson):
            return []
        return [f"{one.get('providerID')}/{one.get('modelID')}" for one in map(mapped, recent)]


def _nameless() -> IO[bytes]:
    """A file that is gone whenever this process is, however it ends."""
    return tempfile.TemporaryFile()


def _shortly(said: str) -> str:
    """The beginnings of the first lines: opencode repeats in its errors what it was to store."""
    lines = [line.strip() for line in _COLOUR.sub("", said).splitlines() if line.strip()]
    return "; ".join(line[:_SHOWN_CHARS] for line in lines[:_SHOWN_LINES])


def _model(name: str) -> JsonObject:
    provider, _, model = name.partition("/")
    return {"providerID": provider, "modelID": model}


class _Ids:
    """Ids in opencode's form: hexadecimal time with a number, and letters. Their order is that of the conversation."""

    def __init__(self, moment: int, count: int) -> None:
        self._next = (moment - count // 0x1000 - 1) * 0x1000

    def next(self, kind: str) -> str:
        self._next += 1
        return f"{kind}_{self._next & 0xFFFFFFFFFFFF:012x}{_random()}"


def _random() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(14))


class Document:
    def __init__(self, copy: SessionCopy, model: JsonObject) -> None:
        self.id = f"ses_{~(copy.moment * 0x1000) & 0xFFFFFFFFFFFF:012x}{_random()}"
        self._cwd = copy.cwd
        self._model = model
        self._ids = _Ids(copy.moment, sum(2 + len(turn.blocks) + len(turn.calls) for turn in copy.turns))
        self._time = 0
        self._user = ""
        messages = list(map(self._message, copy.turns))
        title = copy.name or "A session of another tool"
        times = {"created": copy.moment, "updated": copy.moment}
        info = {
            "id": self.id, "slug": f"sessiond-{self.id[4:16]}", "projectID": "global", "directory": copy.cwd, "title": title,
            "version": _VERSION, "time": times, "metadata": {PARENT: copy.parent},
        }  # fmt: skip
        self.whole = {"info": info, "messages": messages}

    def _message(self, turn: ExportedTurn) -> JsonObject:
        own = self._ids.next("msg")
        self._time = max(self._time + 1, milliseconds(turn.timestamp))  # opencode orders by time
        head: dict[str, Any] = {"id": own, "sessionID": self.id, "role": turn.role, "time": {"created": self._time}}
        parts = [self._part(own, _content(block)) for block in turn.blocks]
        if turn.role == "user":
            self._user = own
            return {"info": {**head, "agent": "build", "model": self._model}, "parts": parts}
        parts += [self._part(own, _call(call, self._time)) for call in turn.calls]
        head["time"]["completed"] = self._time
        info = {
            **head, **self._model, "parentID": self._user, "mode": "build", "agent": "build", "cost": 0, "tokens": _NO_TOKENS,
            "path": {"cwd": self._cwd, "root": self._cwd}, "finish": "tool-calls" if turn.calls else "stop",
        }  # fmt: skip
        return {"info": info, "parts": parts}

    def _part(self, message: str, content: JsonObject) -> JsonObject:
        return {"id": self._ids.next("prt"), "sessionID": self.id, "messageID": message, **content}


def _content(block: dict[str, Any]) -> JsonObject:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    media_type = block["source"].get("media_type", "image/png")
    return {"type": "file", "mime": media_type, "filename": "picture", "url": data_url(block)}


def _call(call: ExportedCall, time: int) -> JsonObject:
    said, times = text_of(result_of(call)), {"start": time, "end": time}
    state: JsonObject = {"status": "error", "input": call.arguments, "error": said, "time": times}
    if not call.failed:
        about = {"output": said, "title": call.name, "metadata": {}}
        state = {"status": "completed", "input": call.arguments, **about, "time": times}
    return {"type": "tool", "callID": call.id, "tool": call.name, "state": state}
