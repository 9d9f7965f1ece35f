"""Streamed messages, refusals and cancellations that once reported something wrong. The numbers are those of the list of
observed faults.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.order.pipeline import Pipeline, Request, append, ids, kind, kinds, on, streaming, user
from tests.zygote import ForkedHome

BLOCKS = {"id": "s", "role": "assistant", "content": [{"type": "text", "text": "a"}], "status": "streaming"}


Again = Callable[..., Pipeline]


@pytest.mark.parametrize("kill", [True, False])
@pytest.mark.parametrize("saved", [True, False])
def test_09_a_streamed_message_of_blocks_is_interrupted_by_a_restart(
    client: Pipeline, again: Again, kill: bool, saved: bool
) -> None:
    """A streamed message whose content is a list of blocks is `interrupted` after a restart, as any other is."""
    client.call("session/new", sessionId="a", messages=[BLOCKS])
    if saved:
        client.call("session/save")
    client = again(kill=kill)
    assert [message["status"] for message in client.everything("a")] == ["interrupted"]


def test_09_a_streamed_message_of_blocks_is_interrupted_in_a_fork(client: Pipeline) -> None:
    """A fork's copy of a streamed message of blocks is `interrupted`, and the original continues."""
    client.call("session/new", sessionId="a", messages=[BLOCKS])
    fork = client.call("session/fork", sessionId="a")["session"]["sessionId"]
    assert [message["status"] for message in client.everything(fork)] == ["interrupted"]
    assert [message["status"] for message in client.everything("a")] == ["streaming"]


def test_09_of_two_contradictory_ends_of_a_message_of_blocks_the_first_counts(client: Pipeline) -> None:
    """Two `finish` of a message of blocks in one write, `done` and `error`: the second is `conflict`."""
    client.call("session/new", sessionId="a", messages=[BLOCKS])
    ends = [on("a", "session/finish", messageId="s", status=status) for status in ("done", "error")]
    assert kinds(client.burst(*ends)) == ["ok", "conflict"]
    assert [message["status"] for message in client.everything("a")] == ["done"]


def opened(client: Pipeline, name: str) -> dict[str, Any] | None:
    """The result of `session/open`; None if the session does not exist."""
    result: dict[str, Any] | None = client.answer(client.send("session/open", {"sessionId": name})).get("result")
    return result


Look = Callable[[dict[str, Any] | None], bool]
CHANGES: dict[str, tuple[Request, Look]] = {
    "append": (append("", user("m9")), lambda now: now is not None and "m9" in ids(now["messages"])),
    "extend": (on("", "session/extend", messageId="s", text="b"), lambda now: now is not None and now["messages"][-1]["content"] == "ab"),
    "finish": (on("", "session/finish", messageId="s"), lambda now: now is not None and now["messages"][-1]["status"] == "done"),
    "update": (on("", "session/update", name="new"), lambda now: now is not None and now["session"]["name"] == "new"),
    "note": (on("", "note/append", heading="h", content="c"), lambda now: now is not None and len(now["notes"]) == 1),
    "state": (on("", "state/set", values={"b": 1}), lambda now: now is not None and "b" in now["state"]),
    "clear state": (on("", "state/clear"), lambda now: now is not None and not now["state"]),
    "truncate": (on("", "session/truncate", afterSeq=1), lambda now: now is not None and len(now["messages"]) == 1),
    "clear": (on("", "session/clear"), lambda now: now is not None and not now["messages"]),
    "delete": (on("", "session/delete"), lambda now: now is None),
}  # fmt: skip
"""A change, and whether it is there."""


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("after", ["at once", "on its way"])
def test_11_a_change_that_is_cancelled_is_answered_as_done_or_is_not_there(
    client: Pipeline, what: str, after: str
) -> None:
    """A change and two cancellations of it, at 40 moments from its own write on: answered with a result it is there, answered with
    `cancelled` it is not, and nothing else is answered.
    """
    (method, params), is_there = CHANGES[what]
    wrong = []
    for number in range(40):
        name = f"s{number}"
        client.call("session/new", sessionId=name, messages=[user("m1"), user("m2"), streaming("s", "a")])
        client.call("state/set", sessionId=name, values={"a": 1})
        apart = 0 if after == "at once" else number % 4 + 1
        answer = client.cancelled((method, {**params, "sessionId": name}), cancellations=2, apart=apart)
        answered, there = kind(answer), is_there(opened(client, name))
        if (answered, there) not in {("ok", True), ("cancelled", False)}:
            wrong.append((answered, "there" if there else "not there"))
    assert not wrong


