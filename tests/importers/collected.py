"""The total of a stream of events, for tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from sessiond.importers import registry
from sessiond.importers.record import (
    Event,
    Ignored,
    InfoUpdate,
    MessageRecord,
    SessionEnd,
    SessionStart,
    SkippedLine,
    Unknown,
    open_source,
)
from sessiond.model.message import check_message
from sessiond.model.values import check_json, is_session_id, normal_timestamp

CORPUS = Path(os.environ.get("SESSIOND_CORPUS") or Path(__file__).parents[2] / "../shared/corpus")


def corpus(name: str) -> Path:
    """A folder or file of the corpus; the test is skipped where it is absent."""
    path = (CORPUS / name).resolve()
    if not path.exists():
        pytest.skip(f"no corpus at {CORPUS}")
    return path


class Stream:
    """The events of one or several files, sorted out, each checked to be fit for the service."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.starts: dict[str, SessionStart] = {}
        self.ended: set[str] = set()
        self.info: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.skipped: list[SkippedLine] = []
        self.repaired: list[SkippedLine] = []
        self.ignored: dict[str, int] = {}
        self.unknown: dict[str, int] = {}
        for event in events:
            self._take(event)
        assert self.ended == set(self.starts)

    def _take(self, event: Event) -> None:
        match event:
            case SessionStart():
                assert is_session_id(event.suggested_id), event.suggested_id
                assert event.source_id not in self.starts
                assert event.info["metadata"]["source"]["id"] == event.source_id
                check_json(event.info, "info")
                self.starts[event.source_id] = event
                self.info[event.source_id] = dict(event.info)
                self.messages[event.source_id] = []
            case MessageRecord():
                check_message(event.message, "message")
                check_json(event.message, "message")
                assert normal_timestamp(event.message["timestamp"]) == event.message["timestamp"]
                assert event.source_id not in self.ended
                assert event.message["id"] not in {m["id"] for m in self.messages[event.source_id][-50:]}
                self.messages[event.source_id].append(event.message)
            case InfoUpdate():
                known = self.info.setdefault(event.source_id, {})
                merged = {**known.get("metadata", {}), **event.fields.get("metadata", {})}
                known |= {**event.fields, "metadata": merged}
                check_json(event.fields, "fields")
            case SessionEnd():
                assert event.source_id in self.starts
                assert event.source_id not in self.ended
                self.ended.add(event.source_id)
            case SkippedLine(taken=True):
                self.repaired.append(event)
            case SkippedLine():
                assert not event.failed, event.reason
                self.skipped.append(event)
            case Unknown():
                self.unknown[event.kind] = self.unknown.get(event.kind, 0) + event.count
            case Ignored():
                self.ignored[event.reason] = self.ignored.get(event.reason, 0) + event.count

    @property
    def only(self) -> list[dict[str, Any]]:
        """The messages of the one session."""
        assert len(self.messages) == 1, list(self.messages)
        return next(iter(self.messages.values()))

    @property
    def only_info(self) -> dict[str, Any]:
        assert len(self.starts) == 1
        return self.info[next(iter(self.starts))]

    def told(self) -> list[tuple[str, Any]]:
        """Role and content of each message of the one session."""
        return [(m["role"], m["content"]) for m in self.only]


def read(path: Path | str, tool: str | None = None) -> Stream:
    """The file by the importer that recognises it (or the named one)."""
    importer = registry.BY_NAME[tool] if tool else registry.recognise(str(path))
    assert importer is not None, f"{path} was not recognised"
    return Stream(importer.read(str(path), open_source))


def recognised(path: Path | str) -> str | None:
    importer = registry.recognise(str(path))
    return importer.name if importer else None


def lines(path: Path, *records: Any) -> Path:
    """A JSON Lines file; bytes stand as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = [r if isinstance(r, bytes) else json.dumps(r, ensure_ascii=False).encode() for r in records]
    path.write_bytes(b"".join(line + b"\n" for line in raw))
    return path


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file under a folder with its content and time of change, to see that nothing was touched."""
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


Make = Callable[..., Any]
