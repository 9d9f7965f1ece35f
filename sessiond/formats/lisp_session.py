"""The common part of the two Lisp formats: a session in one property list (`lisp_schema`, `lisp_plan`), with a sidecar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from sessiond.formats.base import Decoded, Files, Tail, Write
from sessiond.formats.lisp_plan import RenderedSession, check_size, plan_change, plan_new, weave_file
from sessiond.formats.lisp_schema import Reader, ReadFile, Schema, Values, read_main
from sessiond.formats.sexp import SexpError
from sessiond.formats.sidecar import (
    EPOCH,
    Mark,
    Sidecar,
    Woven,
    build,
    decode_sidecar,
    encode_sidecar,
    merge_info,
    restore_beside,
    sidecar_path,
    still_shown,
)
from sessiond.model.changes import Change, Noted, StateSet, Updated
from sessiond.model.session import UPDATABLE, Session
from sessiond.model.values import Json

__all__ = ["Reader", "Schema", "Values", "adopt_numbering", "decode", "encode", "update"]


def decode(schema: Schema, local_id: str, files: Files, floor: int = 0) -> Decoded:
    path = schema.main_path(local_id)
    side, problems = decode_sidecar(sidecar_path(local_id), files.get(sidecar_path(local_id)))
    session = Session(local_id, EPOCH)
    raw = files.get(path)
    if raw is None:
        return Decoded(session, problems)
    main, remarks = read_main(schema, local_id, raw)
    problems += remarks
    if main is None or any(problem.fatal for problem in problems):
        return Decoded(session, problems)
    info = schema.info(main.values)
    woven = weave_file(main, info, side, raw, floor)
    merged, rewrite = merge_info(side, info, woven)
    _fill(session, woven, merged, main.fallback_time(info))
    last_message_at = session.updated_at
    restore_beside(session, side, _settled(merged, session))
    if woven.standing == "outside" and "updatedAt" not in info:
        session.touch(last_message_at)
    session.seq = max(session.seq, woven.seq)
    witnessed = woven.standing == "outside" and _newly_witnessed(main, woven, side)
    return Decoded(
        session=session,
        problems=problems,
        through=woven.through,
        renumbered=woven.renumbered or bool(woven.dropped) or witnessed,
        dropped=woven.dropped,
        incomplete=woven.put_back or rewrite,
    )


def _fill(session: Session, woven: Woven, info: Mapping[str, Json], created: str) -> None:
    for message in woven.messages:
        session.add_message(message)
    session.created_at = session.updated_at = str(info.get("createdAt") or created)
    if woven.messages:
        session.touch(max(message.timestamp for message in woven.messages))


def _settled(info: Mapping[str, Json], session: Session) -> dict[str, Json]:
    """Adds the messages' times, which count if neither the file nor the sidecar has others."""
    return {"createdAt": session.created_at, "updatedAt": session.updated_at, **info}


def _newly_witnessed(main: ReadFile, woven: Woven, side: Sidecar | None) -> bool:
    """Return whether another writer's version shows messages that only the daemon had before: that must be remembered."""
    ours = {entry.id: entry.key for entry in side.entries if entry.copy is not None} if side else {}
    return any(ours.get(one, "") == item.key for one, item in zip(woven.ids, main.seen, strict=True))


def encode(schema: Schema, session: Session, before: Files) -> list[Write]:
    path, beside = schema.main_path(session.local_id), sidecar_path(session.local_id)
    raw = before.get(path)
    side, problems = decode_sidecar(beside, before.get(beside))
    main = read_main(schema, session.local_id, raw)[0] if raw is not None else None
    if (raw is not None and main is None) or any(problem.fatal for problem in problems):
        return []  # a file that could not be understood is never overwritten
    plan = _plan(schema, session, main, side, raw or b"")
    content = main.file.encoded(plan.text) if main is not None else plan.text.encode()
    new = build(
        session,
        lambda message: plan.shown.get(message.id),
        before=side,
        main_before=raw,
        main_after=content,
        info=_info(session),
        keep_copies=True,
        witnessed=plan.witnessed,
        shown_info=plan.info,
    )
    writes = [Write(beside, encode_sidecar(new), "replace"), Write(path, content, "replace")]
    return [write for write in writes if before.get(write.path) != write.data]


def _plan(schema: Schema, session: Session, main: ReadFile | None, side: Sidecar | None, raw: bytes) -> RenderedSession:
    """The plan that shows as much as the reader's limits allow."""
    for brief in (0, 1):
        try:
            plan = plan_change(schema, session, main, side, raw, brief) if main else plan_new(schema, session, brief)
            check_size(plan, schema)
        except SexpError:
            continue
        return plan
    return plan_change(schema, session, main, side, raw, 2) if main else plan_new(schema, session, 2)


def _info(session: Session) -> dict[str, Json]:
    fields = {name: getattr(session, name) for name in UPDATABLE}
    return {**fields, "createdAt": session.created_at, "updatedAt": session.updated_at}


def update(schema: Schema, session: Session, tail: Tail, files: Files, changes: Sequence[Change]) -> list[Write] | None:
    """Without the main file, only what is kept in the sidecar alone can be saved."""
    path = sidecar_path(session.local_id)
    side, problems = decode_sidecar(path, files.get(path))
    if side is None or problems or side.mark is None or not tail.exists or side.mark.size != tail.size or not changes:
        return None
    shown = schema.show_session(session)
    info, state = dict(side.info), dict(side.state)
    notes = {note["id"]: note for note in side.notes}
    saved_at = side.saved_at
    for one in changes:
        match one:
            case Updated(fields=fields) if not fields.keys() & shown.keys():
                info |= fields
            case Noted(note=note):
                notes[note["id"]] = note
            case StateSet(values=values):
                state = {key: value for key, value in {**state, **values}.items() if value is not None}
                saved_at = one.at
                continue
            case _:
                return None
        info["updatedAt"] = max(one.at, info.get("updatedAt", one.at))
    seq = changes[-1].seq
    new = msgspec.structs.replace(
        side,
        seq=max(side.seq, seq),
        through=seq,
        mark=msgspec.structs.replace(side.mark, seq=seq),
        was=None,
        cut=[],
        info=info,
        notes=list(notes.values()),
        state=state,
        saved_at=saved_at,
    )
    return [Write(path, encode_sidecar(new), "replace")]


def adopt_numbering(schema: Schema, decoded: Decoded, before: Files) -> list[Write]:
    session = decoded.session
    path, beside = schema.main_path(session.local_id), sidecar_path(session.local_id)
    raw = before.get(path)
    side, _ = decode_sidecar(beside, before.get(beside))
    main = read_main(schema, session.local_id, raw)[0] if raw is not None else None
    if raw is None or main is None:
        return []
    plan = _plan(schema, session, main, side, raw)
    built = build(
        session,
        lambda message: plan.shown.get(message.id),
        before=side,
        main_before=raw,
        main_after=raw,
        info=_info(session),
        keep_copies=True,
        witnessed=plan.witnessed,
        shown_info=schema.info(main.values),
    )
    ids = set(weave_file(main, schema.info(main.values), side, raw, session.seq).ids)
    entries = sorted([*built.entries, *still_shown(side, session, ids)], key=lambda entry: entry.seq)
    mark = Mark.of(raw, decoded.through)
    new = msgspec.structs.replace(built, entries=entries, through=decoded.through, mark=mark, was=None, cut=[])
    content = encode_sidecar(new)
    return [] if before.get(beside) == content else [Write(beside, content, "replace")]