@pytest.mark.parametrize("more", [{"metadata": {"by": 2}}, {"toolCalls": [{"id": "t", "name": "n", "arguments": {}}]}])
def test_12_of_two_ends_in_one_write_both_are_kept_or_one_is_refused(client: Pipeline, more: dict[str, Any]) -> None:
    """Two `finish` in one write that say something different: the second is `conflict`. One that says the same is a repetition."""
    client.call("session/new", sessionId="a", messages=[streaming("s", "a")])
    ends = [
        on("a", "session/finish", messageId="s", metadata={"by": 1}),
        on("a", "session/finish", messageId="s", **more),
        on("a", "session/finish", messageId="s", metadata={"by": 1}),
    ]
    assert kinds(client.burst(*ends)) == ["ok", "conflict", "ok"]
    (message,) = client.everything("a")
    assert message["metadata"] == {"by": 1}
    assert "toolCalls" not in message


def any_change(step: int) -> list[Request]:
    return [
        append("", user(f"m{step}")),
        ("session/update", {"name": f"x{step}"}),
        ("session/update", {"tags": [f"x{step}"]}),
        ("state/set", {"values": {f"k{step % 2}": step}}),
        ("note/append", {"heading": "h", "content": f"c{step}"}),
        ("session/extend", {"messageId": "s", "text": "b"}),
        ("session/save", {}),
        ("session/truncate", {"afterSeq": 2}),
    ]


def scripts() -> dict[str, list[Request]]:
    """Changes of a session, by its name."""
    state, first, name = ("state/set", {"values": {"a": 1}}), append("", user("m1")), ("session/update", {"name": "x"})
    found: dict[str, list[Request]] = {
        "truncated": [first, append("", user("m2")), name, state, ("session/truncate", {"afterSeq": 1})],
        "cleared": [
            first, name, ("session/update", {"name": "y"}), ("session/clear", {}), append("", user("m3")),
        ],
    }  # fmt: skip
    rng = random.Random(1)
    for number in range(40):
        script = [append("", streaming("s", "a"))]
        script += [rng.choice(any_change(step)) for step in range(rng.randint(3, 9))]
        found[f"random{number}"] = script
    return found


def told(client: Pipeline, name: str, since: int) -> list[tuple[str, int]] | None:
    """Kind and seq of every change since then, a message at a time."""
    changes = client.call("session/open", sessionId=name, since=since)["changes"]
    if changes is None:
        return None
    return [(change["kind"], one["seq"]) for change in changes for one in change.get("messages", [change])]


def test_13_after_a_restart_changes_are_all_of_them_or_null(client: Pipeline, again: Again) -> None:
    """`open since: S` after a save and a restart answers, for every S, the changes that it answered before, or null."""
    before = {}
    for name, script in scripts().items():
        client.call("session/new", sessionId=name)
        client.one_by_one(*[(method, {**params, "sessionId": name}) for method, params in script])
        for since in range(client.call("session/read", sessionId=name)["seq"] + 1):
            before[name, since] = told(client, name, since)
    client.call("session/save")
    client = again(kill=False)
    wrong = []
    for (name, since), all_of_them in before.items():
        now = told(client, name, since)
        if now is not None and now != all_of_them:
            wrong.append(f"{name} since {since}: {now}, and before the restart {all_of_them}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("end", ["done", "open"])
@pytest.mark.parametrize("saved", [True, False])
def test_14_a_streamed_message_may_be_sent_again_after_a_kill(
    client: Pipeline, again: Again, end: str, saved: bool
) -> None:
    """The append of a streamed message that has grown since, repeated after kill -9, answers its seq and adds nothing, whether it was
    saved or not.
    """
    client.call("session/new", sessionId="a", messages=[user("m1")])
    client.call("session/append", sessionId="a", messages=[streaming("s", "one")])
    client.call("session/extend", sessionId="a", messageId="s", text=" two")
    if end == "done":
        client.call("session/finish", sessionId="a", messageId="s")
    if saved:
        client.call("session/save", sessionId="a")
    client = again(kill=True)
    answer = client.answer(client.send(*append("a", streaming("s", "one"))))
    assert kind(answer) == "ok", answer
    assert answer["result"]["messages"] == [{"id": "s", "seq": 2}]
    assert [message["content"] for message in client.everything("a")] == ["m1", "one two"]


def test_16_a_refusal_names_a_seq_that_the_session_has(forked: ForkedHome, connect: Callable[[], Pipeline]) -> None:
    """Beside an append in the same write that is too large to be recorded, a `conflict` names the seq that the session has."""
    forked.kill()
    forked.configure("[autosave]\ninterval_s = 0\nidle_s = 0\n[limits]\nrecord_bytes = 65536\n")
    forked.start()
    client = connect()
    client.call("session/new", sessionId="a", messages=[user("m1")])
    too_large, *refused = client.burst(
        append("a", user("m2", "x" * 100_000)),
        append("a", user("m3"), expectedSeq=77),
        append("a", user("m1", "other")),
    )
    assert kind(too_large) == "tooLarge"
    assert kinds(refused) == ["conflict", "conflict"]
    assert [answer["error"]["data"]["seq"] for answer in refused] == [1, 1]
    assert client.call("session/read", sessionId="a")["seq"] == 1
