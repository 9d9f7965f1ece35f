"""Copilot Chat in VS Code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from collected import lines, read, recognised

from sessiond.importers.copilot_chat import CopilotChat
from sessiond.importers.object_log import ObjectLog
from tests.importers.tools import calls, imported_twice, told

T = 1700000000000
ROUNDS = [
    {
        "response": "I look.",
        "thinking": {"id": "x", "text": ["h", "m"]},
        "toolCalls": [{"id": "c1", "name": "read_file", "arguments": '{"path":"a"}'}],
    },
    {"response": "Apples.", "toolCalls": []},
]
TREE = {"value": {"node": {"type": 1, "children": [{"type": 2, "text": "ap"}, {"type": 2, "text": "ples"}]}}}
SHOWN: list[dict[str, Any]] = [
    {"kind": "thinking", "value": "hm"},
    {"value": "See "},
    {"kind": "inlineReference", "inlineReference": {"fsPath": "/w/a.txt"}},
    {"value": " first."},
    {"kind": "undoStop", "id": "u"},
    {"kind": "toolInvocationSerialized", "toolCallId": "v1", "toolId": "read", "isComplete": False},
    {
        "kind": "toolInvocationSerialized",
        "toolCallId": "v1",
        "toolId": "read",
        "pastTenseMessage": {"value": "Read a"},
        "resultDetails": {"input": '{"path":"a"}', "output": [{"type": "embed", "value": "apples"}]},
    },
    {"kind": "textEditGroup", "uri": {"path": "/w/a.txt"}, "edits": []},
    {"value": "Done."},
]


def request(number: int, text: str, response: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "requestId": f"request_{number}",
        "message": {"text": text, "parts": []},
        "response": response,
        "timestamp": T + number * 1000,
        "modelId": "copilot/gpt-x",
        **more,
    }


REQUESTS = [
    request(
        1,
        "What is in a?",
        [{"value": "I look."}, *SHOWN[5:8], {"value": "Apples."}],
        responseId="response_1",
        result={
            "timings": {"totalElapsed": 5},
            "metadata": {"toolCallRounds": ROUNDS, "toolCallResults": {"c1": {"$mid": 1, "content": [TREE]}}},
        },
    ),
    request(2, "And b?", SHOWN, isCanceled=True, result={"metadata": {}}),
]
SESSION = {
    "version": 3,
    "requesterUsername": "me",
    "responderUsername": "GitHub Copilot",
    "initialLocation": "panel",
    "sessionId": "s1",
    "creationDate": T,
    "customTitle": "Fruit",
    "requests": REQUESTS,
}


def session(folder: Path) -> Path:
    path = folder / "workspaceStorage" / "abc" / "chatSessions" / "s1.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(SESSION))
    (path.parents[1] / "workspace.json").write_text('{"folder": "file:///home/me/my%20work"}')
    return path


def log(folder: Path) -> Path:
    first, second = REQUESTS
    return lines(
        folder / "s1.jsonl",
        {"kind": 0, "v": {**SESSION, "requests": []}},
        {"kind": 2, "k": ["requests"], "v": [{**first, "response": []}, {"requestId": "wrong"}]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": first["response"]},
        {"kind": 2, "k": ["requests"], "v": [second], "i": 1},
        {"kind": 1, "k": ["customTitle"], "v": "Berries"},
        {"kind": 3, "k": ["requesterUsername"]},
    )


EXPECTED = [
    ("user", "What is in a?"),
    ("assistant", "I look."),
    ("tool", "apples"),
    ("assistant", "Apples."),
    ("user", "And b?"),
    ("assistant", "See `a.txt` first."),
    ("tool", "apples"),
    ("assistant", "Done."),
]


def test_a_session(tmp_path: Path) -> None:
    """The rounds with the model count; without them, what was shown does. Its pieces become one text, and a call appears once."""
    path = session(tmp_path)
    assert recognised(path) == "copilot-chat"
    stream = read(path)
    assert told(stream.only) == EXPECTED
    _, asked, result, _, _, shown, output, done = stream.only
    assert (asked["thinking"], calls(asked)) == ("hm", [("c1", "read_file", '{"path":"a"}')])
    assert (result["toolCallId"], output["toolCallId"]) == ("c1", "v1")
    assert (shown["thinking"], calls(shown)) == ("hm", [("v1", "read", '{"path":"a"}')])
    assert shown["status"] == "interrupted"
    assert [one["kind"] for one in shown["metadata"]["response"]] == ["textEditGroup"]
    assert asked["metadata"]["timings"] == {"totalElapsed": 5}
    assert done["timestamp"] == "2023-11-14T22:13:22.000Z"
    info = stream.only_info
    assert (info["name"], info["model"], info["cwd"]) == ("Fruit", "copilot/gpt-x", "/home/me/my work")


def test_a_log_of_changes_gives_the_same(tmp_path: Path) -> None:
    """The newer layout has the changes; its last state is the session."""
    path = log(tmp_path)
    assert recognised(path) == "copilot-chat"
    stream = read(path)
    assert told(stream.only) == EXPECTED
    assert stream.only_info["name"] == "Berries"
    assert "requesterUsername" not in stream.only_info["metadata"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": 7, "k": ["a"]}, "a change of unknown kind 7"),
        ({"kind": 1, "k": ["requests", 9, "x"], "v": 1}, "a change of requests.9.x, which is not there"),
        ({"kind": 2, "k": []}, "a change without a path"),
        ({"kind": 1, "k": [5], "v": 1}, "a change of 5, which is not there"),
        ({"kind": 2, "k": ["requests"], "v": 5}, "a change of requests, which is not there"),
        ({"kind": 1, "k": [], "v": {}}, None),
        ({"kind": 1, "k": ["requests", 0], "v": {}}, None),
    ],
)
def test_changes_that_do_not_fit(change: dict[str, Any], reason: str | None) -> None:
    """The log reports them and applies the others."""
    log = ObjectLog()
    assert log.apply({"kind": 0, "v": {"requests": []}}) is None
    assert log.apply(change) == reason


def test_a_log_without_its_beginning_gives_the_rest(tmp_path: Path) -> None:
    """Whole requests come in, also those that came after a head that was cut off, with one warning; the file names the session."""
    whole = log(tmp_path)
    first, *others = whole.read_bytes().splitlines(keepends=True)
    path = tmp_path / "s2.jsonl"
    for head in (b"", first[: len(first) // 2] + b"\n"):
        path.write_bytes(head + b"".join(others))
        assert recognised(path) == "copilot-chat"
        stream = read(path)
        assert told(stream.only) == EXPECTED
        assert [one.reason.partition(";")[0] for one in stream.repaired] == ["the beginning of the log is missing"]
        assert len(stream.skipped) == (1 if head else 0)
        assert stream.only_info["name"] == "Berries"
        assert list(stream.starts) == ["s2"]


def test_the_changes_of_a_log_without_its_beginning_find_their_requests(tmp_path: Path) -> None:
    """Indexes count from the beginning that is lost. The answer to a prompt in it comes in without the prompt, before the others;
    what no index can mean is reported.
    """
    path = lines(
        tmp_path / "s3.jsonl",
        {"kind": 1, "k": ["inputState", "text"], "v": "typed"},
        {"kind": 2, "k": ["requests"], "v": [request(9, "And c?", [])]},
        {"kind": 2, "k": ["requests", 8, "response"], "v": [{"value": "Pears."}]},
        {"kind": 2, "k": ["requests", 7, "response"], "v": [{"value": "The lost one's answer."}]},
        {"kind": 2, "k": ["requests"], "v": [request(10, "And d?", [{"value": "Plums."}])], "i": 9},
        {"kind": 2, "k": ["requests", 6, "response"], "v": [{"value": "An earlier answer."}]},
        {"kind": 1, "k": ["requests", 10**9, "response"], "v": []},
        {"kind": 1, "k": ["requests", -1, "response"], "v": []},
    )
    stream = read(path)
    assert told(stream.only) == [
        ("assistant", "An earlier answer."),
        ("assistant", "The lost one's answer."),
        ("user", "And c?"),
        ("assistant", "Pears."),
        ("user", "And d?"),
        ("assistant", "Plums."),
    ]
    assert [one.line for one in stream.skipped] == [7, 8]


def test_a_damaged_log_gives_the_rest(tmp_path: Path) -> None:
    """A line that is cut off is reported; the changes before it are kept."""
    path = log(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    stream = read(path)
    assert told(stream.only) == EXPECTED
    assert [one.line for one in stream.skipped] == [6]


def test_a_cut_document_gives_what_came_before(tmp_path: Path) -> None:
    """Whole requests are imported, and the cut is reported."""
    path = session(tmp_path)
    path.write_text(path.read_text()[:-10])
    stream = read(path)
    assert told(stream.only) == EXPECTED[:4]
    assert "cut off" in stream.skipped[0].reason


def test_another_document_is_not_recognised(tmp_path: Path) -> None:
    """Other programs write lists of requests too."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"requests": [], "sessionId": "s"}))
    assert recognised(path) is None


def test_its_places_are_in_the_workspaces(tmp_path: Path) -> None:
    """Each workspace has a folder of sessions, which is found below the editor's."""
    user = tmp_path / ".config" / "Code" / "User"
    folder = session(user).parent
    assert str(folder) in CopilotChat().places(str(tmp_path), {})


async def test_a_second_import_brings_nothing(tmp_path: Path) -> None:
    """Each message has the same id in every import, in either layout."""
    await imported_twice(tmp_path / "home", session(tmp_path), 8)
    await imported_twice(tmp_path / "other", log(tmp_path), 8)
