"""`note/*` and `state/*`."""

from __future__ import annotations

from sessiond.rpc.methods import Call, method
from sessiond.schema import notes_state as n
from sessiond.schema.sessions import SeqResult, SessionParams

_WRITE = ("sessionNotFound", "badFile", "readOnly", "indeterminate", "unavailable")
_READ = ("sessionNotFound", "badFile", "unavailable")


@method("note/append", n.NoteAppendParams, n.NoteResult, "conflict", "tooLarge", *_WRITE)
async def note_append(call: Call, params: n.NoteAppendParams) -> n.NoteResult:
    """Write a note under a heading."""
    return await call.service.note_append(
        call.peer,
        params.session_id,
        params.heading,
        params.content,
        thread=params.thread,
        tick=params.tick,
        id=params.id,
    )


@method("note/list", n.NoteListParams, n.NoteListResult, *_READ, bulky=True, outlives=False)
async def note_list(call: Call, params: n.NoteListParams) -> n.NoteListResult:
    """Read notes."""
    return await call.service.note_list(
        params.session_id,
        thread=params.thread,
        last_global=params.last_global,
        last_thread=params.last_thread,
    )


@method("state/set", n.StateSetParams, SeqResult, "conflict", "tooLarge", *_WRITE)
async def state_set(call: Call, params: n.StateSetParams) -> SeqResult:
    """Keep values with the session. Does not change `updatedAt`."""
    return SeqResult(seq=await call.service.state_set(call.peer, params.session_id, params.values, params.expected_seq))


@method("state/get", n.StateGetParams, n.StateResult, *_READ, bulky=True, outlives=False)
async def state_get(call: Call, params: n.StateGetParams) -> n.StateResult:
    """Read values."""
    return await call.service.state_get(params.session_id, params.keys)


@method("state/clear", SessionParams, SeqResult, *_WRITE)
async def state_clear(call: Call, params: SessionParams) -> SeqResult:
    """Remove all values."""
    return SeqResult(seq=await call.service.state_clear(call.peer, params.session_id))
