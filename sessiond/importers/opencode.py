"""opencode: `opencode.db` with `session`, `message` and `part`; a message is made of its parts, and a tool's call
and result are one part."""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.importers.came_from import came_from
from sessiond.importers.database import Database, from_json, guarded, recognised
from sessiond.importers.draft import SessionDraft, suggest_id
from sessiond.importers.opencode_files import exported, stored, stored_in
from sessiond.importers.opencode_message import message_of
from sessiond.importers.record import Event, Opener

_SESSION_USED = frozenset({"id", "parent_id", "title", "directory", "time_created", "time_updated"})


class OpenCode:
    name = "opencode"
    experimental = False

    def recognise(self, path: str, head: bytes) -> int:
        if path.endswith(".json"):
            if b'"info"' in head and b'"messages"' in head and b'"ses_' in head:
                return 85
            return 85 if b'"projectID"' in head and stored_in(path) else 0
        return recognised(path, head, name="opencode.db", words=(b"project_id", b"message_id", b"time_created"))

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        if not path.endswith(".json"):
            yield from guarded(path, open_, lambda database: _read(database, path))
        elif stored_in(path):
            yield from stored(path, open_)
        else:
            yield from exported(path, open_)


def _read(database: Database, path: str) -> Iterator[Event]:
    database.require("session", "id")
    database.require("message", "id", "session_id", "time_created", "data")
    database.require("part", "id", "message_id", "data")
    for session in database.rows("SELECT * FROM session ORDER BY id"):
        draft = SessionDraft(OpenCode.name, path, str(session["id"]))
        rest = {
            key: from_json(value)
            for key, value in session.items()
            if key not in _SESSION_USED and value not in (None, "")
        }
        parent = session.get("parent_id")
        if isinstance(parent, str):
            rest["sidechain"] = True
        model = rest.get("model")
        yield draft.start(
            name=session.get("title"),
            cwd=session.get("directory"),
            createdAt=session.get("time_created"),
            updatedAt=session.get("time_updated"),
            archived=bool(session["time_archived"]) if "time_archived" in session else None,
            model=model.get("id") if isinstance(model, dict) else None,
            parent=(
                {"sessionId": suggest_id(OpenCode.name, parent), "seq": None}
                if isinstance(parent, str)
                else came_from(rest.get("metadata"))
            ),
            metadata=rest,
        )
        for row in database.rows("SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id", session["id"]):
            about = from_json(row["data"])
            about = about if isinstance(about, dict) else {"data": about}
            found = database.rows("SELECT * FROM part WHERE message_id = ? ORDER BY id", row["id"])
            parts = [(str(part["id"]), from_json(part["data"])) for part in found]
            yield from message_of(draft, {**about, "id": row["id"]}, row["time_created"], parts)
        yield from draft.end()
