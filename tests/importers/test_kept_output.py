"""Outputs that a tool keeps in files of their own, beside the record with only their beginning."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessiond.importers import kept_output, registry
from tests.importers.collected import lines, read
from tests.importers.test_agents_of_today import claude
from tests.importers.test_opencode_v2 import T0, Tables, said

S = "11111111-2222-4333-8444-555555555555"
OUTPUT = "leaf 1\nleaf 2\nthe last leaf is an elm's\n"


def shown(path: str) -> str:
    """What the transcript has of it."""
    return (
        f"<persisted-output>\nOutput too large (60KB). Full output saved to: {path}\n\n"
        "Preview (first 2KB):\nleaf 1\n...\n</persisted-output>"
    )


def transcript(path: Path, named: str, *, blocks: bool = False) -> Path:
    """A session with a call whose result names the file `named`."""
    call = [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}]
    text = shown(named)
    content: Any = [{"type": "text", "text": text}] if blocks else text
    result = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": content}]
    return lines(
        path,
        claude("u1", "user", parentUuid=None, message={"role": "user", "content": "list"}, sessionId=S),
        claude("a1", "assistant", parentUuid="u1", message={"role": "assistant", "content": call}, sessionId=S),
        claude("r1", "user", parentUuid="a1", message={"role": "user", "content": result}, sessionId=S),
    )


def kept(folder: Path, text: str = OUTPUT, name: str = "toolu_1.txt") -> Path:
    path = folder / "tool-results" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def result(path: Path) -> dict[str, Any]:
    [found] = [message for message in read(path).only if message["role"] == "tool"]
    return found


@pytest.mark.parametrize("blocks", [False, True])
def test_the_whole_output_comes_in(tmp_path: Path, blocks: bool) -> None:
    """Behind what the transcript has of it; its path, as the record names it, is in the metadata."""
    file = kept(tmp_path / S)
    found = result(transcript(tmp_path / f"{S}.jsonl", str(file), blocks=blocks))
    assert found["content"] == f"{shown(str(file))}\n\n{OUTPUT}"
    assert found["metadata"]["keptOutput"] == [{"path": str(file), "taken": len(OUTPUT), "bytes": len(OUTPUT)}]


def test_a_folder_that_was_moved_has_it_as_well(tmp_path: Path) -> None:
    kept(tmp_path / S)
    assert "elm" in result(transcript(tmp_path / f"{S}.jsonl", f"/gone/{S}/tool-results/toolu_1.txt"))["content"]


def test_a_session_that_went_on_in_another_file(tmp_path: Path) -> None:
    """The record names the folder of the former session; a subagent's is that of its parent."""
    file = kept(tmp_path / "former")
    assert "elm" in result(transcript(tmp_path / f"{S}.jsonl", str(file)))["content"]
    inner = tmp_path / "former" / "subagents" / "agent-1.jsonl"
    assert "elm" in result(transcript(inner, "tool-results/toolu_1.txt"))["content"]


def test_what_is_there_already_is_not_there_twice(tmp_path: Path) -> None:
    file = kept(tmp_path / S, "leaf 1\n")
    assert result(transcript(tmp_path / f"{S}.jsonl", str(file)))["content"] == shown(str(file))


def test_nothing_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    """Whatever a record names, and wherever a link leads: the preview is all that comes in."""
    secret = tmp_path / "secret" / "tool-results" / "toolu_1.txt"
    secret.parent.mkdir(parents=True)
    secret.write_text("the elm's secret")
    place = tmp_path / "projects"
    own = place / S / "tool-results"
    for named in (str(secret), f"{own}/../../../secret/tool-results/toolu_1.txt", "..", "", "tool-results/.."):
        found = result(transcript(place / f"{S}.jsonl", named))
        assert "secret" not in found["content"].replace(named, "")
    own.mkdir(parents=True)
    (own / "toolu_1.txt").symlink_to(secret)
    assert "elm" not in result(transcript(place / f"{S}.jsonl", f"{own}/toolu_1.txt"))["content"]
    (own / "toolu_1.txt").unlink()
    own.rmdir()
    own.symlink_to(secret.parent)
    assert "elm" not in result(transcript(place / f"{S}.jsonl", f"{own}/toolu_1.txt"))["content"]
    own.unlink()
    own.parent.rmdir()
    own.parent.symlink_to(secret.parent.parent)
    assert "elm" not in result(transcript(place / f"{S}.jsonl", f"{own}/toolu_1.txt"))["content"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / S / "tool-results"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "toolu_1.txt")
    found = result(transcript(tmp_path / f"{S}.jsonl", f"{folder}/toolu_1.txt"))
    assert found["metadata"]["keptOutput"] == [{"path": f"{folder}/toolu_1.txt", "taken": 0}]


def test_what_is_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one output, and of all of a source; the metadata says how much there was."""
    file = kept(tmp_path / S)
    path = transcript(tmp_path / f"{S}.jsonl", str(file))
    monkeypatch.setattr(kept_output, "OUTPUT_BYTES", 10)
    monkeypatch.setattr(kept_output, "_SAID_WITHIN", 400)
    monkeypatch.setattr(kept_output, "TOTAL_BYTES", 4)
    outputs = kept_output.KeptOutputs(str(tmp_path), lambda name: open(name, "rb"))  # noqa: SIM115
    assert outputs.whole("", str(file), S, "tool-results") == (
        "\n\nleaf",
        {"path": str(file), "taken": 4, "bytes": len(OUTPUT)},
    )
    assert outputs.whole("x", str(file), S, "tool-results")[0] == "x"
    assert path.exists()


def test_an_output_makes_another_version_of_its_transcript(tmp_path: Path) -> None:
    """Whether it comes, grows or goes. In the folder it is not a source of its own."""
    path = transcript(tmp_path / f"{S}.jsonl", "x")
    versions = [registry.fingerprint(str(path))]
    file = kept(tmp_path / S)
    versions.append(registry.fingerprint(str(path)))
    file.write_text(OUTPUT * 2)
    versions.append(registry.fingerprint(str(path)))
    assert registry.source_of(str(file)) == str(path)
    kept(tmp_path / S, '{"role": "user"}\n', ".aider.chat.history.md").write_text(
        "# aider chat started at 2026-01-01\n\n#### hi\n"
    )
    assert [one.path for one in registry.walk(str(tmp_path)) if isinstance(one, registry.Found)] == [str(path)]
    for one in file.parent.iterdir():
        one.unlink()
    assert len({*versions, registry.fingerprint(str(path))}) == 3
    assert registry.fingerprint(str(path)) == versions[0]


def test_opencode_s_outputs(tmp_path: Path) -> None:
    """In `tool-output` beside the database, and nowhere else."""
    tables = Tables(tmp_path / "opencode.db")
    tables.session("session", "ses_a", "Old", 1)
    folder = tmp_path / "tool-output"
    folder.mkdir()
    (folder / "tool_1").write_text(OUTPUT)
    (tmp_path / "secret").write_text("secret")
    for number, path in enumerate((folder / "tool_1", folder / ".." / "secret")):
        state = {"status": "completed", "input": {}, "output": "leaf 1", "time": {"start": T0, "end": T0}}
        state["metadata"] = {"truncated": True, "outputPath": str(path)}
        part = {"type": "tool", "callID": f"c{number}", "tool": "bash", "state": state}
        tables.old("ses_a", f"msg_{number}", "assistant", number, said("look"), part)
    stream = read(tables.path)
    assert [m["content"] for m in stream.only if m["role"] == "tool"] == [f"leaf 1\n\n{OUTPUT}", "leaf 1"]
    assert json.dumps(stream.only).count("taken") == 2
