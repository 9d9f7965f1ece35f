"""`sessiond gc`: it shows what it would move to the trash, and moves it on request."""

from __future__ import annotations

from typing import Any

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
