"""A session that some window has open: what windows know of it, and the actions that keep them up to date.

                     load                     changed, a timer
    messages here ──────────> `now`, a snapshot ──────────> actions, and `now` again

What every window of this session knows is `now`. A change of the session leads to new messages, these to a new conversation, and
the difference of the two to actions; so a window that has taken all actions has what a snapshot would give it.

Whether the last turn goes on is not in the messages. It does as long as text streams in, or a program says that it works or
waits; for a moment after an answer, because most agents say something and then call a tool; and for ten minutes while an answer
is due, unless nobody is there who would give one (`unanswered`). When a message comes for a turn that has ended, a new one begins
with it (`splits`), because windows ignore what comes for an ended turn.

A window that comes back had some earlier state. The newest ones are kept (`_past`); older ones, and those from before a restart,
are made from the messages and a mark (`_as_of`). Splits and ends are in the marks, so that the turns are the ones that windows know.

What a window changes comes back as what was heard of it, with the window as its origin (`Confirmation`): by that it knows that
the change is durable.
"""

from __future__ import annotations

import asyncio
import logging
import operator
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from sessiond.agent_host import shapes, told, turns
from sessiond.agent_host.actions import changes
from sessiond.agent_host.applying import applied, unfinished
from sessiond.agent_host.asking import Asking
from sessiond.agent_host.confirmations import Confirmations
from sessiond.agent_host.known import KnownState, Reached, in_the_middle
from sessiond.agent_host.numbers import Numbers, ShownState, checksum
from sessiond.agent_host.outbox import Recipient
from sessiond.agent_host.refusals import Cut, Refusals
from sessiond.agent_host.shapes import Action, State, Turn
from sessiond.agent_host.summaries import draft, summary, with_activity
from sessiond.agent_host.turns import Conversation
from sessiond.errors import SessiondError, SessionNotFound
from sessiond.model.message import Message
from sessiond.model.values import Json, epoch_ms, timestamp
from sessiond.ready import ready
from sessiond.schema.sessions import OpenResult
from sessiond.schema.types import Activity, SessionInfo

ready(SessionInfo)
log = logging.getLogger(__name__)
_PAST = 200
"""States that are kept for windows that come back."""
SETTLE_S = 1.5
"""How long a turn goes on after an answer that may be the last one."""
ANSWER_S = 600.0
"""How long a turn goes on while an answer is due."""
WORKED_S = 10.0
"""The same once a program has stopped working without an answer. What its tool wrote may arrive a moment later."""
_FOREVER = float("inf")
_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0


class HostedSessions(Protocol):
    """The part of its host that a hosted session needs."""

    async def opened(self, hosted: Hosted, *, last: int) -> OpenResult:
        """Open the session as `session/open` does, for the hosted session itself, which then hears of changes. SessiondError."""

    def say(
        self,
        hosted: Hosted,
        channel: str,
        actions: Sequence[Action],
        split: str | None = None,
        unanswered: str | None = None,
        asked: str | None = None,
        marked: bool = True,
    ) -> None:
        """Number the actions, and send them to the windows that have the channel. `marked`: whether they lead to another state."""

    def activity(self, hosted: Hosted) -> Activity | None:
        """Return what programs say of the session. That a message streams in is not said by any."""

    def status_changed(self, hosted: Hosted) -> None: ...

    def was_answered(self, question_id: str) -> bool:
        """Return whether a question ended lately because somebody answered it."""

    def gone(self, hosted: Hosted) -> None: ...

    def now_ms(self) -> int: ...


