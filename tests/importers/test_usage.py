"""Tokens: every tool's report in one shape; the totals of real files are those that ccusage finds in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.importers import usage
from sessiond.model.token_usage import TokenUsage, token_usage_of
from tests.importers.collected import corpus, lines, read
from tests.importers.test_agents_of_today import claude

COUNTS = ("input", "cache_read", "cache_write", "output", "reasoning")


def totals(*paths: Path) -> tuple[int, ...]:
    """`COUNTS`, and each request once."""
    largest: dict[object, TokenUsage] = {}
    for path in paths:
        for messages in read(path).messages.values():
            for number, message in enumerate(messages):
                found = token_usage_of(message.get("metadata"))
                if found is not None:
                    key = found.request or (path, number)
                    if key not in largest or largest[key].total < found.total:
                        largest[key] = found
    return tuple(sum(getattr(one, name) for one in largest.values()) for name in COUNTS)


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("claude-code", (1_140, 4_075_332, 198_421, 56_525, 0)),
        ("codex", (189_998, 1_894_272, 0, 16_154, 5_040)),
        ("pi", (3_689, 54_693_675, 1_685_320, 187_895, 0)),
    ],
)
def test_the_totals_of_real_files_are_those_of_ccusage(tool: str, expected: tuple[int, ...]) -> None:
    """As `ccusage 20.0.24 TOOL daily --offline --json` printed them; `tests/agents` compares with a run of it."""
    assert totals(*sorted(corpus(tool).glob("*.jsonl"))) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            usage.anthropic(
                {
                    "input_tokens": 3,
                    "cache_read_input_tokens": 40,
                    "cache_creation_input_tokens": 5,
                    "output_tokens": 6,
                },
                model="claude-x",
                request="msg:req",
            ),
            {"input": 3, "cacheRead": 40, "cacheWrite": 5, "output": 6, "model": "claude-x", "request": "msg:req"},
        ),
        (
            usage.openai(
                {
                    "prompt_tokens": 50,
                    "prompt_tokens_details": {"cached_tokens": 40},
                    "completion_tokens": 9,
                    "completion_tokens_details": {"reasoning_tokens": 4},
                }
            ),
            {"input": 10, "cacheRead": 40, "output": 9, "reasoning": 4},
        ),
        (
            usage.openai({"input_tokens": 50, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 9}),
            {"cacheRead": 60, "output": 9},
        ),
        (
            usage.google(
                {
                    "promptTokenCount": 50,
                    "cachedContentTokenCount": 20,
                    "candidatesTokenCount": 5,
                    "thoughtsTokenCount": 7,
                    "toolUsePromptTokenCount": 2,
                }
            ),
            {"input": 32, "cacheRead": 20, "output": 12, "reasoning": 7},
        ),
        (
            usage.of_opencode(
                {
                    "id": "msg_1",
                    "modelID": "m",
                    "cost": 0.5,
                    "tokens": {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}},
                }
            ),
            {
                "input": 1,
                "output": 5,
                "reasoning": 3,
                "cacheRead": 4,
                "cacheWrite": 5,
                "cost": 0.5,
                "model": "m",
                "request": "msg_1",
            },
        ),
    ],
)
def test_each_vendor_has_a_shape_of_its_own(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found == {"tokens": expected}


@pytest.mark.parametrize(
    "given", [None, 5, [], {}, {"input_tokens": -1, "output_tokens": True}, {"output_tokens": "9"}]
)
def test_what_is_not_a_count_is_not_counted(given: Any) -> None:
    assert usage.anthropic(given) == usage.openai(given) == usage.google(given) == {}


@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"tokens": 7}, {"tokens": {}}, {"tokens": {"input": -3}}, {"tokens": {"input": 10**10}}, {"tokens": []}],
)
def test_anybody_may_write_metadata(metadata: Any) -> None:
    assert token_usage_of(metadata) is None


def test_parts_that_make_no_sense_are_left_out() -> None:
    given = {"tokens": {"input": 3.0, "output": "5", "cost": -1, "model": 8, "request": "", "more": 1}}
    assert token_usage_of(given) == TokenUsage(input=3)


def test_the_records_of_one_answer_are_one_request(tmp_path: Path) -> None:
    """Claude Code writes a record for each block, with the usage so far."""

    def block(number: int, made: int) -> dict[str, Any]:
        message = {
            "id": "msg_1",
            "role": "assistant",
            "model": "claude-x",
            "content": [{"type": "text", "text": f"part {number}"}],
            "usage": {"input_tokens": 4, "output_tokens": made},
        }
        return claude(f"u{number}", "assistant", parentUuid=None, requestId="req_1", message=message)

    path = lines(tmp_path / "s.jsonl", block(1, 2), block(2, 30))
    assert totals(path) == (4, 0, 0, 30, 0)


def record(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-11-22T10:00:00Z", "type": kind, "payload": payload}


def said(number: int) -> dict[str, Any]:
    content = [{"type": "output_text", "text": f"answer {number}"}]
    return record("response_item", type="message", role="assistant", id=f"m{number}", content=content)


def counts(sent: int, made: int) -> dict[str, int]:
    return {"input_tokens": sent, "cached_input_tokens": 0, "output_tokens": made, "total_tokens": sent + made}


def reported(last: dict[str, int] | None, total: dict[str, int]) -> dict[str, Any]:
    info = {"total_token_usage": total, **({} if last is None else {"last_token_usage": last})}
    return record("event_msg", type="token_count", info=info)


def requested(name: str, used: dict[str, int], total: dict[str, int]) -> dict[str, Any]:
    return record("token_usage_record", thread_id="t", response_id=name, usage=used, thread_token_usage=total)


META = record("session_meta", id="11111111-2222-4333-8444-555555555555", cwd="/w")


def spent(tmp_path: Path, *records: dict[str, Any]) -> list[Any]:
    """Of each message, its tokens."""
    [messages] = read(lines(tmp_path / "rollout-x.jsonl", META, *records)).messages.values()
    return [message.get("metadata", {}).get("tokens") for message in messages]


def test_codex_tells_an_answer_s_tokens_after_it_and_twice(tmp_path: Path) -> None:
    found = spent(
        tmp_path,
        record("turn_context", model="gpt-x"),
        said(1),
        requested("r1", counts(10, 2), counts(10, 2)),
        reported(counts(10, 2), counts(10, 2)),
        said(2),
        reported(counts(20, 3), counts(30, 5)),
        reported(counts(20, 3), counts(30, 5)),
    )
    assert found[0] == {"input": 10, "output": 2, "model": "gpt-x", "request": "t:r1"}
    assert found[1].pop("request").startswith("11111111-2222-4333-8444-555555555555:")
    assert found[1] == {"input": 20, "output": 3, "model": "gpt-x"}


def test_codex_s_older_totals_are_told_apart(tmp_path: Path) -> None:
    """Without the last request's own tokens, and with a thread that began again."""
    found = spent(
        tmp_path,
        said(1),
        reported(None, counts(10, 2)),
        said(2),
        reported(None, counts(25, 6)),
        said(3),
        reported(None, counts(10, 2)),
    )
    assert len({one.pop("request") for one in found}) == 3
    assert found == [{"input": 10, "output": 2}, {"input": 15, "output": 4}, {"input": 10, "output": 2}]


