"""What to send: a seed determines a life, always the same one.

Each story has a theme, which says how often each kind of request comes; `anything` has all of them. A theme is not a
scenario: which requests meet is left to chance.
"""

from __future__ import annotations

import random
from typing import Any

from tests.history.values import Edit, Life, Request, Step, Story

SMALL_GLANCE = 24_000
"""Bytes from which a file gets a partial load in most lives; in the others it is 4 MiB, the default."""
SIZES = (0, 0, 0, 40, 1500)
"""Characters of padding."""
CLIENTS = ("A", "B", "C")

# fmt: off
EVEN = {
    "append": 6, "append_two": 3, "append_nameless": 3, "append_again": 2, "append_other": 1, "append_expecting": 2,
    "stream": 2, "extend": 4, "finish": 2, "update": 2, "note": 2, "state": 2, "state_clear": 0.5,
    "read": 3, "read_part": 2, "open": 2, "open_since": 1, "close": 1, "save": 2, "export": 1, "state_get": 1, "note_list": 1,
    "list": 0.7, "search": 0.7, "truncate": 1.5, "clear": 0.7, "fork": 1, "delete": 0.8, "restore": 1, "new": 0.8,
    "purge": 0.3, "new_nameless": 0.3,
}
"""Kind of request -> how often."""

LOOKS = ("read", "open", "save", "export", "fork", "list", "search")

THEMES: dict[str, dict[str, float]] = {
    "anything": EVEN,
    "cut, then append": {"truncate": 2, "clear": 1, "append": 5, "append_two": 1, "read": 1},
    "bursts": {"append": 8, "append_nameless": 3, "extend": 6, "stream": 1, "read": 1},
    "write, then look": {
        "append": 6, "state": 3, "note": 3, "clear": 1, "state_get": 3, "note_list": 3, "delete": 0.4, "restore": 0.8,
        **dict.fromkeys(LOOKS, 2.0),
    },
    "made": {"new_nameless": 6, "fork": 5, "append": 1},
    "purge": {"purge": 4, "new": 6, "append": 4, "read": 1, "delete": 1},
    "made anew": {"purge": 3, "new": 2, "new_often": 2},
    "cancel": {"append": 6, "append_two": 2, "extend": 3, "update": 2, "note": 2, "state": 2, "truncate": 1, "fork": 0.3},
    "finish": {"stream": 3, "finish": 7, "extend": 4, "append": 1, "read": 1, "save": 0.5},
    "since": {**EVEN, "truncate": 5, "clear": 2, "open_since": 6, "save": 4, "update": 4, "state": 4, "note": 3, "delete": 0.1, "purge": 0, "new": 0.1},
    "again": {"stream": 3, "extend": 4, "append_again": 6, "save": 3, "append": 2, "finish": 1, "read": 1},
    "trash": {"append": 5, "delete": 4, "restore": 5, "new": 1, "read": 1, "open": 1, "save": 0.5},
    "expecting": {"append_expecting": 6, "append": 3, "append_other": 2, "append_again": 2, "update": 2, "state": 2, "read": 1},
    "outside": {
        "append": 5, "append_other": 3, "append_expecting": 3, "append_again": 1, "update": 1, "note": 1, "open": 3, "read": 1,
        "save": 2, "state": 1, "close": 1,
    },
}
# fmt: on
OFTEN = {"anything": 4, "write, then look": 2, "trash": 2}
CANCELS = {"cancel": 0.6, "anything": 0.04}
ALWAYS_LARGE = {"cut, then append": 0.7, "bursts": 0.5, "outside": 0.3}
SHORT = ("made anew",)
"""One kind of request a connection and round, so that it is connections that meet."""
NO_CUTS = ("purge", "made anew", "outside")
"""Purges and edits from outside are looked at when the round is over."""


