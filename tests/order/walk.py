"""All pairs of requests, each in one write and one by one, on sessions that start alike; and the results of both.

A pair has two sessions, made with the same content under ids of the same length. To one both requests are sent in one write,
to the other the second one is sent after the answer to the first one. Both answers, and at the end everything that the
daemon knows about either session (its entry in the list, its content, its forks, its entries in the trash), must be the
same, except for times and ids that the daemon makes.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sessiond.rpc.methods import METHODS
from tests.order.pipeline import Answer, Pipeline, Request, append, on, user

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_MADE = re.compile(r"session-\d{8}-\d{6}(-\d+)?")
_BURST = 100
_ENDS = 6
"""Of a session this many messages are looked at on either side. What lies between is filling."""
PATIENCE_S = 90.0
"""With a busy machine. Nothing here is about how long it takes."""


class Place(NamedTuple):
    """One of the two sessions of a pair, and which of the two requests is asked for: `first` or `second`."""

    session: str
    turn: str
    seq: int
    """Of the session as it was made."""
    folder: Path
    """For files next to the daemon's own."""


def _grown(place: Place) -> dict[str, Any]:
    """A file to import: the session with a message more."""
    path = place.folder / f"{place.session}.jsonl"
    header = {"sessiond": 1, "id": place.session, "createdAt": "2026-01-11T14:30:22.000Z", "name": place.session}
    message = {
        "role": "user",
        "content": "brought in",
        "id": "brought",
        "seq": 1,
        "timestamp": "2026-01-11T14:30:23.000Z",
    }
    path.write_text(json.dumps(header) + "\n" + json.dumps(message) + "\n")
    return {"path": str(path)}


Params = Callable[[Place], dict[str, Any]]


def _named(**params: Any) -> Params:
    return lambda place: {"sessionId": place.session, **params}


ROWS: dict[str, tuple[str, Params]] = {
    "new": ("session/new", lambda p: {"sessionId": p.session, "messages": [user("n", p.turn)], "name": p.session}),
    "new, id made": ("session/new", lambda p: {"name": f"made {p.session}"}),
    "open": ("session/open", lambda p: {"sessionId": p.session, "since": p.seq - 2}),
    "close": ("session/close", _named()),
    "append": ("session/append", lambda p: append(p.session, user(p.turn, f"{p.turn} word of {p.session}"))[1]),
    "append, expecting": ("session/append", lambda p: append(p.session, user(p.turn), expectedSeq=p.seq)[1]),
    "extend": ("session/extend", lambda p: {"sessionId": p.session, "messageId": "s", "text": f" {p.turn}"}),
    "finish": ("session/finish", lambda p: {"sessionId": p.session, "messageId": "s", "metadata": {"by": p.turn}}),
    "read": ("session/read", _named()),
    "update": ("session/update", lambda p: {"sessionId": p.session, "name": f"{p.turn} {p.session}"}),
    "clear": ("session/clear", _named()),
    "truncate": ("session/truncate", _named(afterSeq=1)),
    "fork": ("session/fork", _named()),
    "delete": ("session/delete", _named()),
    "delete for ever": ("session/delete", _named(permanent=True)),
    "restore": ("session/restore", _named()),
    "save": ("session/save", _named()),
    "save all": ("session/save", lambda p: {}),
    "export": ("session/export", _named(format="json")),
    "move": ("session/move", _named(store="other")),
    "note": ("note/append", lambda p: {"sessionId": p.session, "heading": "h", "content": p.turn, "id": p.turn}),
    "notes": ("note/list", _named()),
    "set state": ("state/set", lambda p: {"sessionId": p.session, "values": {"k": p.turn, p.turn: 1}}),
    "state": ("state/get", _named()),
    "clear state": ("state/clear", _named()),
    "say what goes on": ("session/activity", _named(state="idle")),
    "list": ("session/list", lambda p: {"filter": {"name": p.session}}),
    "search": ("session/search", lambda p: {"query": f'"word of {p.session}"'}),
    "usage": ("session/usage", lambda p: {"filter": {"name": p.session}}),
    "import": ("session/import", _grown),
}  # fmt: skip
"""Every request that takes its place in some order. What `store/adopt` and `daemon/backup` see and hold up has tests of its own, for they
are about the whole home.
"""
APART = ("store/adopt", "daemon/backup", "daemon/follow", "session/listChanged")

Pair = tuple[str, str]


class Twins(NamedTuple):
    """A pair and its two sessions."""

    pair: Pair
    piped: str
    plain: str


def twins(pairs: Iterable[Pair]) -> list[Twins]:
    return [Twins(pair, f"p{number:05}p", f"p{number:05}q") for number, pair in enumerate(pairs)]


def requests(pair: Pair, session: str, seq: int, folder: Path) -> list[Request]:
    found = []
    for turn, name in zip(("first", "second"), pair, strict=True):
        method, params = ROWS[name]
        found.append((method, params(Place(session, turn, seq, folder))))
    return found


def in_bursts(client: Pipeline, asked: list[Request]) -> Iterator[Answer]:
    """For requests that have nothing to do with each other."""
    for start in range(0, len(asked), _BURST):
        for answer in client.burst(*asked[start : start + _BURST]):
            assert "result" in answer, answer
            yield answer


