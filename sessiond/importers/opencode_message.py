"""A message of opencode's: what it is about, and its parts. A tool's call and its result are one part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sessiond.importers.blocks import simple, tool_call
from sessiond.importers.draft import SessionDraft
from sessiond.importers.jsontext import as_text
from sessiond.importers.record import Event
from sessiond.importers.source_file import mapped, word
from sessiond.importers.usage import of_opencode
from sessiond.model.values import JsonObject, WireObject

_SILENT = frozenset({"step-start", "step-finish", "snapshot", "patch"})


def message_of(
    draft: SessionDraft, about: JsonObject, time: object, parts: list[tuple[str, Any]], used: JsonObject | None = None
) -> Iterator[Event]:
    """The message, and one for each result. `parts`: by id. `used`: the metadata about tokens, if it is not what `about` says."""
    blocks: list[object] = []
    thoughts: list[str] = []
    calls: list[JsonObject] = []
    results: list[tuple[str, JsonObject]] = []
    silent: list[object] = []
    for part_id, part in parts:
        kind = word(mapped(part).get("type"))
        if kind == "reasoning":
            thoughts.append(str(part.get("text") or ""))
        elif kind == "tool":
            state = part.get("state") if isinstance(part.get("state"), dict) else {}
            calls.append(tool_call(part.get("callID"), part.get("tool"), state.get("input")))
            results.append((part_id, part))
        elif kind in _SILENT:
            silent.append(part)
        elif kind == "text" and isinstance(part.get("text"), str):
            more = {key: value for key, value in part.items() if key not in ("type", "text", "time")}
            blocks.append({"type": "text", "text": part["text"], **more})
        else:
            blocks.append(part)
    metadata = {key: value for key, value in about.items() if key not in ("id", "role", "time", "tokens")}
    metadata |= of_opencode(about, (part for _, part in parts)) if used is None else used
    if silent:
        metadata["parts"] = silent
    if (
        blocks
        and all(isinstance(block, dict) and block.get("synthetic") for block in blocks)
        and about.get("role") == "user"
    ):
        metadata["injected"] = True
    if isinstance(model := about.get("modelID"), str):
        draft.model = model
    role = word(about.get("role")) or "unknown"
    fields: WireObject = {"thinking": "\n\n".join(thoughts) if thoughts else None, "toolCalls": calls or None}
    status = "error" if about.get("error") else None
    yield from draft.message(
        str(role), simple(blocks), id=about.get("id"), time=time, metadata=metadata, status=status, **fields
    )
    for part_id, part in results:
        yield from _result(draft, part_id, part)


def _result(draft: SessionDraft, part_id: str, part: JsonObject) -> Iterator[Event]:
    state = part.get("state") if isinstance(part.get("state"), dict) else {}
    assert isinstance(state, dict)
    output = state.get("output", state.get("error"))
    if output is None:
        return
    times = state.get("time") if isinstance(state.get("time"), dict) else {}
    assert isinstance(times, dict)
    metadata = {key: value for key, value in state.items() if key not in ("input", "output", "time", "error")}
    if "error" in state:
        metadata["isError"] = True
    yield from draft.message(
        "tool",
        output if isinstance(output, (str, list)) else as_text(output),
        id=part_id,
        time=times.get("end") or times.get("start"),
        metadata=metadata,
        toolCallId=str(part.get("callID") or ""),
    )
