"""Every request that the client sends: its params, what its result becomes, and whether it may be sent twice. No I/O."""

from __future__ import annotations

import binascii
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sessiond.client import types as t
from sessiond.client.failures import error_of
from sessiond.errors import AlreadyExists, DaemonUnreachable, SessiondError, SessionNotFound

T = TypeVar("T")
PAGE_MESSAGES = 1000
OPENED_MESSAGES = 200


class Request(Generic[T]):
    """`again`: sending it twice does the same as sending it once, so it may be sent over the next connection."""

    __slots__ = ("_decode", "_done_before", "again", "method", "params")

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any],
        decode: Callable[[Raw], T],
        *,
        again: bool = True,
        done_before: Callable[[SessiondError], T | None] | None = None,
    ) -> None:
        self.method = method
        self.params = params
        self.again = again
        self._decode = decode
        self._done_before = done_before

    def result(self, raw: Raw) -> T:
        """DaemonUnreachable where the result has a shape that protocol 1 does not have."""
        try:
            return self._decode(raw)
        except msgspec.MsgspecError as error:
            raise strange(f"response to {self.method}", error) from None

    def failed(self, error: Any, *, resent: bool) -> T:
        """The result where the error of a request that was sent again means that the first one was done; else it raises."""
        raised = error_of(error)
        if resent and self._done_before is not None:
            result = self._done_before(raised)
            if result is not None:
                return result
        raise raised


def strange(what: str, error: msgspec.MsgspecError) -> DaemonUnreachable:
    """What to raise where something of the daemon's has a shape that this client cannot read."""
    return DaemonUnreachable(
        f"the daemon's {what} has another shape than in protocol 1: {error}",
        hint="`sessiond status` shows which version runs",
    )


def _decoder(type_: type[T]) -> Callable[[Raw], T]:
    return msgspec.json.Decoder(type_).decode


_session = _decoder(t.SessionResult)
_appended = _decoder(t.AppendResult)
_seq = _decoder(t.SeqResult)
_page = _decoder(t.Page)
_list_page = _decoder(t.ListPage)
_hit_page = _decoder(t.HitPage)
_opened = _decoder(t.Opened)
_saved = _decoder(t.SaveResult)
_note = _decoder(t.NoteResult)
_notes = _decoder(t.NoteListResult)
_state = _decoder(t.StateResult)
_exported = _decoder(t.Exported)
_imported = _decoder(t.Imported)
_status = _decoder(t.Status)
read_notice = _decoder(t.Notice)
"""The params of a `session/*` notification."""


def plain(raw: Raw) -> Any:
    """A result as plain Python values."""
    return msgspec.json.decode(raw)


def _nothing(raw: Raw) -> None:
    return None


def _given(**params: Any) -> dict[str, Any]:
    """Without what is None: a daemon that does not know a field then never sees it."""
    return {name: value for name, value in params.items() if value is not None}


def new_id(prefix: str) -> str:
    """An id that nobody else makes."""
    return prefix + binascii.hexlify(os.urandom(8)).decode()


def new_session_id() -> str:
    """As `session-20260111-143022-5f3a9c1b`: the time in UTC, and what keeps two of the same second apart."""
    return time.strftime("session-%Y%m%d-%H%M%S-", time.gmtime()) + binascii.hexlify(os.urandom(4)).decode()


def new(
    session_id: str | None, messages: Iterable[t.NewMessage], *, store: str | None, **fields: Any
) -> Request[t.SessionResult]:
    """Nobody else makes the id that is made here: where it is taken when the request is sent again, the first one took it."""
    made = session_id or new_session_id()

    def taken(error: SessiondError) -> t.SessionResult | None:
        if session_id is not None or not isinstance(error, AlreadyExists):
            return None
        return t.SessionResult(session=t.SessionInfo(session_id=f"{store}/{made}" if store else made))

    params = _given(sessionId=made, store=store, messages=[with_id(one) for one in messages] or None, **fields)
    return Request("session/new", params, _session, done_before=taken)


def with_id(message: t.NewMessage) -> t.NewMessage:
    return msgspec.structs.replace(message, id=new_id("m")) if message.id is None else message


def append(
    session_id: str, messages: Iterable[t.NewMessage], expected_seq: int | None = None
) -> Request[t.AppendResult]:
    """All messages get an id here, so that a repetition is known as one."""
    sent = [with_id(one) for one in messages]
    return Request("session/append", _given(sessionId=session_id, messages=sent, expectedSeq=expected_seq), _appended)


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
    return Request("session/finish", params, _seq)


def extend(params: Mapping[str, Any]) -> Request[t.SeqResult]:
    return Request("session/extend", params, _seq)


def read(
    session_id: str,
    *,
    last: int | None = None,
    since: int | None = None,
    before: int | None = None,
    limit: int | None = None,
) -> Request[t.Page]:
    params = _given(sessionId=session_id, last=last, since=since, before=before, limit=limit)
    return Request("session/read", params, _page)


