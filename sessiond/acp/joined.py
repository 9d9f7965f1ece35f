"""`sessiond acp --join ID`: an editor of its own on a conversation that runs in another process.

    looking ──initialize, session/list──> looking
    looking ──session/new, load, resume or attach──> attached: what was said, questions that are open, then all that is said
    attached ──session/detach──> looking          attached ──the agent ends──> the end

To this editor we are the agent. `session/new` gives it the conversation as if it had just begun, for editors that know no other
way; what was said follows the response, because an update of a session that an editor does not know yet is lost. After `load` and
`attach` it comes before the response, as the protocol says.

One thread reads the editor and, while it attaches, writes what was said; then a second one writes what comes.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

from sessiond.acp.acts import Recall, dumped, parsed
from sessiond.acp.content import listed, mapped, word
from sessiond.acp.cutter import Cutter
from sessiond.acp.door import PIECE_BYTES, SUFFIX, said
from sessiond.acp.door import folder as door_folder
from sessiond.acp.past import past
from sessiond.acp.recall import Recaller
from sessiond.acp.sharing import NO_METHOD, NOT_FOUND, OPENING
from sessiond.acp.spool import SpoolReader

ATTACH = "session/attach"
ROLES = ("controller", "observer")
POLICIES = ("full", "pending_only", "none")
INVALID = -32602


class NobodyThereError(Exception):
    """No one conversation of that name runs. `running`: the names of those that do."""

    def __init__(self, running: list[str]) -> None:
        super().__init__()
        self.running = running


class _Host:
    """A connection to the process that has the agent. OSError: it is gone."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._cutter = Cutter()
        self._ready: list[bytes] = []

    def ask(self, what: str, **values: object) -> dict[str, object]:
        """A line of ours, and the answer, which comes before anything else."""
        self.send(said(what, values))
        return mapped(parsed(next(self.lines(), b"")))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def lines(self) -> Iterator[bytes]:
        """Whole messages until the other end is gone."""
        while True:
            while self._ready:
                yield self._ready.pop(0)
            piece = self._socket.recv(PIECE_BYTES)
            if not piece:
                return
            self._ready += [data for data, whole in self._cutter.feed(piece) if whole]

    def close(self) -> None:
        with suppress(OSError):  # it was the other end that hung up
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def found(name: str) -> tuple[str, str, dict[str, object]]:
    """The socket of the connection in which a session of that name runs, the session, and what its agent can. NobodyThereError,
    NoHome.
    """
    where = door_folder()
    there: list[tuple[str, str, dict[str, object]]] = []
    running: list[str] = []
    for path in sorted(os.path.join(where, one) for one in _names(where)):
        here = _looked(path)
        for key, names in zip(listed(here.get("sessions")), listed(here.get("names")), strict=True):
            running.append(names[1])
            if name in names:
                there.append((path, key, mapped(here.get("initialized"))))
    if len(there) != 1:
        raise NobodyThereError(sorted(running))
    return there[0]


def _names(where: str) -> list[str]:
    try:
        return [one for one in os.listdir(where) if one.endswith(SUFFIX)]
    except FileNotFoundError:
        return []


def _looked(path: str) -> dict[str, object]:
    """Return what runs behind a socket; nothing if its process is gone, and then the socket goes too."""
    try:
        host = _Host(path)
    except ConnectionRefusedError:
        with suppress(FileNotFoundError):
            os.unlink(path)
        return {}
    except FileNotFoundError:
        return {}
    try:
        return host.ask("look")
    except OSError:
        return {}
    finally:
        host.close()


