"""Gemini CLI, Continue and gptel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from collected import lines, read, recognised

from sessiond.importers import gptel

T = "2026-02-01T10:00:00.000Z"


def spoken(n: int, kind: str, text: Any, **more: Any) -> dict[str, Any]:
    return {"id": f"g{n}", "timestamp": T, "type": kind, "content": text, **more}


def test_gemini_counts_the_last_version_of_each_message(tmp_path: Path) -> None:
    """A message that was written again is one message; what was rewound is kept and marked; $set changes the header."""
    call = {
        "id": "c1",
        "name": "ls",
        "args": {"d": "."},
        "status": "success",
        "timestamp": T,
        "result": [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a.txt"}}}],
    }
    path = lines(
        tmp_path / "chats" / "session-1.jsonl",
        {"sessionId": "s1", "projectHash": "h", "startTime": T, "lastUpdated": T},
        spoken(1, "user", [{"text": "hi"}]),
        spoken(2, "gemini", "hel"),
        spoken(2, "gemini", "hello", thoughts=[{"subject": "S", "description": "d"}], model="gem", toolCalls=[call]),
        spoken(3, "user", "wrong"),
        {"$rewindTo": "g3"},
        {"$set": {"summary": "A talk"}},
        spoken(4, "info", "note"),
        b'{"id": "g5", "ty',
    )
    assert recognised(path) == "gemini-cli"
    stream = read(path)
    assert stream.told() == [
        ("user", "hi"),
        ("assistant", "hello"),
        ("tool", "a.txt"),
        ("user", "wrong"),
        ("system", "note"),
    ]
    assert stream.only[1]["thinking"] == "S: d"
    assert stream.only[1]["toolCalls"][0]["name"] == "ls"
    assert stream.only[2]["toolCallId"] == "c1"
    assert [bool(m.get("metadata", {}).get("rewound")) for m in stream.only] == [False, False, False, True, False]
    assert (stream.only_info["name"], stream.only_info["model"]) == ("A talk", "gem")
    assert [s.line for s in stream.skipped] == [9]


def test_geminis_older_documents(tmp_path: Path) -> None:
    """One JSON document with all messages; a subagent's leads to its parent."""
    path = tmp_path / "parent1" / "sub.json"
    path.parent.mkdir()
    path.write_text(
        json.dumps(
            {
                "sessionId": "s2",
                "projectHash": "h",
                "startTime": T,
                "kind": "subagent",
                "messages": [spoken(1, "user", "a"), spoken(2, "gemini", "b")],
            }
        )
    )
    assert recognised(path) == "gemini-cli"
    stream = read(path)
    assert stream.told() == [("user", "a"), ("assistant", "b")]
    assert stream.only_info["parent"]["sessionId"] == "gemini-cli-parent1"


def test_continue_takes_times_from_the_list_beside_it(tmp_path: Path) -> None:
    """Title, folder, calls, context items and the date of the list are kept; the list itself is not a session."""
    listing = [{"sessionId": "x1", "title": "T", "dateCreated": "1700000000000", "workspaceDirectory": "file:///w"}]
    (tmp_path / "sessions.json").write_text(json.dumps(listing))
    path = tmp_path / "x1.json"
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"p":1}'}}
    history = [
        {
            "message": {"role": "user", "content": [{"type": "text", "text": "hi"}], "id": "m1"},
            "contextItems": [{"name": "f"}],
        },
        {"message": {"role": "thinking", "content": "hm"}},
        {"message": {"role": "assistant", "content": "", "toolCalls": [call]}},
        {"message": {"role": "tool", "content": "r", "toolCallId": "c"}},
        {"nothing": 1},
    ]
    path.write_text(
        json.dumps({"sessionId": "x1", "title": "Talk", "workspaceDirectory": "file:///home/w%20x", "history": history})
    )
    assert (recognised(path), recognised(tmp_path / "sessions.json")) == ("continue", None)
    stream = read(path)
    assert stream.told() == [("user", "hi"), ("assistant", ""), ("assistant", ""), ("tool", "r")]
    assert stream.only[1]["thinking"] == "hm"
    assert stream.only[2]["toolCalls"] == [{"id": "c", "name": "read", "arguments": '{"p":1}'}]
    assert stream.only[0]["metadata"]["contextItems"] == [{"name": "f"}]
    assert stream.only[0]["timestamp"] == "2023-11-14T22:13:20.000Z"
    assert (stream.only_info["name"], stream.only_info["cwd"]) == ("Talk", "/home/w x")
    assert len(stream.skipped) == 1


