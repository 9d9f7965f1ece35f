"""`session/listChanged` sees what was sent before it."""

from __future__ import annotations

from tests.order.pipeline import Pipeline, append, on, user


def test_what_changed_before_a_look_at_the_changes_is_in_it(client: Pipeline) -> None:
    """`session/listChanged`, in one write with the changes, after a cursor that came before them; a session not loaded, too."""
    client.call("session/new", sessionId="a")
    cursor = client.call("session/listChanged")["cursor"]
    requests = [append("a", user("m1")), on("b", "session/new"), ("session/listChanged", {"cursor": cursor})]
    *_, answer = client.burst(*requests)
    assert [one["session"]["sessionId"] for one in answer["result"]["sessions"]] == ["a", "b"]
