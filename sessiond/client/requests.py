"""Every request that the client sends: its params, what its result becomes, and whether it may be sent twice. No I/O."""

from __future__ import annotations

import binascii
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sessiond.client import daemon_types as d
from sessiond.client import types as t
from sessiond.client.failures import error_of
from sessiond.client.wire import Incoming
from sessiond.errors import AlreadyExists, DaemonUnreachable, SessiondError, SessionNotFound

if TYPE_CHECKING:
    from sessiond.client.usage import UsageReport

T = TypeVar("T")
OnProgress = Callable[[t.Progress], object]
_ANY = cast("type[Any]", Any)
PAGE_MESSAGES = 1000
OPENED_MESSAGES = 200


class Answer(Generic[T]):
    """A result, as a typed `value` and as the `plain` values that the daemon sent, with members that this client does not know."""

    __slots__ = ("_raw", "_request")

    def __init__(self, request: Request[T], raw: Raw) -> None:
        self._request = request
        self._raw = raw

    @property
    def value(self) -> T:
        """DaemonUnreachable if the result has a shape that protocol 1 does not have."""
        return self._request.result(self._raw)

    @property
    def plain(self) -> Any:
        return plain(self._raw)


class Request(Generic[T]):
    """`type_`: of the result; a struct that several threads decode to is named in its module's `ready`. `again`: sending it twice
    does the same as sending it once, so it may be sent over the next connection. `on_progress` is called with what the daemon
    says meanwhile. `stops`: the daemon is told if nobody waits for the response any more, as always if there is progress.
    """

    __slots__ = ("_done_before", "_type", "again", "method", "on_progress", "params", "stops")

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any],
        type_: type[T],
        *,
        again: bool = True,
        done_before: Callable[[SessiondError], Any] | None = None,
        on_progress: OnProgress | None = None,
        stops: bool = False,
    ) -> None:
        self.stops = stops or on_progress is not None
        self.method = method
        self.params = params if on_progress is None else {**params, "workDoneToken": new_id("p")}
        self.again = again
        self.on_progress = on_progress
        self._type = type_
        self._done_before = done_before

    def result(self, raw: Raw) -> T:
        """DaemonUnreachable if the result has a shape that protocol 1 does not have."""
        try:
            return msgspec.json.decode(raw, type=self._type)
        except msgspec.MsgspecError as error:
            raise strange(f"response to {self.method}", error) from None

    def answer(self, incoming: Incoming, *, resent: bool = False) -> Answer[T]:
        """Return what a response says. Raise the error that it has, unless that means that the request was done when it was sent
        the first time.
        """
        if incoming.error is None:
            return Answer(self, incoming.result)
        raised = error_of(incoming.error)
        before = self._done_before(raised) if resent and self._done_before is not None else None
        if before is None:
            raise raised
        return Answer(self, Raw(msgspec.json.encode(before)))

    def hears(self, incoming: Incoming) -> None:
        """Give a notification to `on_progress` if it is about this request."""
        if self.on_progress is None or incoming.method != "$/progress":
            return
        try:
            told = msgspec.json.decode(incoming.params, type=t.ProgressNotice)
        except msgspec.MsgspecError as error:
            raise strange("word of progress", error) from None
        if told.token == self.params["workDoneToken"]:
            self.on_progress(told.value)


def strange(what: str, error: msgspec.MsgspecError) -> DaemonUnreachable:
    """Return the error to raise where something of the daemon's has a shape that this client cannot read."""
    return DaemonUnreachable(
        f"the daemon's {what} has another shape than in protocol 1: {error}",
        hint="`sessiond status` shows which version runs",
    )


def read_notice(raw: Raw) -> t.Notice:
    """The params of a `session/*` notification."""
    return msgspec.json.decode(raw, type=t.Notice)


def plain(raw: Raw) -> Any:
    """A result as plain Python values."""
    return msgspec.json.decode(raw)


