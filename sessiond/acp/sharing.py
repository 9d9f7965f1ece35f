"""Several clients on one agent. No I/O.

The agent and whatever `Replaying` makes of it have one peer; this makes many out of it. The editor that started the agent is
client 0. Others join one session each.

    what the agent says of a session    goes to the editor and to all who have joined that session
    a response                          to whoever asked; requests of those who joined have ids of ours on the way
    a question for permission           to all; the first answer counts, and the others are told (`$/cancel_request`, and
                                        `permission_resolved` to those who came by `session/attach`)
    other requests (files, terminals)   to the editor only, whose machine and buffers are meant
    a prompt                            to the agent, and as `user_message_chunk` to all others; while a turn of another client
                                        runs, it waits for the end of that turn
    a cancel                            to the agent; prompts of the same client that wait end as cancelled, and unless it is
                                        the editor's, so do the session's questions, which the protocol demands

The editor's own prompts during its own turn pass as they did before anybody joined: some agents take them in.

When a client leaves, its prompts that wait are forgotten, its turn goes on, and questions stay with the others. When the editor
leaves, the same holds; the agent lives on as long as somebody is there who can answer it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sessiond.acp.acts import OURS, QUESTION, UPDATE, Act, Line, To, Up, dumped, fingerprint, identity
from sessiond.acp.bounds import PENDING, WAITING_PROMPTS
from sessiond.acp.content import listed, mapped, word

EDITOR = 0
PERMISSION, CANCELLED = "session/request_permission", "$/cancel_request"
NOT_FOUND, NOT_ALLOWED, NO_METHOD, BUSY = -32001, -32002, -32601, -32000
OPENING = frozenset(("session/new", "session/load", "session/resume", "session/fork"))


class Pass(NamedTuple):
    """A line that goes on to the agent: it is recorded, and `Replaying` sees it."""

    line: Line


Passing = Iterator[Act | Pass]


class _Client:
    """A client that has joined. `aware`: it came by `session/attach`, so it knows what that brings."""

    def __init__(self, key: str, about: dict[str, object], role: str, aware: bool) -> None:
        self.key = key
        self.about = about
        self.role = role
        self.aware = aware

    @property
    def shown(self) -> dict[str, object]:
        return {**self.about, "role": self.role}


class _Turn:
    """A session's prompts: those that run, by request, with whose they are; and those that wait."""

    def __init__(self) -> None:
        self.running: dict[str, int] = {}
        self.waiting: list[tuple[int, dict[str, object]]] = []


