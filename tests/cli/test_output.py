"""What commands print from answers: every kind, without control characters."""

from __future__ import annotations

import os
import pty
import sys
from typing import Any

import msgspec
import pytest

from sessiond.cli import hits as layout
from sessiond.cli import output, status
from sessiond.cli.message_view import view
from sessiond.cli.terminal import Paint
from sessiond.cli.web import _reached_as
from sessiond.client.daemon_types import Status
from sessiond.client.types import Hit
from sessiond.errors import SessionNotFound
from sessiond.words import in_bytes
from tests.fakes.answers import Answers
from tests.shell import Shell, on_terminal


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, "b", {"type": "image"}, {"x": 1}, 7], 'a\nb\n[image]\n[block] {"x": 1}\n7'),
        ([{"type": "tool_use", "id": "u", "name": "run", "input": {"a": 1}}], '→ run {"a": 1}'),
        (
            [{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}],
            "[image_url: https://x.example/a.png]",
        ),
        ([{"type": "image", "source": {"type": "base64", "data": "AA"}}], "[image]"),
        (
            [
                {
                    "type": "tool_result",
                    "content": [{"type": "text", "text": "in"}, {"type": "thinking", "thinking": "hm"}],
                }
            ],
            "in\nhm",
        ),
        ({"odd": 1}, '{"odd": 1}'),
        (None, "null"),
    ],
)
def test_content_as_text(content: Any, text: str) -> None:
    """Of blocks their text, of others their JSON behind their type; of pictures where they are."""
    assert output.content_text(content) == text


def test_a_message_with_its_calls() -> None:
    """Speaker, time, status, text, and a line for every call; nothing of it can colour a terminal."""
    calls = [{"name": "run\x1b[31m", "arguments": {"a": 1}}, {"arguments": "ls\nls"}, "odd"]
    message = {
        "role": "assistant",
        "seq": 3,
        "timestamp": "soon",
        "status": "error",
        "content": "x\x1b[2J\n",
        "toolCalls": calls,
    }
    assert output.message_text(message) == '── assistant #3 soon [error]\nx[2J\n→ run[31m {"a": 1}\n→ ? ls ls'
    assert output.message_text({}) == "── ? #?\n"


def test_what_is_long_is_folded() -> None:
    """Thinking, a tool's output and a call, on a terminal; otherwise every word is there, thinking first."""
    lines = "\n".join(f"thought {n}" for n in range(20))
    calls = [{"name": "write", "arguments": {"text": "word " * 100 + "end"}}]
    message = {"role": "assistant", "seq": 1, "thinking": lines, "content": "said", "toolCalls": calls}
    whole = view(message, Paint(on=False), folded=False)
    assert whole.index("thought 19") < whole.index("said") < whole.index("word end")
    folded = view(message, Paint(on=False), folded=True)
    assert "thought 7\n… 12 more lines; --full shows them" in folded and "thought 8" not in folded
    assert "said" in folded and "word end" not in folded and folded.endswith("…")


def test_a_message_that_is_not_of_the_conversation_itself() -> None:
    """It is marked with the words that exports have for it, before how it ended."""
    message = {
        "role": "user",
        "seq": 1,
        "content": "x",
        "metadata": {"sidechain": True, "injected": True, "branch": "main"},
    }
    assert output.message_text(message) == "── user #1 [injected by the tool, sidechain]\nx"
    message |= {"status": "interrupted", "metadata": {"sidechain": True}}
    assert output.message_text(message) == "── user #1 [sidechain, interrupted]\nx"
    assert output.message_text({**message, "metadata": None}) == "── user #1 [interrupted]\nx"