def life(seed: str, stories: int = 25, theme: str | None = None) -> Life:
    """All that is to happen in one home. `theme`: of all its stories; by chance otherwise."""
    rng = random.Random(seed)
    huge = rng.random() < 0.04
    if huge:
        stories = max(1, stories // 4)
    autosaves = rng.random() < 0.2
    steps = [Step(), *_steps(rng, stories)]
    names, weights = list(THEMES), [OFTEN.get(name, 1) for name in THEMES]
    themes = [theme or rng.choices(names, weights)[0] for _ in range(stories)]
    made = [_Pen(random.Random(f"{seed} {n}"), n, one, steps, huge).story() for n, one in enumerate(themes)]
    return Life(seed, _config(rng, huge, autosaves), steps, made, autosaves)


def _steps(rng: random.Random, stories: int) -> list[Step]:
    steps = []
    killed = False
    for number in range(rng.choice((2, 2, 3))):
        before = "kill" if killed else rng.choices(("", "kill", "stop"), (5, 3, 2) if number else (1, 5, 4))[0]
        killed = rng.random() < 0.25
        steps.append(Step(before, rng.randrange(0, 12 * stories) if killed else None))
    return steps


def _config(rng: random.Random, huge: bool, autosaves: bool) -> str:
    # Where messages are of 100,000 characters a page would be cut by its bytes.
    glance = (
        "page_bytes = 50_000_000\n"
        if huge
        else f"glanced_file_bytes = {SMALL_GLANCE}\nglanced_end_bytes = {SMALL_GLANCE // 3}\n"
    )
    idle, interval = (0.02, 0.2) if autosaves else (0, 0)
    return (
        f"[autosave]\nidle_s = {idle}\ninterval_s = {interval}\n"
        f"[limits]\n{glance}settle_s = 0.01\nidle_session_s = {rng.choice((0.02, 60.0, 60.0))}\n"
    )


class _Known:
    """What the one who plans remembers of a session: what was sent, not what became of it."""

    def __init__(self, large: bool, huge: bool) -> None:
        self.sent: list[dict[str, Any]] = []
        self.streams: dict[str, str] = {}
        """Message -> its text, if all went as it was sent."""
        self.first = 0
        self.large = large
        self.size = (100_000 if huge else 2_000) if large else 0
        self.heads = (46 if huge else 18) if large else 0


class _Pen:
    def __init__(self, rng: random.Random, number: int, theme: str, steps: list[Step], huge: bool) -> None:
        self.rng = rng
        self.theme = theme
        self.steps = steps
        self.word = f"zq{number}"
        self.number = number
        self.count = 0
        share = ALWAYS_LARGE.get(theme, 0.2)
        ids = [f"h{number}{letter}" for letter in ("ab" if rng.random() < 0.25 else "a")]
        self.known = {one: _Known(rng.random() < share, huge) for one in ids}

    def story(self) -> Story:
        rounds = [{"S": self._setup()}]
        edits: dict[int, list[Edit]] = {}
        for number, step in enumerate(self.steps[1:], 1):
            clients = CLIENTS[: self.rng.choice((1, 2, 2, 3))]
            if self.theme in NO_CUTS and step.cut is not None:
                rounds.append({})
                continue
            most = 2 if self.theme in SHORT else 5 if step.cut is not None else 9
            burst = {one: self._burst(most) for one in clients}
            if self.theme == "outside" and not self._cut_before(number):
                edits[number] = self._edits(rounds)
            rounds.append(burst)
        return Story(self.number, self.theme, self.word, list(self.known), rounds, edits)

    def _cut_before(self, number: int) -> bool:
        return self.steps[number - 1].cut is not None

    def _setup(self) -> list[Request]:
        asked = []
        for session, known in self.known.items():
            count = known.heads or self.rng.randrange(1, 8)
            messages = [self._message(known, size=known.size) for _ in range(count)]
            known.first = count
            params = {"sessionId": session, "name": "first", "tags": [self.word], "messages": messages}
            asked.append(Request("session/new", params))
            if self.rng.random() < 0.7 or self.theme in ("finish", "again", "bursts"):
                asked += self._stream(session) + self._extend(session)
            if self.rng.random() < 0.3:
                asked += self._note(session) + self._state(session)
            if known.large or self.theme == "outside" or self.rng.random() < 0.6:
                asked.append(self._ask("save", session))
        return asked

    def _burst(self, most: int) -> list[Request]:
        weights = THEMES[self.theme]
        asked: list[Request] = []
        for kind in self.rng.choices(list(weights), list(weights.values()), k=self.rng.randrange(1, most)):
            session = self.rng.choice(list(self.known))
            asked += getattr(self, f"_{kind}", lambda one, kind=kind: [self._ask(kind, one)])(session)
        # An answer after them tells that notifications had their turn.
        asked += [self._read(one)[0] for one in sorted({one.params["sessionId"] for one in asked if one.notify})]
        chance = CANCELS.get(self.theme, 0.0)
        for one in asked:
            one.cancel = not one.notify and self.rng.random() < chance
        return asked

    def _edits(self, rounds: list[dict[str, list[Request]]]) -> list[Edit]:
        """One edit of each session, whose file is made current by the round before."""
        rounds[-1] = {**rounds[-1], "Z": [self._ask("save", session) for session in self.known]}
        made = []
        for session, known in self.known.items():
            if self.rng.random() < 0.6:
                line = {**self._message(known), "timestamp": "2031-01-01T00:00:00.000Z"}
                known.sent.remove({key: line[key] for key in ("id", "role", "content")})
                made.append(Edit(session, line=line))
            elif known.sent:
                made.append(Edit(session, without=known.sent[0]["id"]))
                known.streams.pop(known.sent.pop(0)["id"], None)
        return made

    # One kind of request each

    def _ask(self, kind: str, session: str, **params: Any) -> Request:
        slash = {"state_get": "state/get", "note_list": "note/list", "state_clear": "state/clear"}
        return Request(slash.get(kind, f"session/{kind}"), {"sessionId": session, **params})

    def _text(self, size: int = 0) -> str:
        self.count += 1
        return f"{self.word} t{self.count}" + (" " + "x" * size if size else "")

    def _message(self, known: _Known, *, size: int = 0, **more: Any) -> dict[str, Any]:
        text = self._text(size or self.rng.choice(SIZES))
        message = {"id": f"m{self.number}-{self.count}", "role": "user", "content": text, **more}
        known.sent.append(message)
        return message

    def _append(self, session: str) -> list[Request]:
        return [self._ask("append", session, messages=[self._message(self.known[session])])]

    def _append_two(self, session: str) -> list[Request]:
        known = self.known[session]
        return [self._ask("append", session, messages=[self._message(known), self._message(known)])]

    def _append_nameless(self, session: str) -> list[Request]:
        return [self._ask("append", session, messages=[{"role": "user", "content": self._text()}])]

    def _append_again(self, session: str) -> list[Request]:
        sent = self.known[session].sent
        streams = [one for one in sent if one.get("status") == "streaming"]
        chosen = self.rng.choice(streams if streams and self.rng.random() < 0.6 else sent) if sent else None
        return [self._ask("append", session, messages=[chosen])] if chosen else self._append(session)

    def _append_other(self, session: str) -> list[Request]:
        sent = self.known[session].sent
        if not sent:
            return self._append(session)
        message = {"id": self.rng.choice(sent)["id"], "role": "user", "content": self._text()}
        return [self._ask("append", session, messages=[message])]

    def _append_expecting(self, session: str) -> list[Request]:
        [asked] = self._append(session)
        return [self._expecting(asked)]

    def _expecting(self, asked: Request) -> Request:
        asked.relative["expectedSeq"] = self.rng.choice((0, 0, 1, 1, 2, 3))
        return asked

    def _stream(self, session: str) -> list[Request]:
        known = self.known[session]
        message = self._message(known, size=1, role="assistant", status="streaming")
        known.streams[message["id"]] = message["content"]
        return [self._ask("append", session, messages=[message])]

    def _extend(self, session: str) -> list[Request]:
        streams = self.known[session].streams
        if not streams:
            return self._stream(session)
        message_id = self.rng.choice(list(streams))
        asked = []
        for _ in range(self.rng.choice((1, 1, 2, 4))):
            self.count += 1
            text = f" +{self.count}"
            params: dict[str, Any] = {"messageId": message_id, "text": text}
            if self.rng.random() < 0.4:
                params["offset"] = len(streams[message_id])
            streams[message_id] += text
            asked.append(self._ask("extend", session, **params))
            asked[-1].notify = self.rng.random() < 0.15
        return asked

    def _finish(self, session: str) -> list[Request]:
        streams = self.known[session].streams
        if not streams:
            return self._stream(session)
        params: dict[str, Any] = {"messageId": self.rng.choice(list(streams))}
        if self.rng.random() < 0.7:
            params["status"] = self.rng.choice(("done", "error"))
        if self.rng.random() < 0.3:
            params["metadata"] = {"tokens": self.rng.choice((1, 2))}
        return [self._ask("finish", session, **params)]

    def _update(self, session: str) -> list[Request]:
        asked = self._ask("update", session, name=self.rng.choice(("first", "second", "third")))
        return [self._expecting(asked) if self.theme == "expecting" or self.rng.random() < 0.1 else asked]

    def _note(self, session: str) -> list[Request]:
        params: dict[str, Any] = {"sessionId": session, "heading": "Plan", "content": self._text()}
        if self.rng.random() < 0.5:
            params["id"] = f"n{self.count}"
        return [Request("note/append", params)]

    def _state(self, session: str) -> list[Request]:
        values = {self.rng.choice("pqr"): self.rng.choice((1, 2, None))}
        asked = Request("state/set", {"sessionId": session, "values": values})
        return [self._expecting(asked) if self.theme == "expecting" else asked]

    def _read(self, session: str) -> list[Request]:
        return [self._ask("read", session, limit=1000)]

    def _read_part(self, session: str) -> list[Request]:
        asked = self._ask("read", session, limit=self.rng.choice((1, 3, 10)))
        which = self.rng.choice(("since", "before", ""))
        if which:
            asked.relative[which] = self.rng.choice((-5, -2, 0, 2))
        return [asked]

    def _open(self, session: str) -> list[Request]:
        return [self._ask("open", session, last=1000)]

    def _open_since(self, session: str) -> list[Request]:
        asked = self._ask("open", session)
        asked.relative["since"] = -self.rng.choice((0, 1, 1, 2, 3, 5))
        return [asked]

    def _export(self, session: str) -> list[Request]:
        return [self._ask("export", session, format="jsonl")]

    def _list(self, session: str) -> list[Request]:
        del session
        return [Request("session/list", {"filter": {"tags": [self.word]}, "limit": 1000})]

    def _search(self, session: str) -> list[Request]:
        return [Request("session/search", {"query": self.word, "filter": {"sessionId": session}, "limit": 1000})]

    def _truncate(self, session: str) -> list[Request]:
        asked = self._ask("truncate", session)
        if self.rng.random() < 0.5:
            asked.params["afterSeq"] = max(0, self.known[session].first - self.rng.choice((0, 0, 1, 2)))
        else:
            asked.relative["afterSeq"] = self.rng.choice((-2, -1, 0, 1))
        return [asked]

    def _fork(self, session: str) -> list[Request]:
        first = self.known[session].first
        at = {} if self.rng.random() < 0.6 else {"atSeq": self.rng.randrange(0, first + 1)}
        return [self._ask("fork", session, **at) for _ in range(self.rng.choice((1, 1, 2)))]

    def _new(self, session: str) -> list[Request]:
        known = self.known[session]
        messages = [self._message(known) for _ in range(self.rng.choice((0, 1, 2)))]
        params = {"sessionId": session, "name": "first", "tags": [self.word], "messages": messages}
        return [Request("session/new", params)]

    def _new_often(self, session: str) -> list[Request]:
        asked = [one for _ in range(self.rng.choice((3, 6, 12))) for one in self._new(session)]
        for one in asked:
            one.apart = True
        return asked

    def _new_nameless(self, session: str) -> list[Request]:
        del session
        return [Request("session/new", {"name": self.word}) for _ in range(self.rng.choice((1, 3, 6)))]

    def _purge(self, session: str) -> list[Request]:
        return [self._ask("delete", session, permanent=True)]
