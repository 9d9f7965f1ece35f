"""Random histories of machines that share a store, and the checker that says whether nothing was lost, doubled or reordered.

One machine has two connections on which requests are pipelined, and a third one that has every session open and only listens.
Between requests links are cut, made slow and half-opened, answers are lost, clocks are moved, daemons and the hub are killed, and
now and then the hub is restored from a backup that was made a while ago. In the end everything is whole again, and must hold:

- all machines and the hub hold the same sessions, byte for byte in export;
- each acknowledged message is on the hub once, and an id that was refused is not there;
- each connection's messages of a session are in the order in which they were sent;
- an acknowledgement that was not provisional named the seq that the message has (unless the hub was restored after that: then the
  message is there all the same);
- numbers have no gaps, and the digest of each session is the sum of its operations;
- who listens was told each change once, and has what a reader reads.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from sessiond.hub.port import Ordered, chain_all, seed
from tests.hub.postgres import Server
from tests.shared.machines import STORE, Machine, until, until_same
from tests.shared.watching import Watcher

KINDS = (
    "append",
    "append",
    "append",
    "append",
    "expect",
    "update",
    "state",
    "note",
    "stream",
    "new",
    "cut",
    "delete",
    "restore",
    "move",
)
TROUBLE = ("cut", "silence", "mute", "delay", "heal", "heal", "kill", "hub", "clock", "wait")
RESTORES = 0.25
"""How many of all histories have a hub that is restored from a backup."""
CONNECTIONS = 2
CLOCKS = ("+0", "-2d", "+40d", "-1h", "+3h")
REFUSED = ("conflict", "unavailable", "sessionNotFound", "invalidParams", "alreadyExists")
"""Kinds of errors after which nothing was stored."""


class Sent(NamedTuple):
    """A request. `number`: its id on its connection."""

    machine: int
    life: int
    connection: int
    order: int
    session: str
    ids: list[str]
    number: int


class Told(NamedTuple):
    sent: Sent
    seqs: dict[str, int]
    provisional: bool


class History:
    """`number` decides what is tried; what happens depends on the machine as well. `folder`: for backups of the hub. `clocks`: of
    the machines, for faketime.
    """

    def __init__(
        self,
        number: int,
        machines: list[Machine],
        server: Server,
        database: str,
        folder: Path,
        clocks: list[Path] | None = None,
    ) -> None:
        self.random = random.Random(number)
        self.machines = machines
        self.server = server
        self.database = database
        self.label = f"h{number}"
        self.acknowledged: list[Told] = []
        self.refused: set[str] = set()
        self.cut: set[str] = set()
        """Sessions of which something was removed."""
        self._waiting: list[Sent] = []
        self._order = self._made = 0
        self._lives = [0] * len(machines)
        self._sessions: list[str] = []
        self._streaming = 0
        self._watchers: list[Watcher | None] = [None] * len(machines)
        self._backup = folder / self.label
        self._restored_at = 0
        """The order of the request before which the hub was restored."""
        self._clocks = clocks or []
        self._moments: dict[int, str] = {}
        """Step -> what is done to the hub's data before it."""

    def run(self, steps: int) -> None:
        first = f"{STORE}/{self.label}-0"
        self.machines[0].call("session/new", sessionId=first.partition("/")[2], store=STORE)
        self._sessions.append(first)
        self._made = 1
        for machine in self.machines:
            until(lambda machine=machine: first in machine.sessions(), machine.log)
        if self.random.random() < RESTORES:
            made, restored = sorted(self.random.sample(range(steps), 2))
            self._moments = {made: "back_up_hub", restored: "restore_hub"}
        for step in range(steps):
            if step in self._moments:
                getattr(self, f"_{self._moments[step]}")()
            if self.random.random() < 0.12:
                self._trouble()
            else:
                self._request()
            if len(self._waiting) > 12 or self.random.random() < 0.2:
                self._answers()
                self._listen()
        self._answers()
        self.heal()
        shutil.rmtree(self._backup, ignore_errors=True)

    # What is done

    def _id(self) -> str:
        self._order += 1
        return f"{self.label}-m{self._order}"

    def _request(self) -> None:
        index = self.random.randrange(len(self.machines))
        kind = self.random.choice(KINDS)
        session = self.random.choice(self._sessions[-4:])
        getattr(self, f"_{kind}")(index, session)

    def _send(self, index: int, method: str, session: str, ids: list[str], **params: Any) -> None:
        connection = self.random.randrange(CONNECTIONS)
        if method in ("session/extend", "session/finish"):
            connection = self._streaming  # whoever began it
        self._streaming = connection
        try:
            number = self.machines[index].connection(connection).send(method, params)
        except OSError:
            self._died(index)
            return
        self._order += 1
        self._waiting.append(Sent(index, self._lives[index], connection, self._order, session, ids, number))

    def _append(self, index: int, session: str, **more: Any) -> None:
        ids = [self._id() for _ in range(self.random.choice((1, 1, 1, 3)))]
        messages = [{"id": one, "role": "user", "content": f"{one} of {index}"} for one in ids]
        self._send(index, "session/append", session, ids, sessionId=session, messages=messages, **more)

    def _expect(self, index: int, session: str) -> None:
        seq = max((max(one.seqs.values()) for one in self.acknowledged if one.sent.session == session), default=0)
        self._append(index, session, expectedSeq=seq)

    def _update(self, index: int, session: str) -> None:
        self._send(index, "session/update", session, [], sessionId=session, name=f"{self._id()}")

    def _state(self, index: int, session: str) -> None:
        self._send(index, "state/set", session, [], sessionId=session, values={self.random.choice("ab"): self._id()})

    def _note(self, index: int, session: str) -> None:
        self._send(index, "note/append", session, [], sessionId=session, heading="h", content=self._id())

    def _stream(self, index: int, session: str) -> None:
        one = self._id()
        message = {"id": one, "role": "assistant", "content": "", "status": "streaming"}
        self._send(index, "session/append", session, [one], sessionId=session, messages=[message])
        for piece in range(self.random.randrange(4)):
            self._send(index, "session/extend", session, [], sessionId=session, messageId=one, text=f"{piece} ")
        if self.random.random() < 0.8:
            self._send(index, "session/finish", session, [], sessionId=session, messageId=one)

    def _new(self, index: int, session: str) -> None:
        """Sometimes two machines make the same one."""
        number = self._made if self.random.random() < 0.7 else max(self._made - 1, 0)
        self._made = max(self._made, number + 1)
        local_id = f"{self.label}-{number}"
        self._send(index, "session/new", f"{STORE}/{local_id}", [], sessionId=local_id, store=STORE, name="new")
        if f"{STORE}/{local_id}" not in self._sessions:
            self._sessions.append(f"{STORE}/{local_id}")

    def _cut(self, index: int, session: str) -> None:
        if self.random.random() < 0.3:
            self.cut.add(session)
            if self.random.random() < 0.5:
                after = self.random.randrange(6)
                self._send(index, "session/truncate", session, [], sessionId=session, afterSeq=after)
            else:
                self._send(index, "session/clear", session, [], sessionId=session)

    def _delete(self, index: int, session: str) -> None:
        if self.random.random() < 0.3:
            self.cut.add(session)
            self._send(index, "session/delete", session, [], sessionId=session)

    def _restore(self, index: int, session: str) -> None:
        if session in self.cut:
            self._send(index, "session/restore", session, [], sessionId=session)

    def _move(self, index: int, session: str) -> None:
        """A session of the machine's own is moved into the store."""
        if self.random.random() < 0.3:
            local_id = f"{self.label}-own{self._order}"
            ids = [self._id(), self._id()]
            messages = [{"id": one, "role": "user", "content": one} for one in ids]
            try:
                self.machines[index].call("session/new", sessionId=local_id, messages=messages)
            except (OSError, AssertionError):
                return
            self._send(index, "session/move", "", [], sessionId=local_id, store=STORE)

    def _answers(self) -> None:
        waiting, self._waiting = self._waiting, []
        for sent in waiting:
            if sent.life != self._lives[sent.machine]:
                continue
            try:
                answer = self.machines[sent.machine].connection(sent.connection).answer(sent.number)
            except OSError:
                self._died(sent.machine)
                continue
            if "error" in answer:
                data = answer["error"]["data"]
                assert data["kind"] in (*REFUSED, "indeterminate"), answer
                if data["kind"] != "indeterminate":
                    self.refused.update(sent.ids)
            elif sent.ids:
                result = answer["result"]
                seqs = {one["id"]: one["seq"] for one in result["messages"]}
                assert sorted(seqs) == sorted(sent.ids)
                self.acknowledged.append(Told(sent, seqs, result.get("provisional", False)))

    def _died(self, index: int) -> None:
        """Its daemon ended: what was not answered may or may not be stored."""
        assert self.machines[index].home.process is not None
        self._lives[index] += 1
        self._watchers[index] = None
        self.machines[index].kill()
        self.machines[index].home.start()

    def _listen(self) -> None:
        """Who only listens takes what was told, and opens what is new."""
        for index, machine in enumerate(self.machines):
            try:
                watcher = self._watchers[index] = self._watchers[index] or Watcher(machine.connection(CONNECTIONS))
                watcher.listen()
                for session in self._sessions[-4:]:
                    watcher.watch(session)
            except OSError:
                self._died(index)

    # What goes wrong

    def _hub_was_killed(self) -> None:
        self.server.kill()
        if self.random.random() < 0.5:
            self._answers()

    def _restore_hub(self) -> None:
        """The hub forgets what came after the backup."""
        self._hub_was_killed()
        self.server.restore_from(self._backup)
        self._restored_at = self._order  # what was answered before may have another seq now
        self.server.start()

    def _back_up_hub(self) -> None:
        self.server.stop()
        self.server.copy_to(self._backup)
        self.server.start()

    def _trouble(self) -> None:
        index = self.random.randrange(len(self.machines))
        link = self.machines[index].link
        match self.random.choice(TROUBLE):
            case "cut":
                link.cut()
            case "silence":
                link.silence()
            case "mute":
                link.mute()
            case "clock" if self._clocks:
                self._clocks[index].write_text(self.random.choice(CLOCKS))
            case "delay":
                link.delay = self.random.choice((0.0, 0.005, 0.03))
            case "heal":
                link.heal()
            case "kill":
                self._died(index)
            case "hub":
                self._hub_was_killed()
                self.server.start()
            case "wait":
                self._answers()

    def heal(self) -> None:
        for machine in self.machines:
            machine.link.delay = 0.0
            machine.link.heal()
        until_same(self.machines)

    # What must hold

    def check(self) -> None:
        for watcher in self._watchers:
            if watcher is not None:
                watcher.check()
        hub = self._on_the_hub()
        where = {row.id: (session, row) for session, rows in hub.items() for row in rows if row.kind == "appended"}
        counts = Counter(row.id for rows in hub.values() for row in rows if row.kind == "appended")
        assert [one for one, count in counts.items() if count > 1] == []
        for one in self.acknowledged:
            for message_id, seq in one.seqs.items():
                if message_id not in where:
                    assert one.provisional, (message_id, "was acknowledged as shared, and is not on the hub")
                    assert self._in_a_trash(one.sent.machine, message_id), (message_id, "is lost", one)
                    continue
                session, row = where[message_id]
                asked = one.sent.session.partition("/")[2]
                # What was begun without the hub goes on under another id if another machine had the same idea.
                assert session == asked or (one.provisional and session.startswith(f"{asked}-"))
                final = not one.provisional and one.sent.order > self._restored_at
                assert not final or row.number == seq, (message_id, row.number, one)
        assert {one for one in self.refused if one in where} == set()
        self._check_order(where)
        shown = self.machines[0].sessions()
        mine = f"{STORE}/{self.label}-"
        for session, seq in [one for one in shown.items() if one[0].startswith(mine)]:
            rows = hub[session.partition("/")[2]]
            assert rows[-1].number == seq
            ids = [one["id"] for one in self.machines[0].call("session/read", sessionId=session, last=1000)["messages"]]
            there = [row.id for row in rows if row.kind == "appended"]
            assert ids == [one for one in there if one in set(ids)]
            assert ids == there or session in self.cut

    def _check_order(self, where: dict[str | None, tuple[str, Ordered]]) -> None:
        of_client: dict[tuple[int, int, int, str], list[int]] = defaultdict(list)
        for one in sorted(self.acknowledged, key=lambda one: one.sent.order):
            for session, row in (where[message_id] for message_id in one.sent.ids if message_id in where):
                of_client[one.sent.machine, one.sent.life, one.sent.connection, session].append(row.number)
        for key, numbers in of_client.items():
            assert numbers == sorted(numbers), key

    def _on_the_hub(self) -> dict[str, list[Ordered]]:
        """Session -> operations in their order, of this history."""
        lines = self.server.sql(
            "SELECT s.session, o.number, encode(uuid_send(r.replica), 'hex'), o.index, o.kind,"
            " coalesce(convert_from(o.id, 'UTF8'), ''), m.name, encode(o.body, 'hex'), encode(s.digest, 'hex'), s.head"
            " FROM sessiond.operations o JOIN sessiond.sessions s ON s.id = o.session"
            " JOIN sessiond.replicas r ON r.id = o.replica JOIN sessiond.members m ON m.id = o.author"
            f" WHERE s.session LIKE '{self.label}-%' ORDER BY s.session, o.number",
            self.database,
        )
        from sessiond.hub.port import KINDS as NAMES

        found: dict[str, list[Ordered]] = defaultdict(list)
        digests: dict[str, tuple[str, int]] = {}
        for line in lines.splitlines():
            session, number, replica, index, kind, id_, author, body, digest, head = line.split("|")
            row = Ordered(
                int(number), replica, int(index), NAMES[int(kind)], id_ or None, author, None, 0, bytes.fromhex(body)
            )
            found[session].append(row)
            digests[session] = (digest, int(head))
        for session, rows in found.items():
            digest, head = digests[session]
            assert [row.number for row in rows] == list(range(head + 1)), session
            assert chain_all(seed(session), rows).hex() == digest
        return found

    def _in_a_trash(self, index: int, message_id: str) -> bool:
        folder = Path(self.machines[index].home.path) / "data" / "trash"
        for path in folder.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and message_id.encode() in path.read_bytes():
                    return True
        return False