def test_no_report_of_codex_is_lost(tmp_path: Path) -> None:
    """Two for one message, and one before any."""
    found = spent(
        tmp_path,
        requested("r1", counts(1, 1), counts(1, 1)),
        said(1),
        requested("r2", counts(10, 2), counts(11, 3)),
        requested("r3", counts(100, 4), counts(111, 7)),
    )
    assert found == [{"input": 111, "output": 7, "request": "t:r1+t:r2+t:r3"}]


def header(thread: str, **more: Any) -> dict[str, Any]:
    return record("session_meta", id=thread, cwd="/w", **more)


def asked(words: str) -> dict[str, Any]:
    return record("response_item", type="message", role="user", content=[{"type": "input_text", "text": words}])


def test_codex_s_forks_report_the_requests_of_their_parents(tmp_path: Path) -> None:
    """A fork of a fork has the headers of both; a subagent may have its parent's history without items and turns."""
    shared = [asked("sow"), said(1), reported(counts(10, 2), counts(10, 2))]
    second = [asked("water"), said(2), reported(counts(20, 3), counts(30, 5))]
    other = [asked("weed"), said(2), reported(counts(20, 3), counts(30, 5))]
    later = [asked("weed"), said(3), reported(counts(20, 3), counts(50, 8))]
    event = record("event_msg", type="user_message", message="sow")
    files = {
        "a": [header("a"), *shared, asked("reap"), said(3), reported(counts(20, 3), counts(30, 5))],
        "b": [header("b", forked_from_id="a"), header("a"), *shared, *second],
        "c": [header("c", forked_from_id="b"), header("b", forked_from_id="a"), header("a"), *shared, *second, *later],
        "d": [header("d", forked_from_id="a"), header("a"), event, *shared[1:], *other],
        "e": [header("e"), *shared],
    }
    paths = [lines(tmp_path / f"rollout-{name}.jsonl", *records) for name, records in files.items()]
    assert totals(*paths[:2]) == totals(*paths[1::-1]) == (50, 0, 0, 8, 0)
    assert totals(*paths[:3]) == totals(*paths[2::-1]) == (70, 0, 0, 11, 0)
    assert totals(*paths[:4]) == (90, 0, 0, 14, 0)
    assert totals(*paths) == (100, 0, 0, 16, 0)


