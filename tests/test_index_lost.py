"""The index may be deleted at any time: lists and searches of a running daemon are right again by themselves, and never wrong meanwhile."""

from __future__ import annotations

import time

from tests.home import Home

COUNT = 60


def test_a_deleted_index_is_made_anew_while_everything_goes_on(tmp_path):
    """Once a question has noticed the loss, every list is whole; a search is whole or says that it is not."""
    with Home(tmp_path) as home:
        client = home.client()
        for n in range(COUNT):
            client.call("session/new", sessionId=f"s{n}", messages=[{"role": "user", "content": f"zebra number{n}"}])
            client.call("session/close", sessionId=f"s{n}")
        assert client.call("session/search", query="zebra")["total"] == COUNT
        for path in (tmp_path / "cache").iterdir():
            path.unlink()
        client.call("session/append", sessionId="s0", messages=[{"role": "user", "content": "zebra again"}])
        deadline = time.monotonic() + 20
        while (found := client.call("session/search", query="zebra"))["total"] != COUNT + 1:
            assert found.get("incomplete"), found
            assert time.monotonic() < deadline
        assert len(client.call("session/list", limit=COUNT + 1)["sessions"]) == COUNT


def test_a_list_right_after_the_loss_is_whole(tmp_path):
    """Without any search before it."""
    with Home(tmp_path) as home:
        client = home.client()
        for n in range(COUNT):
            client.call("session/new", sessionId=f"s{n}", name=f"n{n}")
            client.call("session/close", sessionId=f"s{n}")
        client.call("session/list")
        for path in (tmp_path / "cache").iterdir():
            path.unlink()
        client.call("session/update", sessionId="s1", name="other")
        for _ in range(5):
            assert len(client.call("session/list", limit=COUNT + 1)["sessions"]) == COUNT


def test_a_list_notices_the_loss_itself(tmp_path):
    """Without any change before it: it is answered when the index is whole again, and never with what a fresh one has."""
    with Home(tmp_path) as home:
        client = home.client()
        for n in range(COUNT):
            client.call("session/new", sessionId=f"s{n}", name=f"n{n}")
            client.call("session/close", sessionId=f"s{n}")
        for _ in range(3):
            client.call("session/list")
            for path in (tmp_path / "cache").iterdir():
                path.unlink()
            assert len(client.call("session/list", limit=COUNT + 1)["sessions"]) == COUNT
