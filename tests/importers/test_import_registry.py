"""Finding what can be imported, and keeping memory flat while doing so."""

from __future__ import annotations

import json
import os
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from collected import Stream, corpus, lines, read, recognised, snapshot

from scripts import importers_table
from sessiond.exporters import export
from sessiond.importers import registry
from sessiond.importers.claude_code import ClaudeCode
from sessiond.importers.record import MessageRecord, SkippedLine, open_source
from sessiond.importers.registry import Found, FoundPlace
from sessiond.importers.tool import Tool
from sessiond.model.session import Session
from sessiond.model.values import is_session_id
from tests.agents.agents import AGENTS, GEMINI

S = "11111111-2222-4333-8444-555555555555"


def turn(uuid: str, text: str = "hello") -> dict[str, Any]:
    return {
        "type": "user",
        "uuid": uuid,
        "parentUuid": None,
        "sessionId": S,
        "timestamp": "2026-01-02T03:04:05.678Z",
        "message": {"role": "user", "content": text},
    }


def found(path: Path, tool: str | None = None) -> list[tuple[str, str]]:
    return [
        (one.importer, os.path.relpath(one.path, path))
        for one in registry.walk(str(path), tool)
        if isinstance(one, Found)
    ]


def test_a_folder_is_walked_in_the_order_of_names(tmp_path: Path) -> None:
    """Every known file is found once, whatever else is there; loops of links end; hidden tool folders are looked into."""
    lines(tmp_path / "b" / ".claude" / f"{S}.jsonl", turn("a"))
    lines(tmp_path / "a.jsonl", {"role": "user", "content": "x"})
    (tmp_path / ".aider.chat.history.md").write_text("# aider chat started at 2025-01-01 00:00:00\n")
    (tmp_path / "readme.md").write_text("# Hello\n")
    lines(tmp_path / "node_modules" / "x.jsonl", turn("a"))
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    expected = [("aider", ".aider.chat.history.md"), ("messages", "a.jsonl"), ("claude-code", f"b/.claude/{S}.jsonl")]
    assert found(tmp_path) == expected
    assert found(tmp_path, "aider") == expected[:1]


def test_a_database_is_not_that_of_a_tool_its_log_talks_of(tmp_path: Path) -> None:
    """What is in the file itself decides; the log has what was said in chats too."""
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE message (id TEXT, session_id TEXT)")
        db.execute("CREATE TABLE part (project_id TEXT, message_id TEXT, time_created INTEGER, data TEXT)")
        db.commit()
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("INSERT INTO part (data) VALUES ('Cursor has the tables cursorDiskKV and ItemTable')")
        db.commit()
        assert b"cursorDiskKV" in Path(f"{path}-wal").read_bytes()
        assert found(tmp_path) == [("opencode", "opencode.db")]


def test_sessionds_own_files_are_found(tmp_path: Path) -> None:
    """A native export is found in a folder and by itself, and is left to the service."""
    path = tmp_path / "s.jsonl"
    path.write_text('{"sessiond":1}\n')
    assert found(tmp_path) == [(registry.NATIVE, "s.jsonl")]
    assert found(path) == [(registry.NATIVE, ".")]


def test_whoever_names_a_tool_is_believed_where_nobody_knows_better(tmp_path: Path) -> None:
    """A named file needs no ending; one whose content hides its tool is imported if the tool is named too; one that certainly
    belongs to another tool is not.
    """
    plain = lines(tmp_path / "history.bak", turn("a"))
    assert registry.identify(str(plain), None, named=False) is None
    known = registry.identify(str(plain), None, named=True)
    assert known == Found("claude-code", str(plain), plain.stat().st_size)
    hidden = lines(tmp_path / "hidden.bak", {"nobody": "knows"})
    assert registry.identify(str(hidden), None, named=True) == SkippedLine(
        str(hidden), None, "not a file of any known tool"
    )
    given = registry.identify(str(hidden), "claude-code", named=True)
    assert given == Found("claude-code", str(hidden), hidden.stat().st_size, sure=False)
    plain = lines(tmp_path / "chat.jsonl", {"role": "user", "content": "x"})
    assert isinstance(registry.identify(str(plain), "cline", named=True), Found)
    told = registry.identify(str(lines(tmp_path / f"{S}.jsonl", turn("a"))), "pi", named=True)
    assert isinstance(told, SkippedLine)
    assert told.reason == "is a claude-code file, not a pi file"


