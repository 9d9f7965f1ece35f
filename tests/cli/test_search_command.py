"""`sessiond search` prints as a good grep does."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.cli.terminal import Paint, colored
from tests.shell import Shell, on_terminal

TEXT = "first line\n\tthe needle is here\nthird line\nneedle again\nlast line"
RED, END = "\x1b[1;31m", "\x1b[0m"


@pytest.fixture
def talk(shell: Shell) -> Shell:
    """A session of two messages with a needle, and one without."""
    with shell.client() as client:
        client.call("session/new", {"sessionId": "hay", "name": "The hay", "model": "m-1", "messages": [
            {"role": "user", "content": TEXT, "timestamp": "2026-01-11T14:30:22.000Z"},
            {"role": "assistant", "content": "no\nNEEDLE\tthere\x1b[31m", "timestamp": "2026-02-11T14:30:22.000Z"},
        ]})  # fmt: skip
        client.call("session/new", {"sessionId": "straw", "messages": [{"role": "user", "content": "nothing"}]})
    return shell


def test_a_limit_counts_what_is_printed(talk: Shell) -> None:
    """With -l and -c sessions, whose counts remain whole; without -n, and with --all, there are all. --json is another question."""
    with talk.client() as client:
        said = [{"role": "user", "content": "one needle"}]
        for name in ("b", "c"):
            client.call("session/new", {"sessionId": name, "messages": said})
    for form in ("-l", "-c"):
        whole = talk("search", form, "needle").out.splitlines(keepends=True)
        assert {line.split()[0] for line in whole} == {"hay", "b", "c"}
        assert talk("search", form, "-n", "2", "needle").out == "".join(whole[:2])
        assert talk("search", form, "-n", "2", "--all", "needle").out == "".join(whole)
        refused = talk("search", form, "--json", "needle")
        assert (refused.code, refused.out) == (2, "")
    assert "hay\t2\n" in talk("search", "-c", "-n", "3", "needle").out


def test_a_line_a_match_for_scripts(talk: Shell) -> None:
    """Session, number, role, time and the line that matches, with tabs between; every matching line of a message."""
    rows = [line.split("\t") for line in talk("search", "needle", "role:user").out.splitlines()]
    assert [[row[0], row[1], row[2], row[4]] for row in rows] == [
        ["hay", "#1", "user", "    the needle is here"],
        ["hay", "#1", "user", "needle again"],
    ]


def test_matches_are_coloured_on_a_terminal(talk: Shell) -> None:
    """Under a heading for the session stands each matching line, the match in colour, however it is written; no
    escape of the text's own reaches the terminal.
    """
    code, shown = on_terminal(talk, "search", "needle")
    assert code == 0
    assert f"the {RED}needle{END} is here\n" in shown
    assert f"{RED}NEEDLE{END} there" in shown
    assert shown.count("The hay") == 1
    assert "\x1b[31m" not in shown
    assert "2 found" in shown


@pytest.mark.parametrize(
    ("arguments", "env", "coloured"),
    [
        ((), {}, True),
        ((), {"NO_COLOR": "1"}, False),
        ((), {"NO_COLOR": ""}, True),
        ((), {"TERM": "dumb"}, False),
        (("--color", "never"), {}, False),
        (("--color=always",), {"NO_COLOR": "1"}, True),
    ],
)
def test_when_there_are_colours(talk: Shell, arguments: tuple[str, ...], env: dict[str, str], coloured: bool) -> None:
    """--color beats NO_COLOR beats the terminal."""
    assert (RED in on_terminal(talk, "search", "needle", *arguments, **env)[1]) is coloured


def test_pipes_get_colours_only_when_asked(talk: Shell) -> None:
    """`--color always` for `less -R`, none otherwise."""
    assert "\x1b" not in talk("search", "needle").out
    assert f"the {RED}needle{END} is here" in talk("search", "needle", "--color", "always").out


def test_context_lines(talk: Shell) -> None:
    """-A, -B and -C show the message's own lines around a match, each once."""

    def lines(*options: str) -> list[str]:
        found = talk("search", "needle role:user", *options).out.splitlines()
        return [line.split("\t")[-1] for line in found]

    assert lines("-A1") == ["    the needle is here", "third line", "needle again", "last line", "--"][:4]
    assert lines("-B1") == ["first line", "    the needle is here", "third line", "needle again"]
    assert lines("-C5") == TEXT.replace("\t", "    ").split("\n")
    assert lines("-C1", "-A0") == ["first line", "    the needle is here", "third line", "needle again"]


