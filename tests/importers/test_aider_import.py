"""Aider."""

from __future__ import annotations

import re
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from collected import corpus, read, recognised


def utc(local: str) -> str:
    moment = datetime.strptime(local, "%Y-%m-%d %H:%M:%S").astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def blocks(body: str) -> list[tuple[str, str]]:
    """A chat's blocks, by its lines' marks alone; written apart from the importer."""
    out: list[tuple[str, list[str]]] = []
    for line in body.split("\n"):
        role, text = (
            ("user", line[5:])
            if line.startswith("#### ") and line.endswith("  ")
            else ("tool", line[2:])
            if line.startswith("> ")
            else ("assistant", line)
        )
        if not out or out[-1][0] != role:
            out.append((role, []))
        out[-1][1].append(text)
    squeezed = [(role, "".join("".join(lines).split())) for role, lines in out]
    return [(role, text) for role, text in squeezed if text]


def test_the_real_file_gives_every_chat_and_every_word() -> None:
    """Each heading after which somebody says something is a session with its time, named by its first prompt; speakers and texts
    are those of the file; the preface is a session of its own."""
    path = corpus("aider/chat-history.md")
    preface, *rest = re.split(r"(?m)^# aider chat started at (.*)\n", path.read_text())
    said = [
        (heading, body)
        for heading, body in zip(rest[::2], rest[1::2], strict=True)
        if {"user", "assistant"} & set(dict(blocks(body)))
    ]
    headings, bodies = zip(*said, strict=True)
    stream = read(path)
    assert not stream.skipped
    ids = list(stream.starts)
    assert len(ids) == len(headings) + 1
    assert len(headings) > 700
    for source_id, heading, body in zip(ids[1:], headings, bodies, strict=True):
        info = stream.info[source_id]
        assert info["createdAt"] == utc(heading)
        assert "aider chat" not in info.get("name", "")
        got = [(m["role"], "".join(m["content"].split())) for m in stream.messages[source_id]]
        assert got == blocks(body), heading
        assert {m["timestamp"] for m in stream.messages[source_id]} <= {utc(heading)}
    before = [(m["role"], "".join(m["content"].split())) for m in stream.messages[ids[0]]]
    assert before == blocks(preface)
    roles = Counter(m["role"] for messages in stream.messages.values() for m in messages)
    assert roles == Counter(role for body in (preface, *bodies) for role, _ in blocks(body))


def test_lines_are_as_they_were_typed(tmp_path: Path) -> None:
    """Marks and the blanks of Markdown's line breaks go, everything else of a line stays; blank lines part two
    prompts."""
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(
        "\n# aider chat started at 2025-03-04 05:06:07\n\n> Aider v0.70.0  \n> Model: gpt-x with diff edit format  \n\n"
        "#### first  \n####   indented  \n\n"
        "#### second  \n\n# A heading of the model\n\n>>>>>>> REPLACE\nDone.\n\n> Commit abc  \n"
    )
    stream = read(path)
    assert stream.told() == [
        ("tool", "Aider v0.70.0\nModel: gpt-x with diff edit format"),
        ("user", "first\n  indented"),
        ("user", "second"),
        ("assistant", "# A heading of the model\n\n>>>>>>> REPLACE\nDone."),
        ("tool", "Commit abc"),
    ]
    info = stream.only_info
    assert info["model"] == "gpt-x"
    assert info["cwd"] == str(tmp_path)


def test_chats_of_one_second_are_two_sessions(tmp_path: Path) -> None:
    path = tmp_path / "h.md"
    heading = "# aider chat started at 2025-01-01 00:00:00\n\n"
    path.write_text(f"{heading}#### x  \n\n{heading}#### y  \n")
    assert [[m["content"] for m in messages] for messages in read(path).messages.values()] == [["x"], ["y"]]


def test_a_chat_in_which_nobody_said_anything_is_left_out(tmp_path: Path) -> None:
    """Aider begins one whenever it is started. The others keep their ids whether or not it is there."""
    path = tmp_path / "h.md"
    banner = "# aider chat started at 2025-01-01 00:00:00\n\n> Aider v0.70.0  \n> Model: gpt-x with diff  \n\n"
    path.write_text(banner + banner)
    assert read(path).starts == {}
    path.write_text(banner + banner + "#### Fix the lock, please  \n")
    stream = read(path)
    assert stream.told() == [("tool", "Aider v0.70.0\nModel: gpt-x with diff"), ("user", "Fix the lock, please")]
    assert (stream.only_info["name"], stream.only_info["model"]) == ("Fix the lock, please", "gpt-x")
    [second] = stream.starts
    path.write_text(banner + "#### x  \n\n" + banner + "#### y  \n")
    assert list(read(path).starts)[1] == second


