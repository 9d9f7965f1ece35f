"""Filters at the command line: a value that cannot find anything is reported, not taken for "nothing found"."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from sessiond.cli.moments import moment_of
from tests.shell import Shell


def test_a_store_that_is_none(shell: Shell) -> None:
    """Every command says so in the same words, with those that there are."""
    shell("append", shell("new", "--json").json["session"]["sessionId"], "x")
    for command in (
        ("search", "x"), ("search", "-q", "x"), ("search", "--json", "x"), ("search", "-E", "x"), ("list",), ("list", "--json"),
        ("list", "--deleted"), ("gc",), ("gc", "--yes", "--json"), ("export",), ("export", "--all"), ("import", "/"),
    ):  # fmt: skip
        done = shell(*command, "--store", "nosuch")
        assert (done.out, done.err) == ("", "sessiond: store: there is no store 'nosuch'; one of default\n"), command
        assert done.code == 1


def test_a_session_that_is_none(shell: Shell) -> None:
    """`search --session` says that the session does not exist, or no longer; an existing one may have no hits."""
    shell("new", "--id", "one", "--name", "One")
    shell("new", "--id", "gone", "--name", "Gone")
    shell("rm", "gone")
    for session_id in ("nosuch", "gone", "nosuch/one"):
        done = shell("search", "--session", session_id, "x")
        assert (done.out, done.err.count("\n")) == ("", 1)
        assert done.err.startswith(f"sessiond: no session {session_id!r}")
        assert done.code == 1
    nothing = "sessiond: no matches\n"
    assert shell("search", "--session", "one", "x").err == nothing
    assert shell("search", "--session", "one", "--store", "default", "x").err == nothing


def test_a_file_that_cannot_be_read_is_a_session(shell: Shell) -> None:
    """A search for what its index does not hold finds nothing, and does not call the session none."""
    shell("new", "--id", "one", "--name", "One")
    assert shell("stop").code == 0
    (shell.data / "sessions" / "one.jsonl").write_bytes(b"\0" * 100)
    assert shell("show", "one").code == 1
    assert shell("search", "--session", "one", "absent").err == "sessiond: no matches\n"


@pytest.mark.parametrize("option", ["--before", "--after", "--since", "--until"])
def test_a_time_that_is_none(shell: Shell, option: str) -> None:
    """It is wrong usage, and the line says which forms can be read; nothing is searched for as a word."""
    for text in ("garbage", "10 days ago", "2026-13", "2026-01-11 x", "yesteryear", "7y"):
        done = shell("search", option, text, "commit")
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert f"Invalid value for {option}: {text!r} is not a time; write 2026" in done.err
        assert "2026-01-11T14:30:22Z" in done.err


def test_the_ends_of_time(shell: Shell) -> None:
    """A time beyond the last one is invalid, and the first year is valid."""
    assert shell("list", "--until", "9999-12-31T23:59:59-10:00").code == 2
    shell("new", "--id", "x", "--name", "X")
    assert shell("list", "--since", "0001-01-02").out.startswith("x\t")


def test_times_that_are_some(shell: Shell) -> None:
    """Every form that the words `before:` and `after:` know."""
    with shell.client() as client:
        said = [{"role": "user", "content": "commit", "timestamp": "2026-01-11T14:30:22.000Z"}]
        client.call("session/new", {"sessionId": "x", "messages": said})
    for when in (
        "2026",
        "2026-01",
        "2026-1-11",
        "2026-01-11T14:30:22Z",
        "2026-01-11T15:30:22+01:00",
        "2026-01-11T14:30:22",
    ):
        assert shell("search", "-l", "--after", when, "commit").out == "x\n", when
        assert shell("search", "-l", "--before", when, "commit").out == "", when


def test_a_folder_and_those_in_it(shell: Shell) -> None:
    """`search --cwd` is the word `cwd:` whatever the folder is called, and whatever the query begins or ends with; with a
    pattern, and in `list`, it is that folder itself.
    """
    root = '/no such/"pl*ce'
    with shell.client() as client:
        for session_id, cwd in (
            ("at", "/src/app"),
            ("in", "/src/app/a b"),
            ("by", "/src/apple"),
            ("odd", '/a"b/c'),
            ("no", root),
        ):
            said = [{"role": "user", "content": "lock or bar"}]
            client.call("session/new", {"sessionId": session_id, "cwd": cwd, "messages": said})

    def found(*arguments: str) -> set[str]:
        return set(shell("search", "-l", *arguments).out.split())

    assert found("--cwd", "/src/app", "lock") == found("cwd:/src/app", "lock") == {"at", "in"}
    assert found("--cwd", "/src/app/a b", "lock") == {"in"}
    assert found("--cwd", '/a"b', "lock") == {"odd"}
    assert found("--cwd", root, "lock") == {"no"}
    assert found("--cwd", "/", "lock") == {"at", "in", "by", "odd", "no"}
    for query in ("OR lock", "** OR lock", "lock OR", 'lock "bar', "lock OR absent", "OR", '" OR lock'):
        assert found("--cwd", "/src/app", query) == {"at", "in"}, query
    assert found("--cwd", "/src/app", "-E", "l.ck") == {"at"}
    assert [line.split("\t")[0] for line in shell("list", "--cwd", "/src/app").out.splitlines()] == ["at"]


def test_a_folder_of_windows(shell: Shell) -> None:
    """However it is written at the command line, and in the session; live, deleted, and for what was used."""
    usage = {"usage": {"inputTokens": 5, "outputTokens": 2}, "model": "m"}
    with shell.client() as client:
        for session_id, cwd in (
            ("win", r"C:\Src\App"),
            ("wsl", "/mnt/c/src/app"),
            ("net", r"\\Host\share\app"),
            ("no", "/src"),
        ):
            said = [{"role": "assistant", "content": "lock", "metadata": usage}]
            client.call("session/new", {"sessionId": session_id, "cwd": cwd, "messages": said})
        client.call("session/new", {"sessionId": "gone", "cwd": "c:/src/app/", "messages": said})
        client.call("session/delete", {"sessionId": "gone"})
    for folder in (r"C:\src\app", "c:/Src/App/", "/mnt/c/Src/app", "/mnt/C/src/app"):
        assert set(shell("search", "-l", "--cwd", folder, "lock").out.split()) == {"win", "wsl"}, folder
        assert set(shell("search", "-l", "--cwd", folder, "-E", "l.ck").out.split()) == {"win", "wsl"}, folder
        assert len(shell("list", "--deleted", "--json", "--cwd", folder).json["sessions"]) == 1, folder
        assert len(shell("list", "--cwd", folder).out.splitlines()) == 2, folder
    assert set(shell("search", "-l", r"cwd:C:\src", "lock").out.split()) == {"win", "wsl"}
    assert shell("search", "-l", "--cwd", "//HOST/share/app", "lock").out.split() == ["net"]
    shell("new", "--id", "made", "--cwd", r"D:\work")
    assert shell("show", "--json", "made").json["session"]["cwd"] == r"D:\work"


def test_a_model_is_asked_for_in_one_way(shell: Shell) -> None:
    """By its name or whole parts of it, in any case: as an option of a list and of a search, as a word, and in the trash."""
    with shell.client() as client:
        for session_id, model in (("a", "claude-opus-4"), ("b", "Opus 4.1"), ("c", "opusculum"), ("d", None)):
            said = [{"role": "user", "content": "lock"}]
            client.call("session/new", {"sessionId": session_id, "model": model, "messages": said})

    def listed(*arguments: str) -> set[str]:
        return {info["sessionId"] for info in shell("list", "--json", *arguments).json["sessions"]}

    for asked, expected in (
        ("opus", {"a", "b"}),
        ("OPUS-4", {"a", "b"}),
        ("claude-opus-4", {"a"}),
        ("pus", set()),
        ("opusculum", {"c"}),
    ):
        assert set(shell("search", "-l", f"model:{asked}", "lock").out.split()) == expected, asked
        assert set(shell("search", "-l", "--model", asked, "lock").out.split()) == expected, asked
        assert set(shell("search", "-l", "--model", asked, "-E", "l.ck").out.split()) == expected, asked
        assert listed("--model", asked) == expected, asked
        assert {one["sessionId"] for one in shell("export", "--model", asked, "--json").json["sessions"]} == expected
    shell("rm", "a", "c")
    assert len(listed("--deleted", "--model", "opus")) == 1


def test_what_is_in_the_trash_is_said_to_be_there(shell: Shell) -> None:
    """By every command that wants it, also after a start of the daemon; not of what never was, or was deleted for good."""
    for session_id in ("gone", "erased"):
        shell("new", "--id", session_id, "--name", session_id)
        shell("append", session_id, "x")
    shell("rm", "gone")
    shell("rm", "--permanent", "erased")
    said = "no session 'gone' in the store 'default': it is in the trash; `sessiond restore gone` brings it back"
    for command in (("show", "gone"), ("append", "gone", "y"), ("rename", "gone", "Z"), ("export", "gone"), ("stop",),
                    ("show", "gone"), ("search", "--session", "gone", "x"), ("fork", "gone")):  # fmt: skip
        done = shell(*command)
        assert command == ("stop",) or (done.code, done.out, done.err) == (1, "", f"sessiond: {said}\n"), command
    for never in ("erased", "nosuch"):
        assert "it is in the trash" not in shell("show", never).err
    assert shell("restore", "gone").code == shell("show", "gone").code == 0


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/St_Johns"])
def test_times_as_people_say_them(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long ago it was, and days that begin where the person is, also where the clocks go forward."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        now = datetime(2026, 3, 8, 20, 15, tzinfo=UTC)
        for text, ago in (("2h", 2), ("90min", 1.5), ("7d", 7 * 24), ("1W", 7 * 24), (" 3 h", 3), ("0h", 0)):
            assert moment_of(text, now) == now - timedelta(hours=ago), text
        for text, back in (("today", 0), ("Yesterday", 1)):
            moment = moment_of(text, now).astimezone()
            assert (moment.hour, moment.minute) == (0, 0)
            assert moment.date() == now.astimezone().date() - timedelta(days=back)
        for wrong in ("h", "-2h", "2", "2h3", "999999w", "tomorrow", ""):
            with pytest.raises((ValueError, OverflowError)):
                moment_of(wrong, now)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_was_changed_lately(shell: Shell) -> None:
    """In lists, searches and exports."""
    with shell.client() as client:
        for session_id, at in (("new", None), ("old", "2020-01-11T14:30:22.000Z")):
            said = {"role": "user", "content": "lock", **({"timestamp": at} if at else {})}
            client.call("session/new", {"sessionId": session_id, "messages": [said]})
    changed = {info["sessionId"]: info["updatedAt"] for info in shell("list", "--json").json["sessions"]}
    for when in ("2h", "7d", "yesterday"):
        expected = {name for name, at in changed.items() if not at.startswith("2020")}
        assert "new" in expected
        assert {line.split()[0] for line in shell("list", "--since", when).out.splitlines()} == expected
        assert set(shell("search", "-l", "--since", when, "lock").out.split()) == expected
        assert {one["sessionId"] for one in shell("export", "--since", when, "--json").json["sessions"]} == expected


def test_a_filter_that_matches_nothing_is_named(shell: Shell) -> None:
    """In a list, a search and an export: each one that matches no session even alone, and no other one."""
    shell("new", "--id", "x", "--tag", "work", "--model", "opus-4", "--cwd", "/tmp")
    shell("append", "x", "lock")
    wrong = ("--tag", "wrok", "--tag", "work", "--model", "opsu", "--tool", "cladue", "--since", "2h")
    said = {
        "sessiond: no session has the tag 'wrok'",
        "sessiond: no session has a model 'opsu'",
        "sessiond: no session came from 'cladue'",
    }
    for command in (("list",), ("search", "lock"), ("export", "-o", str(shell.path / "out"))):
        done = shell(*command, *wrong)
        assert said <= set(done.err.splitlines()), command
        assert "'work'" not in done.err and "changed" not in done.err
        assert shell(*command, "--tag", "work", "--model", "opus").err.count("no session") == 0
    archived = shell("list", "--archived", "--tag", "work")
    assert archived.err == "sessiond: no archived session has the tag 'work'\n"
    apart = shell("list", "--tag", "work", "--until", "2020-01-11")
    assert "no session was changed before 20" in apart.err and "tag" not in apart.err
