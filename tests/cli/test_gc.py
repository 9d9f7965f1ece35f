"""`sessiond gc`: it shows what it would move to the trash, and moves it on request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from sessiond.cli import gc
from tests.fakes.answers import Answers
from tests.shell import Shell


def ids(done: Any) -> list[str]:
    assert done.code == 0, done
    return sorted(done.json["removed"])


def test_gc_says_then_does(shell: Shell) -> None:
    """Alone it only says; with --yes it goes into the trash, from where it comes back. What is open stays."""
    with shell.client() as client:
        talk = [{"role": "user", "content": "x"}]
        for session_id, messages in (("bare", []), ("full", talk), ("open", []), ("noted", [])):
            client.call("session/new", {"sessionId": session_id, "name": session_id, "messages": messages})
        client.call("state/set", {"sessionId": "noted", "values": {"a": 1}})
        for session_id in ("bare", "full", "noted"):
            client.call("session/close", {"sessionId": session_id})
        assert ids(shell("gc", "--json")) == []  # nothing empty is a day old
        assert ids(shell("gc", "--empty", "--older-than", "0", "--json")) == ["bare"]
        assert len(shell("list").out.splitlines()) == 4
        done = shell("gc", "--empty", "--older-than", "0", "--yes")
        assert "moved 1 session to the trash" in done.out
        shell("archive", "full")
        assert ids(shell("gc", "--archived", "--json")) == ["full"]
        assert ids(shell("gc", "--archived", "--older-than", "1", "--json")) == []
        assert ids(shell("gc", "--archived", "--yes", "--json")) == ["full"]
    assert sorted(line.split("\t")[0] for line in shell("list").out.splitlines()) == ["noted", "open"]
    assert shell("restore", "full").code == 0
    assert shell("show", "full").code == 0


@pytest.mark.parametrize("changed", [{"seq": 5}, {"messageCount": 1}, {"attached": 1}])
def test_what_changed_since_it_was_listed_stays(monkeypatch: pytest.MonkeyPatch, changed: dict[str, int]) -> None:
    """A message that came meanwhile is not thrown away, nor what somebody has just opened. How many stayed is said."""
    one, other = ({"sessionId": name, "seq": 4, "messageCount": 0, "attached": 0} for name in ("one", "other"))
    answers = Answers({
        "session/list": [{"sessions": [one, other], "nextCursor": None}],
        "session/update": [{"session": {**one, **changed}}, {"session": other}],
        "session/delete": [{}],
    })  # fmt: skip
    monkeypatch.setattr(gc, "connect", lambda: answers.client)
    done = CliRunner().invoke(gc.command, ["--archived", "--yes", "--json"])
    assert json.loads(done.stdout) == {"removed": ["other"], "dryRun": False}
    assert done.stderr == "sessiond: 1 session changed meanwhile, or was opened, and stayed\n"
    assert [params["sessionId"] for method, params in answers.asked if method == "session/delete"] == ["other"]


def test_days_that_are_none_and_too_many(shell: Shell) -> None:
    """What is not finite is wrong usage; a time before the first year is the beginning of time."""
    shell("new", "--id", "one", "--name", "One")
    for days in ("nan", "inf"):
        done = shell("gc", "--older-than", days)
        assert (done.code, done.out) == (2, "") and "is not a number of days" in done.err
    for days in ("400000", "730000", "1000000", "1e10", "1e300"):
        assert ids(shell("gc", "--older-than", days, "--json")) == [], days


def test_an_empty_name_is_not_every_store(shell: Shell) -> None:
    """As from a variable of a shell that is not set."""
    shell("new", "--id", "one", "--name", "One")
    for command in (
        ("gc", "--older-than", "0", "--yes"), ("list",), ("search", "x"), ("export",), ("stats",), ("new",), ("mv", "one"), ("import", "/"),
    ):  # fmt: skip
        done = shell(*command, "--store", "")
        assert (done.code, done.out) == (2, "") and "the name of the store is empty" in done.err, command
    assert shell("list").out.startswith("one\t")