def make(client: Pipeline, sessions: list[str], count: int = 0, size: int = 0) -> int:
    """Make and save sessions: three messages that requests are about, `count` of `size` bytes more, a note and state. Their seq."""
    more = [user(f"more{number}", metadata={"filling": "x" * size}) for number in range(count)]  # in no index
    steps: list[Callable[[str], Request]] = [
        lambda name: on(name, "session/new", name=name, tags=["t"], messages=[*_messages(name), *more]),
        lambda name: on(name, "note/append", heading="h", content="c", id="n1"),
        lambda name: on(name, "state/set", values={"k": "v"}),
    ]
    answers: list[Answer] = []
    for step in steps:
        answers = list(in_bursts(client, [step(name) for name in sessions]))
    client.call("session/save")
    return int(answers[0]["result"]["seq"])


def _messages(name: str) -> list[dict[str, Any]]:
    stream = {"id": "s", "role": "assistant", "content": "part", "status": "interrupted"}
    return [user("m1"), user("m2", f"word of {name}"), stream]


def until_indexed(client: Pipeline) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while client.call("session/search", query="word", limit=1).get("incomplete"):
        assert time.monotonic() < deadline, "the index is not complete"


class Outcome(NamedTuple):
    """The result of one pair on one of its sessions."""

    answers: list[str]
    state: list[str]

    def lines(self) -> list[str]:
        return [f"answer {number}: {answer}" for number, answer in enumerate(self.answers, 1)] + self.state


class Walker:
    def __init__(self, client: Pipeline, seq: int, folder: Path) -> None:
        self._client = client
        self._seq = seq
        self._folder = folder
        self._answers: dict[str, list[str]] = {}

    def walk(self, walked: list[Twins]) -> None:
        for one in walked:
            for session, send in ((one.piped, self._client.burst), (one.plain, self._client.one_by_one)):
                answers = send(*requests(one.pair, session, self._seq, self._folder))
                self._answers[session] = [plain(answer, session) for answer in answers]

    def compare(self, walked: list[Twins]) -> list[str]:
        """What is wrong, each with both transcripts."""
        known = everything(self._client, [session for one in walked for session in (one.piped, one.plain)])
        wrong = []
        for pair, piped, one_by_one in walked:
            found = Outcome(shown(pair, self._answers[piped]), known[piped])
            expected = Outcome(shown(pair, self._answers[one_by_one]), known[one_by_one])
            if found != expected:
                wrong.append(report(pair, found, expected))
        return wrong


def shown(pair: tuple[str, str], answers: list[str]) -> list[str]:
    """The answers, less a list's or a search's that comes first: later requests may overtake it, so it may show them."""
    return answers[1:] if METHODS[ROWS[pair[0]][0]].order == "after" else answers


def everything(client: Pipeline, sessions: list[str]) -> dict[str, list[str]]:
    """All that the daemon knows of each of these sessions, and of what was made from it."""
    found: dict[str, list[str]] = {name: [] for name in sessions}
    listed = [("there", one) for one in pages(client, {})]
    listed += [("archived", one) for one in pages(client, {"archived": True})]
    listed += [("deleted", one) for one in pages(client, {"deleted": True})]
    mine = re.compile(r"p\d{5}[pq]")
    asked, owners = [], []
    for how, entry in listed:
        owner = mine.search(json.dumps([entry["sessionId"], entry["parent"], entry["name"]]))
        if owner is None or owner[0] not in found:
            continue
        entry.pop("dirty")
        found[owner[0]].append(f"{how}: {plain(entry, owner[0])}")
        if how != "deleted":
            asked.append(on(entry["sessionId"], "session/open", last=_ENDS))
            asked.append(on(entry["sessionId"], "session/read", since=0, limit=_ENDS))
            owners += [owner[0]] * 2
    for owner, answer in zip(owners, in_bursts(client, asked), strict=True):
        answer["result"].get("session", {}).pop("dirty", None)
        found[owner].append(f"content: {plain(answer, owner)}")
    return {name: sorted(lines) for name, lines in found.items()}


def pages(client: Pipeline, wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = client.call("session/list", filter=wanted, limit=1000, **({"cursor": cursor} if cursor else {}))
        if page.get("incomplete"):
            continue
        yield from page["sessions"]
        cursor = page["nextCursor"]
        if cursor is None:
            return


def plain(answer: dict[str, Any], session: str) -> str:
    """An answer or an entry in one line, without what differs from one session to the next."""
    answer = {key: value for key, value in answer.items() if key not in ("jsonrpc", "id")}
    result = answer.get("result", {})
    if "saved" in result:  # of all sessions, where none was named
        result["saved"] = [one for one in result["saved"] if session in one["sessionId"]]
    result.pop("incomplete", None)
    for hit in result.get("hits", ()):
        del hit["score"]
    for several in ("sessions", "hits"):  # equal times and scores have no order
        if isinstance(result.get(several), list):  # `session/usage` counts sessions
            result[several].sort(key=lambda one: _MADE.sub("made", json.dumps(one)))
    text = json.dumps(answer, ensure_ascii=False, sort_keys=True).replace(session, "SESSION")
    return _MADE.sub("MADE", _TIME.sub("TIME", text))


def report(pair: Pair, found: Outcome, expected: Outcome) -> str:
    """Both transcripts, less what is the same in both."""
    lines = difflib.unified_diff(expected.lines(), found.lines(), "one by one", "in one write", n=0, lineterm="")
    cut = [line if len(line) < 1500 else f"{line[:1500]}..." for line in lines if not line.startswith("@@")]
    return "\n".join([f"=== {' | '.join(pair)}", *cut])
