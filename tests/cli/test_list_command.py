"""`sessiond list`: what people choose a session by."""

from __future__ import annotations

from rich.cells import cell_len

from tests.shell import Shell, on_terminal


def listing(home: Shell, columns: str = "100", *arguments: str) -> list[str]:
    return on_terminal(home, "list", *arguments, COLUMNS=columns, NO_COLOR="1")[1].splitlines()


def test_list_shows_what_people_choose_by(home: Shell) -> None:
    """Name, messages, time, model, tags and folder, on lines that fit; what no session has is no column."""
    home(
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
    home("append", "a", "x")
    home("new", "--id", "b", "--name", "short")
    heading, *rows = listing(home, "140")
    assert heading.split() == ["id", "name", "messages", "changed", "model", "tags", "folder"]
    assert "opus-4" in rows[1] and "work home" in rows[1] and "/tmp" in rows[1]
    for width in (100, 60, 40):
        lines = listing(home, str(width))
        assert all(cell_len(line) <= width for line in lines), (width, lines)
        assert lines[0].split()[0] == "id"
        assert "folder" not in listing(home, "60")[0]


def test_list_sorts(home: Shell) -> None:
    """By any key, either way; the protocol's words are taken too, others are a usage error."""
    for session_id, name, count in (("a", "zebra", 1), ("b", "ape", 3), ("c", "Lion", 2)):
        home("new", "--id", session_id, "--name", name)
        for number in range(count):
            home("append", session_id, str(number))

    def order(*arguments: str) -> str:
        return "".join(line[0] for line in home("list", *arguments).out.splitlines())

    assert order() == "cba"
    assert order("--sort", "name") == "bca"
    assert order("--sort", "-messages") == order("--sort", "messages", "-r") == "bca"
    assert order("--sort", "createdAt") == order("--sort", "created") == "abc"
    wrong = home("list", "--sort", "size")
    assert (wrong.code, wrong.out) == (2, "")


def test_that_there_are_more_is_said_in_a_pipe(home: Shell) -> None:
    """On standard error, where the 50 were nobody's wish: not with -n, --all and --json, nor where 50 are all."""
    with home.client() as client:
        for number in range(51):
            client.call("session/new", {"sessionId": f"s{number}", "name": "last" if number == 50 else f"N {number}"})
    cut = home("list")
    assert (len(cut.out.splitlines()), cut.err) == (50, "sessiond: there are more than these 50; --all shows them\n")
    for arguments in (("-n", "50"), ("--all",), ("--json",), ("--name", "N ")):
        assert home("list", *arguments).err == "", arguments
    assert len(home("list", "--json").json["sessions"]) == 50
    assert on_terminal(home, "list")[1].count("--all shows them") == 1