class Joined:
    """One editor on the session `key` behind `path`. `folder`: where spools are."""

    def __init__(
        self, path: str, key: str, names: tuple[str, ...], initialized: dict[str, object], folder: str
    ) -> None:
        self._path = path
        self._key = key
        self._names = names
        self._initialized = initialized
        self._folder = folder
        self._about: dict[str, object] = {}
        self._host: _Host | None = None
        self._writing = threading.Lock()

    def run(self) -> None:
        """Until the editor is gone. If the agent goes first, the process ends there."""
        cutter = Cutter()
        while piece := os.read(0, PIECE_BYTES):
            for data, whole in cutter.feed(piece):
                message = parsed(data) if whole else None
                if message is not None:
                    self._handle(data, message)
        self._detach()

    def _handle(self, data: bytes, message: dict[str, object]) -> None:
        method, params = word(message.get("method")), mapped(message.get("params"))
        if method == "initialize":
            self._about = mapped(params.get("clientInfo"))
            self._say(dumped({"id": message.get("id"), "result": self._able()}))
        elif method == "authenticate":
            self._say(dumped({"id": message.get("id"), "result": {}}))
        elif method == "session/list":
            shown = {"sessionId": self._key, "cwd": os.getcwd(), "title": self._names[0]}
            self._say(dumped({"id": message.get("id"), "result": {"sessions": [shown]}}))
        elif method in OPENING or method == ATTACH:
            self._attach(method, message, params)
        elif method == "session/detach":
            self._detach()
            self._say(dumped({"id": message.get("id"), "result": {"sessionId": self._key, "status": "detached"}}))
        elif self._host is not None:
            self._send(data)
        elif method is not None and "id" in message:
            self._refuse(
                message, NO_METHOD, f"{method} needs a session; begin with session/new, session/load or {ATTACH}"
            )

    def _able(self) -> dict[str, object]:
        can = mapped(self._initialized.get("agentCapabilities"))
        sessions = {
            **mapped(can.get("sessionCapabilities")),
            "list": {},
            "resume": {},
            "attach": {"roles": list(ROLES)},
        }
        able = {**can, "loadSession": True, "sessionCapabilities": sessions}
        return {"protocolVersion": 1, **self._initialized, "agentCapabilities": able, "authMethods": []}

    def _attach(self, method: str, message: dict[str, object], params: dict[str, object]) -> None:
        role, policy = params.get("role", "controller"), params.get("historyPolicy", "full")
        if method == "session/fork" or (
            method != "session/new" and params.get("sessionId") not in (self._key, *self._names)
        ):
            self._refuse(message, NOT_FOUND, f"Session not found: only {self._key} can be joined here")
        elif role not in ROLES or policy not in POLICIES:
            self._refuse(message, INVALID, f"role is one of {', '.join(ROLES)}; historyPolicy of {', '.join(POLICIES)}")
        else:
            self._detach()
            try:
                host = _Host(self._path)
                told = host.ask("attach", session=self._key, client=self._about, role=role, aware=method == ATTACH)
            except OSError:
                told = {}
            if told.get("sessiond") != "attached":
                self._refuse(message, NOT_FOUND, "Session not found: the agent has ended")
                return
            self._attached(method, message, host, told, str(role), str(policy))

    def _attached(
        self, method: str, message: dict[str, object], host: _Host, told: dict[str, object], role: str, policy: str
    ) -> None:
        result = mapped(told.get("opened"))
        if method == "session/new":
            result = {**result, "sessionId": self._key}
        elif method == ATTACH:
            result = {
                **result, "sessionId": self._key, "role": role, "historyPolicy": policy, "connectedClients": told.get("clients"),
            }  # fmt: skip
        response = dumped({"id": message.get("id"), "result": result})
        if method == "session/new":
            self._say(response)
        if policy == "full" and method != "session/resume":
            for line in self._said(told):
                self._say(line)
        if method != "session/new":
            self._say(response)
        for question in listed(told.get("questions")) if policy != "none" else []:
            self._say(dumped(mapped(question)))
        self._host = host
        threading.Thread(target=self._follow, args=(host,), daemon=True).start()

    def _said(self, told: dict[str, object]) -> Iterator[bytes]:
        """All that was said up to the moment of joining: what the store has of before, and what the spool has of this connection."""
        path, size = word(told.get("spool")), told.get("size")
        if path is None or not isinstance(size, int):
            return
        spool = os.path.basename(path).partition(".")[0]
        job = {"do": "earlier", "session": self._key, "spool": spool}
        earlier = Recaller(self._folder).ask(Recall(0, job)).lines
        yield from earlier
        with open(path, "rb") as file:
            yield from past(SpoolReader(file.fileno()).frames(size), self._key, known=bool(earlier))

    def _follow(self, host: _Host) -> None:
        """Write what is said, until the agent ends or the editor lets go."""
        ended = False
        with suppress(OSError):
            for line in host.lines():
                ended = line.startswith(b'{"sessiond":"ended"')
                if not ended:
                    self._say(line)
        if self._host is host:
            print(
                "sessiond: the conversation has ended" if ended else "sessiond: the agent's process is gone",
                file=sys.stderr,
            )
            os._exit(0 if ended else 1)

    def _send(self, data: bytes) -> None:
        host = self._host
        if host is not None:
            with suppress(OSError):  # the thread that follows finds out too, and ends the process
                host.send(data)

    def _detach(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            host.close()

    def _refuse(self, message: dict[str, object], code: int, why: str) -> None:
        self._say(dumped({"id": message.get("id"), "error": {"code": code, "message": why}}))

    def _say(self, data: bytes) -> None:
        rest = memoryview(data)
        with self._writing:
            while rest:
                rest = rest[os.write(1, rest) :]
