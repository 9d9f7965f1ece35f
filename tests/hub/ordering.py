"""A model of how daemons and a hub agree on the order of one session, small enough to visit every state that it can reach.

The hub is a sequence of operations. It can be copied (a backup) and put back later (`restored`), and each time it forgets what came in
between. A replica is what one daemon keeps on its disk:

- `known`: what it has seen on the hub, in order. The digests of the real protocol compare exactly this.
- `waiting`: what its clients wrote and were told is safe, in order, and what it has not seen on the hub. The first of them may
  be *careful*: its client asked for an agreement and has no answer yet.
- `asked`: the request that is under way, or whose answer was lost. A careful client then hears of neither success nor failure
  (`indeterminate`) if the hub was restored meanwhile: another replica may give back what the hub had taken.

A request travels: it is sent, arrives once or never, and its answer arrives or is lost. One whose sender has given up may still
arrive later. The death of a daemon is a lost answer, because everything else is on its disk.

What must hold:

- In every state: the hub has each operation at most once; those of one replica are in the order in which they were written (but for
  those of which a client heard neither); an operation whose client was told that it failed is nowhere; a number that was given stays while the hub is not restored.
- From every state, once everybody reaches the hub: all replicas and the hub have the same sequence, with every operation whose
  client was told that it is safe.

A `fault` takes one rule away. The checker must find that out, or the rule is not needed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Op: TypeAlias = str
"""The replica's letter, and a number that rises with each: `a1`."""

FAULTS = {
    "the hub does not look at the base": "numbers of others are taken for one's own",
    "the hub compares numbers only": "two pasts of the same length look alike",
    "a request is not refused after its sender gave up": "what failed is there later",
    "a replica does not know its own words": "what was taken, without an answer, is sent again",
    "a replica forgets what the hub forgot": "a restored hub takes words away",
    "a replica does not give back first": "words change their order",
    "a restored hub is believed": "what it had taken, and somebody else gives back, is said to have failed",
    "a replica does not ask after a lost answer": "what is there is said to have failed",
}


class Broken(AssertionError):
    """A state that must not be. The text says which rule is broken, and the steps that lead there."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`place`: `going` to the hub, `coming` back with an answer, `lost` (it may still arrive), or `gone`: neither arrives."""

    base: tuple[Op, ...]
    op: Op
    place: Literal["going", "coming", "lost", "gone"]
    taken: bool = False
    life: int = 0
    """How often the hub had been restored."""


@dataclass(frozen=True, slots=True)
class Replica:
    known: tuple[Op, ...] = ()
    waiting: tuple[Op, ...] = ()
    careful: bool = False
    asked: Asked | None = None
    written: int = 0
    failed: tuple[Op, ...] = ()
    unsure: tuple[Op, ...] = ()


