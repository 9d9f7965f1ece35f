"""Sessions named by how their id begins, or by how recent they are."""

from __future__ import annotations

import pytest

from sessiond.cli import session_ids
from sessiond.cli.list_table import shortened
from sessiond.errors import SessionNotFound, Unavailable
from tests.fakes.answers import Answers
from tests.shell import Shell, on_terminal

LONG = "claude-code-0f0c1f8e-2222-4333-8444-55555555555"


@pytest.fixture
def shell(shell: Shell) -> Shell:
    """Two imported sessions whose ids end differently, and two of our own; `second` was changed last."""
    with shell.client() as client:
        for session_id, name in ((f"{LONG}1", "One"), (f"{LONG}2", "Two"), ("first", "First"), ("second", "Second")):
            client.call("session/new", {"sessionId": session_id, "name": name})
    shell("append", "second", "words")
    return shell


def test_the_only_one_that_begins_so(shell: Shell) -> None:
    """An id itself comes first, also where another one begins with it; what is not clear is not guessed."""
    shown = shell("show", "seco")
    assert shown.out.startswith("second  Second\n")
    assert shown.err == "sessiond: seco is short for second\n"
    shell("new", "--id", "second-one", "--name", "Another")
    assert shell("show", "second").out.startswith("second  Second\n")
    unclear = shell("show", "claude-code-0f0")
    assert (unclear.code, unclear.out) == (1, "")
    assert "2 sessions begin with 'claude-code-0f0'" in unclear.err and f"{LONG}1" in unclear.err
    assert shell("show", "sec").code == 1, "three characters may as well be a mistake"
    assert "no session 'nosuch'" in shell("show", "nosuch").err


def test_archived_sessions_are_meant_too(shell: Shell) -> None:
    shell("archive", "first")
    assert shell("show", "firs").out.startswith("first  First\n")
    shell("new", "--id", "first-class")
    assert shell("show", "firs").code == 1


@pytest.mark.parametrize("last", ["-", "@1"])
def test_the_last_and_the_one_before(shell: Shell, last: str) -> None:
    assert shell("show", last).out.startswith("second  Second\n")
    shell("append", "first", "words")
    assert shell("show", last).out.startswith("first  First\n")
    assert shell("show", "@2").out.startswith("second  Second\n")
    beyond = shell("show", "@9")
    assert beyond.code == 1 and "there are only 4 sessions" in beyond.err


def test_every_command_takes_them(shell: Shell) -> None:
    assert shell("rename", "firs", "Better").code == 0
    assert shell("tag", "firs", "red").code == 0
    assert shell("append", "firs", "words").code == 0
    assert shell("fork", "firs", "--json").json["session"]["parent"]["sessionId"] == "first"
    assert "words" in shell("export", "firs").out
    assert "first" in shell("search", "--session", "firs", "words").out
    both = shell("rm", "firs", "seco").out
    assert "first is in the trash" in both and "second is in the trash" in both


def test_what_is_gone_for_good_is_named_in_full(shell: Shell) -> None:
    refused = shell("rm", "--permanent", "seco")
    assert refused.code == 1 and "no session 'seco'" in refused.err
    assert shell("rm", "seco", "--permanent").code == 1
    for recent in ("@1", "-"):
        refused = shell("rm", "--permanent", recent)
        assert refused.code == 1 and "must be named by its id; `sessiond list` shows the ids" in refused.err
    assert shell("show", "second").code == 0
    assert "second is gone" in shell("rm", "second", "--permanent").out


@pytest.mark.parametrize("named", ["@1", "-", "job-"])
def test_an_index_that_is_being_built_names_nobody(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """It knows only some sessions: whole lists are waited for, and what is not certain in time is refused."""
    status = {"index": {"state": "building", "read": 3, "found": 7, "problem": None}}
    other = {"sessions": [{"sessionId": "job-alpha"}], "nextCursor": None, "incomplete": True}
    meant = {"sessions": [{"sessionId": "job-beta"}], "nextCursor": None}
    gone = [SessionNotFound("no session")]
    never = Answers({"session/list": [other], "session/read": gone, "daemon/status": [status]})
    monkeypatch.setattr(session_ids, "connect", lambda: never.client)
    with pytest.raises(Unavailable, match=r"still being built \(3 of 7 sessions read\)") as refused:
        session_ids.resolved([named])
    assert "whole id" in str(refused.value.hint)
    late = Answers({"session/list": [other, meant, {**meant, "sessions": []}], "session/read": gone})
    if named != "job-":
        late = Answers({"session/list": [other, meant]})
    monkeypatch.setattr(session_ids, "connect", lambda: late.client)
    assert session_ids.resolved([named]) == ["job-beta"]


def test_ids_of_a_list_are_short_and_taken(shell: Shell) -> None:
    """On a terminal they are cut where they differ from each other, and as long as our own are."""
    ids = [
        *(f"{LONG}{n}" for n in range(3)),
        "claude-code-ffffffff-2222-4333-8444-555555555551",
        "short",
        "short-2",
        LONG,
    ]
    short = shortened(ids)
    assert short == {
        **{one: one for one in ids[:3]}, ids[3]: "claude-code-ffffffff-2222-"[:26], "short": "short", "short-2": "short-2",
        LONG: LONG,
    }  # fmt: skip
    shell("rm", f"{LONG}2")
    [row] = [line for line in on_terminal(shell, "list", COLUMNS="120", NO_COLOR="1")[1].splitlines() if "One" in line]
    assert row.split()[1] == LONG[:26]
    assert shell("show", LONG[:26]).out.startswith(f"{LONG}1  One\n")
    [row] = [
        line
        for line in on_terminal(shell, "list", "--deleted", COLUMNS="120", NO_COLOR="1")[1].splitlines()
        if "Two" in line
    ]
    assert f"{LONG}2" in row, "restore wants the whole id"
