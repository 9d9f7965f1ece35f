"""Decides whether some order explains a history.

Theory of operation. Sessions share nothing, so each is checked alone. For one session the requests of a connection in one
round are a **lane**: they take effect in the order in which they were sent, whatever the order of the answers. Rounds follow
each other: everything in a round was answered before the next one began, so it took effect before it. An order is found by
walking from state to state of the model (`model.py`): a **node** is the model's state, how far each lane is, and which loose
observations were already met. A node is left by the next request of a lane, if the model allows its answer, or by what the
daemon does by itself. Changes name their seq in their answers, so a wrong turn ends soon.

- A request that only reads is passed as soon as it fits: it changes nothing, so for every order with it later there is one
  with it here. (This is what keeps the search small.)
- **Loose** observations (`session/list`, `session/search`, a file read after the round) must be met in a state at or after
  their connection's earlier requests; nothing waits for them.
- In a round that a kill ended, unanswered requests may have happened or not; if one did not, then no later request of its
  lane did either.
- Nodes where a whole round is met are its **ends**; the next round begins in each of them.
- An order counts only if it also explains what the connections were told (`hears.py`); that is checked in each last end.

What must never happen: a search is given up because it is too long, and the history is called wrong. That is `undecided`,
and is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.history import hears
from tests.history.model import LOOKS, METHODS, Kept, State, by_itself, holds, restarted, step
from tests.history.values import Edit, History, Op, Round, shown

MOST_NODES = 60_000
"""Of one session in one round."""
KINDS = {"sessionNotFound", "conflict", "invalidParams", "alreadyExists", "cancelled"}
"""Errors that these requests may get at all. (No disk fails here, nothing is too large.)"""


@dataclass
class Verdict:
    wrong: list[str] = field(default_factory=list)
    """What is wrong, with the story of the session concerned."""
    undecided: list[str] = field(default_factory=list)
    """Sessions whose search was given up."""


class _Undecided(Exception):
    pass


class Loose(NamedTuple):
    """An observation of one session, due in `round`, after the first `after[lane]` requests of each lane."""

    name: str
    after: tuple[tuple[str, int], ...]
    seen: Any
    kind: str


class _Node(NamedTuple):
    state: State
    at: tuple[int, ...]
    met: frozenset[int]


def check(history: History) -> Verdict:
    verdict = Verdict(wrong=list(history.failures))
    verdict.wrong += [f"never allowed: {op}" for op in history.ops() if _forbidden(op)]
    verdict.wrong += _left_streaming(history)
    for session in history.story.sessions:
        try:
            wrong = _Session(history, session).judge()
        except _Undecided:
            verdict.undecided.append(session)
            continue
        if wrong is not None:
            verdict.wrong.append(wrong)
    return verdict


def _forbidden(op: Op) -> bool:
    answer = op.answer
    if answer is None or answer.error is None:
        return False
    made = op.method == "session/fork" or (op.method == "session/new" and op.session is None)
    return answer.kind not in KINDS or (made and answer.kind == "alreadyExists")


def _left_streaming(history: History) -> list[str]:
    """After a restart whoever wrote a reply is gone, so at the end no reply streams any more."""
    if not history.rounds or not history.rounds[-1].restarted:
        return []
    return [
        f"a reply is left streaming: {op}"
        for lane in history.rounds[-1].lanes.values()
        for op in lane
        if op.method == "session/read" and op.answer is not None and op.answer.result is not None
        if any(one.get("status") == "streaming" for one in op.answer.result["messages"])
    ]


class _Session:
    """The search for an order of one session's requests."""

    def __init__(self, history: History, session: str) -> None:
        self.history = history
        self.session = session
        self.edits: list[Edit] = []
        self.seqs = _seqs_seen(history.ops(session))
        self.stuck = ""

    def judge(self) -> str | None:
        """What is wrong; None if an order explains everything."""
        states = {State()}
        for number, one in enumerate(self.history.rounds):
            mine = [edit for edit in one.edits if edit.session == self.session]
            fresh = tuple(range(len(self.edits), len(self.edits) + len(mine)))
            self.edits += mine
            states = {state._replace(edits=state.edits + fresh) for state in states}
            if one.restarted:
                states = {restarted(state) for state in states}
            states = _Walk(self, one).ends(states)
            if not states:
                return self._report(f"no order explains round {number}", self.stuck)
        heard = [hears.wrong(self.history, self.session, state) for state in states]
        if None in heard:
            return None
        return self._report("no order explains what a connection was told", str(heard[0]))

    def _report(self, what: str, why: str) -> str:
        lines = [f"session {self.session}: {what}", why, "the story:"]
        for number, one in enumerate(self.history.rounds):
            marks = (" after a restart" if one.restarted else "") + (", ended by a kill" if one.cut else "")
            lines.append(f"  round {number}{marks}")
            lines += [f"    edit: {edit}" for edit in one.edits if edit.session == self.session]
            lines += [f"    {op}" for lane in one.lanes.values() for op in lane if op.session in (self.session, None)]
        return "\n".join(lines)


def _seqs_seen(ops: list[Op]) -> dict[str, set[int]]:
    seen: dict[str, set[int]] = {}
    for op in ops:
        found = op.answer.result if op.answer is not None and op.answer.result is not None else {}
        for one in found.get("messages", ()):
            seen.setdefault(one["id"], set()).add(one["seq"])
    return seen


