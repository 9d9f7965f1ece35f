"""Decides which message of a rollout reports which tokens.

Codex reports the tokens of a request in records of their own, after the request's items, and some of them twice: as a
`token_usage_record` and as a `token_count` event. Both have the total of the thread so far; a report whose total is the last one's
says nothing new. A report goes to the last message of the assistant's, which is kept back for it until the next one comes.

A fork, and a subagent that knows its parent's history, begin with a copy of it, reports included, with the headers of all the
threads that they came from. Such a copy reports the same request: the first of these threads, the words of the user's that were
last, and the counts are the same. Ids of turns are not in all copies, and times are new. A copy may be without the answers, or
with the last one of each turn only: a report of which nothing was answered is then the parent's, whose file has the answer, too.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

import msgspec

from sessiond.importers import usage
from sessiond.importers.codex_records import kind_of, spoken
from sessiond.importers.draft import SessionDraft, digest
from sessiond.importers.overlay import Table
from sessiond.importers.record import Event, MessageRecord
from sessiond.importers.source_file import mapped, word
from sessiond.model.token_usage import KEY, TokenUsage, token_usage_of
from sessiond.model.values import JsonObject


class UsageReports:
    """Put events through `pass_on` and reports into `take`, in the file's order; then ask for the `rest`. `draft`: the session,
    once it has begun.
    """

    def __init__(self) -> None:
        self.draft: SessionDraft | None = None
        self._kept_back: list[Event] = []
        """The last message of the assistant's, and what came after it."""
        self._waiting: TokenUsage | None = None
        """Reported before any message."""
        self._total: TokenUsage | None = None
        self._threads: list[str] = []
        """The session's own, and those that it came from."""
        self._asked = ""
        self._answered = False
        """Whether a model has made anything since the last report."""
        self._requests: MutableMapping[str, int] = Table()

    def header(self, meta: JsonObject) -> None:
        """A `session_meta`. The first is the session's own; a copied history brings those of the threads before."""
        for name in (word(meta.get("id")), word(meta.get("forked_from_id"))):
            if name and name not in self._threads:
                self._threads.append(name)

    def asked(self, text: str) -> None:
        """The user's words, as an item or an event."""
        self._asked = text.strip()

    def take(self, record: JsonObject, model: object) -> None:
        """A `token_usage_record`, or an event `token_count`; anything else is ignored."""
        payload = mapped(record.get("payload"))
        if record.get("type") != "token_usage_record" and payload.get("type") != "token_count":
            self._answered = self._answered or _is_made(record)
            return
        info = mapped(payload.get("info"))
        total = _counts(payload.get("thread_token_usage") or info.get("total_token_usage"))
        if total is None or total == self._total:
            return
        before, self._total = self._total, total
        answered, self._answered = self._answered, False
        last = _counts(payload.get("usage") or info.get("last_token_usage"))
        found = last or (total if before is None or total.total < before.total else _sum(total, before, -1))
        # Ids of responses of a local model may begin again in each thread.
        response = word(payload.get("response_id"))
        request = f"{word(payload.get('thread_id'))}:{response}" if response else self._request(total, found)
        found = msgspec.structs.replace(found, model=word(model) or None, request=request)
        if not answered and len(self._threads) > 1:
            return
        self._waiting = found if self._waiting is None else _sum(self._waiting, found)
        if self._kept_back:
            self._settle()

    def _request(self, total: TokenUsage, found: TokenUsage) -> str | None:
        if not self._threads:
            return None
        counts = msgspec.json.encode((total, found)).decode()
        request = f"{self._threads[-1]}:{digest(f'{counts} {self._asked}')}"
        times = self._requests[request] = self._requests.get(request, 0) + 1
        return request if times == 1 else f"{request}:{times}"  # a thread that begins again may count the same

    def pass_on(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            if isinstance(event, MessageRecord) and event.message["role"] == "assistant":
                yield from self.rest()
                self._kept_back = [event]
                self._settle()
            elif self._kept_back:
                self._kept_back.append(event)
            else:
                yield event

    def rest(self) -> Iterator[Event]:
        kept_back, self._kept_back = self._kept_back, []
        yield from kept_back

    def _settle(self) -> None:
        """Give the message what was reported."""
        message = self._kept_back[0]
        if self._waiting is not None and isinstance(message, MessageRecord):
            assert self.draft is not None, "a message has a session"
            earlier = token_usage_of(message.message.get("metadata"))
            found = self._waiting if earlier is None else _sum(earlier, self._waiting)
            self._kept_back[0] = self.draft.with_metadata(message, {KEY: found.wire()})
            self._waiting = None


def _is_made(record: JsonObject) -> bool:
    """Return whether a model made a record: an answer, a thought, a call, or the summary of a compaction. Not what went to a model."""
    kind, payload = kind_of(record)
    item = str(payload.get("type"))
    if kind == "event_msg":
        return spoken(payload)[0] in ("agent_message", "agent_reasoning")
    if kind == "response_item":
        return payload.get("role") == "assistant" if item == "message" else not item.endswith(("_output", "_snapshot"))
    return kind == "compacted"


def _counts(given: object) -> TokenUsage | None:
    return token_usage_of(usage.openai(given))


def _sum(one: TokenUsage, other: TokenUsage, sign: int = 1) -> TokenUsage:
    """Two requests that the same message reports; with -1, what one has more than the other."""
    requests = [name for name in (one.request, other.request) if name]
    return msgspec.structs.replace(
        one,
        input=max(one.input + sign * other.input, 0),
        cache_read=max(one.cache_read + sign * other.cache_read, 0),
        cache_write=max(one.cache_write + sign * other.cache_write, 0),
        output=max(one.output + sign * other.output, 0),
        reasoning=max(one.reasoning + sign * other.reasoning, 0),
        model=other.model or one.model,
        request="+".join(requests) or None,
    )