def test_a_bad_first_line_hides_no_tool(tmp_path: Path) -> None:
    """Neither a short one nor one longer than what is looked at first, of another's file or of our own."""
    for n, first in enumerate((b"not json", b"x" * 3 * registry.HEAD_BYTES)):
        assert found(lines(tmp_path / str(n) / f"{S}.jsonl", first, turn("a"))) == [("claude-code", ".")]
    ours = lines(tmp_path / "s.jsonl", b"not json", b'{"sessiond":1}', {"role": "user", "content": "x"})
    assert found(ours) == [(registry.NATIVE, ".")]


@pytest.mark.parametrize("form", [{}, {"indent": 2}, {"separators": (",", ":")}])
def test_sessionds_own_json_is_found(tmp_path: Path, form: dict[str, Any]) -> None:
    """However it was laid out since; another document with such words is not ours."""
    session = Session("s", "2026-01-11T14:30:22.000Z")
    value = json.loads("".join(export(session, [], "json")))
    path = tmp_path / "s.json"
    path.write_text(json.dumps(value, **form))
    assert found(path) == [(registry.NATIVE, ".")]
    path.write_text(json.dumps({"session": {"sessionId": "s"}, "messages": [{"role": "user", "content": "x"}]}))
    assert found(path) == [("messages", ".")]


def test_a_named_file_must_be_known(tmp_path: Path) -> None:
    """An unrecognised file is reported if it was named; a named format reads it anyway."""
    path = tmp_path / "x.txt"
    path.write_text("words")
    (skipped,) = registry.walk(str(path))
    assert isinstance(skipped, SkippedLine)
    assert found(path, "gptel") == [("gptel", ".")]
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name in ("none", "pipe.jsonl"):
        (missing,) = registry.walk(str(tmp_path / name))
        assert isinstance(missing, SkippedLine)


def test_the_corpus_is_found_whole() -> None:
    """Each real file is recognised as its tool's, and remains as it is."""
    folder = corpus(".")
    before = snapshot(folder)
    tools = [tool for tool, _ in found(folder)]
    assert sorted(tools) == ["aider"] + ["claude-code"] * 4 + ["cline"] + ["codex"] * 3 + ["pi"]
    for one in registry.walk(str(folder)):
        assert isinstance(one, Found)
        for _ in registry.BY_NAME[one.importer].read(one.path, open_source):
            pass
    assert snapshot(folder) == before


def test_known_places_follow_the_environment(tmp_path: Path) -> None:
    """Only places that exist, where the tools' own variables say."""
    for name in (".claude/projects", "elsewhere/sessions", ".local/share/goose/sessions"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".local/share/goose/sessions/sessions.db").write_text("")
    places = registry.known_places(str(tmp_path), {"CODEX_HOME": str(tmp_path / "elsewhere")})
    assert places == [
        FoundPlace("claude-code", str(tmp_path / ".claude/projects")),
        FoundPlace("codex", str(tmp_path / "elsewhere/sessions")),
        FoundPlace("goose", str(tmp_path / ".local/share/goose/sessions/sessions.db")),
    ]


def test_a_place_is_found_for_each_tool_that_has_one(tmp_path: Path) -> None:
    """Every place of every importer is absolute, and is found once it exists."""
    wanted = []
    for importer in registry.IMPORTERS:
        places = importer.places(str(tmp_path), {}) if isinstance(importer, Tool) else []
        assert all(Path(place).is_relative_to(tmp_path) for place in places)
        if places:
            Path(places[-1]).mkdir(parents=True, exist_ok=True)
            wanted.append(FoundPlace(importer.name, places[-1]))
    found = registry.known_places(str(tmp_path), {})
    assert len(wanted) > 15
    assert [place for place in wanted if place not in found] == []


