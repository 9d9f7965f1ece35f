"""Messages between an editor and an agent -> steps. No I/O, no clock.

`Talk` knows which request a response belongs to, and has one `RecordedTurn` (turn.py) for each session of the agent. It forgives
everything: what is not valid JSON, or not JSON-RPC, or of a kind that is not known, brings no step.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import msgspec

from sessiond.acp.acts import identity
from sessiond.acp.bounds import PENDING
from sessiond.acp.content import content, listed, mapped, model_from, name_from, word
from sessiond.acp.lines import Lines
from sessiond.acp.sharing import CANCELLED, PERMISSION
from sessiond.acp.spool import AGENT, EDITOR
from sessiond.acp.steps import Begun, Caught, Kept, Learned, Over, SessionOpened, Step
from sessiond.acp.turn import MESSAGE_ID, RecordedTurn

LONG = ((EDITOR, "session/prompt"), (AGENT, PERMISSION))
"""Requests during which something goes on in the session."""


class Talk:
    """One connection. `name` is unique for it: ids of messages begin with it. `agent`: the program's name."""

    def __init__(self, name: str, agent: str) -> None:
        self._name = name
        self._agent = agent
        self._lines = {EDITOR: Lines(), AGENT: Lines()}
        self._asked: dict[bytes, dict[str, tuple[str, dict[str, object]]]] = {EDITOR: {}, AGENT: {}}
        """By who asked: id -> method and params."""
        self._turns: dict[str, RecordedTurn] = {}
        self.unread = 0
        """Lines that are not JSON-RPC."""

    def feed(self, kind: bytes, at: int, piece: bytes) -> Iterator[Step]:
        """The steps that a piece of one direction brings. `at`: milliseconds since 1970."""
        for line in self._lines[kind].feed(piece):
            yield from self._line(kind, at, line)

    def end(self, at: int) -> Iterator[Step]:
        """Both have ended: what is open stays as it is, interrupted."""
        for kind in (EDITOR, AGENT):
            if rest := self._lines[kind].rest():
                yield from self._line(kind, at, rest)
        for turn in self._turns.values():
            yield from turn.close(at, "interrupted", None)

    def _line(self, kind: bytes, at: int, line: bytes) -> Iterator[Step]:
        try:
            message = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.unread += bool(line.strip())
            return
        for one in message if isinstance(message, list) else [message]:
            yield from self._message(kind, at, mapped(one))

    def _message(self, kind: bytes, at: int, message: dict[str, object]) -> Iterator[Step]:
        method, number = word(message.get("method")), message.get("id")
        if isinstance(number, (dict, list)):
            return
        if method is None:
            other = AGENT if kind == EDITOR else EDITOR
            asked = self._asked[other].pop(identity(number), None)
            if asked is not None:
                yield from self._answered(kind, at, *asked, message)
                if (other, asked[0]) in LONG:
                    yield _over(asked, number)
            return
        params = mapped(message.get("params"))
        if number is not None:
            pending = self._asked[kind]
            pending[identity(number)] = (method, params)
            if len(pending) > PENDING:
                del pending[next(iter(pending))]
        elif method == CANCELLED:
            yield from self._withdrawn(kind, params.get("requestId"))
        yield from self._asks(kind, at, method, params)
        key = word(params.get("sessionId"))
        if number is not None and key is not None and (kind, method) in LONG:
            yield Begun(key=key, request=identity(number), asked=params if method == PERMISSION else None)

    def _withdrawn(self, kind: bytes, number: object) -> Iterator[Step]:
        asked = self._asked[kind].get(identity(number))
        if asked is not None and (kind, asked[0]) == (AGENT, PERMISSION):
            yield _over(asked, number)

    def _asks(self, kind: bytes, at: int, method: str, params: dict[str, object]) -> Iterator[Step]:
        """A request or a notification."""
        key = word(params.get("sessionId"))
        if key is None:
            return
        if kind == EDITOR and method in ("session/load", "session/resume"):
            yield from self._opens(key, fresh=False, cwd=word(params.get("cwd")))
        elif kind == EDITOR and method == "session/prompt":
            blocks = listed(params.get("prompt"))
            turn = yield from self._turn(key)
            if (name := name_from(blocks)) is not None:
                yield Learned(key=key, name=name, weak=True)
            yield from turn.prompted(at, content(blocks), word(mapped(params.get("_meta")).get(MESSAGE_ID)))
        elif kind == AGENT and method == "session/update":
            turn = yield from self._turn(key)
            yield from turn.updated(at, mapped(params.get("update")))
        elif kind == AGENT and method == "session/request_permission":
            turn = yield from self._turn(key)
            yield from turn.asked(at, params)

    def _answered(
        self, kind: bytes, at: int, method: str, params: dict[str, object], message: dict[str, object]
    ) -> Iterator[Step]:
        """A response, from `kind`, to a request of the other."""
        result = mapped(message.get("result"))
        if kind == AGENT and method == "initialize":
            self._agent = word(mapped(result.get("agentInfo")).get("name")) or self._agent
            return
        made = kind == AGENT and method in ("session/new", "session/fork")
        key = word(result.get("sessionId")) if made else word(params.get("sessionId"))
        if key is None:
            return
        if made:
            yield from self._opens(key, fresh=True, cwd=word(params.get("cwd")))
            yield from _options(key, result)
        elif kind == AGENT and method in ("session/load", "session/resume"):
            turn = yield from self._turn(key)
            yield from turn.close(at, "done", None)
            yield Caught(key=key)
            yield from _options(key, result)
        elif kind == AGENT and method == "session/prompt":
            turn = yield from self._turn(key)
            yield from turn.answered(at, result, message.get("error"))
        elif kind == EDITOR and method == "session/request_permission":
            turn = yield from self._turn(key)
            yield from turn.chosen(at, params, message)
        elif kind == AGENT and method == "session/set_mode" and "result" in message:
            yield Kept(key=key, values={"acp.mode": params.get("modeId")})
        elif kind == AGENT and method == "session/set_model" and "result" in message:
            yield Learned(key=key, model=word(params.get("modelId")))
        elif kind == AGENT and method == "session/set_config_option":
            yield from _options(key, result)

    def _opens(self, key: str, *, fresh: bool, cwd: str | None) -> Iterator[Step]:
        yield SessionOpened(key=key, fresh=fresh, agent=self._agent, cwd=cwd)
        if key not in self._turns:
            self._turns[key] = RecordedTurn(f"{self._name}-{len(self._turns)}", key)

    def _turn(self, key: str) -> Generator[Step, None, RecordedTurn]:
        if key not in self._turns:  # opened before this connection was recorded
            yield from self._opens(key, fresh=False, cwd=None)
            yield Caught(key=key)
        return self._turns[key]


def _over(asked: tuple[str, dict[str, object]], number: object) -> Over:
    method, params = asked
    return Over(key=word(params.get("sessionId")) or "", request=identity(number), question=method == PERMISSION)


def _options(key: str, result: dict[str, object]) -> Iterator[Step]:
    """Modes, models and options, as a response or an update names them."""
    if (model := model_from(result)) is not None:
        yield Learned(key=key, model=model)
    values: dict[str, object] = {}
    if (mode := word(mapped(result.get("modes")).get("currentModeId"))) is not None:
        values["acp.mode"] = mode
    options = {str(one.get("id")): one.get("currentValue") for one in map(mapped, listed(result.get("configOptions")))}
    if options:
        values["acp.options"] = options
    if values:
        yield Kept(key=key, values=values)
