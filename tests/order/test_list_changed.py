"""`session/listChanged` sees what was sent before it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.order.pipeline import Pipeline, Request, append, on, user


def test_what_changed_before_a_look_at_the_changes_is_in_it(client: Pipeline) -> None:
    """`session/listChanged`, in one write with the changes, after a cursor that came before them; a session not loaded, too."""
    client.call("session/new", sessionId="a")
    cursor = client.call("session/listChanged")["cursor"]
    requests = [append("a", user("m1")), on("b", "session/new"), ("session/listChanged", {"cursor": cursor})]
    *_, answer = client.burst(*requests)
    assert [one["session"]["sessionId"] for one in answer["result"]["sessions"]] == ["a", "b"]


CHANGES: dict[str, list[Request]] = {
    "made": [on("new", "session/new")],
    "written": [append("there", user("m1"))],
    "named": [on("there", "session/update", name="a name")],
    "archived": [on("there", "session/update", archived=True)],
    "deleted": [on("there", "session/delete")],
    "restored": [on("trashed", "session/restore")],
    "forked": [on("there", "session/fork")],
    "written twice": [append("there", user("m1")), append("other", user("m2"))],
}


def heard(client: Pipeline, other: Pipeline) -> int:
    """How often it was told by the time that the daemon listed what the other connection did."""
    other.call("session/list")
    client.call("daemon/hello")
    names = [name for name, _ in client.notifications]
    client.notifications.clear()
    return names.count("list/changed")


@pytest.mark.parametrize("change", CHANGES)
def test_who_asks_is_told_once(connect: Callable[[], Pipeline], client: Pipeline, change: str) -> None:
    """Of whatever another connection does to any session, and not again before it asks again; who does not ask hears nothing."""
    for name in ("there", "other", "trashed"):
        client.call("session/new", sessionId=name)
    client.burst(append("trashed", user("m0")), on("trashed", "session/delete"))
    other, deaf = connect(), connect()
    deaf.call("session/listChanged")
    client.call("session/listChanged", tell=True)
    assert heard(client, other) == 0
    for method, params in CHANGES[change]:
        other.call(method, **params)
    assert heard(client, other) == 1
    other.call("session/new", sessionId="one-more")
    assert heard(client, other) == heard(deaf, other) == 0


def test_what_is_left_of_a_page_is_told_at_once(client: Pipeline) -> None:
    """What came after the cursor before it was asked for, too."""
    cursor = client.call("session/listChanged")["cursor"]
    client.burst(on("a", "session/new"), on("b", "session/new"))
    assert client.call("session/listChanged", cursor=cursor, tell=True, limit=1)["hasMore"]
    assert client.notification("list/changed") == {}


def test_a_second_question_takes_the_place_of_the_first(connect: Callable[[], Pipeline], client: Pipeline) -> None:
    """And a connection that is gone is not told."""
    gone, other = connect(), connect()
    for one in (gone, client, client):
        one.call("session/listChanged", tell=True)
    gone.close()
    other.call("session/new", sessionId="a")
    assert heard(client, other) == 1


def test_nothing_is_missed_while_others_write(connect: Callable[[], Pipeline], client: Pipeline) -> None:
    """The last list that a client reads, each time that it is told, has everything, whenever the changes came."""
    writers = [connect() for _ in range(3)]
    seen: set[str] = set()
    client.call("session/listChanged", tell=True)
    numbers = [
        [one.send("session/new", {"sessionId": f"s-{place}-{no}"}) for no in range(30)]
        for place, one in enumerate(writers)
    ]
    while len(seen) < 90:
        client.notification("list/changed")
        client.call("session/listChanged", tell=True)
        seen = {one["sessionId"] for one in client.call("session/list", limit=1000)["sessions"]}
    for one, sent in zip(writers, numbers, strict=True):
        one.answers(sent)
