"""Org as Org itself sees it: headings, property drawers, times, and text that must not be taken for any of them. Pure.

A comma escapes text that looks like structure, at the place where Org looks (`,* x`, `,#+end_src`, `,:END:`). A line
that already has such commas gets one more, so that unescaping is exact. A comma does not stop Emacs from evaluating
`Local Variables:` and `<%%(...)>`: a zero-width space breaks those up.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping

import msgspec

from sessiond.model.values import Json, epoch_ms, timestamp

_BOM = b"\xef\xbb\xbf"
_HEADING = re.compile(rb"^(\*+) (.*)$", re.MULTILINE)
_LOOKS_LIKE_HEADING = re.compile(r"^(,*)(?=\*+(?:[ \t]|$))", re.MULTILINE)
_LOOKS_LIKE_ELEMENT = re.compile(
    r"^([ \t]*)(,*)(?=#\+|%%\(|:[^\s:]+:[ \t]*$|(?:CLOSED|DEADLINE|SCHEDULED|CLOCK):)", re.MULTILINE
)
_ESCAPED_HEADING = re.compile(r"^,(,*)(?=\*+(?:[ \t]|$))", re.MULTILINE)
_ESCAPED_ELEMENT = re.compile(
    r"^([ \t]*),(,*)(?=#\+|%%\(|:[^\s:]+:[ \t]*$|(?:CLOSED|DEADLINE|SCHEDULED|CLOCK):)", re.MULTILINE
)
_BREAK = "\u200b"
_EVALUATED = re.compile(rf"(Local Variables|<%%)({_BREAK}*)(?=[:(])", re.IGNORECASE)
_BROKEN_UP = re.compile(rf"(Local Variables|<%%){_BREAK}({_BREAK}*)(?=[:(])", re.IGNORECASE)
_FILE_VARIABLES = re.compile(r"-(?=\*-)")  # on a file's first line, which may be a title
# Emacs guesses a coding from such bytes (NUL: binary; ESC: ISO 2022) and would garble the whole file: they become pictures.
_PICTURES = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {0x7F: 0x2421}
_PROPERTY = re.compile(rb":(\S+?):(?=[ \t]|$)")
_PLANNING = re.compile(rb"[ \t]*(?:CLOSED|DEADLINE|SCHEDULED):[^\n]*\n")
_ORG_TIME = re.compile(r"[\[<](\d{4}-\d\d-\d\d)(?: [^\s\d\]>]+)?(?: (\d\d?:\d\d))?[^\]>]*[\]>]")
_LEADING_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)*")


class OrgSection(msgspec.Struct):
    """A heading and what follows it, up to the next heading of any level. Level 0: what comes before the first heading."""

    level: int
    title: str
    line: int
    """Line of the heading, 1-based."""
    raw: bytes
    properties: dict[str, str] = {}
    body: bytes = b""
    """What follows the heading and drawer."""
    drawer: tuple[int, int] | None = None
    """Start and end of the property drawer in `raw`."""


def sections(content: bytes) -> list[OrgSection]:
    """The sections in order; together their `raw` make up `content`. Text that is not valid UTF-8 is read with
    replacement characters.
    """
    # A byte order mark is not part of the first heading.
    skip = len(_BOM) if content.startswith(_BOM) else 0
    starts = [skip + match.start() for match in _HEADING.finditer(content[skip:])]
    first = starts[0] if starts else len(content)
    found = [OrgSection(0, "", 1, content[:first], body=content[:first])]
    line = 1 + content.count(b"\n", 0, first)
    for start, end in itertools.pairwise([*starts, len(content)]):
        raw = content[start:end]
        found.append(_section(raw, line))
        line += raw.count(b"\n")
    return found


def _section(raw: bytes, line: int) -> OrgSection:
    match = _HEADING.match(raw)
    assert match is not None
    after = raw.find(b"\n") + 1 or len(raw)
    section = OrgSection(len(match[1]), match[2].decode("utf-8", "replace").strip(" \t\r"), line, raw)
    planning = _PLANNING.match(raw, after)
    start = planning.end() if planning else after
    properties, end = _drawer(raw, start)
    if end > start:
        section.drawer = (start, end)
    section.properties = properties
    section.body = raw[end if section.drawer else after :]
    return section


def _drawer(raw: bytes, start: int) -> tuple[dict[str, str], int]:
    """The property drawer at `start` and where it ends (`start` if there is none). Keys are in upper case; the first of
    equal keys counts, as in Org.
    """
    position = raw.find(b"\n", start) + 1
    if position == 0 or raw[start:position].strip().upper() != b":PROPERTIES:":
        return {}, start
    properties: dict[str, str] = {}
    while position < len(raw):
        end = raw.find(b"\n", position) + 1 or len(raw)
        line = raw[position:end]
        if line.strip().upper() == b":END:":
            return properties, end
        stripped = line.strip()
        match = _PROPERTY.match(stripped)
        if match is None:
            break
        value = stripped[match.end() :].strip()
        properties.setdefault(match[1].decode("utf-8", "replace").upper(), value.decode("utf-8", "replace"))
        position = end
    return {}, start


def drawer(properties: Mapping[str, str]) -> str:
    """A property drawer with its final newline. Values must be single lines."""
    return (
        ":PROPERTIES:\n"
        + "".join(f":{key}: {value}".rstrip(" ") + "\n" for key, value in properties.items())
        + ":END:\n"
    )


def property_json(value: Json) -> str:
    """JSON on one line, safe as a property value: Emacs evaluates nothing in it, and nothing in it ends the drawer."""
    text = msgspec.json.encode(value).decode()
    return _EVALUATED.sub(lambda match: f"{_unicode_escape(match[1][0])}{match[0][1:]}", text)


def _unicode_escape(char: str) -> str:
    return f"\\u{ord(char):04x}"


def escape(text: str) -> str:
    """Escape the text of a body, so that Org sees only text in it."""
    text = _LOOKS_LIKE_HEADING.sub(r"\1,", text)
    text = _LOOKS_LIKE_ELEMENT.sub(r"\1\2,", text)
    return _EVALUATED.sub(rf"\1\2{_BREAK}", text)


def unescape(text: str) -> str:
    """The inverse of `escape`."""
    text = _BROKEN_UP.sub(r"\1\2", text)
    text = _ESCAPED_HEADING.sub(r"\1", text)
    return _ESCAPED_ELEMENT.sub(r"\1\2", text)


def one_line(text: str) -> str:
    """A title or property value: control characters and line ends become blanks, and Emacs evaluates nothing in it."""
    flat = " ".join("".join(" " if ord(char) < 32 or char in "\x7f\x85\u2028\u2029" else char for char in text).split())
    return _FILE_VARIABLES.sub(f"-{_BREAK}", _EVALUATED.sub(rf"\1\2{_BREAK}", flat))


class ShownText(msgspec.Struct, frozen=True):
    """A text as shown in a body, and what else must be kept to restore it exactly (`pad`: what was around it;
    `content`: all of it).
    """

    text: str
    extra: dict[str, Json]

    def exact(self) -> str:
        return restore(self.text, self.extra)


def show(content: str) -> ShownText:
    body = content.rstrip(" \t\r\n")
    leading = _LEADING_BLANK_LINES.match(body)
    before = leading[0] if leading else ""
    after = content[len(body) :]
    body = body[len(before) :]
    text = escape(body.replace("\r\n", "\n").translate(_PICTURES))
    extra: dict[str, Json] = {"pad": [before, after]} if before or after else {}
    return ShownText(text, extra if restore(text, extra) == content else {"content": content})


def restore(text: str, extra: Mapping[str, Json]) -> str:
    """The text that was shown as `text`. If somebody has edited it since, the edited text counts."""
    exact = extra.get("content")
    if isinstance(exact, str) and show(exact).text == text:
        return exact
    match extra.get("pad"):
        case [str(before), str(after)]:
            return before + unescape(text) + after
    return unescape(text)


def body_text(body: bytes, *, crlf: bool) -> str:
    """The text of a body without the blank lines around it, and with plain newlines if the file has CRLF."""
    text = body.decode("utf-8", "replace")
    if crlf:
        text = text.replace("\r\n", "\n")
    text = text.rstrip(" \t\r\n")
    leading = _LEADING_BLANK_LINES.match(text)
    return text[leading.end() :] if leading else text


def is_crlf(content: bytes) -> bool:
    """Return whether lines end with CRLF, judged by the first one."""
    end = content.find(b"\n")
    return end > 0 and content[end - 1 : end] == b"\r"


def line_ends(text: str, *, crlf: bool) -> bytes:
    return (text.replace("\n", "\r\n") if crlf else text).encode()


def time_of(text: str) -> str | None:
    """RFC 3339 or an Org timestamp -> the protocol's form; None for anything else. A time without a zone is local."""
    match = _ORG_TIME.fullmatch(text.strip())
    if match:
        clock = (match[2] or "00:00").rjust(5, "0")
        text = f"{match[1]}T{clock}:00"
    try:
        return timestamp(epoch_ms(text))
    except (ValueError, OverflowError):
        return None


def is_preamble(content: bytes) -> bool:
    """Return whether there are only keywords, comments, drawers and blank lines: an Org file without any content yet."""
    lines: Iterable[bytes] = content.removeprefix(_BOM).split(b"\n")
    return all(not line.strip() or line.lstrip()[:1] in b"#:" for line in lines)
