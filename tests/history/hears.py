"""Whether the notifications of a connection about a session agree with the order that was found: none missed, none twice, in
order.

From the answer to an `open` (or `new`) on, a connection must hear every change by others with a greater seq, each once, in
the order of the seqs, until the session is deleted or it closes it. A daemon that is killed may fail to send the last of
them, unless all clients only read since: notifications come before the answer to a later request.
"""

from __future__ import annotations

from typing import Any

from tests.history.model import LOOKS, Change, State, alike, flat
from tests.history.values import History, Op, Round, Told

ATTACHING = ("session/open", "session/new")


def wrong(history: History, session: str, state: State) -> str | None:
    """What a connection should not have been told, or should have been; None if all agrees with `state.log`."""
    lives = dict(state.opened)
    last = _last_rounds(history)
    for connection, heard in history.heard.items():
        problem = _Listener(connection, session, state, lives).listen(heard, whole=_said_all(last, connection))
        if problem is not None:
            return f"{connection}: {problem}"
    return None


def _last_rounds(history: History) -> list[Round]:
    """Of each daemon its last round with requests."""
    last: list[Round] = []
    for one in history.rounds:
        if one.restarted or not last:
            last.append(one)
        elif one.lanes:
            last[-1] = one
    return last


def _said_all(last: list[Round], connection: str) -> bool:
    """Whether its daemon cannot have left anything unsaid."""
    run = int(connection.partition("#")[2])
    if run == len(last) - 1:
        return not last[run].cut
    ops = [op for lane in last[run].lanes.values() for op in lane]
    return all(op.method in LOOKS for op in ops) and connection in {op.connection for op in ops}


class _Listener:
    def __init__(self, connection: str, session: str, state: State, lives: dict[Op, int]) -> None:
        self.connection = connection
        self.session = session
        run = int(connection.partition("#")[2])
        self.log = state.log[: state.ends[run]] if run < len(state.ends) else state.log
        """All that its daemon could tell it."""
        self.lives = lives
        self.life: int | None = None
        """The life of the session's id that it has open."""
        self.known = 0
        self.closing = False

    def listen(self, heard: list[Told], *, whole: bool) -> str | None:
        for one in heard:
            problem = self._answered(one.op) if one.op is not None else self._told(one.method, one.params)
            if problem is not None:
                return problem
        if self.life is None or self.closing or not whole:
            return None
        missed = self._missed(self.known, None)
        return f"never heard {missed[0]}" if missed else None

    def _answered(self, op: Op) -> str | None:
        if op.session != self.session or op.answer is None or op.answer.result is None:
            return None
        if op.method in ATTACHING and op in self.lives:
            self.life, self.known = self.lives[op], op.answer.result["session"]["seq"]
            self.closing = False
        elif op.method in ("session/close", "session/delete"):
            self.closing = True  # what it still hears was on its way
        return None

    def _told(self, method: str, params: dict[str, Any]) -> str | None:
        about = params.get("sessionId") or params.get("session", {}).get("sessionId")
        if about != self.session:
            return None
        if method == "session/deleted":
            self.life = None
        elif method == "session/resync":
            self.known = params["seq"]
        elif method == "session/reloaded":
            self.known = max(self.known, params["session"]["seq"])
        elif method == "session/changed" and not params.get("replay"):
            return self._changed(params)
        return None

    def _changed(self, params: dict[str, Any]) -> str | None:
        if self.life is None:
            return None if self.closing else f"heard of a change without having the session open: {params}"
        for change in (entry for one in params["changes"] for entry in flat(one)):
            seq = change[0]
            if seq <= self.known:
                return f"heard seq {seq} after seq {self.known}: {params}"
            missed = self._missed(self.known, seq)
            if missed:
                return f"heard seq {seq}, and never {missed[0]}"
            mine = self._change(seq)
            if mine is None or not alike((mine.seq, mine.kind, mine.what), change):
                return f"heard {change}, and the change with that seq is {mine}"
            if mine.by == self.connection:
                return f"heard of its own change {change}"
            self.known = seq
        return None

    def _change(self, seq: int) -> Change | None:
        return next((one for one in self.log if (one.life, one.seq) == (self.life, seq)), None)

    def _missed(self, after: int, before: int | None) -> list[Change]:
        """Changes of others between the two."""
        return [
            one
            for one in self.log
            if one.life == self.life and one.seq > after and (before is None or one.seq < before)
            if one.by != self.connection
        ]
