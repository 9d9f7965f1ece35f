"""What a compression of Gemini CLI 0.61 keeps: it writes a checkpoint in which these messages have new ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.importers.collected import lines, read
from tests.importers.test_agents_of_today import S, gemini, texts


def compressed() -> list[dict[str, Any]]:
    """A file in which Gemini CLI compresses twice, is resumed in between, and gives what it keeps new ids each time."""

    def call(number: int) -> dict[str, Any]:
        result = {"functionResponse": {"id": f"call_{number}", "name": "ls", "response": {"output": f"{number}.txt"}}}
        return {"id": f"call_{number}", "name": "ls", "args": {}, "result": [result]}

    def sent(id_: str, number: int) -> list[dict[str, Any]]:
        named = {"id": f"call_{number}", "name": "ls"}
        return [
            gemini(id_, "gemini", [{"text": "Let me look."}, {"functionCall": {**named, "args": {}}}]),
            gemini(f"{id_}_response", "user", call(number)["result"]),
        ]

    def text(id_: str, kind: str, said: str) -> dict[str, Any]:
        return gemini(id_, kind, [{"text": said}])

    setting = text("ctx", "user", "<session_context>\nlinux")
    thanks = "Got it. Thanks for the additional context!"
    first = [
        setting, text("s1", "user", "<state_snapshot>one</state_snapshot>"), text("g1", "gemini", thanks),
        text("k1", "user", "And now?"), *sent("k2", 2),
    ]  # fmt: skip
    second = [
        setting, text("s2", "user", "<state_snapshot>two</state_snapshot>"), text("g2", "gemini", thanks),
        *sent("n2", 2), text("n3", "gemini", "A pear."),
    ]  # fmt: skip
    return [
        {"sessionId": S, "projectHash": "h", "kind": "main"},
        {"$set": {"messages": [setting]}},
        text("a", "user", "What is here?"),
        gemini("b", "gemini", "Let me look.", toolCalls=[call(1)]),
        gemini("c", "gemini", "An apple."),
        text("d", "user", "And now?"),
        gemini("e", "gemini", "Let me look."),
        gemini("e", "gemini", "Let me look.", toolCalls=[call(2)]),
        {"$set": {"messages": first}},
        gemini("r", "user", call(2)["result"]),
        gemini("f", "gemini", "A pear."),
        {"sessionId": S, "projectHash": "h", "kind": "main"},
        {"$set": {"messages": [setting]}},
        {"$set": {"messages": [*first, text("f", "gemini", "A pear.")]}},
        text("h", "user", "What else?"),
        {"$set": {"messages": second}},
        gemini("i", "gemini", "Nothing."),
    ]


def test_what_a_compression_of_gemini_keeps_comes_in_once(tmp_path: Path) -> None:
    """With its ids of before. The summary names the first of it."""
    path = lines(tmp_path / "session-2026-11-23T10-11-4c14d029.jsonl", *compressed())
    stream = read(path)
    thanks = ("assistant", "Got it. Thanks for the additional context!")
    assert texts(stream.only) == [
        ("user", "<session_context>\nlinux"), ("user", "What is here?"), ("assistant", "Let me look."), ("tool", "1.txt"),
        ("assistant", "An apple."), ("user", "And now?"), ("assistant", "Let me look."), ("tool", "2.txt"),
        ("user", "<state_snapshot>one</state_snapshot>"), thanks, ("assistant", "A pear."),
        ("user", "What else?"), ("user", "<state_snapshot>two</state_snapshot>"), thanks, ("assistant", "Nothing."),
    ]  # fmt: skip
    marks = {"checkpoint": True, "injected": True}
    one, two = stream.only[8], stream.only[12]
    assert (one["metadata"], two["metadata"]) == (
        {**marks, "firstKeptEntryId": "d"},
        {**marks, "firstKeptEntryId": "e"},
    )
    assert stream.only[9]["metadata"] == {"checkpoint": True}
    assert not stream.unknown


def test_a_rewind_to_what_a_compression_kept_takes_nothing_back_before_it(tmp_path: Path) -> None:
    """It names the message by its new id."""
    records = [*compressed()[:9], {"$rewindTo": "k1"}, gemini("l", "user", [{"text": "Something else."}])]
    stream = read(lines(tmp_path / "session-2026-11-23T10-11-4c14d029.jsonl", *records))
    taken_back = [one["id"] for one in stream.only if one.get("metadata", {}).get("rewound")]
    assert [one for one in taken_back if "-" not in one] == ["d", "e"]


def test_a_checkpoint_of_gemini_has_the_end_of_a_text(tmp_path: Path) -> None:
    """A message stays as it was but for the words that only the checkpoint has, its call and result included; another checkpoint may
    have more for what only one had. Where it has other words, or fewer, nothing is changed.
    """
    result = {"functionResponse": {"id": "call_1", "name": "ls", "response": {"output": "1.txt"}}}
    call = {"id": "call_1", "name": "ls", "args": {}}
    held = [
        gemini("a", "user", [{"text": "What is"}]), gemini("b", "gemini", "Let me", toolCalls=[{**call, "result": [result]}]),
        gemini("c", "gemini", "An apple."), gemini("d", "gemini", "A pear."),
    ]  # fmt: skip
    first = gemini("s", "user", [{"text": "<state_snapshot>one"}])
    checkpoint = [
        gemini("s", "user", [{"text": "<state_snapshot>one</state_snapshot>"}]),
        gemini("a", "user", [{"text": "What is"}, {"text": " here?"}]),
        gemini("b", "gemini", [{"text": "Let me look."}, {"functionCall": call}]),
        gemini("c", "gemini", [{"text": "Something else and longer."}]), gemini("d", "gemini", [{"text": "A"}]),
    ]  # fmt: skip
    head: dict[str, Any] = {"sessionId": S, "projectHash": "h"}
    records = [head, {"$set": {"messages": [first]}}, *held, {"$set": {"messages": checkpoint}}]
    stream = read(lines(tmp_path / "session-2026-11-23T10-11-4c14d029.jsonl", *records))
    assert ["".join(one["text"] for one in said) if isinstance(said, list) else said for _, said in texts(stream.only)] == [
        "<state_snapshot>one</state_snapshot>", "What is here?", "Let me look.", "1.txt", "An apple.", "A pear.",
    ]  # fmt: skip
    assert [one["id"] for one in stream.only[2]["toolCalls"]] == ["call_1"]


def test_what_only_a_checkpoint_of_gemini_has_keeps_its_calls(tmp_path: Path) -> None:
    """The same words after a rewind are a new message, not a repetition."""
    asked = [{"text": "Let me look."}, {"functionCall": {"id": "call_9", "name": "ls", "args": {"path": "x"}}}]
    path = lines(
        tmp_path / "session-2026-11-23T10-11-4c14d029.jsonl",
        {"sessionId": S, "projectHash": "h"},
        gemini("a", "user", [{"text": "What is here?"}]),
        {"$rewindTo": "a"},
        {"$set": {"messages": [gemini("b", "gemini", asked), gemini("k", "user", [{"text": "What is here?"}])]}},
    )
    stream = read(path)
    assert [one["id"] for one in stream.only] == ["a", "b", "k"]
    assert texts(stream.only)[1] == ("assistant", "Let me look.")
    assert stream.only[1]["toolCalls"] == [{"id": "call_9", "name": "ls", "arguments": {"path": "x"}}]
    assert not stream.unknown


def test_a_record_without_a_kind_costs_itself(tmp_path: Path) -> None:
    """The whole file could not be read, because all records are looked at before any is."""
    records = compressed()
    odd = {key: value for key, value in records[2].items() if key != "type"}
    whole = read(lines(tmp_path / "a" / "session-1.jsonl", *records)).told()
    assert read(lines(tmp_path / "b" / "session-1.jsonl", *records, {**odd, "id": "odd"})).told() == whole
