"""LM Studio: `conversations/**/<time>.conversation.json`. A message has versions, of which one is selected; an answer has
steps.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from sessiond.importers.alone import alone
from sessiond.importers.draft import SessionDraft, moment
from sessiond.importers.jsontext import NotJson, decode
from sessiond.importers.record import Event, Ignored, Opener, SkippedLine
from sessiond.importers.source_file import listed, mapped, read_records, rest_of, word, written_at
from sessiond.importers.tool import Tool
from sessiond.importers.turn import Turn
from sessiond.model.values import JsonObject

_SUFFIX = ".conversation.json"
_SILENT = frozenset({"debugInfoBlock", "toolStatus"})
_KEPT = ("preset", "pinned", "tokenCount", "plugins", "lastUsedModel", "notes")


class LmStudio(Tool):
    name = "lm-studio"

    def recognise(self, path: str, head: bytes) -> int:
        shown = path.endswith(_SUFFIX) and b'"messages"' in head
        return 92 if shown and (b'"versions"' in head or b'"systemPrompt"' in head) else 0

    def read(self, path: str, open_: Opener) -> Iterator[Event]:
        yield from read_records(lambda about: _Reader(path, about), path, open_, "messages")

    def places(self, home: str, env: Mapping[str, str]) -> list[str]:
        return [
            os.path.join(home, ".lmstudio", "conversations"),
            os.path.join(home, ".cache", "lm-studio", "conversations"),
        ]


class _Reader:
    def __init__(self, path: str, about: JsonObject) -> None:
        self._about = about
        source_id = os.path.basename(path).removesuffix(_SUFFIX)
        time = moment(about.get("createdAt")) or written_at(path)
        self._draft = SessionDraft(LmStudio.name, path, source_id, fallback_time=time)
        self._ignored: Counter[str] = Counter()

    def _start(self) -> Iterator[Event]:
        about, model = self._about, self._about.get("lastUsedModel")
        yield self._draft.start(
            name=about.get("name"),
            createdAt=about.get("createdAt"),
            model=mapped(model).get("identifier"),
            metadata={key: value for key, value in about.items() if key in _KEPT and value not in (None, "", [], {})},
        )
        if about.get("systemPrompt"):
            yield from alone(self._draft.path, "the system prompt", self._said_by_system(about["systemPrompt"]))

    def _said_by_system(self, prompt: object) -> Iterator[Event]:
        yield from self._draft.message("system", str(prompt), id="system")

    def feed(self, line: int, record: JsonObject) -> Iterator[Event]:
        if not self._draft.started:
            yield from self._start()
        versions = record.get("versions")
        if not isinstance(versions, list):
            yield SkippedLine(self._draft.path, line, "not a message: it needs versions")
            return
        for nth, version in enumerate(versions):
            if isinstance(version, dict):
                said = self._version(line, version, branch=nth != record.get("currentlySelected", 0))
                yield from alone(self._draft.path, f"version {nth + 1} of this message", said, line)

    def _version(self, line: int, version: JsonObject, *, branch: bool) -> Iterator[Event]:
        sender = version.get("senderInfo")
        turn = Turn(str(version.get("role") or "unknown"), {"branch": True} if branch else {})
        if isinstance(sender, dict) and sender.get("senderName"):
            turn.metadata["sender"] = sender["senderName"]
        for step in listed(version.get("steps")) or [{"type": "contentBlock", "content": version.get("content")}]:
            kind = mapped(step).get("type")
            if kind == "contentBlock":
                self._take_step(turn, step)
            elif word(kind) in _SILENT:
                self._ignored[word(kind)] += 1
            else:
                turn.metadata.setdefault("steps", []).append(step)
        yield from turn.events(self._draft, line=line)

    def _take_step(self, turn: Turn, step: JsonObject) -> None:
        info, style, content = step.get("genInfo"), step.get("style"), step.get("content")
        if isinstance(info, dict):
            model = info.get("indexedModelIdentifier") or info.get("identifier")
            self._draft.model = model if isinstance(model, str) else self._draft.model
            if rest := rest_of(info, "indexedModelIdentifier", "identifier", "loadModelConfig", "predictionConfig"):
                turn.metadata.setdefault("genInfo", []).append(rest)
        is_thinking = isinstance(style, dict) and style.get("type") == "thinking"
        for part in content if isinstance(content, list) else [content]:
            _take(turn, part, is_thinking=is_thinking)

    def end(self) -> Iterator[Event]:
        if not self._draft.started and self._about:
            yield from self._start()
        yield from self._draft.end()
        for kind, count in sorted(self._ignored.items()):
            yield Ignored(self._draft.path, kind, count)


def _take(turn: Turn, part: Any, *, is_thinking: bool) -> None:
    kind = mapped(part).get("type")
    if kind == "text" and is_thinking:
        turn.think(part.get("text"))
    elif kind == "text":
        turn.say(part.get("text"))
    elif kind == "toolCallRequest":
        call_id = part.get("toolCallRequestId", part.get("callId"))
        turn.call(call_id, part.get("name"), part.get("parameters", part.get("arguments")))
    elif kind == "toolCallResult":
        turn.result(part.get("toolCallRequestId", part.get("toolCallId")), _blocks(part.get("content")))
    elif part is not None:
        turn.take([part])


def _blocks(content: object) -> object:
    """A result's content, which is often JSON in a text."""
    try:
        value = decode(content.encode())[0] if isinstance(content, str) else content
    except NotJson:
        return content
    return value if isinstance(value, list) else content
