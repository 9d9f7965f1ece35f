"""cortex: `transcripts/<agent>/transcript.jsonl`, one message per line. docs/formats/cortex.md has the grammar and
worked bytes.

A line begins with the three keys that cortex reads (`role`, `content`, `timestamp`); ours follow on the same line. A
line without `seq` was written by cortex. Everything else is in the sidecar, by the rules of `append_only`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from sessiond.errors import InvalidParams
from sessiond.formats.append_only import (
    Piece,
    append_steps,
    catch_up,
    decode_pieces,
    lay_out,
    numbering,
    rewrite_steps,
    sidecar_for,
)
from sessiond.formats.base import Abilities, Decoded, Files, Problem, Tail, Write
from sessiond.formats.foreign_message import HEAD, usable_id, usable_rest, usable_seq, usable_status, usable_time
from sessiond.formats.names import local_id_of, name_of
from sessiond.formats.sidecar import Seen, decode_sidecar, encode_sidecar, key_of, sidecar_path
from sessiond.model.changes import Change
from sessiond.model.message import STATUSES, Message
from sessiond.model.session import Session
from sessiond.model.values import Json, check_json, epoch_ms

name = "cortex"
rewrites_whole = False

_FOLDER = "transcripts/"
_FILE = "/transcript.jsonl"
_OURS = "sessiond"
_BOM = b"\xef\xbb\xbf"
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def matches(names: Sequence[str], head: Callable[[str], bytes]) -> int:
    found = list(find(names).values())
    if not found:
        return 0
    return 95 if any(b'"role"' in head(one) for one in found[:20]) else 80


def find(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for one in names:
        agent = one[len(_FOLDER) : -len(_FILE)]
        if one.startswith(_FOLDER) and one.endswith(_FILE) and agent and "/" not in agent and not agent.startswith("."):
            found[local_id_of(agent)] = one
    return found


def sessions_under(folder: str) -> list[str] | None:
    return None if folder + "/" == _FOLDER else list(find([folder + _FILE]))


abilities = Abilities(nested={"transcripts": "transcript.jsonl"}, sessions_under=sessions_under)


def main_path(local_id: str) -> str:
    return f"{_FOLDER}{name_of(local_id)}{_FILE}"


def paths(local_id: str) -> list[str]:
    return [main_path(local_id), sidecar_path(local_id)]


def side_files(local_id: str) -> list[str]:
    return [sidecar_path(local_id)]


def decode(local_id: str, files: Files, floor: int = 0) -> Decoded:
    path, main = main_path(local_id), files.get(main_path(local_id), b"")
    side, problems = decode_sidecar(sidecar_path(local_id), files.get(sidecar_path(local_id)))
    pieces = _lines(main, path, problems)
    if problems and not any(piece.seen for piece in pieces) and _is_binary(main):
        problems.append(Problem(path, 1, "has no line that can be read", fatal=True))
    return decode_pieces(local_id, pieces, main, side, problems, floor)


def _is_binary(main: bytes) -> bool:
    try:
        return b"\0" in main or not main.decode()
    except UnicodeDecodeError:
        return True


def _lines(main: bytes, path: str, problems: list[Problem]) -> list[Piece]:
    pieces: list[Piece] = []
    start = 0
    while start < len(main):
        end = main.find(b"\n", start) + 1 or len(main)
        piece = Piece(main[start:end], [])
        line = piece.raw.removeprefix(_BOM) if start == 0 else piece.raw
        if line.strip(b" \t\r\n"):
            try:
                piece.seen.append(_seen(_decoder.decode(line)))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                problems.append(
                    Problem(
                        path,
                        len(pieces) + 1,
                        "is not valid JSON" if line.strip(b"\0 \r\n") else "contains only NUL bytes",
                    )
                )
            except (ValueError, InvalidParams) as error:
                problems.append(Problem(path, len(pieces) + 1, f"cannot be used: {error}"))
        pieces.append(piece)
        start = end
    return pieces


def _seen(value: Json) -> Seen:
    """Return what one line says. ValueError or InvalidParams if it is not a message."""
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    role, content = value.get("role"), value.get("content")
    if not isinstance(role, str) or not role:
        raise ValueError("it has no role")
    if not isinstance(content, (str, list)):
        raise ValueError("its content is neither text nor a list of blocks")
    check_json(value, "the line")
    seen = Seen(
        key=key_of(role, content, value.get("timestamp")),
        role=role,
        content=content,
        near=key_of(role, value.get("timestamp")),
    )
    seen.id, seen.seq, seen.timestamp = (
        usable_id(value.get("id")),
        usable_seq(value.get("seq")),
        usable_time(value.get("timestamp")),
    )
    if seen.id is None or seen.seq is None:
        seen.seq = None
        seen.status = usable_status(value.get("status"))
        seen.rest = usable_rest(value)
        return seen
    seen.status = value.get("status") if value.get("status") in STATUSES else None
    seen.rest = {key: one for key, one in value.items() if key not in HEAD}
    ours = seen.rest.pop(_OURS, None) if isinstance(value.get(_OURS), dict) else None
    if isinstance(ours, dict):
        _restore(seen, ours)
    return seen


def _restore(seen: Seen, ours: dict[str, Any]) -> None:
    """Restore what the three keys of a line of ours cannot express."""
    exact = ours.get("content")
    if isinstance(exact, list) and _text(exact) == seen.content:  # else somebody has edited the text since
        seen.content = exact
    if isinstance(ours.get("rest"), dict):
        seen.rest |= {key: value for key, value in ours["rest"].items() if key not in HEAD}


def _line(message: Message) -> bytes:
    """One message as a line, with its newline."""
    at = epoch_ms(message.timestamp)
    line: dict[str, Json] = {
        "role": message.role,
        "content": message.text(),
        "timestamp": at,
        "id": message.id,
        "seq": message.seq,
    }
    if message.status is not None:
        line["status"] = message.status
    line |= {key: value for key, value in message.rest.items() if key != _OURS}
    ours: dict[str, Json] = {}
    if not isinstance(message.content, str):
        ours["content"] = message.content
    if _OURS in message.rest:
        ours["rest"] = {_OURS: message.rest[_OURS]}
    if ours:
        line[_OURS] = ours
    return _encoder.encode(line) + b"\n"


def _text(content: list[Json]) -> str:
    return Message(id="", seq=0, role="", content=content, timestamp="").text()


def update(session: Session, tail: Tail, files: Files, changes: Sequence[Change]) -> list[Write] | None:
    side, _ = decode_sidecar("", files.get(sidecar_path(session.local_id)))
    ahead = catch_up(session.local_id, side, tail, changes)
    if ahead is None:
        return None
    ready = [message for message in ahead.waiting if message.status != "streaming"]
    data = b"".join(_line(message) for message in ready)
    if data and tail.size and tail.last_byte != b"\n":
        data = b"\n" + data
    after = sidecar_for(ahead.session, ahead.entries, (one for one in ahead.waiting if one.status == "streaming"))
    return append_steps(after, side, main_path(session.local_id), data, tail, (message.id for message in ready))


def encode(session: Session, before: Files) -> list[Write]:
    path = main_path(session.local_id)
    old = before.get(path)
    side, _ = decode_sidecar("", before.get(sidecar_path(session.local_id)))
    layout = lay_out(session, _lines(old or b"", path, []), old or b"", side)
    ready = [message for message in layout.missing if message.status != "streaming"]
    data = b"".join(_line(message) for message in ready)
    if data and layout.kept and not layout.kept.endswith(b"\n"):
        data = b"\n" + data
    after = sidecar_for(session, layout.entries, (one for one in layout.missing if one.status == "streaming"))
    return rewrite_steps(after, side, path, old, layout.kept, data, (message.id for message in ready))


def adopt_numbering(decoded: Decoded, before: Files) -> list[Write]:
    local_id = decoded.session.local_id
    main, path = before.get(main_path(local_id), b""), sidecar_path(local_id)
    side, _ = decode_sidecar("", before.get(path))
    content = encode_sidecar(numbering(decoded, _lines(main, "", []), main, side))
    return [] if before.get(path) == content else [Write(path, content, "replace")]