def test_a_grown_file_keeps_its_sessions_and_ids(tmp_path: Path) -> None:
    """What is appended changes no earlier session and no earlier id."""
    path = tmp_path / ".aider.chat.history.md"
    path.write_text("# aider chat started at 2025-01-01 00:00:00\n\n#### x  \n\nanswer\n")
    before = read(path)
    with path.open("a") as file:
        file.write("\n#### x  \n\nanswer\n\n# aider chat started at 2025-01-02 00:00:00\n\n#### y  \n")
    after = read(path)
    assert next(iter(after.starts)) == next(iter(before.starts))
    first = after.messages[next(iter(after.starts))]
    assert [m["id"] for m in first][:2] == [m["id"] for m in before.only]
    assert len({m["id"] for m in first}) == 4


def test_headings_are_local_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aider writes no zone, so the heading is this machine's local time."""
    path = tmp_path / "h.md"
    path.write_text("# aider chat started at 2025-07-01 12:00:00\n\n#### x  \n")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert read(path).only[0]["timestamp"] == "2025-07-01T03:00:00.000Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_bytes_that_are_no_utf8_are_reported(tmp_path: Path) -> None:
    """The line is taken with a replacement, and named."""
    path = tmp_path / "h.md"
    path.write_bytes(b"# aider chat started at 2025-01-01 00:00:00\n#### caf\xe9  \n")
    stream = read(path)
    assert stream.told() == [("user", "caf\ufffd")]
    assert [s.line for s in stream.repaired] == [2]
    assert recognised(path) == "aider"


def test_a_line_that_is_too_long_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is skipped with its number, and the lines around it are read."""
    monkeypatch.setattr("sessiond.importers.lines.MAX_LINE_BYTES", 1000)
    path = tmp_path / "h.md"
    path.write_text("# aider chat started at 2025-01-01 00:00:00\n#### x  \n" + "y" * 5000 + "\nanswer\n")
    stream = read(path)
    assert stream.told() == [("user", "x"), ("assistant", "answer")]
    assert [s.line for s in stream.skipped] == [3]


def test_words_before_the_first_chat_are_a_session(tmp_path: Path) -> None:
    """The end of an older chat is not a later than the first heading; a file without any heading is a session too."""
    path = tmp_path / ".aider.chat.history.md"
    path.write_text("#### from before  \n\n# aider chat started at 2025-01-01 00:00:00\n\n#### x  \n")
    stream = read(path)
    assert [[m["content"] for m in messages] for messages in stream.messages.values()] == [["from before"], ["x"]]
    first, second = (messages[0]["timestamp"] for messages in stream.messages.values())
    assert first == second
    path.write_text("#### alone  \n")
    assert read(path).told() == [("user", "alone")]
    assert read(path).only_info["cwd"] == str(tmp_path)


def test_a_heading_of_the_model_is_the_model_s(tmp_path: Path) -> None:
    """Aider ends its own lines with two blanks; of a line that is still being written nothing is said but that."""
    path = tmp_path / ".aider.chat.history.md"
    text = "# aider chat started at 2025-01-01 00:00:00\n\n#### x  \n\nSteps:\n\n#### 1. Read\n\nDone.\n\n"
    path.write_text(text)
    assert read(path).told() == [("user", "x"), ("assistant", "Steps:\n\n#### 1. Read\n\nDone.")]
    for end in ("####", "#### 2", "#### 2. Writ"):
        path.write_text(text + end)
        stream = read(path)
        assert stream.told() == [("user", "x"), ("assistant", "Steps:\n\n#### 1. Read\n\nDone.")]
        assert [one.reason for one in stream.skipped] == ["the last line is not ended yet"]


@pytest.mark.parametrize("fence", ["```", "````", "~~~"])
def test_what_a_fenced_block_quotes_is_the_answer_s(tmp_path: Path, fence: str) -> None:
    """Quotes, headings and shorter fences within a closed block of an answer belong to it, with their marks and blanks; after it,
    the marks count again.
    """
    block = f"{fence}markdown\n> a quote\n> another  \n#### A heading  \n``\n\nwords\n{fence}"
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(
        f"\n# aider chat started at 2026-01-02 03:04:05\n\n#### write it  \n\nHere:\n\n{block}\n\nDone.\n\n> Tokens: 1k sent.  \n"
        "\n#### thanks  \n"
    )
    assert read(path).told() == [
        ("user", "write it"),
        ("assistant", f"Here:\n\n{block}\n\nDone."),
        ("tool", "Tokens: 1k sent."),
        ("user", "thanks"),
    ]


@pytest.mark.parametrize("broken_off", ["> ^C again to exit  \n", ""])
def test_a_block_that_is_not_closed_takes_nobodys_words(tmp_path: Path, broken_off: str) -> None:
    """After an answer that was broken off within a fenced block, what the user typed is the user's, whatever comes later."""
    path = tmp_path / ".aider.chat.history.md"
    path.write_text(
        "\n# aider chat started at 2026-01-02 03:04:05\n\n#### one  \n\n```python\nx = 1\n\n"
        f"{broken_off}\n#### two  \n\n```python\n> y\n```\n\n#### three  \n\n```\nz\n\n#### four  \n"
        "\n# aider chat started at 2026-01-03 03:04:05\n\n#### five  \n"
    )
    said = [text for messages in read(path).messages.values() for text in messages if text["role"] == "user"]
    assert [one["content"] for one in said] == ["one", "two", "three", "four", "five"]
