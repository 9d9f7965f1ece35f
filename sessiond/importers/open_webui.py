"""Open WebUI: `webui.db`, or the JSON export of chats. A chat's `history` is a tree of messages; an answer's thinking and calls
are items of its `output`, and in older versions HTML in its text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sessiond.importers.alone import alone
from sessiond.importers.branches import in_order, path_to
from sessiond.importers.database import MAGIC, Database, from_json, guarded, recognised
from sessiond.importers.draft import SessionDraft
from sessiond.importers.record import Event, Opener, SkippedLine
from sessiond.importers.source_file import conversations, listed, mapped, rest_of
from sessiond.importers.tool import Tool, in_state
from sessiond.importers.turn import Turn
from sessiond.importers.usage import openai
from sessiond.model.values import JsonObject

_ABOUT = ("id", "title", "chat", "created_at", "updated_at", "archived")
_CHAT = ("id", "title", "history", "messages", "timestamp", "currentId", "branchPointMessageId", "tags")
_USED = ("id", "parentId", "childrenIds", "role", "content", "output", "timestamp", "done")
_DETAILS = re.compile(
    r"<details type=\"(reasoning|tool_calls)\"([^>]*)(>?)\s*(?:<summary>.*?(?:</summary>|\Z))?(.*?)(?:</details>\n?|\Z)",
    re.DOTALL,
)
"""The last one may still be written."""
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


class OpenWebUi(Tool):
    name = "open-webui"

    def recognise(self, path: str, head: bytes) -> int:
        if head.startswith(MAGIC) or not path.endswith(".json"):
            return recognised(path, head, name="webui.db", words=(b"chat", b"share_id", b"archived", b"user_id"))
        return 91 if all(word in head for word in (b'"chat"', b'"history"', b'"childrenIds"')) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        if not path.endswith(".json"):
            yield from guarded(path, open_, lambda database: _read(database, path))
            return
        for found in conversations(path, open_, "chat"):
            if isinstance(found, SkippedLine):
                yield found
            else:
                yield from alone(path, "this chat", _session(path, found[1]), found[0])

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        named = [f"{env['DATA_DIR']}/webui.db"] if env.get("DATA_DIR") else []
        return [*named, *in_state(home, env, "open-webui", "webui.db"), f"{home}/.open-webui/webui.db"]


def _read(database: Database, path: str) -> Iterator[Event]:
    database.require("chat", "id", "title", "chat", "created_at", "updated_at")
    for row in database.rows("SELECT * FROM chat ORDER BY created_at, id"):
        yield from alone(path, f"chat {row['id']}", _row(path, row))


def _row(path: str, row: JsonObject) -> Iterator[Event]:
    chat = from_json(row["chat"])
    if isinstance(chat, dict):
        yield from _session(path, {**row, "chat": chat, "meta": from_json(row.get("meta"))})
    else:
        yield SkippedLine(path, None, f"chat {row['id']} is not an object")


def _session(path: str, row: JsonObject) -> Iterator[Event]:
    chat = mapped(row["chat"])
    draft = SessionDraft(OpenWebUi.name, path, str(row.get("id") or chat.get("id")))
    models = chat.get("models")
    tags = [*listed(mapped(row.get("meta")).get("tags")), *listed(chat.get("tags"))]
    yield draft.start(
        name=row.get("title") or chat.get("title"),
        createdAt=row.get("created_at") or chat.get("timestamp"),
        updatedAt=row.get("updated_at"),
        model=models[0] if isinstance(models, list) and models and isinstance(models[0], str) else None,
        tags=tags,
        archived=None if row.get("archived") is None else bool(row["archived"]),
        metadata={**rest_of(row, *_ABOUT), **rest_of(chat, *_CHAT)},
    )
    history = chat.get("history")
    found = mapped(history).get("messages")
    if not isinstance(found, dict):
        found = {
            str(one.get("id", nth)): one
            for nth, one in enumerate(listed(chat.get("messages")))
            if isinstance(one, dict)
        }
    messages = {key: one for key, one in found.items() if isinstance(one, dict)}
    parents = {key: one.get("parentId") for key, one in messages.items()}
    seen = path_to(history.get("currentId"), parents) if isinstance(history, dict) else frozenset()
    for key in in_order(parents, seen):
        said = _message(draft, key, messages[key], branch=bool(seen) and key not in seen)
        yield from alone(path, f"message {key}", said)
    for key in sorted(found.keys() - messages.keys()):
        yield SkippedLine(path, None, f"message {key} is not an object")
    yield from draft.end()


def _message(draft: SessionDraft, key: str, message: JsonObject, *, branch: bool) -> Iterator[Event]:
    turn = Turn(str(message.get("role") or "unknown"), rest_of(message, *_USED))
    turn.metadata |= openai(message.get("usage"), model=message.get("model"))
    if branch:
        turn.metadata["branch"] = True
    content, output = message.get("content"), message.get("output")
    if isinstance(output, list) and output:
        for item in output:
            _take_item(turn, item)
    elif isinstance(content, str) and turn.role == "assistant":
        _take_html(turn, content)
    else:
        turn.take(content)
    if turn.role == "assistant" and isinstance(model := message.get("model"), str):
        draft.model = model
    status = "error" if message.get("error") else "interrupted" if message.get("done") is False else None
    yield from turn.events(draft, id=key, time=message.get("timestamp"), status=status)


def _take_item(turn: Turn, item: Any) -> None:
    """An item of the answer, as OpenAI's Responses have them."""
    kind = mapped(item).get("type")
    if kind == "message":
        turn.take(item.get("content"))
    elif kind == "reasoning":
        turn.think(
            "\n\n".join(
                str(part.get("text") or "")
                for part in listed(item.get("content") or item.get("summary"))
                if isinstance(part, dict)
            )
        )
    elif kind == "function_call":
        turn.call(item.get("call_id"), item.get("name"), item.get("arguments"))
    elif kind == "function_call_output":
        shown = item.get("output")
        if isinstance(shown, list):
            shown = [{**part, "type": "text"} if isinstance(part, dict) and "text" in part else part for part in shown]
        turn.result(item.get("call_id"), shown, rest_of(item, "type", "id", "call_id", "output", "status"))
    else:
        turn.add(item)


def _take_html(turn: Turn, text: str) -> None:
    """A text in which thinking and calls are HTML."""
    at = 0
    for match in _DETAILS.finditer(text):
        turn.say(text[at : match.start()].strip("\n"))
        at = match.end()
        if match[1] == "reasoning":
            lines = html.unescape(match[4]).strip("\n").splitlines()
            turn.think("\n".join(line.removeprefix(">").removeprefix(" ") for line in lines))
            continue
        if not match[3]:
            continue  # its attributes are not complete
        given = {key: html.unescape(value) for key, value in _ATTRIBUTE.findall(match[2])}
        turn.call(given.get("id"), given.get("name"), from_json(given.get("arguments")))
        if given.get("result"):
            turn.result(given.get("id"), from_json(given["result"]))
    turn.say(text[at:].strip("\n") if at else text)
