"""Outputs that Gemini CLI and Qwen Code keep in files of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from collected import lines, read
from test_agents_of_today import CALL, gemini, qwen, said

from sessiond.importers import registry

OUTPUT = "leaf 1\nleaf 2\nthe last leaf is an elm's\n"
KEY = "0f" * 32


def shortened(path: str) -> str:
    return f"Output too large. Showing first 8,000 and last 32,000 characters. For full output see: {path}\nleaf 1\n\n... [9 characters omitted] ...\n"


def masked(path: str) -> str:
    return f"<tool_output_masked>\nleaf 1\n\nOutput too large. Full output available at: {path}\n</tool_output_masked>"


def masked_string(path: str) -> str:
    word = (
        f"[Tool observation string (0.10MB, 3 lines) masked to preserve context window. Full string saved to: {path}]"
    )
    return f"<tool_output_masked>\n{word}\n</tool_output_masked>"


def persisted(path: str) -> str:
    digest = f"Full output sha256: {KEY}\nNote: this file may be cleaned up after 24 hours."
    return f"<persisted-output>\nOutput too large (60 KB). Full output saved to: {path}\n{digest}\n\nPreview (up to 2000 chars):\nleaf 1\n</persisted-output>"


def truncated(path: str) -> str:
    return (
        "Command: ls\nOutput: Tool output was too large and has been truncated.\n"
        f"The full output has been saved to: {path}\nTo read the complete output, use the read_file tool.\n\nleaf 1\n"
    )


def of_gemini(home: Path, text: str) -> Path:
    head = {"sessionId": "s-1", "projectHash": KEY, "startTime": "2026-11-23T10:11:10.000Z", "kind": "main"}
    response = {"functionResponse": {"id": "c1", "name": "shell", "response": {"output": text}}}
    call = {"id": "c1", "name": "shell", "args": {}, "status": "success", "result": [response]}
    return lines(
        home / "tmp" / "app" / "chats" / "session-1.jsonl",
        head,
        gemini("u1", "user", "list"),
        gemini("a1", "gemini", "", toolCalls=[call]),
    )


def of_qwen(home: Path, text: str) -> Path:
    response = {"functionResponse": {"id": "call_1", "name": "shell", "response": {"output": text}}}
    return lines(
        home / "projects" / "-work" / "chats" / "q-1.jsonl",
        qwen("u1", None, "user", **said("user", {"text": "list"})),
        qwen("a2", "u1", "assistant", **said("model", CALL)),
        qwen("r3", "a2", "tool_result", **said("user", response)),
    )


Write = Callable[[Path, str], Path]
CASES: dict[str, tuple[Write, Callable[[str], str], str]] = {
    "gemini, shortened": (of_gemini, shortened, "tmp/app/tool-outputs/session-s-1/shell_c1.txt"),
    "gemini, before sessions had folders": (of_gemini, shortened, "tmp/app/tool-outputs/shell_c1.txt"),
    "gemini, masked": (of_gemini, masked, "tmp/app/tool-outputs/session-s-1/shell_c1_x1.txt"),
    "gemini, a masked string": (
        of_gemini,
        masked_string,
        "tmp/app/tool-outputs/session-s-1/shell_c1_observation_1.txt",
    ),
    "qwen, persisted": (of_qwen, persisted, f"tmp/{KEY}/tool-results/call_1.txt"),
    "qwen, truncated": (of_qwen, truncated, f"tmp/{KEY}/shell_0a.output"),
}
cases = pytest.mark.parametrize("case", CASES)


def result(path: Path) -> dict[str, Any]:
    [found] = [message for message in read(path).only if message["role"] == "tool"]
    return found


@cases
def test_the_whole_output_comes_in(tmp_path: Path, case: str) -> None:
    """Behind what the record has of it, wherever the tool's folder is now; and without the file nothing is lost."""
    write, shown, name = CASES[case]
    named = f"/home/them/.tool/{name}"
    source = write(tmp_path, shown(named))
    assert result(source)["content"] == shown(named)
    assert result(source)["metadata"]["keptOutput"] == [{"path": named, "taken": 0}]
    kept = tmp_path / name
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(OUTPUT)
    found = result(source)
    assert found["content"] == f"{shown(named)}\n\n{OUTPUT}"
    assert found["metadata"]["keptOutput"] == [{"path": named, "taken": len(OUTPUT), "bytes": len(OUTPUT)}]
    assert [one.path for one in registry.walk(str(tmp_path)) if isinstance(one, registry.Found)] == [str(source)]


@cases
def test_nothing_outside_of_the_folder_is_read(tmp_path: Path, case: str) -> None:
    """Whatever the record names, and through no link."""
    write, shown, name = CASES[case]
    home = tmp_path / "home"
    secret = tmp_path / "secret.txt"
    secret.write_text("the elm's secret")
    folder = (home / name).parent
    folder.mkdir(parents=True)
    for path in (
        str(secret),
        f"{folder}/../../../../secret.txt",
        f"/x/{name}/../{secret.name}",
        "secret.txt",
        "..",
        "/",
        " ",
    ):
        assert "elm" not in json.dumps(result(write(home, shown(path))))
    (home / name).symlink_to(secret)
    assert "elm" not in json.dumps(result(write(home, shown(f"/x/{name}"))))


def test_a_subagent_s_output(tmp_path: Path) -> None:
    """Its chat is a folder deeper; the outputs are those of the project."""
    name = "tmp/app/tool-outputs/session-s-1/shell_c1.txt"
    chat = of_gemini(tmp_path, shortened(f"/x/{name}"))
    kept = tmp_path / name
    kept.parent.mkdir(parents=True)
    kept.write_text(OUTPUT)
    inner = chat.parent / "s-0" / "sub.jsonl"
    inner.parent.mkdir()
    chat.rename(inner)
    assert "elm" in result(inner)["content"]


def test_a_text_that_only_speaks_of_it(tmp_path: Path) -> None:
    """Words like the tool's own inside of an output are words."""
    name = "tmp/app/tool-outputs/session-s-1/shell_c1.txt"
    kept = tmp_path / name
    kept.parent.mkdir(parents=True)
    kept.write_text(OUTPUT)
    for text in (f"see: {shortened(name)}", f"Output too large. Full output available at: {name}", OUTPUT[:7]):
        assert result(of_gemini(tmp_path, text))["content"] == text


@pytest.mark.parametrize("folder", ["tmp/app/tool-outputs/session-s-1", f"tmp/{KEY}/tool-results"])
def test_an_output_is_not_a_source(tmp_path: Path, folder: str) -> None:
    """An import of its folder skips it, even if a tool happened to print a transcript."""
    kept = tmp_path / folder / ".aider.chat.history.md"
    kept.parent.mkdir(parents=True)
    kept.write_text("# aider chat started at 2026-01-01\n\n#### hi\n")
    assert list(registry.walk(str(tmp_path))) == []
    assert [type(one) for one in registry.walk(str(kept))] == [registry.Found]
