"""Decides what becomes of everything that passes on one connection. No I/O.

    editor ─┐
            ├─ Sharing ── recorded here ── Replaying ── agent
    others ─┘

Each of the two knows its own subject only. The recorder reads between them: names as the editor knows them, requests of all.
"""

from __future__ import annotations

from sessiond.acp.acts import Act, Acts, Keep, Line, RecallResponse, Up
from sessiond.acp.replaying import Replaying
from sessiond.acp.sharing import AgentSharing, Pass, Passing


class Switch:
    """One connection's. Every method takes what passes and says what is to be done, in order."""

    def __init__(self, replaying: Replaying) -> None:
        self._replaying = replaying
        self.sharing = AgentSharing()

    def from_editor(self, data: bytes, whole: bool) -> Acts:
        """Bytes of the editor that started the agent."""
        yield from self._through(self.sharing.from_editor(Line(data, whole)))

    def from_client(self, client: int, data: bytes) -> Acts:
        """A message of somebody who has joined."""
        yield from self._through(self.sharing.from_client(client, Line(data)))

    def from_agent(self, data: bytes, whole: bool) -> Acts:
        """Bytes of the agent."""
        for act in self._replaying.from_agent(Line(data, whole)):
            yield from self._rises(act)

    def recalled(self, number: int, answer: RecallResponse) -> Acts:
        """The store has answered."""
        for act in self._replaying.recalled(number, answer):
            yield from self._rises(act)

    def left(self, client: int) -> Acts:
        """The editor (0) or somebody who had joined is gone."""
        yield from self._through(self.sharing.left(client))

    def attach(self, client: int, key: str, about: dict[str, object], role: str, *, aware: bool) -> dict[str, object]:
        """Somebody joins a session. What it has to know at this moment."""
        return self.sharing.attach(client, key, about, role, aware=aware)

    def _through(self, passing: Passing) -> Acts:
        for one in passing:
            if isinstance(one, Pass):
                yield Keep(one.line.data, editor=True)
                for act in self._replaying.from_editor(one.line):
                    yield from self._rises(act)
            else:
                yield one

    def _rises(self, act: Act) -> Acts:
        """Pass what is for the editor's side through `AgentSharing`; leave the rest as it is."""
        if not isinstance(act, Up):
            yield act
            return
        if act.keep:
            yield Keep(act.data)
        yield from self._through(self.sharing.to_editor(act))