def test_a_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    """Growth shows, and so does a log next to a database."""
    path = lines(tmp_path / "a.jsonl", turn("a"))
    first = registry.fingerprint(str(path))
    lines(path, turn("a"), turn("b"))
    second = registry.fingerprint(str(path))
    (tmp_path / "a.jsonl-wal").write_bytes(b"x")
    assert len({first, second, registry.fingerprint(str(path))}) == 3


def test_every_importer_says_how_it_was_verified() -> None:
    """A name belongs to one importer; those that were only written from documents, and no others, are experimental. The older
    ones, whose proof is in a table, are marked by hand.
    """
    assert len(registry.BY_NAME) == len(registry.IMPORTERS)
    documented = {name for name in registry.BY_NAME if registry.verified(name) == "documented"}
    assert documented == {name for name, importer in registry.BY_NAME.items() if importer.experimental}
    assert {"claude-code", "codex", "pi", "aider", "cline", "qwen", "messages"} <= registry.BY_NAME.keys() - documented


def test_the_tools_that_are_run_are_those_that_say_so() -> None:
    """Those of tests/agents, which are installed and write the files themselves."""
    assert {agent.tool for agent in (*AGENTS, GEMINI)} == {
        one for one in registry.BY_NAME if registry.verified(one) == "run"
    }


def test_the_table_of_the_docs_is_what_the_importers_do() -> None:
    """`python -m scripts.importers_table` writes it from the sources of these tests."""
    assert importers_table.DOC.read_text() == importers_table.page()
    assert set(importers_table.sources()) == set(registry.BY_NAME)


@pytest.mark.parametrize("tool", registry.BY_NAME)
def test_no_words_are_among_what_is_not_kept(tool: str) -> None:
    """Fields of the sources whose values are nowhere in the sessions: ids and marks of the tool's own."""
    writers = importers_table.sources()[tool]
    words = {"text", "content", "thinking", "thoughts", "prompt", "message", "summary", "arguments", "input", "output",
             "result", "command", "title", "name"}  # fmt: skip
    assert words.isdisjoint(importers_table.passed_over(writers, importers_table.events(tool, writers)))


@pytest.mark.parametrize("tool", registry.BY_NAME)
def test_a_whole_source_of_each_tool_is_read(tool: str) -> None:
    """Without anything unknown or skipped; the words of both sides come in."""
    found = importers_table.events(tool, importers_table.sources()[tool])
    roles = {event.message["role"] for event in found if isinstance(event, MessageRecord)}
    assert {"user", "assistant"} <= roles
    assert [event for event in found if isinstance(event, SkippedLine) and not event.taken] == []


def test_memory_stays_flat_while_a_large_file_is_read(tmp_path: Path) -> None:
    """Reading 20 MB holds ids and hashes, not texts."""
    path = tmp_path / f"{S}.jsonl"
    with path.open("wb") as file:
        for n in range(2000):
            file.write(json.dumps(turn(f"u{n}", "x" * 10_000)).encode() + b"\n")
    tracemalloc.start()
    try:
        count = sum(isinstance(event, MessageRecord) for event in ClaudeCode().read(str(path), open_source))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 2000
    assert peak < 3_000_000


def test_a_folder_of_too_many_files_is_looked_at_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones are found, and that there are more is said."""
    monkeypatch.setattr(registry, "MAX_FILES", 2)
    for n in range(4):
        lines(tmp_path / f"{n}.jsonl", turn("a"))
    *taken, told = registry.walk(str(tmp_path))
    assert [Path(one.path).name for one in taken] == ["0.jsonl", "1.jsonl"]
    assert isinstance(told, SkippedLine) and "more than 2 files" in told.reason


def test_only_files_are_recognised(tmp_path: Path) -> None:
    """A folder, a pipe or a missing file is not recognised, and is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    assert [registry.recognise(str(tmp_path / name)) for name in ("", "pipe", "none")] == [None] * 3


def test_what_no_session_can_hold_is_told(tmp_path: Path) -> None:
    """More records that are not messages than the metadata has room for are counted; a time of another type is kept as it was."""
    odd = {**turn("a"), "timestamp": [2026]}
    path = lines(tmp_path / f"{S}.jsonl", odd, *({"type": "marker", "n": n} for n in range(203)))
    stream = Stream(ClaudeCode().read(str(path), open_source))
    assert len(stream.only_info["metadata"]["records"]) == 200
    assert [one.reason.split()[0] for one in stream.skipped] == ["3"]
    assert stream.only[0]["metadata"]["sourceTimestamp"] == [2026]


