"""The tools of `--write`: `append`, `note` and `tag`."""

from __future__ import annotations

from hashlib import sha256

from sessiond.client import requests
from sessiond.client.failures import AnswerLost
from sessiond.client.types import NewMessage
from sessiond.errors import AlreadyExists, Conflict
from sessiond.mcp.memory import Memory
from sessiond.mcp.refusals import Refused
from sessiond.mcp.scope import PRIVATE, folder_of
from sessiond.mcp.shapes import AppendCall, AppendOutput, NoteCall, NoteOutput, TagCall, TagOutput

_TRIES = 8
"""How often tags are set again if somebody else changes the session meanwhile."""


async def append(memory: Memory, call: AppendCall) -> AppendOutput:
    """A message, durable when this returns; without a session id in a new session. The same call with a message id of the caller's
    finds the session that it has made before.
    """
    message = NewMessage(role=call.role, content=call.text, id=call.message_id or requests.new_id("m"))
    if call.session_id:
        if call.name or call.project:
            raise Refused("`name` and `project` are for a new session. Leave them out, or leave out `sessionId`.")
        return await _append_to(memory, call.session_id, message)
    folder = _folder(memory, call.project)
    made_of_call = _session_id(call, folder) if call.message_id else None
    asked = requests.new(made_of_call, [message], store=None, name=call.name or None, cwd=folder)
    try:
        made = (await memory.client.answer(asked)).value.session
    except AlreadyExists:
        if made_of_call is None:
            raise
        return await _append_to(memory, made_of_call, message)
    await memory.client.session(made.session_id).close()
    page = (await memory.client.answer(requests.read(made.session_id, since=0, limit=1))).value
    return AppendOutput(session_id=made.session_id, seq=page.messages[0].seq, message_id=page.messages[0].id)


async def _append_to(memory: Memory, session_id: str, message: NewMessage) -> AppendOutput:
    await memory.gate().one(session_id)
    kept = (await memory.client.session(session_id).append_all([message]))[0]
    return AppendOutput(session_id=session_id, seq=kept.seq, message_id=kept.id)


def _session_id(call: AppendCall, folder: str | None) -> str:
    """The id of the session that this call makes, and no other one."""
    said = "\0".join((call.message_id, call.role, call.text, call.name, folder or ""))
    return f"mcp-{sha256(said.encode()).hexdigest()[:16]}"


def _folder(memory: Memory, project: str) -> str | None:
    """Return where a new session belongs: the folder given, or the one that the server is limited to."""
    if not project:
        return memory.scope.folder
    folder = folder_of(project)
    if not memory.scope.has(folder):
        raise Refused("`project` is outside of the folder that this server is limited to. Leave it out.")
    return folder


async def note(memory: Memory, call: NoteCall) -> NoteOutput:
    """A note on a whole session, durable when this returns."""
    await memory.gate().one(call.session_id)
    made = await memory.client.session(call.session_id).note(call.heading, call.text, id=call.note_id or None)
    return NoteOutput(session_id=call.session_id, seq=made.seq, note_id=made.id)


async def tag(memory: Memory, call: TagCall) -> TagOutput:
    """Add and remove tags. What others set at the same time stays, above all `private`."""
    if not call.add and not call.remove:
        raise Refused("Give `add`, `remove` or both. Call again.")
    session = memory.client.session(call.session_id)
    for _ in range(_TRIES):
        info = await memory.gate().one(call.session_id)
        tags = [one for one in info.tags if one not in call.remove or one in call.add]
        tags += [one for one in dict.fromkeys(call.add) if one not in tags]
        if tags == info.tags:
            break
        try:
            info = await session.update(tags=tags, expected_seq=info.seq)
            break
        except (Conflict, AnswerLost):
            continue  # look again at what it is now
    else:
        raise Refused("Others change this session all the time. Try once more later.")
    redactor = await memory.blanks.of(info)
    shown = [one if redactor is None else redactor.text(one) for one in info.tags]
    return TagOutput(session_id=call.session_id, tags=shown)


def appended_text(done: AppendOutput) -> str:
    return f"Appended to session {done.session_id} as #{done.seq}, message {done.message_id}."


def noted_text(done: NoteOutput) -> str:
    return f"Noted in session {done.session_id} as #{done.seq}, note {done.note_id}."


def tagged_text(done: TagOutput) -> str:
    from sessiond.mcp.quoting import inline

    hidden = f" It is {PRIVATE} now, so you cannot see it any more." if PRIVATE in done.tags else ""
    return f"Session {done.session_id} has these tags: {', '.join(map(inline, done.tags)) or 'none'}.{hidden}"
