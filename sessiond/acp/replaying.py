"""Makes an agent remember that does not: `session/list`, `session/load` and `session/resume`, from the store. No I/O.

An editor asks for session S. What happens depends on what the agent said that it can, and on the mode:

    agent      everything passes as it is
    sessiond   as if the agent could do nothing
    auto       the agent's own ways first:

    load     the agent loads S        its replay is held back; if the store has more, the editor gets the store's
             the agent only resumes S the store's replay, then the agent's response
             it cannot, or it fails   the store's replay, in a new session of the agent's own
    resume   the agent resumes S      passes
             the agent only loads S   its replay is left out
             it cannot, or it fails   a new session of the agent's own
    list     the agent lists          passes; otherwise the store's

A new session of the agent's own has another id, A. From then on S is A for the agent and A is S for the editor, in every
message, and the first prompt begins with a block that tells the agent what was said before (memory.py makes it). It is told
once; if the prompt fails, it is told again with the next.

The editor knows nothing of this, nor does the recorder: both see S. What is repeated from the store is not recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from sessiond.acp.acts import OURS, UPDATE, Act, Acts, Down, Keep, Line, Recall, RecallResponse, Up, dumped, identity
from sessiond.acp.bounds import PENDING, REPLAY_BYTES
from sessiond.acp.content import listed, mapped, word

AUTO, AGENT, SESSIOND = "auto", "agent", "sessiond"
MODES = (AUTO, AGENT, SESSIOND)
INTERNAL = -32603
_ABLE = frozenset(("list", "load", "resume"))
_REPEATED = frozenset(
    ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan")
)
"""Updates that are a conversation's; others say what the agent can do."""


class _Answer(NamedTuple):
    """A response of the agent, and its bytes."""

    message: dict[str, Any]
    data: bytes

    @property
    def failed(self) -> bool:
        return "error" in self.message

    @property
    def result(self) -> dict[str, object]:
        return mapped(self.message.get("result"))

    def to(self, message: dict[str, object]) -> Up:
        """Return it as the response to another request."""
        return Up(dumped({**self.message, "id": message["id"]}))


_Then = Callable[[_Answer], Acts]


class _Held:
    """A session that the agent repeats. `drop`: nobody asked for what it repeats."""

    def __init__(self, *, drop: bool) -> None:
        self.drop = drop
        self.lines: list[bytes] = []
        self.length = 0