def test_a_line_longer_than_any_message_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at the very end of a file, where nothing ends it."""
    monkeypatch.setattr("sessiond.importers.lines.MAX_LINE_BYTES", 2000)
    path = lines(tmp_path / f"{S}.jsonl", turn("a"), b"x" * (3 << 20), turn("b"), b"y" * 3000)
    path.write_bytes(path.read_bytes()[:-1])
    stream = Stream(ClaudeCode().read(str(path), open_source))
    assert [m["id"] for m in stream.only] == ["a", "b"]
    assert [one.line for one in stream.skipped] == [2, 4]


def test_a_file_in_utf_16_is_recognised(tmp_path: Path) -> None:
    """As an editor may have saved it."""
    path = tmp_path / f"{S}.jsonl"
    path.write_bytes((json.dumps(turn("a")) + "\n").encode("utf-16"))
    assert found(path) == [("claude-code", ".")]


def test_an_id_is_fit_for_a_file_name_and_always_the_same() -> None:
    """What is too long or has other characters is cut and marked with a digest of the whole."""
    from sessiond.importers.draft import suggest_id

    assert suggest_id("codex", "abc") == "codex-abc"
    odd = [suggest_id("codex", text) for text in ("a b", "a/b", "x" * 200, "x" * 201)]
    assert len(set(odd)) == 4
    assert all(is_session_id(one) for one in odd)
    assert odd[0] == suggest_id("codex", "a b")


def test_what_comes_before_a_fault_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an importer fails in the middle, its events until then are a batch, and the fault comes with the next one."""
    from sessiond.importers.reading import Counter, SourceReading

    class Failing:
        def read(self, path: str, open_: object) -> Iterator[SkippedLine]:
            yield SkippedLine(path, 1, "before")
            raise RuntimeError("the fault")

    monkeypatch.setitem(registry.BY_NAME, "failing", Failing())
    reading = SourceReading("failing", "x", Counter())
    assert [event.reason for event in reading.batch() if isinstance(event, SkippedLine)] == ["before"]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the fault"):
            reading.batch()
    reading.close()


def test_a_batch_is_bounded(tmp_path: Path) -> None:
    """However many events a file has, so many are in memory at once; all of them come, in order, and bytes are counted."""
    from sessiond.importers.reading import Counter, SourceReading

    path = lines(tmp_path / f"{S}.jsonl", *(turn(f"u{n}") for n in range(500)))
    counter = Counter()
    reading = SourceReading("claude-code", str(path), counter)
    sizes, ids = [], []
    while batch := reading.batch():
        sizes.append(len(batch))
        ids += [event.message["id"] for event in batch if isinstance(event, MessageRecord)]
    reading.close()
    assert max(sizes) == 200
    assert ids == [f"u{n}" for n in range(500)]
    assert counter.bytes == path.stat().st_size


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "# Agent Shell Transcript\n\n**Agent:** Claude\n**Session ID:** s1\n\n---\n\n## User (2025-11-02 18:17:10)\n\nHi?\n"),
        ("b.md", "<!-- Generated by SpecStory, Markdown v2.1.0 -->\n\n_**User (2025-11-13 21:12:14Z)**_\n\nHi?\n\n---\n\n"),
        ("MyActivity.json", '[{"header": "Gemini Apps", "title": "Prompted Hi?", "time": "2025-03-01T10:00:00Z", "products": ["Gemini Apps"]}]'),
    ],
)  # fmt: skip
def test_a_byte_order_mark_hides_no_tool(tmp_path: Path, name: str, text: str) -> None:
    """Editors of Windows write one at the beginning of a file."""
    said = []
    for mark in (b"", b"\xef\xbb\xbf"):
        folder = tmp_path / f"x{mark.hex()}"
        folder.mkdir()
        (folder / name).write_bytes(mark + text.encode())
        assert recognised(folder / name) is not None
        said.append([[one["content"] for one in messages] for messages in read(folder / name).messages.values()])
    assert said[0] == said[1] == [["Hi?"]]