def test_context_of_several_hits_is_parted(talk: Shell) -> None:
    """`--` stands between the hits, as in grep."""
    assert "\n--\n" in talk("search", "needle", "-C1").out


def test_sessions_counts_and_quiet(talk: Shell) -> None:
    """-l names each session once, -c counts its hits, -q only answers."""
    assert talk("search", "-l", "needle").out == "hay\n"
    assert talk("search", "-c", "needle").out == "hay\t2\n"
    done = talk("search", "-q", "needle")
    assert (done.code, done.out) == (0, "")
    for words, code in (("needle", 0), ("absent", 1)):
        quiet = talk("search", "-q", "--json", words)
        assert (quiet.code, quiet.out, quiet.err) == (code, "", "")


def test_exit_codes(talk: Shell) -> None:
    """0 where something was found, 1 where nothing was or it could not be searched, 2 for wrong usage; 0 with --json."""
    assert talk("search", "needle").code == 0
    absent = talk("search", "absent")
    assert (absent.code, absent.out, absent.err) == (1, "", "sessiond: no matches\n")
    quiet = talk("search", "-q", "absent")
    assert (quiet.code, quiet.out, quiet.err) == (1, "", "")
    assert [talk("search", how, "absent").code for how in ("-l", "-c")] == [1, 1]
    nothing = talk("search", "absent", "--json")
    assert (nothing.code, nothing.json["hits"]) == (0, [])
    broken = talk("search", "--mode", "regex", "a(")
    assert (broken.code, broken.out, broken.err.count("\n")) == (1, "", 1)
    assert broken.err.startswith("sessiond: missing ), ")
    assert talk("search", "--json", "-E", "a(").code == 1
    assert talk("search").code == 2


def test_filters_are_options_and_words(talk: Shell) -> None:
    """Everything in the query may also be an option."""

    def numbers(*arguments: str) -> list[str]:
        return sorted({line.split("\t")[1] for line in talk("search", "needle", *arguments).out.splitlines()})

    assert numbers("--role", "assistant") == numbers("role:assistant") == ["#2"]
    assert numbers("--before", "2026-02") == numbers("before:2026-02") == ["#1"]
    assert numbers("--after", "2026-02") == ["#2"]
    assert numbers("--model", "m-1", "--name", "HAY", "--session", "hay") == ["#1", "#2"]
    assert numbers("--model", "other") == []


def test_what_finds_an_identifier(shell: Shell) -> None:
    """As docs/search.md says, `getUserName` is found by its parts, one by one and in a row, and as a whole."""
    shell("append", shell("new", "--json").json["session"]["sessionId"], "call getUserName here")

    def finds(query: str) -> bool:
        return shell("search", query).out != ""

    assert all(finds(query) for query in ("getUserName", "user", "UserName", "getusername"))
    assert not finds("username")


def test_limit_and_all(shell: Shell) -> None:
    """-n cuts, --all follows the cursors to the end; --json says where it would continue."""
    with shell.client() as client:
        messages = [{"role": "user", "content": f"needle {number}"} for number in range(1200)]
        client.call("session/new", {"sessionId": "x", "messages": messages})
    assert len(shell("search", "needle", "-n", "7").out.splitlines()) == 7
    found = shell("search", "needle", "--all", "--json").json
    assert (len({hit["seq"] for hit in found["hits"]}), found["nextCursor"]) == (1200, None)
    cut = shell("search", "needle", "-n", "7", "--json").json
    assert (len(cut["hits"]), cut["total"], bool(cut["nextCursor"])) == (7, 1200, True)