def test_a_table_is_for_people_or_for_scripts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tabs in a pipe; on a terminal headings and columns, and text is never taken for markup."""
    rows = [["a\tb", "[red]x[/red]\x1b[31m"], ["c", "d"]]
    output.table(["one", "two"], rows)
    assert capsys.readouterr().out == "a b\t[red]x[/red][31m\nc\td\n"
    monkeypatch.setattr(output, "for_people", lambda: True)
    output.table(["one", "two"], rows)
    shown = capsys.readouterr().out
    assert [line.split() for line in shown.splitlines() if line.strip() and "─" not in line] == [
        ["one", "two"],
        ["a", "b", "[red]x[/red][31m"],
        ["c", "d"],
    ]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (5_300_000, "5 MB"),
        (999_999_999, "999 MB"),
        (7_000_000_000, "7 GB"),
    ],
)
def test_sizes_as_people_say_them(size: int, text: str) -> None:
    assert in_bytes(size) == text


@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("::1", "[::1]"),
        ("192.168.1.5", "192.168.1.5"),
    ],
)
def test_a_browser_here_reaches_what_listens_everywhere(host: str, reached: str) -> None:
    """An address that means all interfaces is not one to connect to."""
    assert _reached_as(host) == reached


def test_the_status_of_a_daemon_in_trouble() -> None:
    """Where it listens, which store has what problem, and that nothing can be written, with the reason."""
    told = {
        "version": "1", "pid": 7, "startedAt": "2026-01-11T14:30:22.000Z", "dataDir": "/d", "socket": None, "connections": 4,
        "clients": {"vim": 1, "emacs": 2},
        "openSessions": 1, "dirtySessions": 3, "journal": {"bytes": 10, "lsn": 4},
        "ws": {"host": "::1", "port": 80, "tokenFile": "/d/token"},
        "stores": [
            {"name": "a", "format": "jsonl", "path": "/a", "sessions": 1, "problem": {"kind": "unavailable"}},
            {"name": "b", "format": "jsonl", "path": "/b", "sessions": 2, "problem": {"message": "gone"}},
            {"name": "c", "format": "jsonl", "path": "/c", "sessions": 0, "problem": None},
        ],
        "readOnly": {"reason": "the disk is full", "since": "2026-01-11T14:30:22.000Z"},
        "index": {"state": "building", "read": 3, "found": 5, "problem": None},
    }  # fmt: skip
    lines = [f"{name} {text}" for name, text in status._lines(msgspec.convert(told, Status))]
    assert "ws ::1:80, token in /d/token" in lines
    assert "store a (jsonl, 1 session) /a  PROBLEM: unavailable" in lines
    assert "store b (jsonl, 2 sessions) /b  PROBLEM: gone" in lines
    assert "store c (jsonl, 0 sessions) /c" in lines
    assert "connections 4: emacs (2), vim" in lines
    assert "INDEX the index is still being built (3 of 5 sessions read), so there may be more" in lines
    assert any(line.startswith("READ-ONLY the disk is full, since ") for line in lines)


def hit(snippet: str, ranges: list[list[int]], **more: Any) -> dict[str, Any]:
    return {"sessionId": "s", "messageId": "m", "seq": 3, "role": "user", "snippet": snippet, "ranges": ranges, **more}


def page(*texts: tuple[str, str]) -> dict[str, list[Any]]:
    return {"session/read": [{"messages": [{"id": message_id, "content": text} for message_id, text in texts]}]}


@pytest.mark.parametrize(
    ("given", "answers", "lines"),
    [
        (hit("b x\nc", [[2, 3]]), page(("m", "a\nb x\nc\nd")), ["a", "b x", "c"]),
        (hit("b x\nc", [[2, 3]]), page(("other", "a\nb x\nc\nd")), ["b x", "c"]),
        (hit("b x\nc", [[2, 3]]), page(), ["b x", "c"]),
        (hit("b x\nc", [[2, 3]]), page(("m", "edited since")), ["b x", "c"]),
        (hit("b x\nc", [[2, 3]]), {"session/read": [SessionNotFound("gone")]}, ["b x", "c"]),
        (hit("b x", [[2, 3]], messageId=None), {}, ["b x"]),
        (hit("\n\nb\nc", []), page(("m", "a\n\n\nb\nc\nd\ne")), ["", "b", "c"]),
        (hit("", []), page(("m", "")), [""]),
    ],
)
def test_the_lines_around_a_match(given: dict[str, Any], answers: dict[str, list[Any]], lines: list[str]) -> None:
    """They come from the message; where that is gone, changed or none, what the search itself showed is all there is. Without a
    place, the first line with something on it stands for the match.
    """
    hit = msgspec.convert(given, Hit)
    assert [line.text for line in layout.text_lines(Answers(answers).client, hit, 1, 1)] == lines


def test_hits_of_several_sessions_stand_apart() -> None:
    """Each session has its heading once, notes and names say what they are."""
    out: Any = Written()
    hits = [
        hit("one", [[0, 3]], name="N"),
        hit("two", [[0, 3]], messageId=None),
        hit("three", [[0, 5]], sessionId="t", messageId=None, seq=None),
        hit("four", [[0, 4]]),
    ]
    layout.grouped(out, Answers({}).client, msgspec.convert(hits, list[Hit]), Paint(False), 0, 0)
    assert out.text == "s  N\n#3  user\n  one\n#3  note\n  two\n#3  user\n  four\n\nt\nname\n  three\n"


class Written:
    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


def test_on_a_terminal_it_is_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert output.for_people()
        monkeypatch.undo()
    os.close(ours)


def test_an_output_of_a_tool_is_folded_on_a_terminal(shell: Shell) -> None:
    """Only a tool's, only there, and not with --full; what is left out is counted. Roles are in colour, pipes get all as it is."""
    long = "\n".join(f"line {n}" for n in range(1, 41))
    with shell.client() as client:
        said = [{"role": "user", "content": long}, {"role": "tool", "content": long}]
        client.call("session/new", {"sessionId": "s", "messages": said})
    folded = on_terminal(shell, "show", "s", TERM="xterm", PAGER="cat")[1]
    assert folded.count("line 40") == 1 and folded.count("line 8\r") + folded.count("line 8\n") == 2
    assert "… 32 more lines; --full shows them" in folded and "\x1b[36m── tool #2" in folded
    whole = on_terminal(shell, "show", "s", "--full", "--color", "never", TERM="xterm", PAGER="cat")[1]
    assert whole.count("line 40") == 2 and "\x1b" not in whole
    piped = shell("show", "s").out
    assert piped.count("line 40") == 2 and "more lines" not in piped


def test_a_session_is_shown_from_a_message_on(shell: Shell) -> None:
    with shell.client() as client:
        said = [{"role": "user", "content": f"word {n}"} for n in range(1, 91)]
        client.call("session/new", {"sessionId": "s", "messages": said})
    shown = shell("show", "s", "--from", "45", "-n", "2").out
    assert "#45" in shown and "word 46" in shown and "word 44" not in shown and "word 47" not in shown
    assert "sessiond show s --from 47" in shown
    assert shell("show", "s", "--from", "90").out.count("word") == 1
    assert [one["seq"] for one in shell("show", "s", "--from", "89", "--json").json["messages"]] == [89, 90]
    assert "… for older messages: sessiond show s --last 90" in shell("show", "s").out
    assert shell("show", "s", "--from", "45", "-n", "0").out.count("word") == 0
    beyond = shell("show", "s", "--from", "91")
    assert beyond.code == 0 and "word" not in beyond.out