def org_chat(bounds: str = '((response (%d %d)) (tool (%d %d "call1")))') -> tuple[str, str]:
    """An Org chat whose bounds are right: they count the drawer that holds them."""
    head = ":PROPERTIES:\n:GPTEL_MODEL: gpt-y\n:GPTEL_SYSTEM: be\\nkind\n:GPTEL_BOUNDS: {}\n:END:\n"
    body = ("*** What is 1+1?\n\n", "Two. 日本\n", "\n#+begin_tool\n42\n#+end_tool\n", "\n*** Thanks\n")
    text = bounds
    for _ in range(6):
        start = len(head.format(text)) + len(body[0]) + 1
        middle = start + len(body[1])
        text = bounds % (start, middle, middle, middle + len(body[2]))
    return head.format(text) + "".join(body), text


def test_gptel_in_org(tmp_path: Path) -> None:
    """Bounds are characters of the file; uncovered text is the user's, the drawer is ignored."""
    path = tmp_path / "chat.org"
    path.write_text(org_chat()[0])
    assert recognised(path) == "gptel"
    stream = read(path)
    assert stream.told() == [
        ("system", "be\nkind"),
        ("user", "*** What is 1+1?"),
        ("assistant", "Two. 日本"),
        ("tool", "#+begin_tool\n42\n#+end_tool"),
        ("user", "*** Thanks"),
    ]
    assert stream.only[3]["toolCallId"] == "call1"
    assert stream.only_info["model"] == "gpt-y"


def test_gptel_in_markdown_with_local_variables(tmp_path: Path) -> None:
    """The older bounds of pairs, in the file's local variables, which are nobody's words."""
    body = "### Question\n\nAnswer here.\n\n### More\n\n"
    start = body.index("Answer") + 1
    tail = (
        "<!-- Local Variables: -->\n<!-- gptel-model: gpt-z -->\n"
        f'<!-- gptel--system-message: "short" -->\n<!-- gptel--bounds: (({start} . {start + 12})) -->\n<!-- End: -->\n'
    )
    path = tmp_path / "chat.md"
    path.write_text(body + tail)
    assert recognised(path) == "gptel"
    stream = read(path)
    assert stream.told() == [
        ("system", "short"),
        ("user", "### Question"),
        ("assistant", "Answer here."),
        ("user", "### More"),
    ]
    assert stream.only_info["model"] == "gpt-z"


def test_gptels_broken_bounds_lose_no_word(tmp_path: Path) -> None:
    """Bounds that cannot be read, or lie outside the file, leave everything to the user, and it is said."""
    path = tmp_path / "chat.org"
    path.write_text(':PROPERTIES:\n:GPTEL_BOUNDS: #.(shell-command "x")\n:END:\nhello\n')
    stream = read(path)
    assert stream.told() == [("user", "hello")]
    assert len(stream.repaired) == 1
    path.write_text(":PROPERTIES:\n:GPTEL_BOUNDS: ((response (5 999999) (3 1)))\n:END:\nhello\n")
    assert read(path).told() == [("assistant", "hello")]


def test_geminis_documents_that_are_cut_off_or_odd(tmp_path: Path) -> None:
    """Complete messages are imported; a call without a result is not a result; parts of any shape become text or are kept."""
    call = {"id": "c", "name": "ls", "args": {}}
    parts = [
        "bare",
        {"functionResponse": {"response": "plain"}},
        {"functionResponse": {"response": {"error": "no"}}},
        {"inlineData": {}},
    ]
    whole = {
        "sessionId": "s3",
        "projectHash": "h",
        "messages": [spoken(1, "user", parts), spoken(2, "gemini", None, toolCalls=[call]), spoken(3, "user", "lost")],
    }
    path = tmp_path / "session-2.json"
    path.write_text(json.dumps(whole)[:-20])
    stream = read(path)
    assert [m["role"] for m in stream.only] == ["user", "assistant"]
    assert [b.get("text") for b in stream.only[0]["content"]] == ["bare", "plain", "no", None]
    assert stream.only[0]["content"][3] == {"inlineData": {}}
    assert stream.only[1]["toolCalls"][0]["id"] == "c"
    assert "cut off" in stream.skipped[0].reason