def _given(**params: Any) -> dict[str, Any]:
    """Without what is None: a daemon that does not know a field then never sees it."""
    return {name: value for name, value in params.items() if value is not None}


def new_id(prefix: str) -> str:
    """An id that nobody else makes."""
    return prefix + binascii.hexlify(os.urandom(8)).decode()


def new_session_id() -> str:
    """Return an id such as `session-20260111-143022-5f3a9c1b`: the time in UTC, and what keeps two of the same second apart."""
    return time.strftime("session-%Y%m%d-%H%M%S-", time.gmtime()) + binascii.hexlify(os.urandom(4)).decode()


def wire_parent(parent: t.Parent | None) -> dict[str, Any] | None:
    """A parent as `session/new` takes it."""
    return None if parent is None else {"sessionId": parent.session_id, "seq": parent.seq}


def new(
    session_id: str | None, messages: Iterable[t.NewMessage], *, store: str | None, **fields: Any
) -> Request[t.SessionResult]:
    """Nobody else makes the id that is made here: where it is taken when the request is sent again, the first one took it."""
    made = new_session_id() if session_id is None else session_id

    def taken(error: SessiondError) -> t.SessionResult | None:
        if session_id is not None or not isinstance(error, AlreadyExists):
            return None
        return t.SessionResult(session=t.SessionInfo(session_id=f"{store}/{made}" if store else made))

    params = _given(sessionId=made, store=store, messages=[with_id(one) for one in messages] or None, **fields)
    return Request("session/new", params, t.SessionResult, done_before=taken)


def with_id(message: t.NewMessage) -> t.NewMessage:
    return msgspec.structs.replace(message, id=new_id("m")) if message.id is None else message


def append(
    session_id: str, messages: Iterable[t.NewMessage], expected_seq: int | None = None
) -> Request[t.AppendResult]:
    """All messages get an id here, so that a repetition is known as one."""
    sent = [with_id(one) for one in messages]
    return Request(
        "session/append", _given(sessionId=session_id, messages=sent, expectedSeq=expected_seq), t.AppendResult
    )


def finish(
    session_id: str, message_id: str, status: str, metadata: Mapping[str, Any] | None, tool_calls: Iterable[t.ToolCall]
) -> Request[t.SeqResult]:
    params = _given(
        sessionId=session_id,
        messageId=message_id,
        status=status,
        metadata=metadata,
        toolCalls=list(tool_calls) or None,
    )
    return Request("session/finish", params, t.SeqResult)


