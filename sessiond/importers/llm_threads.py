"""llm since 0.32: a thread is a session. Its messages are found from its tip back to the first one, by `parent_hash`.

A message is stored once however many threads have it, and knows no time: it has that of the turn that it belongs to, or of
the row of `responses` that it was copied from when the thread went on with a conversation of before.
"""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.importers import usage
from sessiond.importers.alone import alone
from sessiond.importers.blocks import simple, tool_call
from sessiond.importers.came_from import came_from
from sessiond.importers.database import Database, from_json
from sessiond.importers.draft import SessionDraft, utc_moment
from sessiond.importers.jsontext import as_text
from sessiond.importers.record import Event
from sessiond.importers.source_file import mapped, word
from sessiond.model.values import JsonObject

_MOST = 1_000_000
"""Messages of a thread. Its chain is no longer than that unless it runs in a circle."""
_USED = frozenset({"id", "thread_id", "parent_message_hash", "tip_message_hash", "datetime_utc"})
_USED_BEFORE = frozenset(
    {"id", "prompt", "system", "response", "conversation_id", "datetime_utc", "prompt_json", "response_json"}
)


class LlmThreads:
    """`there`: the file has them. `ids` and `turn_ids` are known after `read`."""

    def __init__(self, database: Database) -> None:
        self.there = {"id", "tip_message_hash"} <= database.columns("threads")
        self.ids: set[str] = set()
        self.turn_ids: set[str] = set()
        self._database = database

    def read(self, path: str, *, only: str | None = None) -> Iterator[Event]:
        """All threads, or `only` one."""
        if not self.there:
            return
        self._database.require("turns", "id", "thread_id", "tip_message_hash", "datetime_utc")
        self._database.require("messages", "hash", "parent_hash", "role")
        self._database.require("parts", "message_hash", "position", "type", "text", "payload")
        which = ("SELECT * FROM threads ORDER BY id",) if only is None else ("SELECT * FROM threads WHERE id = ?", only)
        for thread in self._database.rows(*which):
            self.ids.add(str(thread["id"]))
            yield from alone(path, f"thread {thread['id']}", self._thread(path, thread))

    def _thread(self, path: str, thread: JsonObject) -> Iterator[Event]:
        turns = list(
            self._database.rows("SELECT * FROM turns WHERE thread_id = ? ORDER BY datetime_utc, id", thread["id"])
        )
        self.turn_ids.update(str(turn["id"]) for turn in turns)
        forked = thread.get("forked_from")
        draft = SessionDraft("llm", path, str(thread["id"]))
        chain = self._chain(thread["tip_message_hash"])
        by_tip = {str(turn["tip_message_hash"]): turn for turn in turns}
        before = self._before(chain, by_tip, (forked, thread["id"]))
        # A thread may be older than its first turn, but llm files an answer's turn under the time at which it was asked.
        known = (utc_moment(one["datetime_utc"]) for one in (thread, *turns, *before.values()) if "datetime_utc" in one)
        copied = came_from(from_json(chain[0]["provider_metadata"])) if chain else None
        yield draft.start(
            name=thread.get("name"),
            createdAt=min((one for one in known if one), default=None),
            model=next((turn.get("model") for turn in reversed(turns) if turn.get("model")), None),
            parent={"sessionId": f"llm-{forked}", "seq": None} if isinstance(forked, str) else copied,
        )
        turn: JsonObject | None = None
        for place, message in enumerate(chain):
            if turn is None or chain[place - 1]["hash"] in by_tip:
                turn = next((by_tip[later["hash"]] for later in chain[place:] if later["hash"] in by_tip), None)
            said = self._message(draft, message, turn, before.get(message["hash"]))
            yield from alone(path, f"message {message['hash']}", said)
        yield from draft.end()

    def _before(
        self, chain: list[JsonObject], by_tip: dict[str, JsonObject], ids: tuple[object, object]
    ) -> dict[object, JsonObject]:
        """The rows of `responses` that the first messages of a thread were copied from, by hash: an answer is known by its text,
        and what is in front of it was asked with it.
        """
        if not {"id", "response", "conversation_id", "datetime_utc"} <= self._database.columns("responses"):
            return {}
        query = "SELECT * FROM responses WHERE conversation_id IN (?, ?) ORDER BY datetime_utc, rowid"
        rows = [row for row in self._database.rows(query, *ids) if row["id"] not in self.turn_ids]
        found: dict[object, JsonObject] = {}
        asked: list[JsonObject] = []
        for message in chain if rows else ():
            if message["hash"] in by_tip:
                break
            asked.append(message)
            if message["role"] == "assistant":
                text = self._text(message)
                nth = next((nth for nth, row in enumerate(rows) if str(row["response"] or "") == text), None)
                if nth is not None:
                    found |= {one["hash"]: rows[nth] for one in asked}
                    rows, asked = rows[nth + 1 :], []
        return found

    def _text(self, message: JsonObject) -> str:
        query = "SELECT * FROM parts WHERE message_hash = ? AND type = 'text' ORDER BY position"
        parts = self._database.rows(query, message["hash"])
        return "".join(
            self._put_together(mapped(from_json(part["payload"]))) if part["text"] is None else str(part["text"])
            for part in parts
        )

    def _chain(self, tip: object) -> list[JsonObject]:
        """The messages up to the tip, oldest first."""
        found: list[JsonObject] = []
        seen: set[object] = set()
        while tip is not None and tip not in seen and len(found) < _MOST:
            seen.add(tip)
            row = next(iter(self._database.rows("SELECT * FROM messages WHERE hash = ?", tip)), None)
            if row is None:
                break
            found.append(row)
            tip = row["parent_hash"]
        return found[::-1]

    def _message(
        self, draft: SessionDraft, row: JsonObject, turn: JsonObject | None, before: JsonObject | None
    ) -> Iterator[Event]:
        parts = list(self._database.rows("SELECT * FROM parts WHERE message_hash = ? ORDER BY position", row["hash"]))
        of = before or turn
        role, time = str(row["role"] or "unknown"), utc_moment(of["datetime_utc"]) if of else None
        blocks: list[object] = []
        thoughts: list[str] = []
        calls: list[JsonObject] = []
        results: list[JsonObject] = []
        for part in parts:
            payload = from_json(part["payload"])
            payload = payload if isinstance(payload, dict) else {"payload": payload} if payload is not None else {}
            text = self._put_together(payload) if part["text"] is None else str(part["text"])
            if part["type"] == "tool_call":
                calls.append(tool_call(payload.get("tool_call_id"), payload.get("name"), payload.get("arguments")))
            elif part["type"] == "tool_result":
                results.append(payload)
            elif part["type"] in ("reasoning", "thinking"):
                thoughts.append(text)
            else:
                blocks.append({**payload, "type": str(part["type"]), "text": text})
        metadata: JsonObject = {}
        if turn is not None and turn["tip_message_hash"] == row["hash"]:
            metadata = {k: from_json(v) for k, v in turn.items() if k not in _USED and v not in (None, "")}
            metadata |= tokens_of(turn)
            draft.model = word(turn.get("model")) or draft.model
        elif before is not None and role == "assistant":
            known = {key: from_json(value) for key, value in before.items() if key not in _USED_BEFORE}
            metadata = {key: value for key, value in known.items() if value not in (None, "", {})} | tokens_of(before)
        if row.get("provider_metadata"):
            metadata["providerMetadata"] = from_json(row["provider_metadata"])
        if blocks or calls or thoughts or not results:
            thinking = "\n\n".join(thoughts) if thoughts else None
            yield from draft.message(
                role,
                simple(blocks),
                id=str(row["hash"]),
                time=time,
                metadata=metadata,
                thinking=thinking,
                toolCalls=calls or None,
            )
        for nth, result in enumerate(results):
            yield from _result(draft, f"{row['hash']}-{nth}", time, result)

    def _put_together(self, payload: JsonObject) -> str:
        """The text of a part that borrows from `-f`, which is taken out of its payload; it stays there if a fragment is gone."""
        pieces = payload.get("text_ref")
        texts = [self._piece(mapped(piece)) for piece in pieces] if isinstance(pieces, list) else []
        if texts and None not in texts:
            payload.pop("text_ref", None)
        return "".join(text for text in texts if text is not None)

    def _piece(self, piece: JsonObject) -> str | None:
        if "literal" in piece:
            return str(piece["literal"])
        fragment = piece.get("fragment")
        known = isinstance(fragment, int) and 0 <= fragment < 1 << 63
        if not known or not {"id", "content"} <= self._database.columns("fragments"):
            return None
        rows = self._database.rows("SELECT content FROM fragments WHERE id = ?", fragment)
        return next((str(row["content"]) for row in rows), None)


def tokens_of(row: JsonObject) -> JsonObject:
    """A row's `input_tokens`, `output_tokens` and `token_details`; the last are in the words of the model's vendor."""
    details = mapped(from_json(row.get("token_details")))
    given = {"input_tokens": row.get("input_tokens"), "output_tokens": row.get("output_tokens"), **details}
    vendor = usage.anthropic if "cache_read_input_tokens" in given else usage.openai
    return vendor(given, model=row.get("model"))


def _result(draft: SessionDraft, message_id: str, time: str | None, result: JsonObject) -> Iterator[Event]:
    output = result.get("output")
    yield from draft.message(
        "tool",
        output if isinstance(output, str) else "" if output is None else as_text(output),
        id=message_id,
        time=time,
        metadata={key: value for key, value in result.items() if key not in ("output", "tool_call_id") and value},
        toolCallId=str(result.get("tool_call_id") or ""),
    )
