"""The index may be deleted at any time: lists and searches of a running daemon become right again by themselves, and say
until then that something may be missing.
"""

from __future__ import annotations

import time

from tests.home import Home

COUNT = 60


def _named(client):
    for n in range(COUNT):
        client.call("session/new", sessionId=f"s{n}", name=f"n{n}")
        client.call("session/close", sessionId=f"s{n}")


def _lose(home):
    for path in (home / "cache").iterdir():
        path.unlink()


def _listed(client):
    """How many sessions a list has that says nothing of being incomplete."""
    deadline = time.monotonic() + 20
    while (page := client.call("session/list", limit=COUNT + 1)).get("incomplete"):
        assert time.monotonic() < deadline
    return len(page["sessions"])


def test_a_deleted_index_is_made_anew_while_everything_goes_on(tmp_path):
    """Once a question has noticed the loss, lists and searches are whole or say that they are not."""
    with Home(tmp_path) as home:
        client = home.client()
        for n in range(COUNT):
            client.call("session/new", sessionId=f"s{n}", messages=[{"role": "user", "content": f"zebra number{n}"}])
            client.call("session/close", sessionId=f"s{n}")
        assert client.call("session/search", query="zebra")["total"] == COUNT
        _lose(tmp_path)
        client.call("session/append", sessionId="s0", messages=[{"role": "user", "content": "zebra again"}])
        deadline = time.monotonic() + 20
        while (found := client.call("session/search", query="zebra"))["total"] != COUNT + 1:
            assert found.get("incomplete"), found
            assert time.monotonic() < deadline
        assert _listed(client) == COUNT


def test_a_list_right_after_the_loss_is_whole(tmp_path):
    """Without any search before it."""
    with Home(tmp_path) as home:
        client = home.client()
        _named(client)
        client.call("session/list")
        _lose(tmp_path)
        client.call("session/update", sessionId="s1", name="other")
        for _ in range(5):
            assert _listed(client) == COUNT


def test_a_list_notices_the_loss_itself(tmp_path):
    """Without any change before it: what a fresh one has is never taken for all there is."""
    with Home(tmp_path) as home:
        client = home.client()
        _named(client)
        for _ in range(3):
            client.call("session/list")
            _lose(tmp_path)
            assert _listed(client) == COUNT
