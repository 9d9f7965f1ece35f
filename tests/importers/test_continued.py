"""Records that name another session than their file: where they stay, and what they make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from collected import lines, read
from test_agents_of_today import claude, qwen, said

OLD, OLDER, NEW = "22222222-aaaa", "11111111-aaaa", "33333333-aaaa"


def of_claude(uuid: str, parent: str | None, owner: str, text: str, **more: Any) -> dict[str, Any]:
    kind, message = "user", {"role": "user", "content": text}
    if uuid.startswith("a"):
        usage = {"input_tokens": 5, "output_tokens": 2}
        kind, message = (
            "assistant",
            {"role": "assistant", "id": f"msg_{uuid}", "model": "m", "content": text, "usage": usage},
        )
    return claude(uuid, kind, parentUuid=parent, message=message, sessionId=owner, **more)


def of_qwen(uuid: str, parent: str | None, owner: str, text: str, **more: Any) -> dict[str, Any]:
    kind = "assistant" if uuid.startswith("a") else "user"
    return {
        **qwen(uuid, parent, kind, **said("user" if kind == "user" else "model", {"text": text})),
        "sessionId": owner,
        **more,
    }


TOOLS = {"claude-code": of_claude, "qwen": of_qwen}
tools = pytest.mark.parametrize("tool", TOOLS)


def talk(tool: str, *owners: str) -> list[dict[str, Any]]:
    """A prompt and an answer by turns, each in a session of its own."""
    ids = [f"{'ua'[n % 2]}{n}" for n in range(len(owners))]
    return [
        TOOLS[tool](one, ids[n - 1] if n else None, owner, f"text {n}")
        for n, (one, owner) in enumerate(zip(ids, owners, strict=True))
    ]


@tools
def test_a_session_that_was_resumed(tmp_path: Path, tool: str) -> None:
    """All of the file is one talk, as the tool shows it; the copied part names its session, which is the parent."""
    stream = read(lines(tmp_path / f"{NEW}.jsonl", *talk(tool, OLD, OLD, NEW, NEW)))
    assert list(stream.starts) == [NEW]
    assert [one["content"] for one in stream.only] == [f"text {n}" for n in range(4)]
    assert [one["metadata"]["sessionId"] for one in stream.only] == [OLD, OLD, NEW, NEW]
    assert not any("branch" in one["metadata"] for one in stream.only)
    assert stream.only_info["parent"] == {"sessionId": f"{tool}-{OLD}", "seq": None}


@tools
def test_a_session_that_was_resumed_twice(tmp_path: Path, tool: str) -> None:
    """The parent is the last of those that it begins with."""
    stream = read(lines(tmp_path / f"{NEW}.jsonl", *talk(tool, OLDER, OLDER, OLD, OLD, NEW)))
    assert stream.only_info["parent"]["sessionId"] == f"{tool}-{OLD}"


@tools
@pytest.mark.parametrize("owners", [(OLD, OLD), (NEW, OLD, OLD, NEW), (NEW, NEW)])
def test_what_goes_on_from_nothing(tmp_path: Path, tool: str, owners: tuple[str, ...]) -> None:
    """A file under another name; and one in which another session's words come later, which stay where the tool shows them."""
    stream = read(lines(tmp_path / f"{NEW}.jsonl", *talk(tool, *owners)))
    assert "parent" not in stream.only_info
    assert [one["metadata"]["sessionId"] for one in stream.only] == list(owners)


@tools
def test_what_resume_wrote_counts_more(tmp_path: Path, tool: str) -> None:
    """The mark of `sessiond resume` names the parent, whatever the records name; so does a fork's own."""
    records = talk(tool, OLD, NEW)
    marked = [{**records[0], "sessiondParent": {"sessionId": "mine", "seq": 3}}, records[1]]
    assert read(lines(tmp_path / f"{NEW}.jsonl", *marked)).only_info["parent"] == {"sessionId": "mine", "seq": 3}
    if tool == "claude-code":
        forked = [{**records[0], "forkedFrom": {"sessionId": "x", "messageUuid": "y"}}, records[1]]
        assert read(lines(tmp_path / f"{NEW}.jsonl", *forked)).only_info["parent"]["sessionId"] == "claude-code-x"


def test_the_request_of_a_copied_answer_is_the_same(tmp_path: Path) -> None:
    """So that what it used counts once, in whichever of the two files is read first."""
    old = read(lines(tmp_path / f"{OLD}.jsonl", *talk("claude-code", OLD, OLD)))
    new = read(lines(tmp_path / f"{NEW}.jsonl", *talk("claude-code", OLD, OLD, NEW)))
    assert old.only[1]["metadata"]["tokens"] == new.only[1]["metadata"]["tokens"]
    assert old.only[1]["metadata"]["tokens"]["request"]