def test_geminis_lines_that_belong_to_nothing_are_no_messages(tmp_path: Path) -> None:
    """A record of neither id nor session changes nothing."""
    header = {"sessionId": "s1", "projectHash": "h", "startTime": T}
    path = lines(tmp_path / "chats" / "session-1.jsonl", header, {"heartbeat": 1}, spoken(1, "user", "hi"))
    stream = read(path)
    assert stream.told() == [("user", "hi")]
    assert "heartbeat" not in stream.only_info["metadata"]


def test_continue_without_its_list(tmp_path: Path) -> None:
    """The list may be missing, or know nothing of the session; entries may be bare messages; a cut is reported."""
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "lost in the cut"}]
    path = tmp_path / "x2.json"
    path.write_text(json.dumps({"sessionId": "x2", "workspaceDirectory": "", "history": history})[:-20])
    before = read(path)
    assert before.told() == [("user", "hi")]
    assert "cwd" not in before.only_info
    assert "cut off" in before.skipped[0].reason
    (tmp_path / "sessions.json").write_text(json.dumps([7, {"sessionId": "other", "dateCreated": 1700000000000}]))
    assert read(path).only_info["createdAt"] == before.only_info["createdAt"]
    (tmp_path / "sessions.json").write_text(json.dumps([{"sessionId": "x2", "dateCreated": 1700000000000}]))
    assert read(path).only_info["createdAt"] == "2023-11-14T22:13:20.000Z"


def test_what_gptel_does_not_send_is_not_a_message(tmp_path: Path) -> None:
    """Thoughts belong to the response, other text is kept with the next message, and a prefix that waits is nothing."""
    path = tmp_path / "chat.org"
    pieces = [
        ("user", "*** Why?\n\n"),
        ("ignore", "#+begin_reasoning\nLet me see.\n#+end_reasoning\n"),
        ("response", "Because.\n\n"),
        ("ignore", "a remark of mine\n"),
        ("user", "*** And then?\n\n"),
        ("response", "Then.\n\n"),
        ("user", "*** "),
    ]
    body = "".join(text for _, text in pieces)
    drawer = ":PROPERTIES:\n:GPTEL_BOUNDS: {}\n:END:\n"
    bounds = "".ljust(80)
    for _ in range(2):
        at, spans = len(drawer.format(bounds)) + 1, {"response": "", "ignore": ""}
        for kind, text in pieces:
            if kind in spans:
                spans[kind] += f" ({at} {at + len(text)})"
            at += len(text)
        bounds = "(" + " ".join(f"({kind}{found})" for kind, found in spans.items()) + ")"
        bounds = bounds.ljust(80)
    path.write_text(drawer.format(bounds) + body)
    stream = read(path)
    assert stream.told() == [
        ("user", "*** Why?"), ("assistant", "Because."), ("user", "*** And then?"), ("assistant", "Then."),
    ]  # fmt: skip
    assert stream.only[1]["thinking"] == "Let me see."
    assert stream.only[2]["metadata"] == {"ignored": ["a remark of mine"]}


def test_gptels_odd_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are not UTF-8 are replaced and reported, half a bound does not count, ignored text is nobody's message, a
    file beyond the limit is reported.
    """
    path = tmp_path / "chat.md"
    body = b"caf\xe9 one two three\n\n"
    path.write_bytes(body + b"<!-- Local Variables: -->\n<!-- gptel-model: m -->\n"
                     b"<!-- gptel--bounds: ((ignore (6 9)) (response (10 13) (11 12) (5))) -->\n<!-- End: -->\n")  # fmt: skip
    stream = read(path)
    assert stream.told() == [("user", "caf\ufffd "), ("assistant", "two"), ("user", " three")]
    assert stream.only[1]["metadata"] == {"ignored": ["one"]}
    assert [one.reason for one in stream.repaired] == ["replaced bytes that are not valid UTF-8"]
    monkeypatch.setattr(gptel, "MAX_FILE_BYTES", 10)
    assert "larger than" in read(path).skipped[0].reason