def called(number: int) -> dict[str, Any]:
    return record("response_item", type="function_call", name="ls", arguments="{}", call_id=f"c{number}")


def returned(number: int) -> dict[str, Any]:
    return record("response_item", type="function_call_output", call_id=f"c{number}", output="leaf")


def test_codex_s_copies_without_the_answers_count_nothing_again(tmp_path: Path) -> None:
    """A fork may begin with the user's items only, and a subagent with the last answer of each turn; the reports of the requests
    in between are copied all the same. Those of the fork's own requests count, in whatever order the files are read.
    """
    first = [called(1), returned(1), reported(counts(10, 2), counts(10, 2)), called(2), returned(2)]
    first += [reported(counts(20, 3), counts(30, 5)), said(1), reported(counts(30, 4), counts(60, 9))]
    compaction = [record("compacted", message="so far"), reported(counts(7, 1), counts(67, 10))]
    reports = [one for one in first if one["type"] == "event_msg"]
    last = [*reports[:2], said(1), reports[2]]
    own = [
        asked("prune"),
        called(9),
        returned(9),
        reported(counts(40, 6), counts(100, 15)),
        said(9),
        reported(counts(1, 1), counts(101, 16)),
    ]
    ids = [requested(f"r{n}", counts(n, 1), counts(10 * n, n)) for n in (1, 2)]
    files = {
        "a": [header("a"), asked("sow"), *first],
        "b": [header("b", forked_from_id="a"), header("a"), asked("sow"), *reports, *own],
        "c": [header("c", forked_from_id="a"), header("a"), asked("sow"), *last, *own],
        "d": [header("d", forked_from_id="a"), asked("sow"), *reports],
        "e": [header("e", forked_from_id="a"), header("a"), asked("sow"), *first, *compaction],
        "f": [header("f", forked_from_id="a"), header("a"), asked("sow"), *ids],
    }
    paths = {name: lines(tmp_path / f"rollout-{name}.jsonl", *records) for name, records in files.items()}
    alone = (60, 0, 0, 9, 0)
    assert totals(paths["a"]) == totals(paths["a"], paths["d"]) == totals(paths["f"], paths["a"]) == alone
    for fork in "bc":
        assert totals(paths["a"], paths[fork]) == totals(paths[fork], paths["a"]) == (101, 0, 0, 16, 0), fork
    assert totals(paths["b"]) == totals(paths["d"], paths["b"]) == (41, 0, 0, 7, 0)


def test_opencode_s_forks_report_the_requests_of_their_parents(tmp_path: Path) -> None:
    """All but the ids is the same in the copy. A message without a time is known by its id."""

    def written(name: str, *messages: tuple[str, int, str]) -> Path:
        made = []
        for uid, created, words in messages:
            info = {
                "id": f"{uid}-{name}", "sessionID": name, "role": "assistant", "modelID": "m", "parentID": name,
                "time": {"created": created} if created else {}, "tokens": {"input": 5, "output": 1}, "cost": 0.5,
            }  # fmt: skip
            made.append({"info": info, "parts": [{"id": f"p{name}", "messageID": uid, "type": "text", "text": words}]})
        path = tmp_path / f"{name}.json"
        path.write_text(
            json.dumps({"info": {"id": f"ses_{name}", "title": name, "time": {"created": 1}}, "messages": made})
        )
        return path

    first = written("one", ("a", 1_770_000_000_000, "sown"), ("b", 1_770_000_000_000, "watered"), ("c", 0, "sown"))
    fork = written("two", ("a", 1_770_000_000_000, "sown"), ("b", 1_770_000_009_000, "watered"), ("c", 0, "sown"))
    assert totals(first) == (15, 0, 0, 3, 0)
    assert totals(first, fork) == (25, 0, 0, 5, 0)


def test_the_shape_survives_json() -> None:
    given = TokenUsage(1, 2, 3, 4, 5, cost=0.25, model="m", request="r")
    assert token_usage_of({"tokens": json.loads(json.dumps(given.wire()))}) == given
