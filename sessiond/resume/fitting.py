"""A conversation as a target can hold it. Whatever is changed or left out is counted."""

from __future__ import annotations

import base64
from typing import Any

from sessiond.exporters.conversation import ExportedCall, ExportedConversation, ExportedTurn, result_of, text_block
from sessiond.importers.jsontext import fit
from sessiond.model.values import JsonObject
from sessiond.resume.target import PICTURES, PICTURES_IN_RESULTS, TEXTS, Target, pictures_of, text_of

CALLS = "calls of tools, with their results"
NO_PLACE = "pictures"
REFUSED = "pictures that models refuse"
KNEW = (CALLS, NO_PLACE, REFUSED)
"""Losses of what the model of the first tool knew, and the next one will not."""
_BEGINNING = "(The conversation begins with the assistant.)"
_NO_OUTPUT = "(no output)"
_NO_PICTURE = "[a picture that was left out]"
_SHOWN = "(What the tool showed.)"
_ELSEWHERE = ("https://", "http://")
_TAKEN = ("image/png", "image/jpeg", "image/gif", "image/webp")


def fitted(told: ExportedConversation, target: Target, *, calls: bool = True) -> ExportedConversation:
    """Return what is written. `calls`: whether calls and results are told."""
    lost = told.lost.copy()
    turns: list[ExportedTurn] = []
    for turn in told.turns:
        blocks = [_picture(block, turn.role, target, lost) for block in turn.blocks]
        fresh = ExportedTurn(turn.role, blocks, [], turn.timestamp, turn.messages)
        if calls and target.calls:
            fresh.calls = [_call(call, lost) for call in turn.calls]
            shown = [block for call in fresh.calls for block in _pictures_apart(call, target, lost)]
        else:
            lost[CALLS] += len(turn.calls)
            shown = []
        _add(turns, fresh)
        if shown:
            _add(turns, ExportedTurn("user", [text_block(_SHOWN), *shown], [], turn.timestamp, 0))
    if turns and turns[0].role == "assistant":
        turns.insert(0, ExportedTurn("user", [text_block(_BEGINNING)], [], turns[0].timestamp, 0))
    return ExportedConversation(target.shaped(turns), +lost)


def _add(turns: list[ExportedTurn], fresh: ExportedTurn) -> None:
    """Add a turn as another one, or as more of the same answer: without its calls, an answer may be in pieces."""
    last = turns[-1] if turns else None
    if last is not None and fresh.role == last.role == "assistant" and not last.calls:
        last.blocks, last.calls, last.messages = last.blocks + fresh.blocks, fresh.calls, last.messages + fresh.messages
    elif fresh.blocks or fresh.calls:
        turns.append(fresh)


def _call(call: ExportedCall, lost: dict[str, int]) -> ExportedCall:
    if call.result is None:
        lost["results of calls that were cut off"] = lost.get("results of calls that were cut off", 0) + 1
    blocks = result_of(call)
    text = text_of(blocks)
    shown = pictures_of(blocks)
    said = [text_block(text)] if text.strip() else [] if shown else [text_block(_NO_OUTPUT)]
    return ExportedCall(
        call.id, call.name, fit(call.arguments, 60), [*said, *shown], call.failed or call.result is None
    )


def _pictures_apart(call: ExportedCall, target: Target, lost: dict[str, int]) -> list[JsonObject]:
    """Pictures of a result that the target shows after the results, because it knows none in them."""
    fitting = [_picture(block, "user", target, lost) for block in result_of(call)]
    said, shown = text_of(fitting), pictures_of(fitting)
    call.result = [text_block(said if said.strip() else _SHOWN)]  # one text: some tools keep no more of a result
    if target.holds == PICTURES_IN_RESULTS:
        call.result += shown
        return []
    return shown


def _picture(block: dict[str, Any], role: str, target: Target, lost: dict[str, int]) -> JsonObject:
    """The block, or a text in place of a picture that the target cannot hold."""
    if block["type"] != "image":
        return block
    source = block["source"]
    if source["type"] == "base64" and not _models_take(source):
        lost[REFUSED] = lost.get(REFUSED, 0) + 1
        return text_block(_NO_PICTURE)
    if source["type"] == "url" and not (target.urls and source["url"].startswith(_ELSEWHERE)):
        return text_block(f"[a picture: {source['url']}]")
    if target.holds >= PICTURES and role == "user" and target.holds != TEXTS:
        return block
    lost[NO_PLACE] = lost.get(NO_PLACE, 0) + 1
    return text_block(_NO_PICTURE)


def _models_take(source: dict[str, Any]) -> bool:
    """Return whether all APIs accept such a picture. One that they refuse would make every later prompt fail."""
    if source["media_type"] not in _TAKEN:
        return False
    try:
        return bool(base64.b64decode(source["data"], validate=True))
    except ValueError:
        return False