class AgentSharing:
    """One connection's. Every method takes what passes and says what is to be done."""

    def __init__(self) -> None:
        self.initialized: dict[str, object] = {}
        """What the agent can, as the editor was told."""
        self.opened: dict[str, dict[str, object]] = {}
        """Sessions that live here -> modes, models and options as they were at the beginning."""
        self._editor: dict[str, object] | None = {}
        """About the editor; None: it has left."""
        self._clients: dict[int, _Client] = {}
        self._turns: dict[str, _Turn] = {}
        self._asked: dict[str, tuple[int, dict[str, object]]] = {}
        """Requests to the agent whose response matters -> whose they are, and as they were asked."""
        self._questions: dict[str, dict[str, object]] = {}
        """The agent's questions for permission that nobody has answered."""
        self._over: dict[str, None] = {}
        """Questions that were answered by another client than the editor: the editor's own answer comes too late."""
        self._count = 0

    @property
    def kept_alive(self) -> bool:
        """True while somebody other than the editor can answer the agent."""
        return any(one.role != "observer" for one in self._clients.values())

    # What the editor's side sends

    def from_editor(self, line: Line) -> Passing:
        """Bytes of the editor."""
        message = line.message
        if message is None:
            yield Pass(line)
            return
        method = word(message.get("method"))
        if method is None:
            yield from self._reply(EDITOR, line, message)
        elif method == "session/prompt" and "id" in message:
            yield from self._prompt(EDITOR, line, message)
        elif method == "session/cancel":
            yield from self._cancel(EDITOR, line, message)
        else:
            if method == "initialize":
                self._editor = mapped(mapped(message.get("params")).get("clientInfo"))
            if "id" in message and (method == "initialize" or method in OPENING):
                self._wait(message.get("id"), EDITOR, message)
            yield Pass(line)

    def from_client(self, client: int, line: Line) -> Passing:
        """A message of somebody who has joined."""
        message = line.message
        joined = self._clients.get(client)
        if message is None or joined is None:
            return
        method = word(message.get("method"))
        if joined.role == "observer":
            if method is not None and "id" in message:
                yield To(client, _refused(message, NOT_ALLOWED, "an observer can only watch"))
        elif method is None:
            yield from self._reply(client, line, message)
        elif mapped(message.get("params")).get("sessionId") != joined.key:
            if "id" in message:
                yield To(client, _refused(message, NOT_FOUND, f"only {joined.key} is joined here"))
        elif method == "session/prompt":
            yield from self._prompt(client, line, message)
        elif method == "session/cancel":
            yield from self._cancel(client, line, message)
        elif "id" in message:
            yield Pass(Line(dumped(self._renamed(client, message))))
        else:
            yield Pass(line)

    # What comes up

    def to_editor(self, up: Up) -> Passing:
        """Pass on what the agent, or `Replaying` for it, has for the editor's side. What is repeated to the editor is only for it."""
        if not up.whole or not up.keep or (not self._clients and up.data.startswith(UPDATE)):
            yield up
            return
        message = Line(up.data).message
        if message is None:
            yield up
        elif "method" not in message:
            yield from self._response(up, message)
        elif "id" in message:
            yield from self._request(up, message)
        else:
            yield up
            params = mapped(message.get("params"))
            key = params.get("sessionId")
            if message.get("method") == CANCELLED:  # the agent withdraws a question
                question = self._questions.pop(identity(params.get("requestId")), {})
                key = mapped(question.get("params")).get("sessionId")
            for client in self._in(key):
                yield To(client, up.data)

    def _response(self, up: Up, message: dict[str, object]) -> Passing:
        number = identity(message.get("id"))
        client, asked = self._asked.pop(number, (EDITOR, {}))
        if client == EDITOR:
            yield up
        elif client in self._clients:
            yield To(client, dumped({**message, "id": asked["id"]}))
        method = asked.get("method")
        params, result = mapped(asked.get("params")), mapped(message.get("result"))
        if method == "initialize" and "result" in message:
            self.initialized = result
        elif method in OPENING and "error" not in message:
            key = word(result.get("sessionId")) if method in ("session/new", "session/fork") else None
            if (key := key or word(params.get("sessionId"))) is not None:
                self.opened[key] = {name: value for name, value in result.items() if name != "sessionId"}
        elif method == "session/prompt" and (key := word(params.get("sessionId"))) is not None:
            yield from self._turn_ended(key, number, client, message)

    def _request(self, up: Up, message: dict[str, object]) -> Passing:
        """The agent asks something."""
        if message.get("method") != PERMISSION:
            if self._editor is None and self.kept_alive:
                refused = _refused(message, NO_METHOD, "the editor that could do this has left")
                yield Pass(Line(refused))
            else:
                yield up
            return
        number = identity(message.get("id"))
        self._over.pop(number, None)
        self._questions[number] = message
        if len(self._questions) > PENDING:
            del self._questions[next(iter(self._questions))]
        yield up
        for client in self._in(mapped(message.get("params")).get("sessionId")):
            yield To(client, up.data)

    # Turns

    def _prompt(self, client: int, line: Line, message: dict[str, object]) -> Passing:
        key = word(mapped(message.get("params")).get("sessionId"))
        if key is None:
            yield Pass(line)
            return
        turn = self._turns.setdefault(key, _Turn())
        others = any(whose != client for whose in turn.running.values())
        free = not turn.waiting and (not others if client == EDITOR else not turn.running)
        if free:
            yield from self._begin(key, turn, client, message, line)
        elif len(turn.waiting) < WAITING_PROMPTS:
            turn.waiting.append((client, message))
        else:
            yield self._to(client, _refused(message, BUSY, f"{WAITING_PROMPTS} prompts wait already"))

    def _begin(self, key: str, turn: _Turn, client: int, message: dict[str, object], line: Line | None) -> Passing:
        """A prompt goes to the agent, and the others see it."""
        if client == EDITOR:
            self._wait(message.get("id"), EDITOR, message)
            turn.running[identity(message.get("id"))] = EDITOR
            yield Pass(line or Line(dumped(message)))
        else:
            renamed = self._renamed(client, message)
            turn.running[identity(renamed["id"])] = client
            yield Pass(Line(dumped(renamed)))
        for block in listed(mapped(message.get("params")).get("prompt")):
            update = {"sessionUpdate": "user_message_chunk", "content": block}
            yield from self._tell(key, client, update)

    def _turn_ended(self, key: str, number: str, client: int, message: dict[str, object]) -> Passing:
        turn = self._turns.setdefault(key, _Turn())
        turn.running.pop(number, None)
        reason = mapped(message.get("result")).get("stopReason")
        yield from self._tell(key, client, {"sessionUpdate": "turn_complete", "stopReason": reason}, aware=True)
        if not turn.running:  # what was asked in it needs no answer any more
            for one in self._questions_of(key):
                question = self._questions.pop(one)
                for visitor in self._in(key):
                    yield To(visitor, dumped({"method": CANCELLED, "params": {"requestId": question.get("id")}}))
        yield from self._next(key, turn)

    def _next(self, key: str, turn: _Turn) -> Passing:
        """The prompt that waits longest, once nothing runs."""
        while turn.waiting and not turn.running:
            client, message = turn.waiting.pop(0)
            yield from self._begin(key, turn, client, message, None)

    def _cancel(self, client: int, line: Line, message: dict[str, object]) -> Passing:
        key = mapped(message.get("params")).get("sessionId")
        turn = self._turns.get(key) if isinstance(key, str) else None
        if turn is not None:
            mine = [one for whose, one in turn.waiting if whose == client]
            turn.waiting = [one for one in turn.waiting if one[0] != client]
            for one in mine:
                yield self._to(client, dumped({"id": one.get("id"), "result": {"stopReason": "cancelled"}}))
        yield Pass(line)
        if client != EDITOR:  # an editor that cancels answers them itself
            for number in self._questions_of(key):
                cancelled = {"id": self._questions[number].get("id"), "result": {"outcome": {"outcome": "cancelled"}}}
                yield from self._reply(client, Line(dumped(cancelled)), cancelled)

    # Questions

    def _questions_of(self, key: object) -> list[str]:
        """The open questions of a session, by their keys in `_questions`."""
        return [one for one, asked in self._questions.items() if mapped(asked.get("params")).get("sessionId") == key]

    def _reply(self, client: int, line: Line, message: dict[str, object]) -> Passing:
        """Somebody answers the agent: the first answer to a question counts."""
        number = identity(message.get("id"))
        question = self._questions.get(number)
        shown = mapped(message.pop("_meta", None)).get(QUESTION)
        if question is not None and shown is not None:
            if shown != fingerprint(question.get("params")):
                return  # somebody answered another question, which had the same id
            line = Line(dumped(message))
        self._questions.pop(number, None)
        if question is None:
            if client == EDITOR and number not in self._over:  # an answer to something else that only it was asked
                yield Pass(line)
            return
        if client != EDITOR:
            self._over[number] = None
            if len(self._over) > PENDING:
                del self._over[next(iter(self._over))]
        yield Pass(line)
        yield from self._resolved(client, question, message)

    def _resolved(self, client: int, question: dict[str, object], answer: dict[str, object]) -> Passing:
        params = mapped(question.get("params"))
        key = word(params.get("sessionId")) or ""
        withdrawn = dumped({"method": CANCELLED, "params": {"requestId": question.get("id")}})
        if client != EDITOR:
            yield Up(withdrawn, keep=False)
        for one in self._in(key):
            if one != client:
                yield To(one, withdrawn)
        outcome = mapped(mapped(answer.get("result")).get("outcome"))
        by = mapped(self._editor) if client == EDITOR else self._clients[client].about
        update = {
            "sessionUpdate": "permission_resolved", "toolCallId": mapped(params.get("toolCall")).get("toolCallId"),
            "outcome": outcome, "chosenOptionId": outcome.get("optionId"), "resolvedBy": by,
        }  # fmt: skip
        yield from self._tell(key, client, update, aware=True)

    # Who is there

    def attach(self, client: int, key: str, about: dict[str, object], role: str, *, aware: bool) -> dict[str, object]:
        """Somebody joins a session that is in `opened`. What it has to know, at exactly this moment."""
        there = [{**self._editor, "role": "controller"}] if self._editor is not None else []
        there += [self._clients[one].shown for one in self._in(key)]
        self._clients[client] = _Client(key, about, "observer" if role == "observer" else "controller", aware)
        asked = [self._questions[one] for one in self._questions_of(key)]
        turn = self._turns.get(key)
        running = turn is not None and bool(turn.running)
        return {"opened": self.opened[key], "questions": asked, "clients": there, "running": running}

    def left(self, client: int) -> Passing:
        """A client, or the editor, is gone."""
        gone: dict[str, object]
        if client == EDITOR:
            gone, self._editor = {**mapped(self._editor), "role": "controller"}, None
            keys = set(self.opened)
        else:
            joined = self._clients.pop(client, None)
            if joined is None:
                return
            gone, keys = joined.shown, {joined.key}
        for turn in self._turns.values():
            turn.waiting = [one for one in turn.waiting if one[0] != client]
        for key in keys:
            yield from self._tell(key, client, {"sessionUpdate": "client_disconnected", "client": gone}, aware=True)

    # Small parts

    def _in(self, key: object) -> list[int]:
        return [client for client, one in self._clients.items() if one.key == key]

    def _tell(self, key: str, by: int, update: dict[str, object], *, aware: bool = False) -> Passing:
        """An update for all of a session but one. `aware`: only those who know updates that are proposed."""
        told = [one for one in self._in(key) if one != by and (self._clients[one].aware or not aware)]
        if not told and (by == EDITOR or aware):
            return
        data = dumped({"method": "session/update", "params": {"sessionId": key, "update": update}})
        if by != EDITOR and not aware:
            yield Up(data, keep=False)
        for one in told:
            yield To(one, data)

    def _to(self, client: int, data: bytes) -> Act:
        return Up(data, keep=False) if client == EDITOR else To(client, data)

    def _renamed(self, client: int, message: dict[str, object]) -> dict[str, object]:
        """A request of somebody who joined, with an id that nobody else has."""
        self._count += 1
        number = f"{OURS}{client}-{self._count}"
        self._wait(number, client, message)
        return {**message, "id": number}

    def _wait(self, number: object, client: int, message: dict[str, object]) -> None:
        self._asked[identity(number)] = (client, message)
        if len(self._asked) > PENDING:
            del self._asked[next(iter(self._asked))]


def _refused(message: dict[str, object], code: int, why: str) -> bytes:
    return dumped({"id": message.get("id"), "error": {"code": code, "message": why}})