def open_(params: Mapping[str, Any]) -> Request[t.Opened]:
    return Request("session/open", params, _opened)


def close(session_id: str) -> Request[None]:
    return Request("session/close", {"sessionId": session_id}, _nothing)


def update(session_id: str, fields: Mapping[str, Any], expected_seq: int | None = None) -> Request[t.SessionResult]:
    """Fields that are UNSET stay as they are; without any the session is only told."""
    params = {name: value for name, value in fields.items() if value is not UNSET}
    params |= _given(sessionId=session_id, expectedSeq=expected_seq)
    return Request("session/update", params, _session, again=expected_seq is None)


Field = str | None | UnsetType
"""A field to change: a new value, None to empty it, UNSET to leave it."""


def clear(session_id: str) -> Request[t.SessionResult]:
    return Request("session/clear", {"sessionId": session_id}, _session, again=False)


def truncate(session_id: str, after_seq: int) -> Request[t.SessionResult]:
    return Request("session/truncate", {"sessionId": session_id, "afterSeq": after_seq}, _session, again=False)


def fork(session_id: str, at_seq: int | None, name: str | None) -> Request[t.SessionResult]:
    return Request("session/fork", _given(sessionId=session_id, atSeq=at_seq, name=name), _session, again=False)


class _Gone:
    """A result that says nothing but that it is there."""


_GONE = _Gone()


def delete(session_id: str, *, permanent: bool) -> Request[Any]:
    """A session that is not there when the request is sent again was deleted by the first one."""

    def gone(error: SessiondError) -> Any:
        return _GONE if isinstance(error, SessionNotFound) else None

    params = {"sessionId": session_id, "permanent": permanent}
    return Request("session/delete", params, _nothing, done_before=gone)


def restore(session_id: str) -> Request[t.SessionResult]:
    return Request("session/restore", {"sessionId": session_id}, _session, again=False)


def save(session_id: str | None) -> Request[t.SaveResult]:
    return Request("session/save", _given(sessionId=session_id), _saved)


def move(session_id: str, store: str) -> Request[t.SessionResult]:
    return Request("session/move", {"sessionId": session_id, "store": store}, _session, again=False)


def list_(cursor: str | None, limit: int | None, sort: str | None, filter: Mapping[str, Any]) -> Request[t.ListPage]:
    params = _given(cursor=cursor, limit=limit, sort=sort, filter=_filter(filter))
    return Request("session/list", params, _list_page)


def search(
    query: str, cursor: str | None, limit: int | None, mode: str | None, filter: Mapping[str, Any]
) -> Request[t.HitPage]:
    params = _given(query=query, cursor=cursor, limit=limit, mode=mode, filter=_filter(filter))
    return Request("session/search", params, _hit_page)


def _filter(given: Mapping[str, Any]) -> dict[str, Any] | None:
    found = _given(**given)
    if "session_id" in found:
        found["sessionId"] = found.pop("session_id")
    return found or None


def export(session_id: str, format: str, path: str | None, *, overwrite: bool) -> Request[t.Exported]:
    params = _given(sessionId=session_id, format=format, path=path, overwrite=overwrite or None)
    return Request("session/export", params, _exported, again=path is None or overwrite)


def import_(
    path: str, *, format: str | None, store: str | None, since: str | None, dry_run: bool
) -> Request[t.Imported]:
    params = _given(path=path, format=format, store=store, since=since, dryRun=dry_run or None)
    return Request("session/import", params, _imported)


def note_append(
    session_id: str, heading: str, content: str, *, thread: str | None, tick: int | None, id: str | None
) -> Request[t.NoteResult]:
    params = _given(
        sessionId=session_id, heading=heading, content=content, thread=thread, tick=tick, id=id or new_id("n")
    )
    return Request("note/append", params, _note)


def note_list(session_id: str, thread: str | None) -> Request[t.NoteListResult]:
    return Request("note/list", _given(sessionId=session_id, thread=thread), _notes)


def state_set(session_id: str, values: Mapping[str, Any], expected_seq: int | None) -> Request[t.SeqResult]:
    params = _given(sessionId=session_id, values=values, expectedSeq=expected_seq)
    return Request("state/set", params, _seq, again=expected_seq is None)


def state_get(session_id: str, keys: Iterable[str] | None) -> Request[t.StateResult]:
    return Request("state/get", _given(sessionId=session_id, keys=None if keys is None else list(keys)), _state)


def state_clear(session_id: str) -> Request[t.SeqResult]:
    return Request("state/clear", {"sessionId": session_id}, _seq)


def status() -> Request[t.Status]:
    return Request("daemon/status", {}, _status)


def hello() -> Request[Any]:
    return Request("daemon/hello", {}, plain)


def any_(method: str, params: Mapping[str, Any], *, again: bool) -> Request[Any]:
    """Any method of the protocol, with plain values both ways."""
    return Request(method, params, plain, again=again)