@dataclass(frozen=True, slots=True)
class World:
    replicas: tuple[Replica, ...]
    hub: tuple[Op, ...] = ()
    backup: tuple[Op, ...] | None = None
    restores: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a world is: operations of each replica, how many replicas have careful clients, how often the hub may be restored."""

    writes: tuple[int, ...]
    careful: int = 1
    restores: int = 1


class Model:
    """The steps that are possible in a world."""

    def __init__(self, limits: Limits, fault: str | None = None) -> None:
        assert fault is None or fault in FAULTS
        self.limits = limits
        self.fault = fault
        self._ends: dict[World, World] = {}

    def first(self) -> World:
        return World(tuple(Replica() for _ in self.limits.writes))

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        """All that may happen next: what it is called, and the world after it."""
        for at, replica in enumerate(world.replicas):
            name = "abc"[at]
            if replica.written < self.limits.writes[at]:
                yield f"{name} writes", self._write(world, at, careful=False)
                if at < self.limits.careful and not replica.waiting and replica.asked is None:
                    yield f"{name} writes carefully", self._write(world, at, careful=True)
            if (asked := replica.asked) is None:
                if replica.waiting:
                    yield f"{name} asks", self._ask(world, at)
                if (caught_up := self._catch_up(world, at)) != world:
                    yield f"{name} catches up", caught_up
                    hub_only = replace(caught_up, replicas=world.replicas)
                    if hub_only != world:
                        yield f"{name} catches up, and does not hear of it", hub_only
                continue
            if asked.place == "going":
                yield f"{name}'s request arrives", self._arrive(world, at)
            if asked.place == "coming":
                yield f"{name} hears", self._hear(world, at)
            if asked.place in ("going", "coming"):
                lost = "lost" if asked.place == "going" else "gone"
                yield f"{name} gives up", self._put(world, at, asked=replace(asked, place=lost))
            if asked.place == "lost":
                yield f"{name}'s request arrives late", self._arrive(world, at)
            if asked.place in ("lost", "gone"):
                yield f"{name} asks where it is", self._where(world, at)
        if world.backup != world.hub:
            yield "the hub is copied", replace(world, backup=world.hub)
        if world.backup is not None and world.backup != world.hub and world.restores < self.limits.restores:
            yield "the hub is restored", self._restore(world)

    # Steps of a replica

    def _put(self, world: World, at: int, **fields: object) -> World:
        replicas = list(world.replicas)
        replicas[at] = replace(replicas[at], **fields)  # type: ignore[arg-type]
        return replace(world, replicas=tuple(replicas))

    def _write(self, world: World, at: int, *, careful: bool) -> World:
        replica = world.replicas[at]
        number = replica.written + 1
        waiting = (*replica.waiting, f"{'abc'[at]}{number}")
        return self._put(world, at, waiting=waiting, written=number, careful=careful or replica.careful)

    def _ask(self, world: World, at: int) -> World:
        replica = world.replicas[at]
        return self._put(world, at, asked=Asked(replica.known, replica.waiting[0], "going", life=world.restores))

    def _settle(self, world: World, at: int, known: tuple[Op, ...]) -> World:
        """The replica has seen `known` on the hub, and has no request under way."""
        replica = world.replicas[at]
        waiting = tuple(op for op in replica.waiting if op not in known)
        if self.fault == "a replica does not know its own words" and replica.asked is None:
            waiting = replica.waiting
        careful = replica.careful and waiting[:1] == replica.waiting[:1]
        return self._put(world, at, known=known, waiting=waiting, careful=careful, asked=None)

    def _hear(self, world: World, at: int) -> World:
        """An answer: it was taken on top of the base, or another head is there (which `_catch_up` sees)."""
        asked = world.replicas[at].asked
        assert asked is not None
        if asked.taken:
            return self._settle(world, at, (*asked.base, asked.op))
        return self._fail(world, at) if world.replicas[at].careful else self._put(world, at, asked=None)

    def _where(self, world: World, at: int) -> World:
        """After a lost answer: is the operation there? If not, no earlier request may bring it any more."""
        replica = world.replicas[at]
        assert replica.asked is not None
        there = replica.asked.op in world.hub and self.fault != "a replica does not ask after a lost answer"
        if replica.careful and not there:
            if world.restores != replica.asked.life and self.fault != "a restored hub is believed":
                unsure = (*replica.unsure, replica.waiting[0])
                return self._put(world, at, waiting=replica.waiting[1:], careful=False, asked=None, unsure=unsure)
            late = self.fault == "a request is not refused after its sender gave up" and replica.asked.place == "lost"
            return self._fail(world, at, asked=replica.asked if late else None)
        return self._put(world, at, asked=None, careful=False)

    def _fail(self, world: World, at: int, asked: Asked | None = None) -> World:
        """The client hears that nothing was written."""
        first, *rest = world.replicas[at].waiting
        failed = (*world.replicas[at].failed, first)
        return self._put(world, at, waiting=tuple(rest), careful=False, failed=failed, asked=asked)

    def _catch_up(self, world: World, at: int) -> World:
        """Read what the hub has; give back what it has lost."""
        replica, hub = world.replicas[at], world.hub
        if self.fault == "the hub compares numbers only" and len(hub) == len(replica.known):
            return world
        lost = tuple(op for op in replica.known if op not in hub)
        if self.fault == "a replica forgets what the hub forgot":
            lost = ()
        if self.fault == "a replica does not give back first" and lost and replica.waiting:
            return self._settle(
                replace(world, hub=(*hub, *replica.waiting, *lost)), at, (*hub, *replica.waiting, *lost)
            )
        return self._settle(replace(world, hub=(*hub, *lost)), at, (*hub, *lost))

    # Steps of the hub

    def _arrive(self, world: World, at: int) -> World:
        asked = world.replicas[at].asked
        assert asked is not None
        gone = asked.place == "lost"
        op, hub = asked.op, world.hub
        fits = asked.base == hub
        if self.fault == "the hub does not look at the base":
            fits = True
        elif self.fault == "the hub compares numbers only":
            fits = len(asked.base) == len(hub)
        hub = (*hub, op) if fits else hub
        return self._put(
            replace(world, hub=hub), at, asked=replace(asked, place="gone" if gone else "coming", taken=fits)
        )

    def _restore(self, world: World) -> World:
        """A restored hub is a new process: no request from before arrives, and no answer."""
        assert world.backup is not None
        cut = [
            one if one.asked is None else replace(one, asked=replace(one.asked, place="gone")) for one in world.replicas
        ]
        return replace(world, replicas=tuple(cut), hub=world.backup, restores=world.restores + 1)

    # What must hold

    def wrong(self, world: World, before: World | None) -> str | None:
        """What is wrong with this world; None: nothing."""
        hub = world.hub
        if len(set(hub)) != len(hub):
            return "an operation is there twice"
        for at, replica in enumerate(world.replicas):
            own = [op for op in hub if op[0] == "abc"[at] and op not in replica.unsure]
            if own != sorted(own):
                return "the order in which somebody wrote is lost"
            if any(op in hub or any(op in one.known for one in world.replicas) for op in replica.failed):
                return "what failed is there"
        if before is not None and before.restores == world.restores and hub[: len(before.hub)] != before.hub:
            return "a number has changed"
        return None

    def settled(self, world: World) -> World:
        """Everybody reaches the hub until nothing changes."""
        passed: list[World] = []
        while (end := self._ends.get(world)) is None:
            passed.append(world)
            for at in range(len(world.replicas)):
                world = self._sync(world, at)
            if world == passed[-1]:
                end = world
                break
            if len(passed) > 100:
                raise Broken("they never agree")
        self._ends.update(dict.fromkeys(passed, end))
        return end

    def _sync(self, world: World, at: int) -> World:
        while (asked := world.replicas[at].asked) is not None:
            world = {"going": self._arrive, "coming": self._hear, "lost": self._where, "gone": self._where}[
                asked.place
            ](world, at)
        world = self._catch_up(world, at)
        if world.replicas[at].waiting:
            world = self._hear(self._arrive(self._ask(world, at), at), at)
        return world

    def wrong_in_the_end(self, world: World) -> str | None:
        end = self.settled(world)
        if reason := self.wrong(end, world):
            return reason
        for at, replica in enumerate(end.replicas):
            if replica.known != end.hub or replica.waiting:
                return "a replica and the hub differ"
            written = {f"{'abc'[at]}{number}" for number in range(1, replica.written + 1)}
            if written - {*replica.failed, *replica.unsure, *end.hub}:
                return "an acknowledged operation is gone"
        return None


def explore(model: Model) -> int:
    """Visit every state that can be reached, nearest first. Returns how many there are. Broken with the shortest way to a bad one."""
    first = model.first()
    came: dict[World, tuple[World, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        world = queue.popleft()
        if reason := model.wrong_in_the_end(world):
            raise Broken(f"{reason}, in the end, after: {_way(came, world)}")
        for what, after in model.steps(world):
            if after in came:
                continue
            came[after] = (world, what)
            if reason := model.wrong(after, world):
                raise Broken(f"{reason}, after: {_way(came, after)}")
            queue.append(after)
    return len(came)


def _way(came: dict[World, tuple[World, str] | None], world: World) -> str:
    steps: list[str] = []
    while (last := came[world]) is not None:
        world, what = last
        steps.append(what)
    return "; ".join(reversed(steps))
