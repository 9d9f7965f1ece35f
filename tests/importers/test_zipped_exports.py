"""Exports as the ZIP files that people get: understood as the folder in them, read where they are, and bounded."""

from __future__ import annotations

import json
import os
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from collected import Stream, snapshot
from test_chatgpt_import import node, talk

from sessiond.importers import registry, zipped
from sessiond.importers.record import SkippedLine, open_source
from sessiond.importers.registry import Found

CLAUDE = [{"uuid": "k1", "name": "Tea", "created_at": "2026-01-02T03:04:05Z", "chat_messages": [
    {"uuid": "m1", "sender": "human", "text": "How long for green tea?", "created_at": "2026-01-02T03:04:05Z"}]}]  # fmt: skip
TAKEOUT = [{
    "header": "Gemini Apps", "title": "Prompted name a river", "time": "2026-01-02T03:04:05Z", "products": ["Gemini Apps"],
    "safeHtmlItem": [{"html": "<p>Elbe</p>"}],
}]  # fmt: skip


def chat(key: str, text: str) -> dict[str, Any]:
    return talk([node(f"{key}-1", None, [], "user", text)], conversation_id=key)


def packed(path: Path, members: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return path


def found(path: Path, tool: str | None = None) -> list[Found | SkippedLine]:
    return list(registry.walk(str(path), tool))


def texts(path: Path, tool: str) -> dict[str, list[str]]:
    stream = Stream(registry.read(tool, str(path), open_source))
    assert not stream.skipped
    return {key: [one["content"] for one in messages] for key, messages in stream.messages.items()}


NEWER = {
    "conversations-001.json": [chat("c3", "third")], "conversations-000.json": [chat("c1", "first"), chat("c2", "second")],
    "user.json": {"id": "u"}, "chat.html": b"<html>", "file-1.png": b"\x89PNG", "user-x/note.json": CLAUDE,
    "__MACOSX/._conversations-000.json": b"\0\5",
}  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "members", "keys"),
    [
        ("chatgpt", {"conversations.json": [chat("c1", "a")], "message_feedback.json": []}, ["c1"]),
        ("chatgpt", NEWER, ["c1", "c2", "c3"]),
        ("chatgpt", {f"export/{name}": content for name, content in NEWER.items()}, ["c1", "c2", "c3"]),
        ("claude-ai", {"users.json": [{"uuid": "u"}], "conversations.json": CLAUDE, "projects.json": []}, ["k1"]),
        ("gemini-takeout", {"Takeout/My Activity/Gemini Apps/MyActivity.json": TAKEOUT}, ["2026-01-02"]),
    ],
)
def test_it_is_the_folder_in_it(tmp_path: Path, tool: str, members: dict[str, Any], keys: list[str]) -> None:
    """Named, without its ending, and found in a folder; nothing is written, wherever its names lead."""
    path = packed(tmp_path / "my export.zip", members)
    before = snapshot(tmp_path)
    for asked in (path, tmp_path):
        [one] = found(asked)
        assert isinstance(one, Found)
        assert (one.importer, one.path, one.sure) == (tool, str(path), True)
    assert list(texts(path, tool)) == keys
    assert snapshot(tmp_path) == before
    assert [type(one) for one in found(path, tool)] == [Found]
    assert [type(one) for one in found(path, "codex")] == [SkippedLine]
    path.rename(tmp_path / "download")
    [one] = found(tmp_path / "download")
    assert isinstance(one, Found)
    sources = Stream(registry.read(tool, str(tmp_path / "download"), open_source)).starts.values()
    assert {start.info["metadata"]["source"]["path"] for start in sources} == {str(tmp_path / "download")}


def test_it_equals_its_folder(tmp_path: Path) -> None:
    """The same sessions and ids, so that whoever imports both has each once."""
    path = packed(tmp_path / "a.zip", {"conversations.json": [chat("c1", "one"), chat("c2", "two")]})
    with zipfile.ZipFile(path) as file:
        file.extractall(tmp_path / "a")
    of_zip, of_folder = (
        Stream(registry.read("chatgpt", str(one), open_source)) for one in (path, tmp_path / "a" / "conversations.json")
    )
    assert of_zip.messages == of_folder.messages
    assert [one.suggested_id for one in of_zip.starts.values()] == [
        one.suggested_id for one in of_folder.starts.values()
    ]


def encrypted(path: Path) -> None:
    """Marks each member as encrypted, in both of its headers."""
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + offset] |= 1
            at = data.find(mark, at + 4)
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("conversations.json", "w") as stream:
        stream.write(json.dumps([chat("c1", "one")]).encode()[:-1])
        for _ in range(70):
            stream.write(b" " * 1024 * 1024)
        stream.write(b"]")


def another_method(path: Path) -> None:
    """Packed by a method that nobody knows."""
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        struct.pack_into("<H", data, data.find(mark) + offset, 77)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        (encrypted, "encrypted; unpack it with its password"), (cut, "damaged ZIP file"), (bomb, "which no export does"),
        (another_method, "a ZIP file without an export of any known tool; unpack it"),
    ],
)  # fmt: skip
def test_what_is_not_read_says_why(tmp_path: Path, harm: Callable[[Path], None], word: str) -> None:
    """If it was named; among other files it is passed over, as is everything that no tool wrote."""
    path = packed(tmp_path / "a.zip", {"conversations.json": [chat("c1", "one " * 200)]})
    harm(path)
    [told] = found(path)
    assert isinstance(told, SkippedLine)
    assert word in told.reason
    assert found(tmp_path) == []


def test_a_name_that_leads_out(tmp_path: Path) -> None:
    """Such a member is read as any other, and never written."""
    inside = tmp_path / "in"
    inside.mkdir()
    path = packed(
        inside / "a.zip", {"../conversations.json": [chat("c1", "one")], "/etc/conversations.json": [chat("c2", "x")]}
    )
    assert texts(path, "chatgpt") == {"c1": ["one"]}
    assert os.listdir(tmp_path) == ["in"]
    assert os.listdir(inside) == ["a.zip"]


def test_a_damaged_member_costs_only_itself(tmp_path: Path) -> None:
    """What is unpacked before the damage comes in, as do the other members; the damage is reported."""
    chance = random.Random(1)
    long = [chat(f"c{n}", chance.randbytes(3000).hex()) for n in range(200)]
    path = packed(tmp_path / "a.zip", {"conversations-000.json": long, "conversations-001.json": [chat("last", "one")]})
    data = bytearray(path.read_bytes())
    data[300_000:300_400] = b"\0" * 400
    path.write_bytes(data)
    stream = Stream(registry.read("chatgpt", str(path), open_source))
    assert {"c0", "last"} <= set(stream.starts)
    # What the damage looks like when it is unpacked depends on the library: a wrong sum, or text that is not JSON.
    assert any("conversations-000.json" in one.reason and not one.taken for one in stream.skipped)


def test_a_size_that_is_a_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a member says is not unpacked; a ZIP file that says too much in all is refused."""
    path = packed(tmp_path / "a.zip", {f"conversations-{n}.json": [chat(f"c{n}", "x")] for n in range(9)})
    monkeypatch.setattr(zipped, "_MOST_BYTES", 2_000)
    [told] = found(path)
    assert isinstance(told, SkippedLine)
    assert "at most 2,000 are read" in told.reason
