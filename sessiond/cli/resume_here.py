"""`sessiond resume ID --in sessiond`: the session goes on here, as a fork of it or as a shorter copy."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

from sessiond.cli.paths import on_wire
from sessiond.cli.resume_document import Wish, document
from sessiond.client.blocking import Sessiond
from sessiond.client.requests import new_id, new_session_id
from sessiond.errors import Unavailable
from sessiond.exporters import export
from sessiond.exporters.conversation import ExportedCall, ExportedConversation, ExportedTurn, result_of
from sessiond.fs.scratch import scratch_folder
from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import JsonObject, WireObject
from sessiond.resume.fitting import fitted
from sessiond.resume.make import Made
from sessiond.resume.target import PICTURES_IN_RESULTS, Target, Written

_ANY = Target("", {})
_ANY.holds, _ANY.urls = PICTURES_IN_RESULTS, True


def resume_here(
    client: Sessiond,
    session_id: str,
    session: Session,
    told: ExportedConversation,
    wish: Wish,
    cwd: str,
    agree: Callable[[dict[str, object]], None] | None = None,
) -> dict[str, object]:
    """Resume as `resume_run.resume` does. Without further wishes it is a fork, which has everything that the session has."""
    whole = wish.last is None and wish.calls and wish.cwd is None
    if whole:
        lost: Counter[str] = Counter()
        kept = sum(wish.at is None or one.seq <= wish.at for one in session.messages())
    else:
        shape = fitted(told, _ANY, calls=wish.calls)
        lost, kept = shape.lost, sum(1 + len(turn.calls) for turn in shape.turns)
    seen = document(session_id, "sessiond", cwd, Made(None, lost, kept), [])
    if wish.dry_run:
        return seen
    if agree is not None:
        agree(seen)
    one = client.session(session_id)
    made = one.fork(at_seq=wish.at).id if whole else _bring_in(client, _shorter(session, session_id, shape, cwd))
    path = client.session(made).info().path or ""
    words = ["sessiond", "repl", "--session-id", made]
    return document(session_id, "sessiond", cwd, Made(Written(made, path), lost, kept), words)


def _shorter(session: Session, session_id: str, shape: ExportedConversation, cwd: str) -> Session:
    """A session with the conversation alone."""
    made = Session(new_session_id(), session.updated_at)
    made.name, made.model, made.cwd = session.name, session.model, cwd
    made.parent = {"sessionId": session_id, "seq": session.seq}
    made.updated_at = session.updated_at
    for turn in shape.turns:
        _say(made, turn.role, turn, turn.blocks, _calls(turn))
        for call in turn.calls:
            metadata = {"metadata": {"isError": True}} if call.failed else {}
            _say(made, "tool", turn, result_of(call), {"toolCallId": call.id, **metadata})
    return made


def _calls(turn: ExportedTurn) -> JsonObject:
    def shown(call: ExportedCall) -> JsonObject:
        return {"id": call.id, "name": call.name, "arguments": call.arguments}

    return {"toolCalls": list(map(shown, turn.calls))} if turn.calls else {}


def _say(made: Session, role: str, turn: ExportedTurn, blocks: list[WireObject], rest: JsonObject) -> None:
    made.seq += 1
    only = blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks
    content = only if blocks else ""
    time = turn.timestamp or made.created_at
    made.add_message(Message(id=new_id("msg"), seq=made.seq, role=role, content=content, timestamp=time, rest=rest))


def _bring_in(client: Sessiond, made: Session) -> str:
    """Import it as an export of ours: it is there as a whole, or not at all. The id that it has."""
    with scratch_folder() as folder:
        path = os.path.join(folder, "session.json")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(export(made, made.messages(), "json"))
        came = client.import_(on_wire(path))
    if len(came.sessions) != 1:
        raise Unavailable("the daemon did not take the copy", hint="`sessiond doctor` may say why")
    return came.sessions[0].session_id
