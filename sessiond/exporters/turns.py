"""The things that every readable export says about a session and a turn, in the same words."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from sessiond.model.message import Message
from sessiond.model.session import Session
from sessiond.model.values import JsonObject

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_TITLES = {
    "user": "User",
    "assistant": "Assistant",
    "system": "System",
    "tool": "Tool result",
    "developer": "Developer",
}
MARKS = (
    ("injected", "injected by the tool"),
    ("sidechain", "sidechain"),
    ("branch", "other branch"),
    ("rewound", "taken back"),
    ("compacted", "no longer in the tool's history"),
    ("shortened", "shortened in the tool's history"),
    ("superseded", "an earlier form"),
)
"""Metadata of a message -> words."""
IMAGES = ("image", "image_url", "input_image")


def readable(text: str) -> str:
    """Without terminal sequences, control characters (except line ends and tabs) and overrides of the writing direction."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", text)


def one_line(text: str) -> str:
    """Readable, on one line, and not an Emacs mode line."""
    return " ".join(readable(text).split()).replace("-*-", "- * -")


def title(session: Session) -> str:
    return one_line(session.name or "") or one_line(session.local_id)


def facts(session: Session) -> list[tuple[str, str]]:
    """Return what is known about the session, as label and value on one line."""
    parent = session.parent or {}
    found = [
        ("Session", session.local_id),
        ("Created", moment(session.created_at)),
        ("Updated", moment(session.updated_at)),
        ("Model", session.model or ""),
        ("Folder", session.cwd or ""),
        ("Branch", session.metadata.get("gitBranch") if isinstance(session.metadata.get("gitBranch"), str) else ""),
        ("Tags", ", ".join(session.tags)),
        ("Forked from", str(parent.get("sessionId") or "")),
        ("Summary", session.summary or ""),
    ]
    return [(label, one_line(str(value))) for label, value in found if value]


def moment(timestamp: str) -> str:
    """`2026-01-11T14:30:22.000Z` -> `2026-01-11 14:30:22 UTC`."""
    return f"{timestamp[:10]} {timestamp[11:19]} UTC" if len(timestamp) >= 19 else timestamp


def speaker(message: Message) -> str:
    """`User`, or `User (Ada)` if it is known who of several people that was."""
    role = _TITLES.get(message.role) or one_line(message.role) or "Unknown"
    author = message.rest.get("author")
    return f"{role} ({name})" if isinstance(author, str) and (name := one_line(author)) else role


def marks(message: Message) -> list[str]:
    """Return what a reader should know about a turn besides its speaker and time."""
    found = [words for key, words in MARKS if message.metadata.get(key) is True]
    if message.status in ("interrupted", "error", "streaming"):
        found.append({"streaming": "unfinished"}.get(message.status, message.status))
    if message.metadata.get("isError") is True:
        found.append("failed")
    return found


def worth_reading(message: Message) -> bool:
    """Return whether a reader sees anything of a message. Tools put records without words under the system's role, dozens in a row."""
    empty = message.metadata.get("injected") is True and not message.content and not message.tool_calls
    return not empty or bool(thinking(message))


def calls(message: Message) -> list[tuple[str, str, object]]:
    """Name, id and arguments of each tool call."""
    return [
        (one_line(str(call.get("name") or "tool")), one_line(str(call.get("id") or "")), call.get("arguments"))
        for call in message.tool_calls
        if isinstance(call, dict)
    ]


class ValueText(msgspec.Struct, frozen=True):
    """A value as text: all of it, or the long text under one of its keys (`label`)."""

    text: str
    language: str
    label: str | None = None


def arguments(value: Any) -> list[ValueText]:
    """A call's arguments; if they are JSON in a string, its decoded content."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return [ValueText(readable(value), "text")]
    return shown(value)


def shown(value: object) -> list[ValueText]:
    """A JSON value for reading: texts of several lines under the top keys are separate, with their line ends."""
    if not isinstance(value, dict):
        return [ValueText(readable(pretty(value)), "json")]
    long = {key: text for key, text in value.items() if isinstance(text, str) and "\n" in text}
    rest = {key: item for key, item in value.items() if key not in long}
    out = [ValueText(readable(pretty(rest)), "json")] if rest or not long else []
    return out + [ValueText(readable(text), "text", one_line(key)) for key, text in long.items()]


def pretty(value: object) -> str:
    """A JSON value on several lines."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def thinking(message: Message) -> str:
    found = message.rest.get("thinking")
    return readable(found) if isinstance(found, str) else ""


def called(message: Message) -> str:
    """The id of the call that a tool's result answers."""
    found = message.rest.get("toolCallId")
    return one_line(found) if isinstance(found, str) else ""


class TextBlock(msgspec.Struct, frozen=True):
    text: str


class Image(msgspec.Struct, frozen=True):
    """`url` if it is elsewhere, `data` (base64) if the session contains it."""

    media_type: str
    url: str | None = None
    data: str | None = None

    @property
    def label(self) -> str:
        size = f", {len(self.data) * 3 // 4:,} bytes" if self.data else ""
        return f"{one_line(self.media_type)}{size}"


class Other(msgspec.Struct, frozen=True):
    """A block of any other kind: a file, a document, ..."""

    kind: str
    value: Any


def pieces(message: Message) -> list[TextBlock | Image | Other]:
    """The message's content in order."""
    if isinstance(message.content, str):
        return [TextBlock(readable(message.content))] if message.content else []
    return [_piece(block) for block in message.content]


def _piece(block: object) -> TextBlock | Image | Other:
    if isinstance(block, str):
        return TextBlock(readable(block))
    if not isinstance(block, dict):
        return Other("value", block)
    kind = str(block.get("type") or "block")
    if isinstance(block.get("text"), str) and kind in ("text", "input_text", "output_text"):
        return TextBlock(readable(block["text"]))
    if kind in IMAGES:
        return image_in(block) or Other(one_line(kind), block)
    return Other(one_line(kind), block)


def image_in(block: JsonObject) -> Image | None:
    """The picture in a block of one of the kinds that tools write; None if it has neither data nor an address."""
    source = block.get("source", block)
    url = block.get("image_url") or block.get("url")
    if isinstance(url, dict):
        url = url.get("url")
    if isinstance(source, dict):
        media_type = str(source.get("media_type") or source.get("mimeType") or block.get("mimeType") or "image")
        if isinstance(source.get("data"), str):
            return Image(media_type, data=source["data"])
        url = url or source.get("url")
    else:
        media_type = "image"
    if isinstance(url, str) and url.startswith("data:") and ";base64," in url[:100]:
        head, _, data = url.partition(";base64,")
        return Image(head[5:] or "image", data=data)
    return Image(media_type, url=url) if isinstance(url, str) and url else None