class Hosted:
    """A `Peer` of the service: it hears of changes as a client does that has the session open."""

    client = "agent host"

    def __init__(self, host: HostedSessions, numbers: Numbers, wire_id: str, peer_id: int) -> None:
        self._host = host
        self._numbers = numbers
        self.id = peer_id
        self.wire_id = wire_id
        self.key = wire_id
        """The session's, in marks: a deleted one's id may come again."""
        self.channels: dict[str, set[Recipient]] = {shapes.session_uri(wire_id): set(), shapes.chat_uri(wire_id): set()}
        self.seq = 0
        self.now = Conversation()
        self.summary: shapes.SessionSummary
        self._messages: list[Message] = []
        """Never changed in place."""
        self._first = ""
        """Id of the first one that windows have."""
        self._earlier: tuple[shapes.Turn, ...] = ()
        """Says that turns before those shown are not shown."""
        self._splits: set[str] = set()
        self._unanswered: set[str] = set()
        self._unmarked: set[str] = set()
        """Of those, whose turns have not ended."""
        self._refusals = Refusals()
        self._activity: Activity | None = None
        self.asking = Asking(host.was_answered)
        self.confirmations = Confirmations()
        self._turns: dict[str, tuple[list[Message], Turn]] = {}
        """First message of an ended turn -> its messages, and the turn."""
        self._memo = turns.Memo()
        """Of the turn that goes on."""
        self._past: deque[Reached] = deque(maxlen=_PAST)
        self._changed_at = 0.0
        """When something was said the last time, by the loop's clock."""
        self._worked_at = ""
        """The last message when a program said that it had stopped working."""
        self._timer: asyncio.TimerHandle | None = None
        self._loading: asyncio.Task[None] | None = None
        self._held: list[tuple[str, bytes]] | None = []
        """What is heard while the session is read; None at other times."""
        self.used_at = 0.0
        """When somebody asked for it the last time, by the loop's clock."""
        self.closed = False
        self.is_draft = False
        self.beginning = asyncio.Lock()
        """Held while a draft becomes a session."""
        self.folder: str | None = None
        """Of a draft."""

    @property
    def ended(self) -> bool:
        return self.now.active is None

    @property
    def status(self) -> int:
        """The status as in the list: what the last turn does, and the flags."""
        return self.summary.status & ~shapes.ACTIVITY | self.chat_status & shapes.ACTIVITY

    @property
    def chat_status(self) -> int:
        return shapes.chat_status(self.now.turns, self.now.active, self.summary.status)

    @property
    def attended(self) -> bool:
        return any(self.channels.values())

    def state(self, channel: str, *, writes: bool) -> State:
        """`writes`: whether the window may."""
        chat = shapes.chat_summary(self.summary, self.wire_id, self.chat_status, writes=writes)
        if shapes.is_chat(channel):
            shown = self.now.turns
            if len(shown) > 2 * turns.MOST_TURNS:  # it has grown since it was loaded
                shown = (turns.earlier(self.wire_id, self.summary.created_at), *shown[-turns.MOST_TURNS :])
            return shapes.chat_state(chat, shown, self.asking.in_turn(self.now.active), self.now.queued)
        return shapes.session_state(self.summary, self.chat_status, chat)

    # Loading

    async def load(self) -> None:
        """SessiondError."""
        await self._read()
        mark = self._numbers.newest(self.key)
        split = None if mark is None else self._split_since(mark.shown.seq, ended=mark.shown.ended)
        self.now = self._conversation()
        self._host.say(self, shapes.chat_uri(self.wire_id), [], split)
        self._ask()
        self._release()

    def draft(self, cwd: str | None) -> None:
        """Instead of `load`: it is not a session before something is said in it."""
        now = timestamp(self._host.now_ms())
        self.is_draft, self.folder, self._held = True, cwd, None
        self.summary = draft(self.wire_id, cwd, now)

    def close(self) -> None:
        self.closed = True
        for pending in (self._timer, self._loading):
            if pending is not None:
                pending.cancel()
        self.confirmations.close(SessionNotFound(f"{self.wire_id!r} is closed"))

    async def _read(self) -> None:
        result = await self._host.opened(self, last=turns.MOST_MESSAGES)
        if result.session.session_id != self.wire_id:  # spelled in another way, it would have a second channel
            raise SessionNotFound(f"{self.wire_id!r} is {result.session.session_id!r}")
        draft, self.key = self.key, f"{self.wire_id} {result.session.created_at}"
        if draft == self.wire_id:
            self._numbers.rename(draft, self.key)
        self._splits |= self._numbers.splits(self.key)
        self._unanswered |= self._numbers.unanswered(self.key)
        self._changed_at = asyncio.get_running_loop().time() - self._age_s(result.session.updated_at)
        self._activity = self._host.activity(self)
        self.asking.hear(self._activity)
        self.summary = with_activity(summary(result.session), self._activity)
        self.seq = result.session.seq
        self._messages = [Message.from_wire(one) for one in result.messages]
        if self._first and self._begin_as_before():
            return
        groups = turns.grouped(self._messages, self._splits)
        shown = turns.newest(groups[1:] if result.has_more and len(groups) > 1 else groups)
        left_out = next((at for at, one in enumerate(self._messages) if shown and one is shown[0][0]), 0)
        self._messages = self._messages[left_out:]
        whole = not left_out and not result.has_more
        before = result.session.message_count - len(self._messages)
        self._earlier = () if whole else (turns.earlier(self.wire_id, result.session.created_at, before),)
        self._first = self._messages[0].id if self._messages else ""

    def _begin_as_before(self) -> bool:
        """Leave out what windows do not have anyway."""
        first = self._first
        at = next((at for at, message in enumerate(self._messages) if message.id == first), None)
        if at is None:
            return False
        self._messages = self._messages[at:]
        return True

    def _age_s(self, updated_at: str) -> float:
        try:
            return (self._host.now_ms() - epoch_ms(updated_at)) / 1000
        except ValueError:
            return ANSWER_S

    def _split_since(self, seq: int, *, ended: bool) -> str | None:
        """If the last turn had ended for windows, the first message since begins one: it is a split now. Without one it stays ended."""
        new = next((message for message in self._messages if message.seq > seq), None)
        if ended and new is None:
            self._changed_at = -_FOREVER
        if not ended or new is None or turns.begins(new, self._splits) or self._messages[0].seq > seq:
            return None
        self._splits.add(new.id)
        return new.id

    # Changes

    def notify(self, method: str, params: bytes) -> bool:
        """The service goes on; what windows want is done later."""
        if not self.closed:
            asyncio.get_running_loop().call_soon(self._hear, method, params)
        return True

    def notify_owed(self, method: str, params: bytes) -> None:
        self.notify(method, params)

    def _hear(self, method: str, params: bytes) -> None:
        if self.closed:
            return
        if self._held is not None:
            self._held.append((method, params))
        elif method == "session/deleted":
            self._host.gone(self)
        elif method in ("session/reloaded", "session/resync"):
            self._load_again()
        elif method in ("session/changed", "session/activityChanged"):
            try:
                if method == "session/activityChanged":
                    self._goes_on(told.activity_changed(params).activity)
                elif (change := told.changed(params)).seq > self.seq:
                    self._change(change)
            except Exception:  # a bug of ours must not cost windows what comes later
                log.exception("a change of %s could not be shown", self.wire_id)
                self._load_again()

    def _release(self) -> None:
        held, self._held = self._held or [], None
        for at, (method, params) in enumerate(held):
            if self._held is not None:  # it is read once more
                self._held += held[at:]
                return
            self._hear(method, params)

    def _load_again(self) -> None:
        self._held = []
        self._loading = asyncio.create_task(self._reload(), name="agent host")

    async def _reload(self) -> None:
        before, seq, ended = self.summary, self.seq, self.ended
        pause = _RETRY_S
        while True:
            self._held = []
            try:
                await self._read()
                self._renamed(before)
                self._settle(self._split_since(seq, ended=ended))
                break
            except SessionNotFound:
                self._host.gone(self)
                return
            except SessiondError as error:
                log.warning("%s could not be read for a window: %s", self.wire_id, error)
            except Exception:
                log.exception("%s could not be read for a window", self.wire_id)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_RETRY_S)
        self._loading = None
        self._release()

    def _change(self, news: told.Told) -> None:
        split, begun = None, False
        before = self.summary
        for change in news.changes:
            if change["kind"] == "updated":
                info = msgspec.convert(change["session"], SessionInfo)
                self.summary = with_activity(summary(info), self._activity)
            elif change["kind"] == "appended" and not begun:
                split, begun = self._split(change["messages"]), True
            self._messages = applied(self._messages, change)
        self.seq = news.seq
        kinds = {change["kind"] for change in news.changes}
        if kinds & {"appended", "extended", "finished"}:
            self._changed_at = asyncio.get_running_loop().time()
        elif kinds & {"truncated", "cleared"}:
            self._changed_at = -_FOREVER  # what remains had ended
        self._renamed(before)
        self._settle(split)

    def _goes_on(self, activity: Activity | None) -> None:
        """Take note of what a program that works in the session says."""
        was = self.status
        if activity is None and self._activity is not None and self._messages and self._changed_at != -_FOREVER:
            self._worked_at = self._messages[-1].id
            self._changed_at = asyncio.get_running_loop().time()
        self._activity, self.summary = activity, with_activity(self.summary, activity)
        self.asking.hear(activity)
        self._host.say(self, shapes.session_uri(self.wire_id), [shapes.activity_changed(self.summary.activity)])
        self._settle(was=was)

    def _split(self, wires: Sequence[Mapping[str, Json]]) -> str | None:
        """The message that has to begin a turn, because the last one has ended."""
        if not (self.ended and self.now.turns and wires):
            return None
        first = Message.from_wire(wires[0])
        if turns.begins(first, self._splits):
            return None
        self._splits.add(first.id)
        return first.id

    def _renamed(self, before: shapes.SessionSummary) -> None:
        found: list[Action] = []
        if (title := self.summary.title) != before.title:
            found += [shapes.title_changed(title), shapes.chat_changed(self.wire_id, title=title)]
        if (self.summary.status ^ before.status) & shapes.ARCHIVED:
            found.append(shapes.archived_changed(bool(self.summary.status & shapes.ARCHIVED)))
        if found:
            self._host.say(self, shapes.session_uri(self.wire_id), found)

    def _settle(self, split: str | None = None, was: int | None = None) -> None:
        """Bring windows up to date, and look again when the last turn may have ended. `was`: the status that they know."""
        before, was, chat = self.now, self.status if was is None else was, shapes.chat_uri(self.wire_id)
        after = self._conversation()
        if closing := self.asking.closing(after.active):
            self._host.say(self, chat, closing, marked=False)
        self.now = after
        actions = changes(before, after)
        unanswered = self._newly_unanswered()
        if actions or split is not None:
            self._host.say(self, chat, actions, split, unanswered)
        self._ask()
        self._tell_status(was)
        self.confirmations.told(self.seq)

    def _ask(self) -> None:
        if asked := self.asking.opening(self.now.active):
            self._host.say(self, shapes.chat_uri(self.wire_id), asked, asked=self.asking.shown)

    def _tell_status(self, was: int) -> None:
        if self.status != was:
            changed = shapes.chat_changed(self.wire_id, status=self.chat_status)
            self._host.say(self, shapes.session_uri(self.wire_id), [changed])
            self._host.status_changed(self)

    def _newly_unanswered(self) -> str | None:
        """Return the id of a turn that has ended now because nobody answers."""
        shown = (turn.id for turn in reversed(self.now.turns)) if self._unmarked else iter(())
        found = next((one for one in shown if one in self._unmarked), None)
        self._unmarked.discard(found or "")
        return found

    def _conversation(self) -> Conversation:
        groups = turns.grouped(self._messages, self._splits)
        left = self._left_s(groups[-1]) if groups else 0.0
        if len(self._turns) > 2 * len(groups) + turns.MOST_TURNS:
            self._turns.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if 0 < left < _FOREVER:
            self._timer = asyncio.get_running_loop().call_later(left, self._settle)
        return self._of(groups, self._messages, self._refusals, goes_on=left > 0)

    def _of(
        self,
        groups: Sequence[list[Message]],
        messages: Sequence[Message],
        refusals: Refusals,
        *,
        goes_on: bool,
    ) -> Conversation:
        """Only what is new is made: a session that grows by a word has the same turns before it."""
        active = turns.active(groups[-1], self._memo) if goes_on and groups else None
        shown = [*self._earlier, *refusals.after("")]
        for group in groups if active is None else groups[:-1]:
            shown.append(self._ended(group))
            shown += refusals.after(group[0].id)
        return Conversation(tuple(shown), active, turns.waiting(messages, groups))

    def _ended(self, group: list[Message]) -> Turn:
        known = self._turns.get(group[0].id)
        if known is not None and len(known[0]) == len(group) and all(map(operator.is_, known[0], group)):
            return known[1]
        alone = len(group) == 1 and group[0].id in self._unanswered
        made = turns.ended(group, turns.nobody(self.wire_id) if alone else None)
        self._memo.forget()
        self._turns[group[0].id] = (group, made)
        return made

    def _left_s(self, last: Sequence[Message]) -> float:
        """Return how many seconds the last turn goes on, unless something comes."""
        if turns.is_streamed(last):
            return _FOREVER
        if len(last) == 1 and last[0].id in self._unanswered:
            return 0.0
        if self._activity is not None and self._changed_at != -_FOREVER and not self._has_ended(last[0].id):
            return _FOREVER
        most = SETTLE_S if turns.is_answer(last) else WORKED_S if last[-1].id == self._worked_at else ANSWER_S
        return self._changed_at + most - asyncio.get_running_loop().time()

    def _has_ended(self, turn_id: str) -> bool:
        """For windows, which would not see it go on again."""
        return self.now.active is None and any(turn.id == turn_id for turn in reversed(self.now.turns))

    # What windows change

    async def reached(self, seq: int) -> None:
        """Returns when windows have been told of changes up to this seq. SessionNotFound, TimeoutError."""
        if self.seq < seq or self._held is not None:
            await self.confirmations.reached(seq)

    def is_past(self, message_id: str) -> bool:
        """Return whether something came after this message."""
        return any(message.id == message_id for message in self._messages[:-1])

    async def born(self) -> None:
        """It is a session now. SessionNotFound, TimeoutError."""
        if self.closed:
            raise SessionNotFound(f"{self.wire_id!r} is closed")
        if self.is_draft:
            self.is_draft = False
            self._load_again()
        await self.confirmations.reached(1)

    def nobody_answers(self, message_id: str) -> None:
        """Say so in the turn of this question, and end it; if it is queued, when its turn begins. One that has ended stays as it is."""
        if not any(turn.id == message_id for turn in self.now.turns):
            self._unanswered.add(message_id)
            self._unmarked.add(message_id)
            self._settle()

    def answered(self, question_id: str, answers: Json) -> None:
        """A window's answer to what is asked was the first one."""
        self.asking.answered(question_id, answers)
        self._settle()

    def stop(self) -> bool:
        """No answer is due any more. Returns whether the last turn has ended."""
        self._changed_at = -_FOREVER
        self._settle()
        return self.ended

    def refuse(self, turn_id: str, text: str, trouble: str) -> None:
        """Show what could not be kept, and why, when the last turn has ended; after an answer, that is now."""
        groups = turns.grouped(self._messages, self._splits)
        made = turns.refused(turn_id, text, timestamp(self._host.now_ms()), trouble)
        self._refusals.add(groups[-1][0].id if groups else "", made, {message.id for message in self._messages})
        if groups and turns.is_answer(groups[-1]):
            self.stop()
        else:
            self._settle()

    def cut(self, turn_id: str | None) -> Cut | None:
        """Return what remains once every turn after this one is gone; None if the turn is unknown."""
        groups = turns.grouped(self._messages, self._splits)
        first = self._messages[0].seq if self._messages else self.seq + 1
        return self._refusals.cut(groups, None if turn_id in self.earlier_ids else turn_id, first)

    def was_cut(self, cut: Cut) -> None:
        self._refusals.keep(cut)
        self._settle()

    @property
    def earlier_ids(self) -> list[str]:
        """The ids of turns that stand for those that are not shown."""
        return [turn.id for turn in self._earlier]

    # What windows knew

    def said(self, first: int, number: int) -> None:
        """The actions to `now` have these numbers."""
        self._past.append(Reached(first, number, self.now))

    def known_by(self, number: int) -> KnownState | None:
        """Return what a window that saw all numbers up to this one knows; None if that is not known here any more."""
        known = self._known_by(number)
        return None if known is None else known._replace(asked=self._numbers.asked(self.key, number))

    def _known_by(self, number: int) -> KnownState | None:
        past = list(self._past)
        if past and past[0].number <= number:
            base = [state for state in past if state.number <= number][-1].conversation
            later = next((state for state in past if state.number > number), None)
        else:
            mark, next_mark = self._numbers.at(self.key, number)
            found = None if mark is None else self._as_of(mark.shown)
            if found is None:
                return None
            base, later = found, None
            if next_mark is not None and next_mark.first <= number:
                reached = self._as_of(next_mark.shown)
                if reached is None:
                    return None
                later = Reached(next_mark.first, next_mark.number, reached)
        return (
            KnownState(base, (), None) if later is None or number < later.first else in_the_middle(base, later, number)
        )

    def since(self, known: KnownState) -> list[Action]:
        """The actions from there to now."""
        first, last = self.asking.missed(known.asked, known.base.active)
        missed = changes(known.base if known.reached is None else known.reached, self.now)
        return [*first, *known.first, *missed, *last]

    def shown(self) -> ShownState:
        """Return what will be known of `now` later."""
        streamed = next((one for one in self._messages if one.status == "streaming"), None)
        return ShownState(
            seq=self.seq,
            last=checksum(self._messages[-1].id) if self._messages else 0,
            ended=self.ended,
            streamed=0 if streamed is None else checksum(streamed.id),
            chars=0 if streamed is None else len(streamed.content),
        )

    def _as_of(self, shown: ShownState) -> Conversation | None:
        """That state again; None if the session is not what it was by then, or if it is not all here."""
        before = [message for message in self._messages if message.seq <= shown.seq]
        if (checksum(before[-1].id) if before else 0) != shown.last or (self._earlier and not before):
            return None
        if shown.streamed:
            at = next((at for at, one in enumerate(before) if checksum(one.id) == shown.streamed), None)
            if at is None:
                return None
            before[at] = unfinished(before[at], shown.chars)
        return self._of(turns.grouped(before, self._splits), before, Refusals(), goes_on=not shown.ended)