class _Walk:
    """Through one round of one session."""

    def __init__(self, of: _Session, one: Round) -> None:
        self.of = of
        self.cut = one.cut
        self.names = list(one.lanes)
        self.lanes = [
            [op for op in lane if op.session == of.session and op.method in METHODS] for lane in one.lanes.values()
        ]
        self.loose = list(_loose(of.session, one, of.history.story.word))
        if of.edits and one.lanes:  # the file may hold an edit that is not merged yet
            self.loose = [each for each in self.loose if each.kind != "file"]
        self.restores = any(op.method == "session/restore" for lane in self.lanes for op in lane)
        self.deepest = -1

    def ends(self, states: set[State]) -> set[State]:
        found: set[State] = set()
        todo = [self._settled(_Node(state, (0,) * len(self.lanes), frozenset())) for state in states]
        seen = set(todo)
        while todo:
            node = todo.pop()
            self._remember(node)
            if self._over(node):
                found.add(node.state)
            for follower in self._followers(node):
                settled = self._settled(follower)
                if settled not in seen:
                    seen.add(settled)
                    todo.append(settled)
            if len(seen) > MOST_NODES:
                raise _Undecided
        return found

    def _over(self, node: _Node) -> bool:
        if len(node.met) < len(self.loose):
            return False
        left = [op for lane, at in zip(self.lanes, node.at, strict=True) for op in lane[at:]]
        return not left or (self.cut and all(op.answer is None or op.answer.kind == "cancelled" for op in left))

    def _settled(self, node: _Node) -> _Node:
        """After all that fits here and changes nothing."""
        state, at, met = node.state, list(node.at), node.met
        going = True
        while going:
            going = False
            for lane, ops in enumerate(self.lanes):
                while at[lane] < len(ops) and (after := self._same_after(state, ops[at[lane]])) is not None:
                    state, at[lane], going = after, at[lane] + 1, True
        passed = dict(zip(self.names, at, strict=True))
        for number, one in enumerate(self.loose):
            if number not in met and all(passed[lane] >= least for lane, least in one.after) and _fits(one, state):
                met |= {number}
        return _Node(state, tuple(at), met)

    def _same_after(self, state: State, op: Op) -> State | None:
        """The state after `op`, where that fits and can never change anything: `op` looks, or was refused."""
        if op.method not in LOOKS and (op.answer is None or op.answer.error is None):
            return None
        if self.restores and op.method == "session/open":  # which life of the session it saw may only be told later
            return None
        after = step(state, op)
        return after[0] if after else None

    def _followers(self, node: _Node) -> Iterator[_Node]:
        for lane, ops in enumerate(self.lanes):
            if node.at[lane] < len(ops):
                at = (*node.at[:lane], node.at[lane] + 1, *node.at[lane + 1 :])
                for state in step(node.state, ops[node.at[lane]]):
                    yield _Node(state, at, node.met)
        for _, state in by_itself(node.state, self.of.edits, self.of.seqs):
            yield node._replace(state=state)

    def _remember(self, node: _Node) -> None:
        """How far it went, for people."""
        depth = sum(node.at) + len(node.met)
        if depth <= self.deepest:
            return
        self.deepest = depth
        kept = node.state.session
        lines = [f"the search comes as far as this: there {node.state.there}, seq {kept.seq}, {_texts(kept)}; then not"]
        lines += [f"  {ops[at]}" for ops, at in zip(self.lanes, node.at, strict=True) if at < len(ops)]
        lines += [f"  {one.name}: {shown(one.seen)}" for n, one in enumerate(self.loose) if n not in node.met]
        self.of.stuck = "\n".join(lines)


def _texts(kept: Kept) -> str:
    shown = [f"{one.seq} {one.id} {one.content[:24]!r} {one.status}" for one in kept.messages[-12:]]
    return f"{len(kept.messages)} messages [{', '.join(shown)}]"


def _loose(session: str, one: Round, word: str) -> Iterator[Loose]:
    """The loose observations of a session in a round."""
    saves: dict[str, int] = {}
    for name, lane in one.lanes.items():
        before = 0
        for op in lane:
            if op.session == session:
                before += 1
                if op.method == "session/save" and op.answer is not None and op.answer.result is not None:
                    saves[name] = before
            result = op.answer.result if op.answer is not None else None
            if result is not None and op.method == "session/list" and not result.get("incomplete"):
                seen = next((info for info in result["sessions"] if info["sessionId"] == session), None)
                yield Loose(f"{op.connection}'s list", ((name, before),), seen, "list")
            elif result is not None and _searches(op, session) and not result.get("incomplete"):
                seen = sorted(hit["seq"] for hit in result["hits"] if hit["messageId"] is not None)
                yield Loose(f"{op.connection}'s search for {word}", ((name, before),), seen, "search")
    if session in one.files and (saves or not one.lanes):
        yield Loose("the file after the round", tuple(saves.items()), one.files[session], "file")


def _searches(op: Op, session: str) -> bool:
    return op.method == "session/search" and op.params["filter"]["sessionId"] == session


def _fits(one: Loose, state: State) -> bool:
    messages = state.session.messages
    if one.kind == "list":
        if one.seen is None or not state.there:
            return one.seen is None and not state.there
        return (one.seen["messageCount"], one.seen["name"]) == (len(messages), state.session.name)
    if one.kind == "search":
        return one.seen == [one.seq for one in messages]
    # A session that was made again in this round and never saved has no file.
    if one.seen is None:
        return not state.there or state.life > 1
    return state.there and holds(messages, one.seen)


def summary(history: History, verdict: Verdict) -> str:
    """The report of a wrong history."""
    again = f"python -m tests.history --life {history.life!r} --times 20"
    head = f"history {history.story.number} of life {history.life!r} (theme: {history.story.theme}); again: {again}"
    return "\n".join([head, *verdict.wrong])
