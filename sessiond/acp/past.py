"""A session in a spool -> what somebody who joins it sees of it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from sessiond.acp.acts import dumped, identity
from sessiond.acp.content import listed, mapped, word
from sessiond.acp.lines import Lines
from sessiond.acp.spool import AGENT, EDITOR


def past(frames: Iterable[tuple[bytes, int, bytes]], key: str, *, known: bool) -> Iterator[bytes]:
    """The updates of session `key`, oldest first; its prompts among them. `known`: what came before this connection is shown
    already, so what the agent repeats of it is left out.
    """
    lines = {EDITOR: Lines(), AGENT: Lines()}
    repeating: set[str] = set()
    """Requests that are not answered for which the agent repeats the session."""
    for kind, _, data in frames:
        if kind not in lines:
            continue
        for line in lines[kind].feed(data):
            message = _message(line)
            params = mapped(message.get("params"))
            method, ours = word(message.get("method")), params.get("sessionId") == key
            if kind == AGENT and method is None:
                repeating.discard(identity(message.get("id")))
            elif kind == AGENT and method == "session/update" and ours and not (known and repeating):
                yield line + b"\n"
            elif kind == EDITOR and method in ("session/load", "session/resume") and ours:
                repeating.add(identity(message.get("id")))
            elif kind == EDITOR and method == "session/prompt" and ours:
                for block in listed(params.get("prompt")):
                    update = {"sessionUpdate": "user_message_chunk", "content": block}
                    yield dumped({"method": "session/update", "params": {"sessionId": key, "update": update}})


def _message(line: bytes) -> dict[str, object]:
    try:
        return mapped(msgspec.json.decode(line))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
