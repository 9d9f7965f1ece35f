"""Records of a tree that are in their file more than once, under the same `uuid`.

What was said decides, not the whole record: a copy that the tool wrote when it branched or resumed has another parent, time or
version. A copy that goes on from what was said is its later form, and one that says less is an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sessiond.importers.alone import failed_on
from sessiond.importers.blocks import MessageParts, parts_of, text_of
from sessiond.importers.claude_code_tree import Tree
from sessiond.importers.jsontext import as_text, encoded
from sessiond.importers.lines import objects
from sessiond.importers.record import Opener, SkippedLine
from sessiond.importers.source_file import mapped, word
from sessiond.limits import MIB
from sessiond.model.token_usage import count
from sessiond.model.values import JsonObject

REPEAT = "a repeat of an earlier record"
_PROGRESS = "progress"
_LATER_BYTES = 64 * MIB
"""How much of the later forms of a file's records is held at a time. A form beyond that is a message of its own."""


class _Begun(NamedTuple):
    """The length and the hash of a text: another text begins with it if so much of it has this hash."""

    length: int
    hash: int

    def begins(self, text: str) -> bool:
        return len(text) >= self.length and hash(text[: self.length]) == self.hash


class _Form(NamedTuple):
    """The content of a record, as lengths and hashes. They hold within one process."""

    by: tuple[Any, ...]
    """Who says it, and to which calls it answers."""
    text: _Begun
    thinking: _Begun
    items: tuple[int, ...]
    """Calls, images, and whatever else is not a text."""

    def begins(self, said: _Said) -> bool:
        """Return whether `said` goes on from here, or is the same."""
        return (
            self.by == said.by
            and self.text.begins(said.text)
            and self.thinking.begins(said.thinking)
            and self.items == said.items[: len(self.items)]
        )


class _Said(NamedTuple):
    by: tuple[Any, ...]
    text: str
    thinking: str
    items: tuple[int, ...]

    def form(self) -> _Form:
        return _Form(self.by, _begun(self.text), _begun(self.thinking), self.items)


def _begun(text: str) -> _Begun:
    return _Begun(len(text), hash(text))


def _said(record: JsonObject) -> _Said:
    message = mapped(record.get("message"))
    parts = parts_of(message.get("content", message.get("parts", record.get("content"))))
    rest = [record[key] for key in ("attachment", "systemPayload") if record.get(key) is not None]
    items = tuple(hash(encoded(one) or as_text(one)) for one in (*_other_blocks(parts), *parts.calls, *rest))
    by = (record.get("type"), message.get("role"), *parts.result_ids)
    return _Said(by, text_of(parts.content), parts.thinking or "", items)


def _other_blocks(parts: MessageParts) -> list[object]:
    content = [] if isinstance(parts.content, str) else parts.content
    return [block for block in content if not text_of([block])]


class _Fullest:
    """While a file is surveyed: of each record, the fullest form so far with its output, and the bytes that may still be held."""

    def __init__(self) -> None:
        self.forms: dict[str, tuple[_Form, int]] = {}
        self.room = _LATER_BYTES


class ClaudeCodeRepeats:
    """Give it each record, in the file's order. Reads the file if any of its records come again; raises OSError. `has`: whether
    there is a message with this id.
    """

    def __init__(self, path: str, open_: Opener, tree: Tree, has: Callable[[str], bool]) -> None:
        self._uuids, self._lines, self._has = tree.repeated, tree.lines, has
        self._forms: dict[str, list[_Form]] = {}
        self._later: dict[str, JsonObject] = {}
        """The fullest form of a record, if that is not its first."""
        self._known: dict[str, frozenset[_Form]] = {}
        """Of records that were taken: the forms that say nothing more."""
        self.failed: list[SkippedLine] = []
        """Records of which nothing is known, for an error of ours."""
        if self._uuids:
            self._survey(path, open_)

    def _survey(self, path: str, open_: Opener) -> None:
        found = _Fullest()
        for item in objects(path, open_):
            if isinstance(item, SkippedLine):
                continue
            try:
                self._note(item[1], found)
            except Exception as error:  # what the other records say stands
                self.failed.append(failed_on(path, "what this record says again", error, item[0]))

    def _note(self, record: JsonObject, found: _Fullest) -> None:
        uuid = self._ours(record)
        if uuid is None:
            return
        said = _said(record)
        form, used = said.form(), _output(record)
        forms = self._forms.setdefault(uuid, [])
        if form not in forms:
            forms.append(form)
        if uuid not in found.forms:
            found.forms[uuid] = form, used
            return
        before, used_before = found.forms[uuid]
        if before.begins(said) and (form != before or used > used_before):
            found.room -= len(as_text(record))
            if found.room >= 0:
                found.forms[uuid] = form, used
                self._later[uuid] = record

    def take(self, line: int, record: JsonObject) -> JsonObject | None:
        """The record in its fullest form; None if what it says was taken before."""
        uuid = self._ours(record)
        if uuid is None:
            # A copy that was written since the file's tree was read is left to the next reading, which knows its other forms.
            since = line > self._lines and self._has(word(record.get("uuid")))
            return None if since else record
        known = self._known.get(uuid)
        if known is not None:
            return None if _said(record).form() in known else record
        if (later := self._later.pop(uuid, None)) is not None:
            # A copy may have lost its parent.
            record = {**record, **{key: value for key, value in later.items() if value is not None}}
        said = _said(record)
        self._known[uuid] = frozenset(form for form in self._forms.pop(uuid, ()) if form.begins(said))
        return record

    def _ours(self, record: JsonObject) -> str | None:
        uuid = record.get("uuid")
        return uuid if isinstance(uuid, str) and uuid in self._uuids and record.get("type") != _PROGRESS else None


def _output(record: JsonObject) -> int:
    """The tokens of the answer so far: a record may come again when it is complete."""
    return count(mapped(mapped(record.get("message")).get("usage")).get("output_tokens"))
