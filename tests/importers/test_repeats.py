"""Records of a tree that their tool wrote more than once: Claude Code's and Qwen Code's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import lines, read
from test_databases_that_grow import quick

from sessiond.importers.claude_code_repeats import ClaudeCodeRepeats
from sessiond.importers.claude_code_tree import tree_of
from sessiond.importers.record import open_source
from tests.service.test_follow_equals_import import same

__all__ = ["quick"]
S = "22222222-3333-4444-8555-666666666666"
ELSEWHERE = {"version": "2.0", "timestamp": "2026-02-03T09:00:00.000Z", "parentUuid": None}
"""What a copy has in other ways."""


def turn(uuid: str, parent: str | None, content: Any, role: str = "user", **more: Any) -> dict[str, Any]:
    return {
        "parentUuid": parent, "sessionId": S, "cwd": "/work", "version": "1.9", "uuid": uuid, "type": role,
        "timestamp": "2026-02-03T08:00:00.000Z", "message": {"role": role, "content": content}, **more,
    }  # fmt: skip


def called(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}


def result(call_id: str, text: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call_id, "content": text}]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


TALK = [
    turn("p", None, "which herbs like shade"),
    turn("a", "p", [text("let me look"), called("c")], "assistant"),
    turn("r", "a", result("c", "mint, parsley")),
    turn("b", "r", [text("mint and parsley")], "assistant"),
]


def contents(path: Path) -> list[Any]:
    return [one["content"] for one in read(path).only]


def test_a_copy_with_another_bookkeeping_is_no_second_message(tmp_path: Path) -> None:
    """A branch has the talk before it twice: with the parents, and without. Each message is there once, with its parent."""
    forked = [{**one, "forkedFrom": {"sessionId": "x", "messageUuid": one["uuid"]}} for one in TALK]
    copies = [{**one, **ELSEWHERE} for one in TALK]
    for first, second in ((forked, copies), (copies, forked)):
        after = [turn("n", "b", "and sun?"), turn("o", "n", [text("sage")], "assistant")]
        stream = read(lines(tmp_path / f"{S}.jsonl", *first, *second, *after))
        assert [one["id"] for one in stream.only] == ["p", "a", "r", "b", "n", "o"]
        assert not any(one["metadata"].get("branch") for one in stream.only)
        assert [one.reason for one in stream.skipped] == ["a repeat of an earlier record"] * 4


def test_a_fork_names_its_parent(tmp_path: Path) -> None:
    """In some of its records. Its own name is no parent, and a subagent's is the session that it works for."""
    origin = {"sessionId": "claude-code-x", "seq": None}
    forked = [{**one, "forkedFrom": {"sessionId": "x", "messageUuid": one["uuid"]}} for one in TALK]
    copies = [{**one, **ELSEWHERE} for one in TALK]
    for records in (forked, [*forked, *copies], [*copies, *forked], [TALK[0], *forked[1:]]):
        assert read(lines(tmp_path / f"{S}.jsonl", *records)).only_info["parent"] == origin
    itself = {**TALK[0], "forkedFrom": {"sessionId": S}}
    for odd in (itself, {**TALK[0], "forkedFrom": "x"}, {**TALK[0], "forkedFrom": {"sessionId": 7}}):
        assert "parent" not in read(lines(tmp_path / f"{S}.jsonl", odd)).only_info
    aside = lines(tmp_path / "agent-1.jsonl", {**forked[0], "isSidechain": True})
    assert read(aside).only_info["parent"]["sessionId"] == f"claude-code-{S}"