def test_that_there_are_more_is_said_in_a_pipe(shell: Shell) -> None:
    """On standard error, where the 50 were nobody's wish: not with -n, --all, -l, -c, -q and --json, nor where 50 are all."""
    with shell.client() as client:
        messages = [{"role": "user", "content": f"needle {number}" + " pin" * (number < 50)} for number in range(51)]
        client.call("session/new", {"sessionId": "x", "messages": messages})
    cut = shell("search", "needle")
    assert (len(cut.out.splitlines()), cut.err) == (50, "sessiond: 50 of 51; --all shows the rest\n")
    for arguments in (("-n", "50"), ("--all",), ("-l",), ("-c",), ("-q",), ("--json",), ("pin",)):
        assert shell("search", "needle", *arguments).err == "", arguments
    assert on_terminal(shell, "search", "needle")[1].count("--all shows the rest") == 1


def test_the_pager(talk: Shell, tmp_path: Path) -> None:
    """On a terminal what is found goes into $SESSIOND_PAGER before $PAGER; --no-pager, `cat` and an empty name mean no pager."""
    for name, value in (("one", "$PAGER"), ("two", "$SESSIOND_PAGER")):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\necho "{value[1:]} LESS=$LESS"\nexec cat\n')
        script.chmod(0o755)
    one, two = str(tmp_path / "one"), f"{tmp_path / 'two'} -x"
    both = {"PAGER": one, "SESSIOND_PAGER": two}
    assert on_terminal(talk, "search", "needle", PAGER=one)[1].startswith("PAGER LESS=FRX\n")
    shown = on_terminal(talk, "search", "needle", **both)[1]
    assert shown.startswith("SESSIOND_PAGER")
    assert RED in shown
    for arguments, env in (
        (("--no-pager",), both),
        ((), {**both, "SESSIOND_PAGER": ""}),
        ((), {"PAGER": "no-such-program"}),
    ):
        shown = on_terminal(talk, "search", "needle", *arguments, **env)[1]
        assert "LESS" not in shown
        assert "2 found" in shown
    assert "LESS" not in Shell.__call__(talk, "search", "needle").out


def test_a_pager_that_is_left_early(shell: Shell) -> None:
    """Leaving the pager before all is shown ends the command well."""
    with shell.client() as client:
        messages = [{"role": "user", "content": f"needle {number} " + "x" * 200} for number in range(900)]
        client.call("session/new", {"sessionId": "x", "messages": messages})
    code, shown = on_terminal(shell, "search", "needle", "--all", PAGER="head -n 2")
    assert code == 0
    assert "Traceback" not in shown


def test_names_and_notes_are_hits_too(shell: Shell) -> None:
    """A name has no number, a note no role; both say what they are."""
    shell("new", "--id", "x", "--name", "needle case")
    with shell.client(start=False) as client:
        client.call("note/append", {"sessionId": "x", "heading": "Sewing", "content": "a needle"})
    rows = [line.split("\t") for line in shell("search", "needle").out.splitlines()]
    assert [(row[1], row[2], row[4]) for row in rows] == [("", "name", "needle case"), ("#1", "note", "a needle")]


def test_colour_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal `auto` means no colours; with colours off, texts are unchanged."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert not colored("auto")
    assert colored("always")
    assert Paint(on=False).ranges("abc", [(1, 2)]) == "abc"
    assert Paint(on=True).ranges("abc", [(1, 2)]) == f"a{RED}b{END}c"


def test_what_is_found_stays_indented(shell: Shell) -> None:
    """At a terminal and in a pipe, with the match in its place; blanks after the text go."""
    code = "def f():\n    if needle:\n\t\tneedle()  \n \tneedle\n"
    with shell.client() as client:
        client.call("session/new", {"sessionId": "x", "messages": [{"role": "user", "content": code}]})
    expected = ["    if needle:", "        needle()", "    needle"]
    assert [line.split("\t")[-1] for line in shell("search", "needle").out.splitlines()] == expected
    shown = on_terminal(shell, "search", "needle")[1]
    for line in expected:
        assert f"\n  {line.replace('needle', f'{RED}needle{END}')}\n" in shown
