"""Search by brute force: examines every message, character by character, and shares only the choice of searched texts
(`text.py`) with the index.

A query is given as structure, so that the parser is tested too: `Term` and `Cond` know how they are typed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from sessiond.index.text import searchable, searchable_name, searchable_note
from sessiond.index.values import IndexedInfo
from sessiond.model.message import Message, Note


def fold(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(c for c in decomposed if not (unicodedata.combining(c) == 230 and c < "\u0370"))
    return unicodedata.normalize("NFC", bare)


def is_single(char: str) -> bool:
    """Whether a character is a word of its own: the scripts without blanks, and symbols."""
    if char.isascii():
        return False
    name = unicodedata.name(char, "")
    if name.startswith(
        ("CJK UNIFIED", "HIRAGANA LETTER", "KATAKANA LETTER", "KATAKANA-HIRAGANA PROLONGED", "HANGUL SYLLABLE")
    ):
        return True
    return unicodedata.category(char) in ("So", "Sc", "Sm")


@lru_cache(maxsize=10_000)
def words(text: str) -> list[str]:
    """Words in order, case kept."""
    out: list[str] = []
    run = ""
    for char in fold(text):
        if char.isalnum() and not is_single(char):
            run += char
            continue
        if run:
            out.append(run)
            run = ""
        if is_single(char):
            out.append(char)
    return [*out, run] if run else out


@lru_cache(maxsize=10_000)
def camel(word: str) -> list[str]:
    """Parts of a word in order, folded; just the word where it has none, and where it is longer than any identifier (128)."""
    if len(word) > 128:
        return [word.casefold()]
    out = [word[0]]
    for i in range(1, len(word)):
        rises = word[i].isupper() and (word[i - 1].islower() or word[i - 1].isdigit())
        falls = word[i].isupper() and word[i - 1].isupper() and i + 1 < len(word) and word[i + 1].islower()
        if rises or falls:
            out.append("")
        out[-1] += word[i]
    return [part.casefold() for part in out]


@dataclass(frozen=True)
class Term:
    text: str
    quoted: bool = False
    prefix: bool = False
    negated: bool = False

    def typed(self) -> str:
        body = f'"{self.text}"' if self.quoted else self.text + ("*" if self.prefix else "")
        return ("-" if self.negated else "") + body

    def holds(self, doc: Doc, kinds: Sequence[str]) -> bool:
        texts = [text for kind, text in doc.texts if kind in kinds]
        return any(self._in(text) for text in texts) != self.negated

    def _in(self, text: str) -> bool:
        wanted = [word.casefold() for word in words(self.text)]
        here = words(text)
        if self._run(wanted, [word.casefold() for word in here]):
            return True
        if len(wanted) > 1:
            return False
        parts = camel(words(self.text)[0])
        for word in here:
            inside = camel(word)
            if len(inside) > 1 and (self._run(wanted, inside) or (len(parts) > 1 and self._run(parts, inside))):
                return True
        return False

    def _run(self, wanted: Sequence[str], among: Sequence[str]) -> bool:
        for start in range(len(among) - len(wanted) + 1):
            piece = among[start : start + len(wanted)]
            same = piece[-1].startswith(wanted[-1]) if self.prefix else piece[-1] == wanted[-1]
            if same and list(piece[:-1]) == list(wanted[:-1]):
                return True
        return False


@dataclass(frozen=True)
class Cond:
    key: str
    value: str
    negated: bool = False

    def typed(self) -> str:
        value = f'"{self.value}"' if " " in self.value else self.value
        return f"{'-' if self.negated else ''}{self.key}:{value}"

    def holds(self, doc: Doc, kinds: Sequence[str]) -> bool:
        return self._true(doc) != self.negated

    def _true(self, doc: Doc) -> bool:
        match self.key:
            case "in":
                return doc.kind == "name"
            case "role":
                return doc.role == self.value
            case "tag":
                return self.value.lower() in [tag.lower() for tag in doc.info.tags]
            case "store":
                return doc.info.store == self.value
            case "model":
                return doc.info.model == self.value
            case "cwd":
                return f"/{self.value}/" in f"{doc.info.cwd}/" if doc.info.cwd else False
            case "before":
                return doc.at < self.value
            case "after":
                return doc.at >= self.value
        raise AssertionError(self.key)


@dataclass(frozen=True)
class Asked:
    groups: tuple[tuple[Term | Cond, ...], ...]
    thinking: bool = False
    tools: bool = True

    def typed(self) -> str:
        text = " ".join(" OR ".join(atom.typed() for atom in group) for group in self.groups)
        text = f"{text} in:thinking" if self.thinking else text
        return text if self.tools else f"-in:tools {text}"

    def kinds(self) -> list[str]:
        return ["text", *(["tool"] if self.tools else []), *(["thought"] if self.thinking else [])]


@dataclass(frozen=True)
class Doc:
    """`key`: what a hit of it is known by, (session id, seq or None for the name)."""

    key: tuple[str, int | None]
    kind: str
    role: str | None
    at: str
    texts: list[tuple[str, str]]
    info: IndexedInfo


@dataclass
class Corpus:
    """The sessions that there are, as the service would feed them."""

    infos: dict[str, IndexedInfo] = field(default_factory=dict)
    messages: dict[str, list[Message]] = field(default_factory=dict)
    notes: dict[str, list[Note]] = field(default_factory=dict)

    def docs(self, *, archived: bool = False) -> list[Doc]:
        out = []
        for session_id, info in self.infos.items():
            if info.deleted or info.archived != archived:
                continue
            if info.name:
                out.append(
                    Doc((session_id, None), "name", None, info.updated_at, list(searchable_name(info.name)), info)
                )
            out += [
                Doc((session_id, note.seq), "note", None, note.timestamp, list(searchable_note(note)), info)
                for note in self.notes.get(session_id, [])
            ]
            out += [
                Doc((session_id, m.seq), "message", m.role, m.timestamp, list(searchable(m)), info)
                for m in self.messages.get(session_id, [])
            ]
        return out

    def found(self, asked: Asked, *, archived: bool = False) -> set[tuple[str, int | None]]:
        return {
            doc.key
            for doc in self.docs(archived=archived)
            if all(any(atom.holds(doc, asked.kinds()) for atom in group) for group in asked.groups)
        }
