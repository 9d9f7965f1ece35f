"""File names and ids: a name that is not a session id is percent-encoded on the wire."""

from __future__ import annotations

from urllib.parse import quote, unquote

from sessiond.model.values import is_session_id


def local_id_of(name: str) -> str:
    """A file's (or folder's) name, without its suffix -> the id on the wire. Unchanged if it is already an id."""
    if is_session_id(name):
        return name
    encoded = quote(name.encode("utf-8", "surrogateescape"), safe="")
    # `quote` leaves a leading dot, dash, underscore or tilde alone; an id starts with a letter or a digit.
    return encoded if encoded[:1].isalnum() or encoded[:1] == "%" else f"%{ord(encoded[0]):02X}{encoded[1:]}"


def name_of(local_id: str) -> str:
    """The inverse of `local_id_of`."""
    return unquote(local_id, errors="surrogateescape") if "%" in local_id else local_id


def is_local_id(text: str) -> bool:
    """Return whether `text` can be the id of a session in a store: a valid session id, or the encoded form of a file name."""
    if is_session_id(text):
        return True
    if "%" not in text or len(text) > 3 * 255:
        return False
    name = name_of(text)
    return "/" not in name and "\0" not in name and name not in (".", "..") and local_id_of(name) == text


def id_in_trash(local_id: str, seq: int) -> str:
    """The id of an earlier state of a session in the trash."""
    return f"{_beginning(local_id)}.was-{seq}"


def id_beside(local_id: str, number: int) -> str:
    """The id of a session that had another one's id."""
    return f"{_beginning(local_id)}-{number}"


def _beginning(local_id: str) -> str:
    """Return as much of an id as leaves room for more. It is never cut inside an escape."""
    base = local_id[:100]
    return base[: base.rindex("%")] if "%" in base[-2:] else base
