"""A message of Gemini CLI's, with its calls and their results."""

from __future__ import annotations

from collections.abc import Iterator

from sessiond.importers.blocks import tool_call
from sessiond.importers.draft import SessionDraft
from sessiond.importers.google_parts import content, split
from sessiond.importers.kept_google import GeminiOutputs
from sessiond.importers.kept_output import KEY
from sessiond.importers.record import Event
from sessiond.importers.source_file import mapped
from sessiond.importers.usage import apart, usage
from sessiond.model.token_usage import count
from sessiond.model.values import JsonObject, WireObject

ROLES = {"gemini": "assistant", "user": "user", "info": "system", "error": "system", "warning": "system"}
_USED = frozenset({"id", "type", "timestamp", "content", "toolCalls", "thoughts", "tokens"})


def calls_of(record: JsonObject) -> list[JsonObject]:
    calls = record.get("toolCalls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def words(value: object) -> str:
    """Return what a message's content says, without thoughts."""
    parts = value if isinstance(value, list) else [value]
    told = [{"text": part} if isinstance(part, str) else mapped(part) for part in parts]
    return "".join(str(part["text"]) for part in told if "text" in part and part.get("thought") is not True)


def completed(record: JsonObject, later: object) -> JsonObject:
    """The message with the content that a later checkpoint has for it, if that has all of its words and more."""
    said, more = words(record.get("content")), words(later)
    if len(more) <= len(said) or said not in more:
        return record
    if calls_of(record):  # which have their results
        later = [part for part in later if "functionCall" not in mapped(part)] if isinstance(later, list) else later
    return {**record, "content": later}


def messages(
    draft: SessionDraft, line: int, record: JsonObject, marks: JsonObject, outputs: GeminiOutputs
) -> Iterator[Event]:
    kind = str(record["type"])
    metadata = {key: value for key, value in record.items() if key not in _USED and value is not None}
    if kind not in ("user", "gemini"):
        metadata["type"] = kind
    metadata |= _tokens(record) | marks
    if isinstance(model := record.get("model"), str):
        draft.model = model
    calls = calls_of(record)
    said, thinking, called = _of_a_checkpoint(record)
    called += [tool_call(c.get("id"), c.get("name"), c.get("args")) | _more(c) for c in calls]
    fields: WireObject = {"thinking": thinking}
    if called:
        fields["toolCalls"] = called
    yield from draft.message(
        ROLES.get(kind) or kind,
        said,
        line=line,
        id=record["id"],
        time=record.get("timestamp"),
        metadata=metadata,
        **fields,
    )
    for call in calls:
        if call.get("result") is not None:
            yield from _result(draft, line, record, call, outputs)


def _of_a_checkpoint(record: JsonObject) -> tuple[str | list[object], str | None, list[JsonObject]]:
    """Return what is said, the thinking, and calls: a checkpoint has the model's messages as they are sent, with calls among the parts."""
    given, thinking = record.get("content"), _thinking(record.get("thoughts"))
    if record["type"] != "gemini" or not isinstance(given, list):
        return content(given), thinking, []
    said, thought, called, results = split(given)
    return content([*said, *(part for _, part in results)]), thinking or thought, called


def _tokens(record: JsonObject) -> JsonObject:
    given = mapped(record.get("tokens"))
    thoughts = count(given.get("thoughts"))
    return usage(
        apart(given.get("input"), given.get("cached")) + count(given.get("tool")),
        count(given.get("output")) + thoughts,
        cache_read=given.get("cached"),
        reasoning=thoughts,
        model=record.get("model"),
    )


def _result(
    draft: SessionDraft, line: int, record: JsonObject, call: JsonObject, outputs: GeminiOutputs
) -> Iterator[Event]:
    """Gemini keeps a result inside its call; here it becomes a message with role `tool`, as for other tools."""
    result_id = f"{record['id']}-{call.get('id')}"
    metadata = {key: call[key] for key in ("status", "resultDisplay", "name") if call.get(key) is not None}
    time = call.get("timestamp") or record.get("timestamp")
    said, kept = outputs.take(content(call["result"]))
    if kept:
        metadata[KEY] = kept
    yield from draft.message(
        "tool",
        said,
        line=line,
        id=result_id,
        time=time,
        metadata=metadata,
        toolCallId=str(call.get("id") or ""),
    )


def _more(call: JsonObject) -> JsonObject:
    return {
        key: value
        for key, value in call.items()
        if key not in ("id", "name", "args", "result", "resultDisplay") and value is not None
    }


def _thinking(thoughts: object) -> str | None:
    if not isinstance(thoughts, list) or not thoughts:
        return None
    said = [[t.get("subject"), t.get("description")] for t in thoughts if isinstance(t, dict)]
    return "\n\n".join(": ".join(str(part) for part in pair if part) for pair in said)
