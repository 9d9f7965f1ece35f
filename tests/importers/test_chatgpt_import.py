"""ChatGPT's export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from collected import read, recognised


def node(
    key: str, parent: str | None, children: list[str], role: str = "", text: Any = None, **more: Any
) -> dict[str, Any]:
    message = None
    if role:
        content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
        message = {
            "id": key,
            "author": {"role": role},
            "create_time": 1700000000.5,
            "content": content,
            "recipient": "all",
            "metadata": {},
            **more,
        }
    return {"id": key, "parent": parent, "children": children, "message": message}


def talk(nodes: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "title": "T",
        "create_time": 1700000000.0,
        "update_time": 1700000100.0,
        "mapping": {n["id"]: n for n in nodes},
        "conversation_id": "c1",
        **more,
    }


def exported(path: Path, *talks: Any) -> Path:
    path.write_text(json.dumps(list(talks)))
    return path


def test_a_tree_with_two_answers(tmp_path: Path) -> None:
    """Every node that says something is a message; the answer that was replaced is marked, the one that stayed is not."""
    nodes = [
        node("root", None, ["s"]),
        node("s", "root", ["u"], "system", ""),
        node("u", "s", ["a1", "a2"], "user", "hi"),
        node("a1", "u", [], "assistant", "old"),
        node(
            "a2", "u", ["t"], "assistant", {"content_type": "code", "language": "py", "text": "1+1"}, recipient="python"
        ),
        node("t", "a2", [], "tool", {"content_type": "execution_output", "text": "2"}),
    ]
    path = exported(tmp_path / "conversations.json", talk(nodes, current_node="t", default_model_slug="gpt-x"))
    assert recognised(path) == "chatgpt"
    stream = read(path)
    assert stream.told() == [("user", "hi"), ("assistant", "old"), ("assistant", ""), ("tool", "2")]
    assert [bool(m["metadata"].get("branch")) for m in stream.only] == [False, True, False, False]
    assert stream.only[2]["toolCalls"] == [{"id": "a2", "name": "python", "arguments": "1+1"}]
    assert stream.only[3]["toolCallId"] == "a2"
    assert stream.only[0]["timestamp"] == "2023-11-14T22:13:20.500Z"
    assert (stream.only_info["name"], stream.only_info["model"]) == ("T", "gpt-x")


def test_circles_and_holes_lose_nothing(tmp_path: Path) -> None:
    """Nodes that no root leads to, or that lead back to themselves, are messages once."""
    nodes = [
        node("a", "b", ["b"], "user", "one"),
        node("b", "a", ["a"], "assistant", "two"),
        node("c", "gone", ["nowhere"], "user", "three"),
    ]
    stream = read(exported(tmp_path / "conversations.json", talk(nodes, current_node="b")))
    assert sorted(content for _, content in stream.told()) == ["one", "three", "two"]


def test_images_thoughts_and_broken_conversations(tmp_path: Path) -> None:
    """Images stay blocks, thoughts are thinking, a conversation without a tree is reported and the next one read."""
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    nodes = [
        node("u", None, ["t"], "user", {"content_type": "multimodal_text", "parts": [image, "what is it?"]}),
        node(
            "t",
            "u",
            [],
            "assistant",
            {"content_type": "thoughts", "thoughts": [{"summary": "Look", "content": "a cat"}]},
            recipient="all",
        ),
    ]
    stream = read(exported(tmp_path / "conversations.json", {"title": "broken", "mapping": 5}, talk(nodes)))
    assert stream.only[0]["content"] == [image, {"type": "text", "text": "what is it?"}]
    assert len(stream.skipped) == 1


def test_a_tree_of_other_shapes(tmp_path: Path) -> None:
    """Invalid parents, children and nodes are lost alone: the rest of the conversation and the other ones remain."""
    nodes = [
        node("a", None, ["b", "b", 7, {"x": 1}, "nowhere"], "user", "one"),  # type: ignore[list-item]
        {**node("b", "a", [], "assistant", "two"), "parent": {"id": "a"}},
        {**node("c", "a", [], "user", "three"), "parent": ["a"]},
        {**node("d", "d", ["d"], "user", "four")},
        {**node("e", None, [], "user", "five"), "children": "a"},
    ]
    odd = talk(nodes, current_node="d")
    odd["mapping"]["f"] = None
    odd["mapping"]["g"] = {**node("g", None, [], "user", "six"), "message": "text"}
    path = exported(
        tmp_path / "conversations.json", odd, "none", talk([node("z", None, [], "user", "last")], conversation_id="c2")
    )
    stream = read(path)
    assert sorted(one["content"] for one in stream.messages["c1"]) == ["five", "four", "one", "three", "two"]
    assert [one["content"] for one in stream.messages["c2"]] == ["last"]
    assert [one.reason for one in stream.skipped] == ["not a conversation: it has no mapping"]


def test_content_of_other_shapes(tmp_path: Path) -> None:
    """Text is found in any place; content of an unknown shape is kept as it is written."""
    shapes: list[Any] = [
        {"content_type": "t", "result": "a result"},
        {"content_type": "t", "user_instructions": "instructions"},
        {"content_type": "x", "unknown": 1},
        {"parts": ["one", "", None, {"asset_pointer": "file"}]},
        "bare",
    ]
    nodes = [node(f"n{n}", f"n{n - 1}" if n else None, [f"n{n + 1}"], "user", "x") for n in range(len(shapes))]
    for one, shape in zip(nodes, shapes, strict=True):
        one["message"]["content"] = shape
    nodes.append({**node("n5", "n4", [], "user", "x"), "message": {"author": None, "content": {"parts": ["whose"]}}})
    nodes[4]["children"] = ["n5"]
    stream = read(exported(tmp_path / "conversations.json", talk(nodes, current_node="n5")))
    found = [one["content"] for one in stream.messages["c1"]]
    assert found[:2] == ["a result", "instructions"]
    assert json.loads(found[2]) == shapes[2]
    assert [part.get("text") for part in found[3]] == ["one", None]
    assert found[4:] == ["bare", "whose"]
    assert stream.messages["c1"][5]["role"] == "unknown"


def test_an_export_that_is_cut_off_gives_the_conversations_before(tmp_path: Path) -> None:
    """Complete conversations are imported, and the cut is reported."""
    path = exported(tmp_path / "conversations.json", talk([node("a", None, [], "user", "one")]), talk([]))
    path.write_text(path.read_text()[:-30])
    stream = read(path)
    assert stream.told() == [("user", "one")]
    assert "cut off" in stream.skipped[0].reason


def test_one_conversation_by_itself_and_a_wrapped_list(tmp_path: Path) -> None:
    """A file may be one conversation, or an object that holds the list."""
    single = talk([node("a", None, [], "user", "one")])
    path = tmp_path / "one.json"
    path.write_text(json.dumps(single))
    assert recognised(path) == "chatgpt"
    assert read(path).told() == [("user", "one")]
    path.write_text(json.dumps({"about": 1, "conversations": [single]}))
    assert read(path).told() == [("user", "one")]


def test_who_wrote_a_message(tmp_path: Path) -> None:
    """A tool's name is kept, what the user never saw is injected, the model that answered is the session's."""
    nodes = [
        node("a", None, ["b"], "user", "about me", metadata={"is_user_system_message": True}),
        node("b", "a", ["c"], "user", "hi"),
        node("c", "b", ["d"], "tool", "found", author={"role": "tool", "name": "browser"}),
        node("d", "c", [], "assistant", "ho", metadata={"model_slug": "gpt-q"}),
    ]
    stream = read(exported(tmp_path / "conversations.json", talk(nodes, current_node="d")))
    assert [bool(m["metadata"].get("injected")) for m in stream.only] == [True, False, False, False]
    assert stream.only[2]["metadata"]["author"] == {"role": "tool", "name": "browser"}
    assert stream.only_info["model"] == "gpt-q"


def test_a_message_without_content_or_with_thoughts_that_are_none(tmp_path: Path) -> None:
    """Thoughts of another shape are not thinking; a thought with only a summary is represented by that."""
    shapes = [{"thoughts": "none", "text": "a"}, {"thoughts": [{"summary": "Look"}, 5], "text": "b"}]
    nodes = [node(f"n{n}", None, [], "assistant", shape) for n, shape in enumerate(shapes)]
    stream = read(exported(tmp_path / "conversations.json", talk(nodes)))
    assert [(m["content"], m.get("thinking")) for m in stream.only] == [("a", None), ("b", "Look")]
