"""`session/*`, except for the pages of many sessions (`pages`)."""

from __future__ import annotations

import msgspec

from sessiond.rpc.methods import Call, method
from sessiond.schema import sessions as s
from sessiond.schema.types import Nothing

_WRITE = ("sessionNotFound", "badFile", "readOnly", "indeterminate", "unavailable")
_READ = ("sessionNotFound", "badFile", "unavailable")


@method(
    "session/new", s.NewParams, s.SessionResult, "alreadyExists", "tooLarge", "readOnly", "indeterminate", "unavailable"
)
async def new(call: Call, params: s.NewParams) -> s.SessionResult:
    """Make a session. The caller has it open."""
    info = await call.service.new(
        call.peer,
        session_id=params.session_id,
        name=params.name,
        model=params.model,
        cwd=params.cwd,
        tags=params.tags,
        metadata=params.metadata,
        store=params.store,
        messages=params.messages,
        parent=params.parent,
    )
    return s.SessionResult(session=info)


@method("session/open", s.OpenParams, s.OpenResult, *_READ, bulky=True, outlives=False)
async def open_(call: Call, params: s.OpenParams) -> s.OpenResult:
    """Read a session and get its changes from `session.seq` on, none missed, none twice."""
    return await call.service.open(
        call.peer,
        params.session_id,
        last=params.last,
        since=params.since,
        restore=bool(params.restore),
        answers=bool(params.answers),
    )


@method("session/close", s.SessionParams, Nothing, *_WRITE)
async def close(call: Call, params: s.SessionParams) -> Nothing:
    """Stop receiving changes. The session is saved if no other connection has it open."""
    await call.service.close_session(call.peer, params.session_id)
    return Nothing()


@method("session/append", s.AppendParams, s.AppendResult, "conflict", "tooLarge", *_WRITE)
async def append(call: Call, params: s.AppendParams) -> s.AppendResult:
    """Append messages, all or none. The response comes only when they are durable. After a lost response, repeat the
    request with the same ids.
    """
    return await call.service.append(
        call.peer, params.session_id, params.messages, params.expected_seq, early=call.early()
    )


@method("session/extend", s.ExtendParams, s.SeqResult, "conflict", "tooLarge", *_WRITE)
async def extend(call: Call, params: s.ExtendParams) -> s.SeqResult:
    """Add text to a message that was appended with `status: "streaming"`. May also be sent as a notification: the text is
    then durable within a second.
    """
    seq = await call.service.extend(call.peer, params.session_id, params.message_id, params.text, params.offset)
    return s.SeqResult(seq=seq)


@method("session/finish", s.FinishParams, s.SeqResult, "conflict", "tooLarge", *_WRITE)
async def finish(call: Call, params: s.FinishParams) -> s.SeqResult:
    """End a streamed message."""
    seq = await call.service.finish(
        call.peer,
        params.session_id,
        params.message_id,
        status=params.status,
        metadata=params.metadata,
        tool_calls=params.tool_calls,
    )
    return s.SeqResult(seq=seq)


@method("session/activity", s.ActivityParams, Nothing, *_READ)
async def activity(call: Call, params: s.ActivityParams) -> Nothing:
    """Say what the caller does in a session: it works, or waits for a person. That is not kept in a file: it ends with the
    connection, or with the process that is named.
    """
    sessions = call.service.open_sessions
    await sessions.activities.say(sessions.at(params.session_id), call.peer, params)
    return Nothing()


@method("session/ask", s.AskParams, s.AskResult, "cancelled", *_READ, outlives=False, order="free")
async def ask(call: Call, params: s.AskParams) -> s.AskResult:
    """Ask whoever looks at a session, in any client. The response is the first answer, however long that takes."""
    sessions = call.service.open_sessions
    return await sessions.activities.ask(sessions.at(params.session_id), call.peer, params)


@method("session/answer", s.AnswerParams, s.AnswerResult, order="free")
async def answer(call: Call, params: s.AnswerParams) -> s.AnswerResult:
    """Answer the question of a session's `activity`. The first answer counts."""
    sessions = call.service.open_sessions
    params.session_id = sessions.at(params.session_id).wire_id  # it may be spelled in several ways
    return s.AnswerResult(accepted=sessions.activities.answer(call.peer, params))


@method("session/read", s.ReadParams, s.ReadResult, *_READ, bulky=True, outlives=False)
async def read(call: Call, params: s.ReadParams) -> s.ReadResult:
    """Read a page of messages without opening the session."""
    return await call.service.read(
        params.session_id, last=params.last, since=params.since, before=params.before, limit=params.limit
    )


_FIELDS = ("name", "model", "tags", "archived", "summary", "metadata", "cwd")


@method("session/update", s.UpdateParams, s.SessionResult, "conflict", "tooLarge", *_WRITE)
async def update(call: Call, params: s.UpdateParams) -> s.SessionResult:
    """Change what a session says about itself: its name, model, tags and so on."""
    sent = {name: value for name in _FIELDS if (value := getattr(params, name)) is not msgspec.UNSET}
    return s.SessionResult(session=await call.service.update(call.peer, params.session_id, sent, params.expected_seq))


@method("session/clear", s.SessionParams, s.SessionResult, *_WRITE)
async def clear(call: Call, params: s.SessionParams) -> s.SessionResult:
    """Remove all messages and the summary. The id stays. The old content goes to the trash."""
    return s.SessionResult(session=await call.service.clear(call.peer, params.session_id))


@method("session/truncate", s.TruncateParams, s.TruncateResult, "conflict", *_WRITE)
async def truncate(call: Call, params: s.TruncateParams) -> s.TruncateResult:
    """Remove the newest messages (undo). They go to the trash."""
    return await call.service.truncate(call.peer, params.session_id, params.after_seq, params.expected_seq)


@method("session/fork", s.ForkParams, s.SessionResult, *_WRITE)
async def fork(call: Call, params: s.ForkParams) -> s.SessionResult:
    """Copy a session, or its beginning, into a new one whose `parent` says where it came from."""
    return s.SessionResult(session=await call.service.fork(call.peer, params.session_id, params.at_seq, params.name))


@method("session/delete", s.DeleteParams, Nothing, *_WRITE)
async def delete(call: Call, params: s.DeleteParams) -> Nothing:
    """Move a session to the trash, or delete it permanently."""
    await call.service.delete(params.session_id, bool(params.permanent))
    return Nothing()


@method("session/restore", s.SessionParams, s.SessionResult, "alreadyExists", *_WRITE)
async def restore(call: Call, params: s.SessionParams) -> s.SessionResult:
    """Take a session out of the trash."""
    # They put sessions into the trash under other ids (`ID.was-SEQ`), so this session's queue does not wait for them.
    trashing = call.earlier("session/clear", "session/truncate", "session/delete")
    return s.SessionResult(session=await call.service.restore(call.peer, params.session_id, after=trashing))


@method("session/save", s.SaveParams, s.SaveResult, *_WRITE)
async def save(call: Call, params: s.SaveParams) -> s.SaveResult:
    """Bring session files up to date now. Without an id it waits for all earlier requests of the connection."""
    if params.session_id is None:
        await call.earlier()
    return s.SaveResult(saved=await call.service.save(params.session_id))


@method("session/move", s.MoveParams, s.MoveResult, "alreadyExists", *_WRITE)
async def move(call: Call, params: s.MoveParams) -> s.MoveResult:
    """Move a session to another store and format."""
    return await call.service.move(call.peer, params.session_id, params.store, bool(params.dry_run))
