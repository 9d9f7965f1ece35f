"""Parts of a message as Google's API has them: `{text}`, `{functionCall}`, `{functionResponse}`, `{inlineData}`, ..."""

from __future__ import annotations

from sessiond.importers.blocks import simple, tool_call
from sessiond.importers.jsontext import as_text
from sessiond.model.values import JsonObject


def content(value: object) -> str | list[object]:
    """A string, a part or a list of parts as a message's content. A function's response becomes its output."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value] if value is not None else []
    return simple([_block(part) for part in parts])


def _block(part: object) -> object:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return {"type": "text", **part}
    if isinstance(part, dict) and isinstance(part.get("functionResponse"), dict):
        response = part["functionResponse"].get("response")
        output = response.get("output", response.get("error")) if isinstance(response, dict) else response
        return {"type": "text", "text": output if isinstance(output, str) else as_text(response)}
    return part


def split(parts: list[object]) -> tuple[list[object], str | None, list[JsonObject], list[tuple[str, object]]]:
    """Return what is said, the thinking, the calls, and the results as (id of the call, part)."""
    said: list[object] = []
    thoughts: list[str] = []
    calls: list[JsonObject] = []
    results: list[tuple[str, object]] = []
    for part in parts:
        call = part.get("functionCall") if isinstance(part, dict) else None
        response = part.get("functionResponse") if isinstance(part, dict) else None
        if isinstance(call, dict):
            calls.append(tool_call(call.get("id"), call.get("name"), call.get("args")))
        elif isinstance(response, dict):
            results.append((str(response.get("id") or ""), part))
        elif isinstance(part, dict) and part.get("thought") is True and isinstance(part.get("text"), str):
            thoughts.append(part["text"])
        else:
            said.append(part)
    return said, "\n\n".join(thoughts) if thoughts else None, calls, results
