"""The text of string and character literals in both dialects."""

from __future__ import annotations

import re
import unicodedata

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(
    r"\\(?:(?P<ignored>[\n ])|(?P<control>(?:[CM]-|\^)+)|u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})"
    r"|x(?P<hex>[0-9a-fA-F]*)|(?P<octal>[0-7]{1,3})|N\{(?P<name>[^}]{1,100})\}|(?P<plain>.))",
    re.DOTALL,
)
_PLAIN = {
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    "s": " ",
    "d": "\x7f",
}
_META = 0x80


def without_surrogates(text: str) -> str:
    """Replaces bytes that were not UTF-8, and lone surrogates, with U+FFFD, because they cannot be kept or sent."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def common_string(literal: str) -> str:
    """Return what Common Lisp's `read` makes of `"..."`: a backslash makes the next character literal."""
    body = literal[1:-1]
    if "\\" in body:
        body = re.sub(r"\\(.)", r"\1", body, flags=re.DOTALL)
    return without_surrogates(body)


def emacs_string(literal: str) -> str:
    """Return what Emacs's `read` makes of `"..."`. Raw bytes (octal or hexadecimal, 128 to 255) are read as UTF-8 if they are
    valid.
    """
    body = literal[1:-1]
    if "\\" not in body:
        return without_surrogates(body)
    parts: list[str] = []
    raw = bytearray()
    position = 0
    while position < len(body):
        slash = body.find("\\", position)
        if slash != position:
            _flush(raw, parts)
            parts.append(body[position : slash if slash >= 0 else len(body)])
            if slash < 0:
                break
        code, position = _escape(body, slash)
        if code is None:
            continue
        if code < 0:
            raw.append(-code)
            continue
        _flush(raw, parts)
        parts.append(_char(code))
    _flush(raw, parts)
    return without_surrogates("".join(parts))


def _flush(raw: bytearray, parts: list[str]) -> None:
    if raw:
        parts.append(raw.decode("utf-8", "replace"))
        raw.clear()


def _char(code: int) -> str:
    return chr(code) if code < 0x110000 else "\ufffd"


def _escape(body: str, slash: int) -> tuple[int | None, int]:
    """Code of the escape at `slash` (None: nothing; negative: a raw byte) and the position after it."""
    match = _ESCAPE.match(body, slash)
    if match is None:
        return 0xFFFD, slash + 1
    end = match.end()
    match match.lastgroup:
        case "ignored":
            return None, end
        case "control":
            return _modified(body, match["control"], end)
        case "u4" | "u8":
            return int(match[match.lastgroup], 16), end
        case "hex" | "octal":
            code = int(match[match.lastgroup][:12] or "0", 16 if match.lastgroup == "hex" else 8)
            return (-code if 0x80 <= code <= 0xFF else code), end
        case "name":
            return _named(match["name"]), end
    plain = match["plain"]
    return ord(_PLAIN.get(plain, plain)), end


def _modified(body: str, modifiers: str, position: int) -> tuple[int | None, int]:
    """A character after C-, ^ or M-: control clears the upper bits, meta makes a raw byte."""
    if position >= len(body):
        return 0xFFFD, position
    code, end = _escape(body, position) if body[position] == "\\" else (ord(body[position]), position + 1)
    meta = code is not None and code < 0
    code = abs(code or 0)
    if "C" in modifiers or "^" in modifiers:
        code = 0x7F if code == 0x3F else code & 0x1F
    if "M" in modifiers or meta:
        return -((code & 0x7F) | _META), end
    return code, end


def _named(name: str) -> int:
    if name.startswith("U+"):
        return int(f"0{name[2:]}", 16) if re.fullmatch(r"[0-9a-fA-F]{1,6}", name[2:]) else 0xFFFD
    try:
        return ord(unicodedata.lookup(name))
    except (KeyError, TypeError):
        return 0xFFFD


def emacs_char(literal: str) -> int:
    """The code of `?x`. Of the modifiers, only control counts."""
    body = re.sub(r"^(?:\\[SHAs]-)+", "", literal[1:])
    code = _escape(body, 0)[0] if body.startswith("\\") else ord(body[0]) if body else 0
    return abs(code or 0)


_COMMON_NAMES = {
    "space": " ",
    "newline": "\n",
    "linefeed": "\n",
    "tab": "\t",
    "page": "\f",
    "return": "\r",
    "backspace": "\b",
    "rubout": "\x7f",
    "nul": "\0",
    "null": "\0",
    "escape": "\x1b",
    "esc": "\x1b",
}


def common_char(literal: str) -> str:
    """The character of `#\\x`, or the literal itself if its name is unknown."""
    name = literal[2:]
    return without_surrogates(name) if len(name) == 1 else _COMMON_NAMES.get(name.lower(), literal)