class Replaying:
    """One connection's. Every method takes what passes and says what is to be done."""

    def __init__(self, mode: str = AUTO) -> None:
        self._mode = mode
        self._can: frozenset[str] = _ABLE
        """What the agent does itself. Until it has said so, everything passes."""
        self._count = 0
        self._asked: dict[str, _Then] = {}
        """Requests to the agent whose response matters, the editor's and ours."""
        self._recalled: dict[int, Callable[[RecallResponse], Acts]] = {}
        self._theirs: dict[str, str] = {}
        """S -> A; `_ours` is the other way."""
        self._ours: dict[str, str] = {}
        self._untold: dict[str, str] = {}
        """S -> what the agent is to be told with the next prompt."""
        self._held: dict[str, _Held] = {}

    # What passes

    def from_editor(self, line: Line) -> Acts:
        """Bytes of the editor's side."""
        data = line.data
        message = line.message if self._mode != AGENT else None
        if message is None:
            yield Down(data, line.whole)
            return
        method, params = message.get("method"), mapped(message.get("params"))
        act = self._METHODS.get(method) if isinstance(method, str) and "id" in message else None
        if act is not None:
            yield from act(self, data, message, params)
        else:
            yield self._down(data, message, params)

    def from_agent(self, line: Line) -> Acts:
        """Bytes of the agent."""
        data = line.data
        plain = not self._ours and not self._held
        if self._mode == AGENT or (plain and (not self._asked or data.startswith(UPDATE))) or line.message is None:
            yield Up(data, line.whole)
            return
        message = line.message
        then = self._asked.pop(identity(message.get("id")), None) if "method" not in message else None
        if then is not None:
            yield from then(_Answer(message, data))
            return
        params = mapped(message.get("params"))
        key = word(params.get("sessionId"))
        held = self._held.get(key) if key is not None else None
        if held is not None and word(mapped(params.get("update")).get("sessionUpdate")) in _REPEATED:
            yield from self._hold(held, data)
        elif key in self._ours:
            yield Up(dumped({**message, "params": {**params, "sessionId": self._ours[key]}}))
        else:
            yield Up(data)

    def recalled(self, number: int, answer: RecallResponse) -> Acts:
        """The store has answered."""
        yield from self._recalled.pop(number)(answer)

    # What the editor asks for

    def _initialize(self, data: bytes, message: dict[str, object], params: dict[str, object]) -> Acts:
        self._wait(message, self._initialized)
        yield Down(data)

    def _initialized(self, answer: _Answer) -> Acts:
        can = mapped(answer.result.get("agentCapabilities"))
        sessions = mapped(can.get("sessionCapabilities"))
        named = {name for name in ("list", "resume") if sessions.get(name) is not None}
        able = frozenset(named | ({"load"} if can.get("loadSession") is True else set()))
        if answer.failed or len(able) == len(_ABLE):
            yield Up(answer.data)
        else:
            offered = {**can, "loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}, **sessions}}
            yield Up(dumped({**answer.message, "result": {**answer.result, "agentCapabilities": offered}}))
        if not answer.failed:
            self._can = frozenset() if self._mode == SESSIOND else able

    def _list(self, data: bytes, message: dict[str, object], params: dict[str, object]) -> Acts:
        if "list" in self._can:
            yield Down(data)
            return

        def then(answer: RecallResponse) -> Acts:
            yield Up(_answered(message, answer.head if answer.problem is None else None, answer.problem))

        yield self._recall({"do": "list", "cwd": word(params.get("cwd")), "cursor": params.get("cursor")}, (), then)

    def _load(self, data: bytes, message: dict[str, object], params: dict[str, object]) -> Acts:
        key = word(params.get("sessionId"))
        if key is None:
            yield Down(data)
        elif "load" in self._can:
            held = self._held[key] = _Held(drop=False)
            self._wait(message, lambda answer: self._loaded(message, params, key, held, answer))
            yield Down(data)
        elif "resume" in self._can:
            yield from self._ask("session/resume", params, lambda answer: self._resumed(message, params, key, answer))
        else:
            yield self._own(message, params, key, replay=True)

    def _resume(self, data: bytes, message: dict[str, object], params: dict[str, object]) -> Acts:
        key = word(params.get("sessionId"))
        if key is None:
            yield Down(data)
        elif "resume" in self._can:
            self._wait(message, lambda answer: self._opened(message, params, key, answer))
            yield Down(data)
        elif "load" in self._can:
            self._held[key] = _Held(drop=True)
            yield from self._ask("session/load", params, lambda answer: self._opened(message, params, key, answer))
        else:
            yield self._own(message, params, key, replay=False)

    def _new(self, data: bytes, message: dict[str, object], params: dict[str, object]) -> Acts:
        self._wait(message, self._made)
        yield Down(data)

    def _made(self, answer: _Answer) -> Acts:
        key = word(answer.result.get("sessionId"))
        if key in self._theirs:  # the agent counts, and an earlier conversation has that number
            self._count += 1
            name = f"{key}-{self._count}"
            self._names(name, str(key))
            yield Up(dumped({**answer.message, "result": {**answer.result, "sessionId": name}}))
        else:
            yield Up(answer.data)

    def _prompt(self, data: bytes, message: dict[str, object], params: dict[str, object]) -> Acts:
        key = word(params.get("sessionId"))
        told = self._untold.pop(key, None) if key is not None else None
        if told is None or key is None:
            yield self._down(data, message, params)
            return

        def then(answer: _Answer) -> Acts:
            if answer.failed:
                self._untold.setdefault(key, told)
            yield Up(answer.data)

        self._wait(message, then)
        blocks = [{"type": "text", "text": told}, *listed(params.get("prompt"))]
        params = {**params, "prompt": blocks}
        yield self._down(dumped({**message, "params": params}), message, params)

    _METHODS: ClassVar = {
        "initialize": _initialize, "session/list": _list, "session/load": _load, "session/resume": _resume, "session/new": _new,
        "session/prompt": _prompt,
    }  # fmt: skip

    # How sessions begin again

    def _loaded(
        self, message: dict[str, object], params: dict[str, object], key: str, held: _Held, answer: _Answer
    ) -> Acts:
        """The agent has repeated a session, or failed to."""
        if self._held.get(key) is not held:  # it was so long that it passed
            yield Up(answer.data)
            return
        del self._held[key]
        if answer.failed:
            yield self._own(message, params, key, replay=True, refusal=answer)
            return

        def then(stored: RecallResponse) -> Acts:
            for line in held.lines if stored.problem is not None or not stored.head.get("healed") else stored.lines:
                yield Up(line, keep=False)
            yield Up(answer.data)

        yield self._recall({"do": "heal", "session": key}, tuple(held.lines), then)

    def _resumed(self, message: dict[str, object], params: dict[str, object], key: str, answer: _Answer) -> Acts:
        """The agent has resumed a session that the editor wants to be loaded."""
        if answer.failed:
            yield self._own(message, params, key, replay=True, refusal=answer)
            return

        def then(stored: RecallResponse) -> Acts:
            for line in stored.lines:
                yield Up(line, keep=False)
            yield answer.to(message)

        yield self._recall({"do": "load", "session": key}, (), then)

    def _opened(self, message: dict[str, object], params: dict[str, object], key: str, answer: _Answer) -> Acts:
        """The agent has resumed a session that the editor wants to be resumed, by whatever way."""
        self._held.pop(key, None)
        if answer.failed:
            yield self._own(message, params, key, replay=False, refusal=answer)
        else:
            yield answer.to(message)

    def _own(
        self, message: dict[str, object], params: dict[str, object], key: str, *, replay: bool, refusal: _Answer | None = None
    ) -> Act:  # fmt: skip
        """A new session of the agent's own, if the store knows `key`; otherwise the agent's refusal, or one of ours."""

        def then(stored: RecallResponse) -> Acts:
            if stored.problem is not None:
                refused = _answered(message, None, stored.problem, int(stored.head.get("code", INTERNAL)))
                yield Up(refused) if refusal is None else refusal.to(message)
                return
            fresh = {name: value for name, value in params.items() if name != "sessionId"}
            yield from self._ask("session/new", fresh, lambda answer: begun(answer, stored))

        def begun(answer: _Answer, stored: RecallResponse) -> Acts:
            theirs = word(answer.result.get("sessionId"))
            if theirs is None:
                yield answer.to(message)
                return
            self._names(key, theirs)
            if told := word(stored.head.get("context")):
                self._untold[key] = told
            for line in stored.lines if replay else ():
                yield Up(line, keep=False)
            yield Up(_answered(message, {name: value for name, value in answer.result.items() if name != "sessionId"}))

        return self._recall({"do": "load", "session": key}, (), then)

    # Small parts

    def _names(self, key: str, theirs: str) -> None:
        """From now on the editor's `key` is the agent's `theirs`."""
        before = self._theirs.pop(key, None)
        if before is not None:
            self._ours.pop(before, None)
        if key != theirs:
            self._theirs[key] = theirs
            self._ours[theirs] = key

    def _down(self, data: bytes, message: dict[str, object], params: dict[str, object]) -> Act:
        """For the agent, in its own names."""
        key = params.get("sessionId")
        theirs = self._theirs.get(key) if isinstance(key, str) else None
        return Down(data if theirs is None else dumped({**message, "params": {**params, "sessionId": theirs}}))

    def _hold(self, held: _Held, data: bytes) -> Acts:
        yield Keep(data)
        if held.drop:
            return
        held.lines.append(data)
        held.length += len(data)
        if held.length > REPLAY_BYTES:
            self._held = {key: one for key, one in self._held.items() if one is not held}
            for line in held.lines:
                yield Up(line, keep=False)

    def _wait(self, message: dict[str, object], then: _Then) -> None:
        self._asked[identity(message.get("id"))] = then
        if len(self._asked) > PENDING:
            del self._asked[next(iter(self._asked))]

    def _ask(self, method: str, params: dict[str, object], then: _Then) -> Acts:
        self._count += 1
        number = f"{OURS}{self._count}"
        self._asked[identity(number)] = then
        yield Down(dumped({"id": number, "method": method, "params": params}))

    def _recall(self, job: dict[str, object], lines: tuple[bytes, ...], then: Callable[[RecallResponse], Acts]) -> Act:
        self._count += 1
        self._recalled[self._count] = then
        return Recall(self._count, job, lines)


def _answered(
    message: dict[str, object], result: dict[str, object] | None, problem: str | None = None, code: int = INTERNAL
) -> bytes:
    """A response of ours to a request of the editor."""
    if problem is not None:
        return dumped({"id": message["id"], "error": {"code": code, "message": problem}})
    return dumped({"id": message["id"], "result": result})
