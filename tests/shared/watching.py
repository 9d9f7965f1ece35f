"""A client that has every session open and only listens: what it is told must make what a reader reads."""

from __future__ import annotations

from collections import deque
from typing import Any

from tests.home import Client


class Mirror:
    """A session as it was opened, and every change that was told since."""

    def __init__(self, opened: dict[str, Any]) -> None:
        self.seq: int = opened["session"]["seq"]
        self.messages: dict[str, dict[str, Any]] = {one["id"]: _of(one) for one in opened["messages"]}

    def apply(self, changes: list[dict[str, Any]]) -> None:
        """Each of them once, without a gap."""
        for change in changes:
            first = change["messages"][0]["seq"] if change["kind"] == "appended" else change["seq"]
            assert first == self.seq + 1, (self.seq, change)
            self.seq = change["seq"]
            getattr(self, f"_{change['kind']}", lambda _: None)(change)

    def _appended(self, change: dict[str, Any]) -> None:
        for message in change["messages"]:
            assert message["id"] not in self.messages, message
            self.messages[message["id"]] = _of(message)

    def _extended(self, change: dict[str, Any]) -> None:
        message = self.messages[change["messageId"]]
        assert len(message["content"]) == change["offset"]
        message["content"] += change["text"]
        message["status"] = "streaming"

    def _finished(self, change: dict[str, Any]) -> None:
        self.messages[change["messageId"]]["status"] = change["status"]

    def _cleared(self, change: dict[str, Any]) -> None:
        del change
        self.messages.clear()

    def _truncated(self, change: dict[str, Any]) -> None:
        kept = {key: one for key, one in self.messages.items() if one["seq"] <= change["afterSeq"]}
        self.messages = kept


def _of(message: dict[str, Any]) -> dict[str, Any]:
    return {"seq": message["seq"], "content": message["content"], "status": message.get("status", "done")}


class Watcher:
    """One connection. `listen` now and then, and once more before `check`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._mirrors: dict[str, Mirror] = {}
        self._queue: deque[tuple[str, dict[str, Any]]] = deque()
        """What was told and not looked at yet."""
        self.told = 0
        """Changes that were told, besides those of reloads."""

    def watch(self, session: str) -> None:
        """Open it, unless it is open already or cannot be read now."""
        if session not in self._mirrors:
            self._open(session)

    def _open(self, session: str) -> None:
        """Whatever came before the answer is in the answer."""
        self._mirrors.pop(session, None)
        answer = self._client.answer(self._client.send("session/open", {"sessionId": session, "last": 1000}))
        self._queue.extend(self._client.notifications)
        self._client.notifications = []
        self._queue = deque(one for one in self._queue if _session(one[1]) != session)
        if "result" in answer:
            self._mirrors[session] = Mirror(answer["result"])

    def listen(self) -> None:
        """Take what was told by now."""
        self._queue.extend(self._client.heard_by_now())
        while self._queue:
            method, params = self._queue.popleft()
            session = _session(params)
            mirror = self._mirrors.get(session)
            if mirror is None:
                continue
            if method == "session/changed":
                mirror.apply(params["changes"])
                assert mirror.seq == params["seq"]
                self.told += len(params["changes"])
            elif method == "session/deleted":
                del self._mirrors[session]
            elif method in ("session/reloaded", "session/resync"):
                self._open(session)

    def check(self) -> None:
        """Nothing happens any more: what was told is what there is."""
        self._client.call("daemon/status")  # its answer comes after all that is owed
        self.listen()
        for session, mirror in self._mirrors.items():
            read = self._client.call("session/read", sessionId=session, last=1000)
            assert mirror.seq == read["seq"], session
            assert list(mirror.messages.items()) == [(one["id"], _of(one)) for one in read["messages"]], session


def _session(params: dict[str, Any]) -> str:
    found: str = params.get("sessionId") or params.get("session", {}).get("sessionId", "")
    return found