def read(
    session_id: str,
    *,
    last: int | None = None,
    since: int | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> Request[t.Page]:
    params = _given(sessionId=session_id, last=last, since=since, before=before, limit=limit)
    return Request("session/read", params, t.Page)


def open_(params: Mapping[str, Any]) -> Request[t.Opened]:
    return Request("session/open", params, t.Opened)


def close(session_id: str) -> Request[Any]:
    return Request("session/close", {"sessionId": session_id}, _ANY)


def update(session_id: str, fields: Mapping[str, Any], expected_seq: int | None = None) -> Request[t.SessionResult]:
    """Fields that are UNSET stay as they are; without any the session is only told."""
    params = {name: value for name, value in fields.items() if value is not UNSET}
    params |= _given(sessionId=session_id, expectedSeq=expected_seq)
    return Request("session/update", params, t.SessionResult, again=expected_seq is None)


Field = str | None | UnsetType
"""A field to change: a new value, None to empty it, UNSET to leave it."""


def clear(session_id: str) -> Request[t.SessionResult]:
    return Request("session/clear", {"sessionId": session_id}, t.SessionResult, again=False)


def truncate(session_id: str, after_seq: int, expected_seq: int | None = None) -> Request[t.SessionResult]:
    params = _given(sessionId=session_id, afterSeq=after_seq, expectedSeq=expected_seq)
    return Request("session/truncate", params, t.SessionResult, again=False)


def fork(session_id: str, at_seq: int | None, name: str | None) -> Request[t.SessionResult]:
    return Request("session/fork", _given(sessionId=session_id, atSeq=at_seq, name=name), t.SessionResult, again=False)


def delete(session_id: str, *, permanent: bool) -> Request[Any]:
    """A session that is not there when the request is sent again was deleted by the first one."""

    def gone(error: SessiondError) -> dict[str, Any] | None:
        return {} if isinstance(error, SessionNotFound) else None

    params = {"sessionId": session_id, "permanent": permanent}
    return Request("session/delete", params, _ANY, done_before=gone)


def restore(session_id: str) -> Request[t.SessionResult]:
    return Request("session/restore", {"sessionId": session_id}, t.SessionResult, again=False)


def save(session_id: str | None) -> Request[t.SaveResult]:
    return Request("session/save", _given(sessionId=session_id), t.SaveResult)


def move(session_id: str, store: str, *, dry_run: bool = False) -> Request[t.Moved]:
    params = _given(sessionId=session_id, store=store, dryRun=dry_run or None)
    return Request("session/move", params, t.Moved, again=dry_run)


def list_(cursor: str | None, limit: int | None, sort: str | None, filter: Mapping[str, Any]) -> Request[t.ListPage]:
    params = _given(cursor=cursor, limit=limit, sort=sort, filter=_filter(filter))
    return Request("session/list", params, t.ListPage)


def list_changed(cursor: str | None, limit: int | None) -> Request[t.ChangedPage]:
    return Request("session/listChanged", _given(cursor=cursor, limit=limit), t.ChangedPage)


def search(
    query: str, cursor: str | None, limit: int | None, mode: str | None, filter: Mapping[str, Any]
) -> Request[t.HitPage]:
    params = _given(query=query, cursor=cursor, limit=limit, mode=mode, filter=_filter(filter))
    return Request("session/search", params, t.HitPage)


def usage(
    by: str,
    *,
    since: str | None,
    until: str | None,
    tool: str | None,
    time_zone: str | None,
    limit: int | None,
    filter: Mapping[str, Any],
) -> Request[UsageReport]:
    from sessiond.client.usage import UsageReport  # few ask for it

    params = _given(by=by, since=since, until=until, tool=tool, timeZone=time_zone, limit=limit, filter=_filter(filter))
    return Request("session/usage", params, UsageReport)


def _filter(given: Mapping[str, Any]) -> dict[str, Any] | None:
    found = _given(**given)
    if "session_id" in found:
        found["sessionId"] = found.pop("session_id")
    return found or None


def export(session_id: str, format: str, path: str | None, *, overwrite: bool) -> Request[t.Exported]:
    params = _given(sessionId=session_id, format=format, path=path, overwrite=overwrite or None)
    return Request("session/export", params, t.Exported, again=path is None or overwrite)


def import_(
    path: str,
    *,
    format: str | None,
    store: str | None,
    since: str | None,
    dry_run: bool,
    report: bool = False,
    on_progress: OnProgress | None = None,
) -> Request[t.Imported]:
    params = _given(path=path, format=format, store=store, since=since, dryRun=dry_run or None, report=report or None)
    return Request("session/import", params, t.Imported, on_progress=on_progress)


def backup(path: str, *, on_progress: OnProgress | None = None) -> Request[d.BackedUp]:
    """Not sent again: a copy that is there cannot be told from somebody else's."""
    return Request("daemon/backup", {"path": path}, d.BackedUp, again=False, on_progress=on_progress)


def follow_places(
    places: Iterable[tuple[str, str | None]], *, store: str | None = None, since: str | None = None
) -> Request[Any]:
    """`places`: each a path, and whose files are there (None: it is found out)."""
    named = [_given(path=path, format=fmt) for path, fmt in places]
    return Request("session/follow", _given(places=named, store=store, since=since), _ANY)


def follow(
    tools: Sequence[str] | None = None, *, add: Sequence[str] | None = None, remove: Sequence[str] | None = None
) -> Request[d.Followed]:
    """Follow exactly `tools`, or change those that are followed. Without arguments: only report."""
    return Request("daemon/follow", _given(tools=tools, add=add, remove=remove), d.Followed)


def adopt(path: str, *, name: str | None, format: str | None) -> Request[d.Adopted]:
    """A folder that is a store already is refused, so this is not sent again."""
    return Request("store/adopt", _given(path=path, name=name, format=format), d.Adopted, again=False)


def activity(
    session_id: str,
    state: str,
    waiting_for: str | None,
    text: str | None,
    process: int | None,
    tool_call_id: str | None,
) -> Request[Any]:
    params = _given(
        sessionId=session_id,
        state=state,
        waitingFor=waiting_for,
        text=text,
        process=process,
        toolCallId=tool_call_id,
    )
    return Request("session/activity", params, _ANY)


def ask(
    session_id: str,
    text: str,
    choices: Iterable[t.Choice] | None,
    waiting_for: str | None,
    tool_call_id: str | None,
    process: int | None,
) -> Request[t.Answered]:
    """Over the next connection it is another question: the first one ended with its own."""
    offered = None if choices is None else [msgspec.to_builtins(one) for one in choices]
    params = _given(
        sessionId=session_id,
        text=text,
        choices=offered,
        waitingFor=waiting_for,
        toolCallId=tool_call_id,
        process=process,
    )
    return Request("session/ask", params, t.Answered, stops=True)


def answer(session_id: str, question_id: str, choice: str | None, text: str | None) -> Request[t.Accepted]:
    params = _given(sessionId=session_id, questionId=question_id, choice=choice, text=text)
    return Request("session/answer", params, t.Accepted, again=False)


def note_append(
    session_id: str, heading: str, content: str, *, thread: str | None, tick: int | None, id: str | None
) -> Request[t.NoteResult]:
    params = _given(
        sessionId=session_id, heading=heading, content=content, thread=thread, tick=tick, id=id or new_id("n")
    )
    return Request("note/append", params, t.NoteResult)


def note_list(session_id: str, thread: str | None) -> Request[t.NoteListResult]:
    return Request("note/list", _given(sessionId=session_id, thread=thread), t.NoteListResult)


def state_set(session_id: str, values: Mapping[str, Any], expected_seq: int | None) -> Request[t.SeqResult]:
    params = _given(sessionId=session_id, values=values, expectedSeq=expected_seq)
    return Request("state/set", params, t.SeqResult, again=expected_seq is None)


def state_get(session_id: str, keys: Iterable[str] | None) -> Request[t.StateResult]:
    return Request("state/get", _given(sessionId=session_id, keys=None if keys is None else list(keys)), t.StateResult)


def state_clear(session_id: str) -> Request[t.SeqResult]:
    return Request("state/clear", {"sessionId": session_id}, t.SeqResult)


def status() -> Request[d.Status]:
    return Request("daemon/status", {}, d.Status)


def hello() -> Request[d.Hello]:
    return Request("daemon/hello", {}, d.Hello)


def stop() -> Request[Any]:
    return Request("daemon/stop", {}, _ANY, again=False)


def acknowledge() -> Request[d.Acknowledged]:
    return Request("daemon/acknowledge", {}, d.Acknowledged, again=False)


def reindex() -> Request[d.Reindexed]:
    return Request("daemon/reindex", {}, d.Reindexed)


def listen(kind: str, host: str, port: int, *, write: bool | None = None) -> Request[d.Address]:
    """The daemon listens for as long as the connection lasts, so this means nothing on the next one."""
    return Request("daemon/listen", _given(kind=kind, host=host, port=port, write=write), d.Address, again=False)


def any_(method: str, params: Mapping[str, Any], *, again: bool, on_progress: OnProgress | None = None) -> Request[Any]:
    """Any method of the protocol, with plain values both ways."""
    return Request(method, params, _ANY, again=again, on_progress=on_progress)
