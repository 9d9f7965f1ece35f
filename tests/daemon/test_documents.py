"""daemon/reading.py: what stock editors are shown of session files that are odd, missing or not ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.daemon.reading import SessionDocuments
from sessiond.errors import InvalidParams
from sessiond.index.values import Hit
from sessiond.schema.sessions import SearchResult
from tests.fakes.memory_store import MemoryStore

T = "2026-01-11T14:30:22.000Z"


class Folder(MemoryStore):
    """A store whose files are looked at where they lie."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = str(path)


class Searcher:
    def __init__(self, *hits: Hit, error: Exception | None = None) -> None:
        self._hits = hits
        self._error = error

    async def search(self, peer: None, *, query: str, limit: int | None = None) -> SearchResult:
        if self._error is not None:
            raise self._error
        return SearchResult(hits=list(self._hits), total=len(self._hits), next_cursor=None)


def written(folder: Path, name: str = "a.jsonl", **more: Any) -> Path:
    path = folder / name
    said = {"id": "m1", "seq": 1, "role": "assistant", "content": "word", "timestamp": T, **more}
    header = {"sessiond": 1, "id": path.stem, "createdAt": T}
    path.write_text("".join(json.dumps(one) + "\n" for one in (header, said)))
    return path


def documents(folder: Path, *hits: Hit, error: Exception | None = None) -> SessionDocuments:
    return SessionDocuments({"default": Folder(folder)}, Searcher(*hits, error=error))


def hit(session_id: str, message_id: str | None = "m1") -> Hit:
    return Hit(
        session_id=session_id, name=None, message_id=message_id, seq=1, role="user", timestamp=T, snippet="a\n word",
        ranges=[], score=1.0,
    )  # fmt: skip


async def test_hits_lead_to_the_files_that_are_there(tmp_path: Path) -> None:
    """Several in one session to their lines in one file; what has no file, or no store, is not a symbol."""
    path = written(tmp_path)
    shown = documents(tmp_path, hit("a"), hit("a", None), hit("gone"), hit("elsewhere/a"))
    symbols = await shown.symbols("word")
    assert [(one.uri, one.line, one.name) for one in symbols] == [
        (path.as_uri(), 1, "a word"),
        (path.as_uri(), 0, "a word"),
    ]
    assert await shown.symbols("  ") == []


async def test_a_query_that_means_nothing_finds_nothing(tmp_path: Path) -> None:
    """A stock client has no place for the reason."""
    assert await documents(tmp_path, error=InvalidParams("query: no")).symbols("(") == []


@pytest.mark.parametrize("name", ["notes.txt", ".hidden.jsonl", "deep/a.jsonl"])
async def test_a_file_in_a_store_that_is_no_session(tmp_path: Path, name: str) -> None:
    """It is a text like any other."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("words")
    shown = documents(tmp_path)
    assert await shown.outline(path.as_uri(), "words") == []
    assert await shown.diagnostics(path.as_uri(), "words") == []
    assert await shown.actions(path.as_uri(), "words", 0, 0) == []


async def test_a_document_without_a_file(tmp_path: Path) -> None:
    """One that was never saved does not belong to a store; one that is new in a store is checked by its text."""
    shown = documents(tmp_path)
    assert await shown.hover("untitled:Untitled-1", "x", 0) is None
    assert await shown.outline((tmp_path / "new.jsonl").as_uri(), None) == []
    text = written(tmp_path, "other.jsonl").read_text()
    assert [node.name for node in await shown.outline((tmp_path / "new.jsonl").as_uri(), text)] == ["assistant: word"]


async def test_what_can_be_done_where_nothing_is_said(tmp_path: Path) -> None:
    """On a message it can be forked after it; elsewhere there is nothing to fork; an unreadable file is reported, and offers
    no actions.
    """
    path = written(tmp_path)
    shown = documents(tmp_path)
    on_message, on_header = [await shown.actions(path.as_uri(), None, line, line) for line in (1, 0)]
    assert [one.method for one in on_message] == ["session/open", "session/fork", "session/export"]
    assert [one.method for one in on_header] == ["session/open", "session/export"]
    path.write_bytes(b"\0" * 50)
    assert await shown.actions(path.as_uri(), None, 0, 0) == []
    assert "error" in {problem.severity for problem in await shown.diagnostics(path.as_uri(), None)}


async def test_how_a_message_ended_is_shown(tmp_path: Path) -> None:
    """Beside who said it and when, where it did not end well."""
    path = written(tmp_path, status="interrupted", metadata={"usage": {"total": 5}})
    hover = await documents(tmp_path).hover(path.as_uri(), None, 1)
    assert hover is not None
    assert "status: interrupted" in hover.markdown and "tokens: `{'total': 5}`" in hover.markdown
    assert await documents(tmp_path).hover(path.as_uri(), None, 5) is None