def test_what_a_copy_says_besides_is_not_lost(tmp_path: Path) -> None:
    """Other words, another call, another image or another attachment under a known id is another message."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    attached = {**turn("t", "b", ""), "type": "attachment", "attachment": {"type": "file", "content": "basil"}}
    others = [
        turn("p", None, "which herbs like sun"),
        turn("a", "p", [text("let me look"), called("d")], "assistant"),
        turn("r", "a", result("d", "mint, parsley")),
        {**attached, "attachment": {"type": "file", "content": "thyme"}},
        turn("b", "r", [image], "assistant"),
    ]
    stream = read(lines(tmp_path / f"{S}.jsonl", *TALK, attached, *others))
    assert len(stream.only) == len(TALK) + 1 + len(others)
    assert not stream.skipped


def test_a_text_that_goes_on_is_the_later_form(tmp_path: Path) -> None:
    """It takes the place of the first form, before the result of its call; the forms in between, and one that comes late, add nothing."""
    begun = turn("a", "p", [text("let me"), called("c")], "assistant")
    thought = {"type": "thinking", "thinking": "shade, so"}
    path = lines(tmp_path / f"{S}.jsonl", TALK[0], begun, TALK[2], {**TALK[1], **ELSEWHERE}, TALK[3], begun)
    stream = read(path)
    assert [(one["id"], one["content"]) for one in stream.only][:3] == [
        ("p", "which herbs like shade"),
        ("a", "let me look"),
        ("r", "mint, parsley"),
    ]
    assert stream.only[1]["metadata"]["parentUuid"] == "p"
    assert len(stream.only) == 4
    grown = turn("a", "p", [thought, text("let me look"), called("c"), called("d")], "assistant")
    (first, second) = read(lines(tmp_path / f"{S}.jsonl", TALK[0], begun, grown)).only
    assert (first["id"], second["thinking"], len(second["toolCalls"])) == ("p", "shade, so", 2)


def test_an_answer_that_comes_again_with_all_its_tokens(tmp_path: Path) -> None:
    """The same words with the final count: the message has that count."""
    used = [
        turn("b", "r", [text("mint")], "assistant")
        | {"message": {"role": "assistant", "content": "mint", "model": "m", "usage": {"output_tokens": count}}}
        for count in (1, 30, 2)
    ]
    (message,) = read(lines(tmp_path / f"{S}.jsonl", *used)).only
    assert message["metadata"]["tokens"]["output"] == 30


def test_subagents_records_and_progress(tmp_path: Path) -> None:
    """A subagent's record that comes again is known, too. Progress is only counted."""
    aside = turn("s", None, "look it up", isSidechain=True)
    progress = {**turn("g", "p", ""), "type": "progress"}
    stream = read(lines(tmp_path / f"{S}.jsonl", TALK[0], aside, progress, {**aside, "version": "3"}, progress))
    assert [one["id"] for one in stream.only] == ["p", "s"]
    assert stream.ignored["progress"] == 2
    assert [one.line for one in stream.skipped] == [4]


def test_a_copy_that_is_written_during_the_reading_is_left_to_the_next(tmp_path: Path) -> None:
    """The tree was read before, so nobody knows the other forms; what has no message yet is read."""
    path = lines(tmp_path / f"{S}.jsonl", *TALK)
    repeats = ClaudeCodeRepeats(
        str(path), open_source, tree_of(str(path), open_source), {"p", "a", "r", "b"}.__contains__
    )
    assert repeats.take(5, {**TALK[0], **ELSEWHERE}) is None
    assert repeats.take(4, TALK[3]) is TALK[3]
    new = turn("n", "b", "and sun?")
    assert repeats.take(6, new) is new


async def test_a_follow_gives_what_an_import_gives(tmp_path: Path) -> None:
    """Looked at after each record of a file that has its talk twice, and an answer in three forms."""
    begun = turn("a", "p", [text("let")], "assistant")
    more = turn("a", "p", [text("let me look")], "assistant", version="1.9.1")
    records = [TALK[0], begun, more, *TALK[1:], *({**one, **ELSEWHERE} for one in TALK), turn("n", "b", "and sun?")]
    source = tmp_path / "source" / f"{S}.jsonl"
    states = [lambda n=n: lines(source, *records[:n]) for n in range(1, len(records) + 1)]
    following = await same(tmp_path, source, states)
    await following.close()


async def test_a_follow_of_a_prompt_that_is_sent_again(tmp_path: Path) -> None:
    """The turns in between are never marked for good."""
    again = [turn("x", "n", "and rain?"), turn("y", "p", "and rain?"), turn("z", "y", [text("rosemary")], "assistant")]
    records = [*TALK, turn("m", "b", "and sun?"), turn("n", "m", [text("sage")], "assistant"), *again]
    source = tmp_path / "source" / f"{S}.jsonl"
    following = await same(
        tmp_path, source, [lambda n=n: lines(source, *records[:n]) for n in range(1, len(records) + 1)]
    )
    await following.close()
    marked = [one["id"] for one in read(source).only if one["metadata"].get("branch")]
    assert marked == ["x"]


def test_qwens_records(tmp_path: Path) -> None:
    """The same tree: a copy with another parent is no second message, other parts are."""

    def said(uuid: str, words: str, **more: Any) -> dict[str, Any]:
        return turn(uuid, None, "") | {"message": {"role": "user", "parts": [{"text": words}]}, "cwd": "/work", **more}

    path = lines(
        tmp_path / "q.jsonl", said("1", "dill"), said("1", "dill", parentUuid="0", version="2"), said("1", "rue")
    )
    assert json.dumps(contents(path)) == '["dill", "rue"]'


def test_a_request_of_qwens_is_known_in_every_copy(tmp_path: Path) -> None:
    answer = turn("1", None, "", "assistant") | {
        "message": {"role": "model", "parts": [{"text": "dill"}]},
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1},
    }
    (message,) = read(lines(tmp_path / "q.jsonl", answer)).only
    (copy,) = read(lines(tmp_path / "r.jsonl", {**answer, **ELSEWHERE})).only
    assert message["metadata"]["tokens"] == copy["metadata"]["tokens"] == {"input": 9, "output": 1, "request": "1"}
