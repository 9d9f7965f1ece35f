"""Clients that continue whatever happens: they send without waiting, retry what was not answered or temporarily refused, and
remember what was acknowledged.
"""

from __future__ import annotations

import random
import threading
from typing import Any

from tests.home import Client, Home
from tests.hostile.ground import NAMES, Ground
from tests.hostile.ledger import Ledger

ANSWER_S = 60.0
"""On a machine that has other things to do."""
AGAIN = {"readOnly", "unavailable", "indeterminate", "badFile", "cancelled"}
"""Kinds of error after which the same is sent again."""
NEVER = {"internalError", "invalidParams", "parseError", "invalidRequest", "methodNotFound", "notInitialized", "unauthorized", "tooLarge"}  # fmt: skip
"""Kinds that nobody deserved."""


class Writer(threading.Thread):
    """`up` is set while a daemon is to be reached."""

    def __init__(self, number: int, seed: str, home: Home, ground: Ground, ledger: Ledger, up: threading.Event) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.number = number
        self.over = False
        self._rng = random.Random(f"{seed} client {number}")
        self._home = home
        self._ground = ground
        self._ledger = ledger
        self._up = up
        self._said = 0
        self._open: list[tuple[str, list[dict[str, Any]]]] = []
        """Appends without an answer that settles them: (session, messages)."""

    def run(self) -> None:
        try:
            while not self.over:
                if self._up.wait(0.1):
                    self._connected()
        except Exception as error:  # whatever it is, the life has failed
            self._ledger.fault(f"DIED: client {self.number}: {error!r}")

    def _connected(self) -> None:
        try:
            client = Client(self._home.connect(ANSWER_S))
        except (AssertionError, OSError):
            if self._up.is_set() and not self.over:
                raise
            return
        try:
            while self._up.is_set() and not self.over:
                self._burst(client)
        except TimeoutError:
            self._ledger.fault(f"HUNG: client {self.number} got no answer within {ANSWER_S:.0f} s")
            self.over = True
        except OSError:
            pass  # the daemon is gone, as it must be: whoever ended it knows
        finally:
            client.close()

    def _burst(self, client: Client) -> None:
        """A few requests in a row, then their answers."""
        asked = []
        again, self._open = self._open[:3], self._open[3:]
        wanted: list[tuple[str, dict[str, Any]]] = [
            ("session/append", {"sessionId": session, "messages": messages}) for session, messages in again
        ]
        wanted += [self._request() for _ in range(self._rng.choice((1, 1, 2, 3, 5)))]
        unsettled = [
            (params["sessionId"], params["messages"]) for method, params in wanted if method == "session/append"
        ]
        self._open += unsettled
        for method, params in wanted:
            if method == "session/append":
                self._ledger.sending([one["content"] for one in params["messages"]], params["sessionId"])
            asked.append((method, params, client.send(method, params)))
        for method, params, number in asked:
            answer = client.answer(number)
            self._ledger.answered()
            self._answered(method, params, answer)

    def _answered(self, method: str, params: dict[str, Any], answer: dict[str, Any]) -> None:
        error = answer.get("error")
        kind = error["data"]["kind"] if error else None
        if kind in NEVER:
            self._ledger.fault(f"FAILED {method} {params.get('sessionId')}: {error}")
        if method == "session/append":
            settled = (params["sessionId"], params["messages"])
            if kind not in AGAIN:
                self._open.remove(settled)
            if error is None:
                self._ledger.acknowledged([one["content"] for one in params["messages"]], params["sessionId"])
        elif method in _TOLD:
            self._ledger.done.append(f"{method} {params['sessionId']}: {kind or 'done'}")
        if method in ("session/move", "session/restore") and error is None:
            self._ledger.named(answer["result"]["session"]["sessionId"])

    # What is asked

    def _request(self) -> tuple[str, dict[str, Any]]:
        session = self._session()
        about = {"sessionId": session}
        method = self._rng.choices(list(_OFTEN), list(_OFTEN.values()))[0]
        if method == "session/append":
            count = self._rng.choice((1, 1, 2, 3))
            return method, {**about, "messages": [self._message() for _ in range(count)]}
        if method == "session/new":
            store, _, local = session.rpartition("/")
            self._ledger.named(session)
            return method, {"sessionId": local, "name": "n", **({"store": store} if store else {})}
        if method == "session/update":
            return method, {**about, "name": f"n{self._rng.randint(0, 9)}", "tags": ["t"]}
        if method == "session/truncate":
            return method, {**about, "afterSeq": self._rng.randint(0, 30)}
        if method == "session/move":
            return method, {**about, "store": self._rng.choice(list(self._ground.folders))}
        if method == "state/set":
            return method, {**about, "values": {"k": self._rng.randint(0, 9)}}
        if method in ("session/list", "daemon/status"):
            return method, {}
        return method, about

    def _session(self) -> str:
        return self._rng.choice(list(self._ground.folders.values())).wire(self._rng.choice(NAMES))

    def _message(self) -> dict[str, Any]:
        self._said += 1
        word = f"t{self.number}x{self._said}{'y' * self._rng.choice((0, 0, 5, 300))}z"
        return {"id": f"m{self.number}-{self._said}", "role": self._rng.choice(("user", "assistant")), "content": word}


_TOLD = (
    "session/new",
    "session/delete",
    "session/restore",
    "session/truncate",
    "session/clear",
    "session/move",
    "session/save",
)
"""The report of a life that fails."""
_OFTEN = {
    "session/append": 50, "session/new": 12, "session/save": 10, "session/read": 6, "session/open": 6, "session/list": 3,
    "session/update": 4, "state/set": 2, "session/delete": 4, "session/restore": 6, "session/truncate": 2, "session/clear": 1,
    "session/move": 2, "daemon/status": 1,
}  # fmt: skip
