"""`sessiond list`: what people need to choose a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.cells import cell_len

from sessiond.cli import list_table, titles
from sessiond.cli.columns import fitted
from sessiond.cli.terminal import Paint
from sessiond.client.types import SessionInfo
from sessiond.errors import BadFile
from tests.fakes.answers import Answers
from tests.shell import Shell, on_terminal


def listing(shell: Shell, columns: str = "100", *arguments: str) -> list[str]:
    return on_terminal(shell, "list", *arguments, COLUMNS=columns, NO_COLOR="1")[1].splitlines()


def test_list_shows_what_people_choose_by(shell: Shell) -> None:
    """Name, messages, time, model, tags and folder, on lines that fit; a column that would be empty is left out."""
    shell(
        "new",
        "--id",
        "a",
        "--name",
        "長い名前" * 12,
        "--tag",
        "work",
        "--tag",
        "home",
        "--model",
        "opus-4",
        "--cwd",
        "/tmp",
    )
    shell("append", "a", "x")
    shell("new", "--id", "b", "--name", "short")
    heading, *rows = listing(shell, "140")
    assert heading.split() == ["name", "id", "messages", "changed", "model", "tags", "folder"]
    assert "opus-4" in rows[1] and "work home" in rows[1] and "/tmp" in rows[1]
    for width in (100, 60, 40):
        lines = listing(shell, str(width))
        assert all(cell_len(line) <= width for line in lines), (width, lines)
        assert lines[0].split()[:2] == ["name", "id"]
        assert "folder" not in listing(shell, "60")[0]


def test_names_have_room_before_other_columns() -> None:
    """A list is read by names: a model and a folder are left out before a name is cut to a few characters."""
    name = "A name that is long enough to tell sessions apart"
    row = [
        name,
        "",
        "imported-1111-2222-3333-444",
        "12",
        "2026-01-11 14:30",
        "claude-opus-5-20260801",
        "",
        "/srv/parser",
        "",
    ]
    for width in (80, 100, 120):
        heading, shown = fitted(list_table._COLUMNS, [row], width, Paint(on=False))
        assert cell_len(shown) <= width
        assert heading.index("id ") >= 28, (width, heading)
        assert ("folder" in heading) == (width == 120)


def test_list_sorts(shell: Shell) -> None:
    """By any key, either way; the protocol's words are taken too, others are a usage error."""
    for session_id, name, count in (("a", "zebra", 1), ("b", "ape", 3), ("c", "Lion", 2)):
        shell("new", "--id", session_id, "--name", name)
        for number in range(count):
            shell("append", session_id, str(number))

    def order(*arguments: str) -> str:
        return "".join(line[0] for line in shell("list", *arguments).out.splitlines())

    assert order() == "cba"
    assert order("--sort", "name") == "bca"
    assert order("--sort", "-messages") == order("--sort", "messages", "-r") == "bca"
    assert order("--sort", "createdAt") == order("--sort", "created") == "abc"
    wrong = shell("list", "--sort", "size")
    assert (wrong.code, wrong.out) == (2, "")


def test_what_has_no_name_is_shown_by_how_it_begins(shell: Shell) -> None:
    """On a terminal in brackets: the summary, else what a person said first. A pipe's column stays empty, --json as it is."""
    texts = {
        "plain": [{"role": "user", "content": "Why does\n the \x1b[31mlock hang " + "so very " * 20}],
        "later": [
            {"role": "system", "content": "rules"},
            {"role": "user", "content": "environment", "metadata": {"injected": True}},
            {"role": "user", "content": [{"type": "text", "text": "In blocks"}]},
            {"role": "user", "content": "second"},
        ],
        "named": [{"role": "user", "content": "not shown"}],
        "summed": [{"role": "user", "content": "nor this"}],
        "mute": [{"role": "assistant", "content": "nobody asked"}],
    }
    with shell.client() as client:
        for session_id, messages in texts.items():
            client.call("session/new", {"sessionId": session_id, "messages": messages})
        client.call("session/update", {"sessionId": "named", "name": "A name"})
        client.call("session/update", {"sessionId": "summed", "summary": "What it came to"})
    rows = {session_id: line for line in listing(shell, "120") for session_id in texts if f" {session_id}  " in line}
    assert "[Why does the [31mlock hang so very so very …]  " in rows["plain"]
    assert "[In blocks]  " in rows["later"]
    assert "A name  " in rows["named"]
    assert "[What it came to]  " in rows["summed"]
    assert "[" not in rows["mute"]
    piped = {line.split("\t")[0]: line.split("\t")[1] for line in shell("list").out.splitlines()}
    assert piped == {"plain": "", "later": "", "named": "A name", "summed": "", "mute": ""}
    assert {info["name"] for info in shell("list", "--json").json["sessions"]} == {None, "A name"}
    shell("rm", "plain")
    assert "Why" not in listing(shell, "120", "--deleted")[1]


def test_the_beginnings_of_large_files_are_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A list reads so much of files at most; what goes beyond stays without, and so does what cannot be read."""
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"x")
    large.write_bytes(b"")
    os.truncate(large, titles._BYTES)
    page = {"messages": [{"role": "user", "content": "Hello"}]}
    answers = Answers({"session/read": [page, BadFile("damaged"), page]})
    infos = [
        SessionInfo(session_id=name, message_count=1, path=str(path))
        for name, path in (("a", small), ("b", small), ("c", "/nonexistent\0"), ("d", large), ("e", small))
    ]
    assert titles.beginnings(answers.client, infos) == {"a": "Hello", "c": "Hello", "e": "Hello"}
    assert [params["sessionId"] for _, params in answers.asked] == ["a", "b", "c", "e"]


def test_that_there_are_more_is_said_in_a_pipe(shell: Shell) -> None:
    """On standard error, where the 50 were nobody's wish: not with -n, --all and --json, nor where 50 are all."""
    with shell.client() as client:
        for number in range(51):
            client.call("session/new", {"sessionId": f"s{number}", "name": "last" if number == 50 else f"N {number}"})
    cut = shell("list")
    assert (len(cut.out.splitlines()), cut.err) == (50, "sessiond: there are more than these 50; --all shows them\n")
    for arguments in (("-n", "50"), ("--all",), ("--json",), ("--name", "N ")):
        assert shell("list", *arguments).err == "", arguments
    assert len(shell("list", "--json").json["sessions"]) == 50
    assert on_terminal(shell, "list")[1].count("--all shows them") == 1
