"""A checker that cannot fail is worthless: histories made by hand, right ones that it must explain and wrong ones that it
must not explain.

Each is written as rounds of lanes, `{"A": [append("x", 1), ...]}`; unless said otherwise the session `s` begins with the
messages m1 and m2.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.history.check import check
from tests.history.plan import life
from tests.history.values import Answer, Edit, History, Op, Round, Story, Told

STREAM = "r"


def op(
    method: str,
    result: Any = None,
    kind: str | None = None,
    /,
    session: str | None = "s",
    data: Any = None,
    **params: Any,
) -> Op:
    """Neither result nor kind: it was not answered."""
    about = {} if session is None else {"sessionId": session}
    answer = None
    if kind is not None:
        answer = Answer(error={"code": 0, "message": "", "data": {"kind": kind, **(data or {})}})
    elif result is not None:
        answer = Answer(result=result)
    return Op("", 0, 0, method, {**about, **params}, answer)


def sent(message_id: str, **more: Any) -> dict[str, Any]:
    return {"id": message_id, "role": "user", "content": f"text of {message_id}", **more}


def there(*messages: tuple[str, int], **more: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**sent(message_id), "seq": seq, **more.get(message_id, {})} for message_id, seq in messages]


def new(*ids: str) -> Op:
    session = {"sessionId": "s", "seq": len(ids), "messageCount": len(ids), "name": "first"}
    return op("session/new", {"session": session}, name="first", messages=[sent(one) for one in ids])


def append(message_id: str, seq: int | None, **more: Any) -> Op:
    """`seq` None: not answered."""
    answer = None if seq is None else {"seq": seq, "messages": [{"id": message_id, "seq": seq}]}
    return op("session/append", answer, messages=[sent(message_id, **more)])


def read(seq: int, *messages: tuple[str, int], **more: dict[str, Any]) -> Op:
    return op("session/read", {"messages": there(*messages, **more), "hasMore": False, "seq": seq}, limit=1000)


def opened(seq: int, *messages: tuple[str, int], **more: Any) -> Op:
    changes = {"changes": more.pop("changes")} if "changes" in more else {}
    since = {"since": more.pop("since")} if "since" in more else {}
    shown = [one for one in there(*messages) if one["seq"] > since.get("since", 0)]
    session = {"sessionId": "s", "seq": seq, "messageCount": len(messages), "name": "first"}
    result = {
        "session": session,
        "messages": shown,
        "notes": [],
        "state": more.get("state", {}),
        "hasMore": False,
        **changes,
    }
    return op("session/open", result, **since)


def info(seq: int, count: int) -> dict[str, Any]:
    return {"session": {"sessionId": "s", "seq": seq, "messageCount": count, "name": "first"}}


def truncate(after: int, seq: int, removed: int) -> Op:
    return op("session/truncate", {**info(seq, after), "removed": removed}, afterSeq=after)


def heard(seq: int, *changes: dict[str, Any]) -> Told:
    return Told(method="session/changed", params={"sessionId": "s", "seq": seq, "changes": list(changes)})


def appended(message_id: str, seq: int) -> dict[str, Any]:
    return {"kind": "appended", "seq": seq, "messages": there((message_id, seq))}


def cancelled(one: Op) -> Op:
    one.cancelled = True
    return one


class Restart:
    """Between rounds: the daemon was killed after the round before (`cut`: in it) and started again."""

    def __init__(self, *, cut: bool = False) -> None:
        self.cut = cut


def history(*told: Any, begin: bool = True, **more: Any) -> History:
    """`told`: rounds, each {client: ops}, and Restarts between them. `heard`: by client, what came between its answers: numbers
    are the requests of that client.
    """
    made = History("by hand", Story(0, "by hand", "text", ["s"], []))
    run, restarted = 0, False
    for one in ([{"S": [new("m1", "m2")]}] if begin else []) + list(told):
        if isinstance(one, Restart):
            made.rounds[-1].cut = one.cut
            run, restarted = run + 1, True
            continue
        for client, ops in one.items():
            for number, each in enumerate(ops):
                each.connection, each.round, each.number = f"{client}#{run}", len(made.rounds), number
        made.rounds.append(Round(lanes=one, restarted=restarted))
        restarted = False
    for client, items in more.get("heard", {}).items():
        mine = [each for one in made.rounds for each in one.lanes.get(client, [])]
        made.heard[f"{client}#0"] = [Told(op=mine[one]) if isinstance(one, int) else one for one in items]
    if "file" in more:
        made.rounds[-1].files["s"] = more["file"]
    if "edit" in more:
        made.rounds[more["before"]].edits.append(more["edit"])
    return made


BOTH = [("m1", 1), ("m2", 2)]
REPLY = {STREAM: {"role": "assistant", "status": "streaming", "content": "text of r"}}


def stream(seq: int) -> Op:
    return append(STREAM, seq, role="assistant", status="streaming")


def extend(text: str, seq: int) -> Op:
    return op("session/extend", {"seq": seq}, messageId=STREAM, text=text)


def finish(status: str, seq: int | None = None, kind: str | None = None, at: int = 0) -> Op:
    answer = None if seq is None else {"seq": seq}
    return op("session/finish", answer, kind, messageId=STREAM, status=status, data={"seq": at})


def save() -> Op:
    return op("session/save", {"saved": [{"sessionId": "s"}]})


# fmt: off
RIGHT = {
    "the order of the seqs is the order": lambda: history(
        {"A": [append("a", 4), append("b", 5)], "B": [append("c", 3), read(4, *BOTH, ("c", 3), ("a", 4))]}
    ),
    "what a kill left unanswered happened": lambda: history(
        {"A": [append("a", 3), append("b", None), append("c", None)]}, Restart(cut=True), {"A": [read(4, *BOTH, ("a", 3), ("b", 4))]}
    ),
    "what a kill left unanswered did not happen": lambda: history(
        {"A": [append("a", 3), append("b", None)]}, Restart(cut=True), {"A": [read(3, *BOTH, ("a", 3))]}
    ),
    "what a kill left unanswered did not happen, and the next was cancelled": lambda: history(
        {"A": [append("a", None), cancelled(op("session/append", None, "cancelled", messages=[sent("b")]))]},
        Restart(cut=True),
        {"A": [read(2, *BOTH)]},
    ),
    "an open sees the session that came back": lambda: history(
        {"A": [op("session/delete", {}), op("session/restore", info(2, 2))], "B": [opened(2, *BOTH)]},
        {"A": [append("a", 3)]},
        heard={"B": [0, heard(3, appended("a", 3))]},
    ),
    "an open sees the session before it went": lambda: history(
        {"A": [op("session/delete", {}), op("session/restore", info(2, 2))], "B": [opened(2, *BOTH)]},
        {"A": [append("a", 3)]},
        heard={"B": [0, Told(method="session/deleted", params={"sessionId": "s"})]},
    ),
    "a cancelled request is not there": lambda: history(
        {"A": [cancelled(op("session/append", None, "cancelled", messages=[sent("a")])), read(2, *BOTH)]}
    ),
    "a cancelled request is answered as done": lambda: history({"A": [cancelled(append("a", 3)), read(3, *BOTH, ("a", 3))]}),
    "a reply is interrupted by a restart": lambda: history(
        {"A": [stream(3)]},
        Restart(),
        {"A": [read(4, *BOTH, (STREAM, 3), r={**REPLY[STREAM], "status": "interrupted"})]},
    ),
    "a retry after a restart": lambda: history(
        {"A": [stream(3), extend("!", 4), save()]}, Restart(), {"A": [stream(3)]}
    ),
    "everything since, or null": lambda: history(
        {"A": [append("a", 3), append("b", 4)]},
        {"A": [opened(4, *BOTH, ("a", 3), ("b", 4), since=3, changes=[appended("b", 4)])],
         "B": [opened(4, *BOTH, ("a", 3), ("b", 4), since=2, changes=None)]},
    ),
    "a truncate, then an append": lambda: history(
        {"A": [truncate(1, 3, 1), append("a", 4), read(4, ("m1", 1), ("a", 4))]}
    ),
    "append, delete, restore, append": lambda: history(
        {"A": [append("a", 3), op("session/delete", {}), op("session/restore", info(3, 3)), append("b", 4)]},
        {"A": [read(4, *BOTH, ("a", 3), ("b", 4))]},
    ),
    "a conflict names the seq": lambda: history(
        {"A": [op("session/append", None, "conflict", data={"seq": 2}, messages=[sent("a")], expectedSeq=7)]}
    ),
    "the same finish twice": lambda: history({"A": [stream(3), finish("done", 4), finish("done", 4)]}),
    "each change is heard once": lambda: history(
        {"B": [opened(2, *BOTH)]},
        {"A": [append("a", 3), append("b", 4)], "B": [append("c", 5)]},
        heard={"B": [0, heard(4, appended("a", 3), appended("b", 4)), 1]},
    ),
    "the file has what was saved": lambda: history(
        {"A": [append("a", 3), save(), append("b", 4)]}, file=there(*BOTH, ("a", 3))
    ),
    "a list that sees more": lambda: history(
        {"A": [append("a", 3), op("session/list", {"sessions": [info(4, 4)["session"]]}, session=None), append("b", 4)]}
    ),
    "an edit from outside": lambda: history(
        {"A": [opened(4, *BOTH, ("x", 3)), append("a", 5)]}, edit=Edit("s", line=sent("x")), before=1
    ),
    "an edit that takes a message out": lambda: history(
        {"A": [read(2, *BOTH), read(3, ("m2", 2))]}, edit=Edit("s", without="m1"), before=1
    ),
    "a session made anew begins anew": lambda: history(
        {"A": [op("session/delete", {}, permanent=True), new("a"), append("b", 2), read(2, ("a", 1), ("b", 2))]}
    ),
}

WRONG = {
    "a truncate cuts an append that came later": lambda: history(
        {"A": [truncate(1, 4, 2), append("a", 3), read(4, ("m1", 1))]}
    ),
    "an append that was acknowledged is gone": lambda: history({"A": [append("a", 3)]}, {"A": [read(3, *BOTH)]}),
    "an append that was acknowledged is gone after a kill": lambda: history(
        {"A": [append("a", 3)]}, Restart(cut=True), {"A": [read(2, *BOTH)]}
    ),
    "two appends in another order": lambda: history({"A": [append("a", 4), append("b", 3)]}),
    "a read does not see what its connection appended": lambda: history({"A": [append("a", 3), read(2, *BOTH)]}),
    "a read sees what its connection appends later": lambda: history(
        {"A": [read(3, *BOTH, ("a", 3)), append("a", 3)]}
    ),
    "a read in the next round does not see it": lambda: history({"A": [append("a", 3)]}, {"B": [read(2, *BOTH)]}),
    "a seq is used twice": lambda: history({"A": [append("a", 3)], "B": [append("b", 3)]}),
    "a seq is left out": lambda: history({"A": [append("a", 4)]}),
    "the seqs of one append have a gap": lambda: history(
        {"A": [op("session/append", {"seq": 5, "messages": [{"id": "a", "seq": 3}, {"id": "b", "seq": 5}]}, messages=[sent("a"), sent("b")])],
         "B": [append("c", 4)]}
    ),
    "a later unanswered one happened and an earlier one did not": lambda: history(
        {"A": [append("a", None), append("b", None)]}, Restart(cut=True), {"A": [read(3, *BOTH, ("b", 3))]}
    ),
    "half of an append": lambda: history(
        {"A": [op("session/append", messages=[sent("a"), sent("b")])]}, Restart(cut=True), {"A": [read(3, *BOTH, ("a", 3))]}
    ),
    "a message has another text": lambda: history({"A": [append("a", 3), read(3, *BOTH, ("a", 3), a={"content": "else"})]}),
    "cancelled, and there": lambda: history(
        {"A": [cancelled(op("session/append", None, "cancelled", messages=[sent("a")])), read(3, *BOTH, ("a", 3))]}
    ),
    "cancelled, and nobody asked for that": lambda: history(
        {"A": [op("session/append", None, "cancelled", messages=[sent("a")])]}
    ),
    "an internal error": lambda: history({"A": [op("session/append", None, "internalError", messages=[sent("a")])]}),
    "an id of the daemon's is taken": lambda: history({"A": [op("session/new", None, "alreadyExists", session=None)]}),
    "a fork's id is taken": lambda: history({"A": [op("session/fork", None, "alreadyExists")]}),
    "a fork lacks an append": lambda: history(
        {"A": [append("a", 3), op("session/fork", {"session": {"sessionId": "f", "messageCount": 2, "parent": {"seq": 2}}})]}
    ),
    "two finishes that contradict": lambda: history({"A": [stream(3), finish("done", 4), finish("error", 4)]}),
    "text of a reply in another order": lambda: history(
        {"A": [stream(3), extend("a", 4), extend("b", 5), read(5, *BOTH, (STREAM, 3), r={**REPLY[STREAM], "content": "text of rba"})]}
    ),
    "a reply is interrupted while its writer is there": lambda: history(
        {"A": [stream(3)]}, {"B": [read(4, *BOTH, (STREAM, 3), r={**REPLY[STREAM], "status": "interrupted"})]}
    ),
    "a reply streams on after a restart": lambda: history(
        {"A": [stream(3)]}, Restart(), {"A": [read(3, *BOTH, (STREAM, 3), **REPLY)]}
    ),
    "changes since that are neither all nor null": lambda: history(
        {"A": [op("state/set", {"seq": 3}, values={"p": 1}), op("state/set", {"seq": 4}, values={"q": 1})]},
        {"A": [opened(4, *BOTH, state={"p": 1, "q": 1}, since=3, changes=[{"kind": "state", "seq": 4, "values": {"p": 1, "q": 1}}])]},
    ),
    "a retry after a restart is refused": lambda: history(
        {"A": [stream(3), extend("!", 4), save()]},
        Restart(),
        {"A": [op("session/append", None, "conflict", data={"seq": 5}, messages=[sent(STREAM, role="assistant", status="streaming")])]},
    ),
    "append, delete, restore, append, and two are refused": lambda: history(
        {"A": [append("a", 3), op("session/delete", {}), op("session/restore", None, "sessionNotFound"),
               op("session/append", None, "sessionNotFound", messages=[sent("b")])]}
    ),
    "a delete takes nothing away": lambda: history({"A": [op("session/delete", {})]}, {"B": [read(2, *BOTH)]}),
    "what was deleted for ever comes back": lambda: history(
        {"A": [op("session/delete", {}, permanent=True)]}, {"A": [op("session/restore", info(2, 2))]}
    ),
    "a session made after a purge is lost in a kill": lambda: history(
        {"A": [op("session/delete", {}, permanent=True), new("a")]}, Restart(), {"A": [op("session/read", None, "sessionNotFound", limit=1000)]}
    ),
    "a conflict names a seq that never was": lambda: history(
        {"A": [op("session/append", None, "conflict", data={"seq": 5}, messages=[sent("a")], expectedSeq=7)]}
    ),
    "a conflict where nothing conflicts": lambda: history(
        {"A": [op("session/append", None, "conflict", data={"seq": 2}, messages=[sent("a")], expectedSeq=2)]}
    ),
    "a change is not heard of": lambda: history(
        {"B": [opened(2, *BOTH)]}, {"A": [append("a", 3), append("b", 4)]}, heard={"B": [0, heard(4, appended("b", 4))]}
    ),
    "the last change is not heard of": lambda: history(
        {"B": [opened(2, *BOTH)]}, {"A": [append("a", 3), append("b", 4)]}, heard={"B": [0, heard(3, appended("a", 3))]}
    ),
    "a change is heard of twice": lambda: history(
        {"B": [opened(2, *BOTH)]}, {"A": [append("a", 3)]}, heard={"B": [0, heard(3, appended("a", 3)), heard(3, appended("a", 3))]}
    ),
    "a change that the answer to open had is heard of": lambda: history(
        {"A": [append("a", 3)]}, {"B": [opened(3, *BOTH, ("a", 3))]}, heard={"B": [0, heard(3, appended("a", 3))]}
    ),
    "a change of its own is heard of": lambda: history(
        {"B": [opened(2, *BOTH), append("a", 3)]}, heard={"B": [0, heard(3, appended("a", 3)), 1]}
    ),
    "a change that never was is heard of": lambda: history(
        {"B": [opened(2, *BOTH)]}, {"A": [append("a", 3)]}, heard={"B": [0, heard(3, appended("z", 3))]}
    ),
    "a change is heard of without opening": lambda: history({"A": [append("a", 3)]}, heard={"B": [heard(3, appended("a", 3))]}),
    "the file lacks what was saved": lambda: history({"A": [append("a", 3), save()]}, file=there(*BOTH)),
    "there is no file of what was saved": lambda: history({"A": [append("a", 3), save()]}, file=None),
    "a list lacks what its connection did": lambda: history(
        {"A": [append("a", 3), op("session/list", {"sessions": [info(2, 2)["session"]]}, session=None)]}
    ),
    "a list lacks the session": lambda: history({"A": [op("session/list", {"sessions": []}, session=None)]}),
    "a search lacks what its connection appended": lambda: history(
        {"A": [append("a", 3), op("session/search", {"hits": [{"messageId": "m1", "seq": 1}, {"messageId": "m2", "seq": 2}]},
                                  session=None, filter={"sessionId": "s"})]}
    ),
    "an open does not see an edit from outside": lambda: history(
        {"A": [opened(2, *BOTH)]}, edit=Edit("s", line=sent("x")), before=1
    ),
    "an edit from outside takes an append away": lambda: history(
        {"A": [append("a", 3), opened(5, *BOTH, ("x", 4))]}, edit=Edit("s", line=sent("x")), before=1
    ),
}


# fmt: on


@pytest.mark.parametrize("make", RIGHT.values(), ids=RIGHT)
def test_it_explains_what_is_right(make):
    """An order is found where there is one."""
    verdict = check(make())
    assert verdict.wrong == [] and verdict.undecided == []


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_it_refuses_what_is_wrong(make):
    """If no order exists none is found, and the report tells the story."""
    verdict = check(make())
    assert verdict.wrong and verdict.undecided == []
    assert any("A#" in one or "B#" in one for one in verdict.wrong)


def test_a_seed_gives_one_life():
    """The same seed always plans the same; another one something else."""
    assert life("x") == life("x")
    assert life("x") != life("y")
