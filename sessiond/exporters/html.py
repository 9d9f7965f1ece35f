"""HTML: one self-contained page. Nothing in it runs, nothing is loaded, and the content of a transcript is always text.

Messages are rendered as Markdown with raw HTML off; links lead only to http, https and mailto, external images become links.
A Content-Security-Policy forbids everything except the page's own style sheet (by its hash) and images that the session
itself contains.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from sessiond.exporters import turns
from sessiond.exporters.style import css
from sessiond.model.message import Message
from sessiond.model.session import Session

_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f]*", re.IGNORECASE)
_NOT_IN_HTML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,40}")
_ROLE_CLASS = re.compile(r"[^a-z]")
_MAX_PROSE_CHARS = 400_000
_MAX_CODE_CHARS = 200_000
"""A longer text is shown as it is, without Markdown or colours."""


def render(session: Session, messages: Iterable[Message]) -> Iterator[str]:
    markdown = _markdown()
    sheet = css()
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    name = _text(turns.title(session))
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{name}</title>\n<style>{sheet}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{name}</h1>\n<dl>\n"
    )
    for label, value in turns.facts(session):
        yield f"<dt>{_text(label)}</dt><dd>{_text(value)}</dd>\n"
    yield "</dl>\n</header>\n"
    for message in messages:
        yield from _turn(markdown, message)
    for note in session.notes:
        body = _prose(markdown, turns.readable(note.content))
        yield f'<section class="note">\n<h2>{_text(turns.one_line(note.heading))}</h2>\n{body}</section>\n'
    if session.state:
        yield f'<section class="state">\n{_folded("State", _code(turns.pretty(session.state), "json"))}</section>\n'
    yield "</main>\n</body>\n</html>\n"


def _turn(markdown: MarkdownIt, message: Message) -> Iterator[str]:
    role = _ROLE_CLASS.sub("", message.role) or "other"
    quiet = " quiet" if message.metadata.get("injected") is True else ""
    marks = "".join(f' <span class="mark">{_text(mark)}</span>' for mark in turns.marks(message))
    yield f'<section class="turn {role}{quiet}">\n<h2>{_text(turns.speaker(message))}'
    yield f' <time datetime="{_text(message.timestamp)}">{_text(turns.moment(message.timestamp))}</time>{marks}</h2>\n'
    if thought := turns.thinking(message):
        yield _folded("Thinking", _prose(markdown, thought))
    for piece in turns.pieces(message):
        yield _piece(markdown, message, piece)
    for name, call_id, arguments in turns.calls(message):
        yield _folded(f"Calls {name}", _shown(turns.arguments(arguments)), call_id)
    yield "</section>\n"


def _piece(markdown: MarkdownIt, message: Message, piece: turns.TextBlock | turns.Image | turns.Other) -> str:
    if isinstance(piece, turns.Image):
        return _image(piece)
    if isinstance(piece, turns.Other):
        return _folded(piece.kind, _shown(turns.shown(piece.value)))
    if message.role == "tool":
        return (
            _folded("Result", f"<pre>{_text(piece.text)}</pre>\n", turns.called(message)) if piece.text.strip() else ""
        )
    return _prose(markdown, piece.text, typed=message.role == "user")


def _shown(parts: list[turns.ValueText]) -> str:
    return "".join(
        f"{'<p>' + _text(part.label) + '</p>' if part.label else ''}{_code(part.text, part.language)}" for part in parts
    )


def _image(image: turns.Image) -> str:
    if image.data is not None and image.media_type in _IMAGE_TYPES and _is_base64(image.data):
        return f'<p><img alt="{_text(image.label)}" src="data:{image.media_type};base64,{image.data}"></p>\n'
    if image.url is not None and _SAFE_LINK.fullmatch(image.url):
        return f'<p><a rel="noopener noreferrer nofollow" href="{_text(image.url)}">{_text(turns.one_line(image.url))}</a></p>\n'
    return f"<p>[{_text(turns.one_line(image.url or image.label))}]</p>\n"


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _folded(summary: str, body: str, detail: str = "") -> str:
    note = f" <code>{_text(detail)}</code>" if detail else ""
    return f"<details>\n<summary>{_text(summary)}{note}</summary>\n{body}</details>\n"


def _text(text: str) -> str:
    """Any text as HTML that shows it, in an element or in an attribute's quotes."""
    return escape(_NOT_IN_HTML.sub("\ufffd", text), quote=True)


def _prose(markdown: MarkdownIt, text: str, *, typed: bool = False) -> str:
    """`typed`: a person wrote it, so that its line ends are line ends."""
    if not text.strip():
        return ""
    if len(text) > _MAX_PROSE_CHARS:
        return f'<div class="prose" dir="auto"><pre>{_text(text)}</pre></div>\n'
    markdown.options["breaks"] = typed
    rendered = markdown.render(_NOT_IN_HTML.sub("\ufffd", text))
    return f'<div class="prose" dir="auto">\n{rendered}</div>\n'


def _code(text: str, language: str) -> str:
    """A block of code, coloured if the language is known and the text is not too long."""
    inner = None
    if len(text) <= _MAX_CODE_CHARS and _LANGUAGE.fullmatch(language):
        try:
            inner = str(
                highlight(_NOT_IN_HTML.sub("\ufffd", text), get_lexer_by_name(language), HtmlFormatter(nowrap=True))
            )
        except ClassNotFound:
            inner = None
    return f'<pre class="code"><code>{inner if inner is not None else _text(text)}</code></pre>\n'


class _Renderer(RendererHTML):
    """Renders Markdown's tokens as HTML; the few that could load or link something are handled here."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _code(tokens[idx].content, tokens[idx].info.strip().split(" ")[0])

    def code_block(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return _code(tokens[idx].content, "")

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A link to the image: the page does not load external images."""
        token = tokens[idx]
        url = str(token.attrGet("src") or "")
        label = self.renderInlineAsText(token.children, options, env) or url
        if not _SAFE_LINK.fullmatch(url):
            return f"[{_text(label)}]"
        return f'<a rel="noopener noreferrer nofollow" href="{_text(url)}">{_text(label)}</a>'

    def link_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        token = tokens[idx]
        url = str(token.attrGet("href") or "")
        return f'<a rel="noopener noreferrer nofollow" href="{_text(url)}">' if _SAFE_LINK.fullmatch(url) else "<a>"

    def td_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """Alignment as a class: the policy forbids style attributes."""
        aligned = str(tokens[idx].attrGet("style") or "").removeprefix("text-align:")
        known = f' class="{aligned}"' if aligned in ("left", "right", "center") else ""
        return f"<{tokens[idx].tag}{known}>"

    th_open = td_open


def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False}, renderer_cls=_Renderer).enable(
        ["table", "strikethrough"]
    )
    parser.validateLink = _is_safe  # type: ignore[method-assign]
    return parser


def _is_safe(url: str) -> Any:
    return _SAFE_LINK.fullmatch(url) is not None
