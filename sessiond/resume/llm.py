"""llm: a thread in its database. Each message is known by a hash of itself and of the message before it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from sessiond.errors import Unavailable
from sessiond.exporters.conversation import ExportedTurn, result_of
from sessiond.importers.came_from import PARENT
from sessiond.importers.database import Database, guarded
from sessiond.importers.database_in_use import written as written_here
from sessiond.importers.llm_threads import LlmThreads
from sessiond.importers.record import Event, open_source
from sessiond.importers.tool import in_config
from sessiond.model.values import JsonObject, timestamp
from sessiond.resume.check import compare
from sessiond.resume.target import TEXTS, SessionCopy, Target, Written, check_size, text_of

_TABLES = ("threads", "turns", "messages", "parts")
_WAIT_S = 10.0
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_PLAIN_MODEL = "gpt-4o-mini"
_COLUMNS = {"text": ("text",), "tool_call": (), "tool_result": ()}
"""Fields of a part that have a column of their own."""


class LlmTarget(Target):
    name = program = importer = "llm"
    holds = TEXTS

    def command(self, written: Written) -> list[str]:
        return ["llm", "chat", "--cid", written.id]

    def write(self, copy: SessionCopy) -> Written:
        path = self._path(copy.cwd)
        written = Written(_ulid(copy.moment), path)
        messages = _messages(copy)
        check_size(sum(len(_canonical(one)) for one in messages))
        try:
            _check_version(path)
            with (
                written_here(path),
                closing(sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)) as connection,
            ):
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._insert(connection, copy, written, messages)
                    compare(copy.turns, _thread(Database(connection), written))
                    connection.execute("COMMIT")
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            hint = "nothing was copied; close llm if it is at work, and see whether `llm logs` can read it"
            raise Unavailable(f"{path} cannot be written: {error}", hint=hint) from None
        return written

    def _path(self, cwd: str) -> str:
        named = [os.path.join(cwd, self.env["LLM_USER_PATH"])] if self.env.get("LLM_USER_PATH") else []
        folders = [*named, *in_config(self.home, self.env, "io.datasette.llm")]
        path = next((one for one in (os.path.join(each, "logs.db") for each in folders) if os.path.exists(one)), None)
        if path is None:
            raise Unavailable("llm has no database yet", hint="send it a prompt first, which makes one")
        return path

    def _insert(
        self, connection: sqlite3.Connection, copy: SessionCopy, written: Written, messages: list[JsonObject]
    ) -> None:
        tip = None
        for message in messages:
            tip = _insert_message(connection, message, tip)
        now = timestamp(copy.moment).replace("Z", "+00:00")
        connection.execute(
            "INSERT INTO threads (id, name, tip_message_hash, datetime_utc) VALUES (?, ?, ?, ?)",
            (written.id, copy.name, tip, now),
        )
        connection.execute(
            "INSERT INTO turns (id, thread_id, parent_message_hash, tip_message_hash, model, datetime_utc) VALUES (?, ?, ?, ?, ?, ?)",
            (_ulid(copy.moment), written.id, None, tip, _model(connection, written.path), now),
        )

    def read(self, written: Written) -> Iterator[Event]:
        yield from guarded(written.path, open_source, lambda database: _thread(database, written))

    def remove(self, written: Written) -> None:
        """The thread. Its messages may be other threads' too, and stay."""
        path = written.path
        with written_here(path), closing(sqlite3.connect(path, timeout=_WAIT_S)) as connection, connection:
            connection.execute("DELETE FROM turns WHERE thread_id = ?", (written.id,))
            connection.execute("DELETE FROM threads WHERE id = ?", (written.id,))


def _check_version(path: str) -> None:
    with closing(sqlite3.connect(path, timeout=_WAIT_S)) as connection:
        if not all(Database(connection).columns(table) for table in _TABLES):
            hint = "install llm 0.32 or later, and send it a prompt, which brings the database up to date"
            raise Unavailable(f"{path} is of an llm before 0.32", hint=hint)


def _model(connection: sqlite3.Connection, path: str) -> str:
    """The model that llm starts with: it refuses one that it does not know."""
    try:
        with open(os.path.join(os.path.dirname(path), "default_model.txt"), encoding="utf-8") as file:
            return file.read(256).strip() or _PLAIN_MODEL
    except OSError:
        found = connection.execute("SELECT model FROM turns ORDER BY id DESC LIMIT 1").fetchone()
        return str(found[0]) if found and found[0] else _PLAIN_MODEL


def _thread(database: Database, written: Written) -> Iterator[Event]:
    return LlmThreads(database).read(written.path, only=written.id)


def _ulid(moment: int) -> str:
    """The time and eighty random bits, in letters whose order is that of the time."""
    value = moment << 80 | secrets.randbits(80)
    return "".join(_LETTERS[value >> shift & 31] for shift in range(125, -1, -5))


def _messages(copy: SessionCopy) -> list[JsonObject]:
    messages = [one for turn in copy.turns for one in _turn(turn)]
    messages[0]["provider_metadata"] = {PARENT: copy.parent}
    return messages


def _turn(turn: ExportedTurn) -> list[JsonObject]:
    parts: list[JsonObject] = [{"type": "text", "text": block["text"]} for block in turn.blocks]
    parts += [
        {"type": "tool_call", "name": call.name, "arguments": call.arguments, "tool_call_id": call.id}
        for call in turn.calls
    ]
    found: list[JsonObject] = [{"role": turn.role, "parts": parts}]
    results = [
        {"type": "tool_result", "name": call.name, "output": text_of(result_of(call)), "tool_call_id": call.id}
        for call in turn.calls
    ]
    return [*found, {"role": "tool", "parts": results}] if results else found


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _insert_message(connection: sqlite3.Connection, message: dict[str, Any], parent: str | None) -> str:
    """The message's hash. One that is there already, with all before it, is left as it is."""
    canonical = _canonical({"parent": parent, "message": message}).encode()
    own = "b2:" + hashlib.blake2b(canonical, digest_size=16).hexdigest()
    about = message.get("provider_metadata")
    done = connection.execute(
        "INSERT OR IGNORE INTO messages (hash, parent_hash, role, provider_metadata) VALUES (?, ?, ?, ?)",
        (own, parent, message["role"], None if about is None else json.dumps(about)),
    )
    for position, part in enumerate(message["parts"] if done.rowcount else ()):
        rest = {key: value for key, value in part.items() if key not in ("type", *_COLUMNS[part["type"]])}
        values = (own, position, part["type"], rest.get("name"), part.get("text"), json.dumps(rest) if rest else None)
        connection.execute(
            "INSERT INTO parts (message_hash, position, type, tool_name, text, payload) VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )
    return own
