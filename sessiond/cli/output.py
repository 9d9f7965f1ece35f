"""The output of commands: JSON for scripts, tables for people, and never a control character from somebody's text."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from sessiond.words import local_time

ENDED = "the daemon closed the connection; the request may or may not have been carried out"
_BIDI = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_NO_TEXT = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
"""What Python turns the bytes of a file name into that it cannot decode."""
_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0), *_BIDI) if code not in (0x09, 0x0A)} | _NO_TEXT
_BLANKS = dict.fromkeys((*_CONTROLS, 0x09, 0x0A, 0x2028, 0x2029), " ") | _NO_TEXT
_IN_JSON = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_BIDI)} | _NO_TEXT
"""JSON itself requires C0 to be escaped. These it allows as they are, and a terminal would obey them."""
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def clean(text: str) -> str:
    """Without C0, C1, DEL and bidi controls, which could rewrite what a terminal shows. Newline and tab stay."""
    return text.translate(_CONTROLS)


def in_place(text: str) -> str:
    """Clean and on one line, with a blank for each character that is not shown, so that offsets stay valid."""
    return text.translate(_BLANKS)


def one_line(text: str, width: int | None = None) -> str:
    """Clean, all whitespace as single blanks, cut to `width` characters."""
    line = " ".join(clean(text).split())
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def print_json(value: object) -> None:
    """One JSON document on one line. Characters that a terminal would obey are escaped, which keeps the value the same. So
    is everything beyond ASCII if the output's encoding is not UTF-8.
    """
    import json  # most commands print no JSON

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_IN_JSON)
    if not _is_utf8(sys.stdout):
        text = _BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _is_utf8(stream: object) -> bool:
    encoding = getattr(stream, "encoding", None)
    return encoding is None or codecs.lookup(encoding).name == "utf-8"


def for_people() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def say(text: str = "") -> None:
    """One line for people."""
    print(clean(text))


def note(text: str) -> None:
    """One line for people next to output for a script: on standard error, after what was printed so far."""
    sys.stdout.flush()
    print(f"sessiond: {clean(text)}", file=sys.stderr)


def reason(error: OSError) -> str:
    """Say why the system refused something, as other commands of a shell say it: without the number of the error."""
    if error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{os.fsdecode(error.filename)}: {error.strerror}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal; otherwise tab-separated lines without headings, ready for `cut` and `awk`."""
    if not for_people():
        for row in rows:
            print("\t".join(one_line(cell) for cell in row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for nth, heading in enumerate(headings):
        drawn.add_column(heading, no_wrap=nth == 0, overflow="fold" if nth == 0 else "ellipsis")
    for row in rows:
        drawn.add_row(*(Text(one_line(cell)) for cell in row))
    Console().print(drawn)


def content_text(content: object) -> str:
    """A message's content as text, with all of its words. A block that has no text form is shown as JSON, behind its type."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return _one_value(content)
    return "\n".join(_block_text(block) for block in content)


def _one_value(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _block_text(block: object) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return _one_value(block)
    kind = block.get("type", "block")
    text = block.get("text" if kind in _TEXTS else "thinking")
    if kind in (*_TEXTS, "thinking") and isinstance(text, str):
        return text
    if kind == "tool_use":
        return _call(block.get("name"), block.get("input"))
    if kind == "tool_result" and "content" in block:
        return content_text(block["content"])
    return _other_text(kind, block)


_TEXTS = ("text", "input_text", "output_text")


def _other_text(kind: object, block: dict[str, object]) -> str:
    """Return the text of a block: of a picture where it is, unless the session contains it; of anything else all that it has."""
    from sessiond.exporters.turns import IMAGES, image_in  # as in `parts_of`

    if kind in IMAGES and (image := image_in(block)) is not None:
        return f"[{kind}: {image.url}]" if image.url else f"[{kind}]"
    rest = {key: value for key, value in block.items() if key != "type"}
    return f"[{kind}] {_one_value(rest)}" if rest else f"[{kind}]"


def _call(name: object, arguments: object) -> str:
    return one_line(f"→ {name or '?'} {arguments if isinstance(arguments, str) else _one_value(arguments)}")


BRIEF = 200
"""Characters of a call where it has one line."""


class MessageText(NamedTuple):
    """A message as `show` and `tail` print it: a line with role and time, its thinking, its text, and a line for each call."""

    head: str
    thinking: str
    text: str
    calls: list[str]


def message_text(message: dict[str, object]) -> str:
    """Return a message as it is printed while it is said: without thinking, with the calls in brief."""
    head, _, text, calls = parts_of(message)
    return "\n".join([head, text, *(one_line(call, BRIEF) for call in calls)])


def parts_of(message: dict[str, Any]) -> MessageText:
    from sessiond.exporters.turns import MARKS  # only commands that print messages pay for this import

    metadata = message.get("metadata") or {}
    said = [words for key, words in MARKS if metadata.get(key) is True]
    if message.get("status") not in (None, "done"):
        said.append(message["status"])
    marks = f" [{', '.join(said)}]" if said else ""
    when = local_time(str(message.get("timestamp", "")))
    author = message.get("author")
    by = f" ({author})" if isinstance(author, str) and author else ""
    head = f"── {message.get('role', '?')}{by} #{message.get('seq', '?')} {when}{marks}"
    found = [one for one in message.get("toolCalls") or [] if isinstance(one, dict)]
    calls = [_call(one.get("name"), one.get("arguments")) for one in found]
    thinking, text = str(message.get("thinking") or ""), content_text(message.get("content", ""))
    return MessageText(one_line(head), clean(thinking).rstrip("\n"), clean(text).rstrip("\n"), calls)
