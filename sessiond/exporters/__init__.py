"""Sessions as text for people and programs: pure functions from a session to chunks of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sessiond.errors import InvalidParams
from sessiond.model.message import Message
from sessiond.model.session import Session

FORMATS = ("jsonl", "json", "markdown", "org", "html", "text", "openai", "anthropic")
_FOR_READERS = ("markdown", "org", "html", "text")
SUFFIXES = {
    "jsonl": ".jsonl",
    "json": ".json",
    "markdown": ".md",
    "org": ".org",
    "html": ".html",
    "text": ".txt",
    "openai": ".openai.json",
    "anthropic": ".anthropic.json",
}


def export(session: Session, messages: Iterable[Message], format: str) -> Iterator[str]:  # the wire's word
    """The session as text, in chunks. Raises InvalidParams for an unknown format (at once, not at the first chunk).

    `messages` may be fewer than the session has; `jsonl` writes the session as it is.
    """
    if format in _FOR_READERS:
        from sessiond.exporters.turns import worth_reading

        messages = filter(worth_reading, messages)
    return _renderer(format)(session, messages)


def _renderer(format: str) -> Callable[[Session, Iterable[Message]], Iterator[str]]:
    # Each renderer needs its own libraries, so only the requested one is loaded.
    match format:
        case "jsonl":
            return _jsonl
        case "json":
            from sessiond.exporters.document import render
        case "markdown":
            from sessiond.exporters.markdown import render
        case "org":
            from sessiond.exporters.org import render
        case "html":
            from sessiond.exporters.html import render
        case "text":
            from sessiond.exporters.text import render
        case "openai":
            from sessiond.exporters.api_messages import openai as render
        case "anthropic":
            from sessiond.exporters.api_messages import anthropic as render
        case _:
            raise InvalidParams(f"format: expected one of {', '.join(FORMATS)}", field="format")
    return render


def _jsonl(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    """The native format, which loses nothing: the content of a file in a `jsonl` store."""
    from sessiond.formats import jsonl

    del messages
    yield jsonl.encode(session, {})[0].data.decode()
