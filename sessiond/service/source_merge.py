"""Combines a session with what its source says now. Pure.

A tool may still write to what was imported: it completes a message, puts one between two others, or takes some away when it
compacts its history. A session follows its source in everything but the last: what the source no longer has stays where it
was, with `metadata.compacted`. What was changed or added here stays too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from sessiond.importers.record import digest_of
from sessiond.model.message import Message
from sessiond.model.values import Json, JsonObject, is_derived_id, same_json
from sessiond.service.later_form import is_shortened

K = TypeVar("K")
COMPACTED = "compacted"
"""Key in a message's metadata: the source once had the message, and no longer does."""
_VANISHED = "vanished"
"""Among the digests of fields: the source no longer has the session. So what it says when it is back is something new."""
_NEAR = 8
"""How far a message may be from its earlier form: messages that are gone, or were said here, may be in between. And Codex writes an
event first, and the item that says the same a few records later.
"""


class SourceDigest(msgspec.Struct, frozen=True):
    """A digest of what a source said when it was last read, without a word of it.

    `expected` and `expected_fields` are written before the session is: what it is about to be given. If they are there, a crash
    (or several) came in between, and the session may have any of these values.
    """

    messages: dict[bytes, bytes] = {}
    """Digest of the id -> digest of the message."""
    gone: dict[bytes, bytes] = {}
    """The same of messages that the source once had."""
    fields: dict[str, bytes] = {}
    """Digests of the session's fields; those of its metadata as `metadata.KEY`."""
    expected: dict[bytes, list[bytes]] = {}
    expected_fields: dict[str, list[bytes]] = {}
    arrived: bool = True
    """False: the session may not have been stored yet."""

    def of(self, message_id: str) -> tuple[bytes, ...]:
        """The digests that the session's message may have if nobody changed it here; the settled one first."""
        key = digest_of(message_id)
        found = (self.messages.get(key), self.gone.get(key), *self.expected.get(key, ()))
        return tuple(one for one in found if one is not None)

    def settled(self, message_id: str, digest: bytes) -> bool:
        """Return whether the source said the same when it was last read, and the session has it."""
        key = digest_of(message_id)
        return self.messages.get(key) == digest and key not in self.expected

    @property
    def is_settled(self) -> bool:
        """True if the session has what the source said."""
        return self.arrived and not self.expected and not self.expected_fields

    def known(self) -> set[bytes]:
        return self.messages.keys() | self.gone.keys() | self.expected.keys()

    def field(self, name: str) -> tuple[bytes, ...]:
        found = (self.fields.get(name), *self.expected_fields.get(name, ()))
        return tuple(one for one in found if one is not None)

    def ahead(self, messages: dict[bytes, bytes], fields: dict[str, bytes]) -> SourceDigest:
        """The digest to keep before the session is given these messages and fields."""
        changed = {key: value for key, value in messages.items() if self.messages.get(key) != value}
        return msgspec.structs.replace(
            self,
            expected=_with(self.expected, changed),
            expected_fields=_with(self.expected_fields, fields),
        )

    def now(self, messages: dict[bytes, bytes], fields: dict[str, bytes]) -> SourceDigest:
        """The digest to keep once the session has what the source says now."""
        earlier = self.gone | {key: values[-1] for key, values in self.expected.items()} | self.messages
        gone = {key: value for key, value in earlier.items() if key not in messages}
        return SourceDigest(messages, gone, fields)

    def grown(self, growths: Iterable[SourceGrowth]) -> SourceDigest:
        """The digest after what its source said since, one after the other."""
        messages, gone, fields = dict(self.messages), dict(self.gone), self.fields
        expected = {key: list(values) for key, values in self.expected.items()}
        expected_fields = self.expected_fields
        for one in growths:
            if one.announced:
                changed = {key: value for key, value in one.messages.items() if messages.get(key) != value}
                expected = _with(expected, changed)
                expected_fields = _with(expected_fields, one.fields or {})
                continue
            gone |= {key: values[-1] for key, values in expected.items()}
            gone |= {key: messages.pop(key) for key in one.gone if key in messages}
            messages |= one.messages
            for key in (*expected, *one.messages):
                if key in messages:
                    gone.pop(key, None)
            expected, expected_fields = {}, {}
            fields = fields if one.fields is None else one.fields
        return SourceDigest(messages, gone, fields, expected, expected_fields, self.arrived)

    def vanished(self) -> SourceDigest:
        """The digest to keep once the source has no such session any more. What it said of the session's fields stays known: it may
        come back, as if it had been looked at while its tool wrote it.
        """
        fields = {**self.fields, _VANISHED: b""}
        return msgspec.structs.replace(self.now({}, fields), expected_fields=self.expected_fields)

    @property
    def has_vanished(self) -> bool:
        return _VANISHED in self.fields


class SourceGrowth(msgspec.Struct, frozen=True, array_like=True):
    """The things that a source has said at its end since it was last read, as in SourceDigest. `gone`: what it does not say any
    more. `fields` None: as before. `announced`: the session is about to be given it.
    """

    messages: dict[bytes, bytes] = {}
    gone: list[bytes] = []
    fields: dict[str, bytes] | None = None
    announced: bool = False


def _with(expected: Mapping[K, list[bytes]], more: Mapping[K, bytes]) -> dict[K, list[bytes]]:
    joined = {key: list(values) for key, values in expected.items()}
    for key, value in more.items():
        values = joined.setdefault(key, [])
        if value not in values:
            values.append(value)
    return joined


def digest_of_message(wire: JsonObject, *, timed: bool = True) -> bytes:
    """Return the digest of a message, as `MessageRecord.digest`. `timed` False: as if the source gave it no time."""
    return digest_of({key: value for key, value in wire.items() if key != "id" and (timed or key != "timestamp")})


def said(message: Message, *, signed: bool) -> JsonObject:
    """The message as a source says it: without its seq, and (`signed`) without the author that its store gave it."""
    wire = message.wire()
    del wire["seq"]
    if signed:
        wire.pop("author", None)
    return wire


def is_marked(wire: Mapping[str, Json]) -> bool:
    return _metadata(wire).get(COMPACTED) is True


def marked(wire: JsonObject) -> JsonObject:
    """With the mark of a message that its source no longer has."""
    return {**wire, "metadata": {**_metadata(wire), COMPACTED: True}}


def unmarked(wire: JsonObject) -> JsonObject:
    """Without that mark."""
    metadata = {key: value for key, value in _metadata(wire).items() if key != COMPACTED}
    rest = {key: value for key, value in wire.items() if key != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


def supersedes(theirs: JsonObject, digest: bytes, ours: JsonObject, before: Collection[bytes]) -> bool:
    """Return whether the source's version of a message replaces ours. `before`: the digests of what the source said earlier.

    It does if nobody changed ours since the source said it. Where that is unknown, it does if it has every word of ours; what
    a source said before it said less of it is known by its mark. (How it replaces it: `later_form`.)
    """
    plain = unmarked(ours) if is_marked(ours) else ours
    here = {digest_of_message(plain), digest_of_message(plain, timed=False)}
    if digest in here:
        return plain is not ours
    return not here.isdisjoint(before) or is_shortened(ours) or _says_all_of(theirs, plain)


def merged_order(here: Sequence[str], source: Sequence[str]) -> list[str]:
    """The ids of both, in the order of the source. Messages that only the session has stay after the one that they followed."""
    known = set(source)
    behind: dict[str | None, list[str]] = {}
    anchor: str | None = None
    for one in here:
        if one in known:
            anchor = one
        else:
            behind.setdefault(anchor, []).append(one)
    order = behind.get(None, [])
    for one in source:
        order.append(one)
        order += behind.get(one, ())
    return order


def replaced(
    order: Sequence[str],
    lost: Mapping[str, JsonObject],
    marked: Mapping[str, JsonObject],
    new: Mapping[str, JsonObject],
    kept: Mapping[str, Json],
) -> set[str]:
    """Those of `lost` that were an earlier form of a new message: their id was derived from their words, and they were the last that the
    source said, so it was still being written. The next new message begins with all these words; or, if it was the assistant's last,
    one soon after it has the same words. Those that were lost before, and are `marked`, too, if the next new message begins with their
    words: the source was looked at while its tool wrote it again. But a prompt is complete when it is sent: if it went, one that
    begins like it is another one.

    `order`: the ids of both, merged. `kept`: those that are here and still in the source -> their role.
    """
    gone: set[str] = set()
    last, last_marked = True, True
    for place in range(len(order) - 1, -1, -1):
        one = order[place]
        ours = lost.get(one) or marked.get(one)
        role = kept.get(one, "tool") if ours is None else ours.get("role")
        if ours is not None and is_derived_id(one):
            following = order[place + 1 : place + 1 + _NEAR]
            may_grow = last and (one in lost or (last_marked and role != "user"))
            later = may_grow and _is_later(_next_new(following, new, kept), ours)
            if later or (one in lost and role == "assistant" and _is_repeated(following, new, ours)):
                gone.add(one)
        # Results may be there while the message with their calls is completed.
        if role != "tool":
            last, last_marked = last and one in marked, False
        if one not in marked and role not in ("tool", "user"):
            break
    return gone


def _next_new(following: Sequence[str], new: Mapping[str, JsonObject], kept: Collection[str]) -> JsonObject | None:
    """The next new message, if nothing that the source still has is before it."""
    found = next((one for one in following if one in new or one in kept), "")
    return new.get(found)


def _is_repeated(following: Sequence[str], new: Mapping[str, JsonObject], ours: JsonObject) -> bool:
    """Return whether a new message among those that follow says the same in the same words."""
    many = (new[one] for one in following if one in new)
    return any(_is_later(theirs, ours) and _same_words(theirs, ours) for theirs in many)


def _is_later(theirs: JsonObject | None, ours: JsonObject) -> bool:
    """Return whether a message begins with every word of one with another id, and has its calls."""
    return (
        theirs is not None
        and theirs.get("role") == ours.get("role")
        and ours.get("toolCallId") in (None, "", theirs.get("toolCallId"))
        # The rest of a character or line end that a cut left does not count as a word.
        and all(
            _text(theirs.get(key)).startswith(_text(ours.get(key)).rstrip(" \ufffd")) for key in ("content", "thinking")
        )
        and _has_calls(theirs.get("toolCalls"), ours.get("toolCalls"))
    )


def _same_words(theirs: JsonObject, ours: JsonObject) -> bool:
    return all(_text(theirs.get(key)) == _text(ours.get(key)) for key in ("content", "thinking"))


def _text(value: Json) -> str:
    if isinstance(value, list):
        return "\n".join(_text(one.get("text") if isinstance(one, dict) else one) for one in value)
    return value if isinstance(value, str) else ""


def learned(here: Mapping[str, Json], theirs: Mapping[str, Json], before: SourceDigest, prefix: str = "") -> JsonObject:
    """Fields of the source that are missing here and that it did not give before (otherwise a person removed them), or that here
    still have the value that the source gave before. A field that the source no longer has is None.
    """
    fresh: JsonObject = {}
    for key, value in theirs.items():
        ours = here.get(key)
        if value in (None, "") or same_json(ours, value):
            continue
        was_given = prefix + key in before.fields  # what is only expected may not have come before a crash
        if not was_given if ours in (None, "") else digest_of(ours) in before.field(prefix + key):
            fresh[key] = value
    for key, ours in here.items():
        if key not in theirs and digest_of(ours) in before.field(prefix + key):
            fresh[key] = None
    return fresh


def digests(fields: Mapping[str, Json], prefix: str = "") -> dict[str, bytes]:
    return {prefix + key: digest_of(value) for key, value in fields.items() if value not in (None, "")}


def _metadata(wire: Mapping[str, Json]) -> JsonObject:
    found = wire.get("metadata")
    return found if isinstance(found, dict) else {}


def _says_all_of(theirs: Mapping[str, Json], ours: Mapping[str, Json]) -> bool:
    """Return whether theirs may be a later version of ours that lacks none of its words."""
    return (
        theirs.get("role") == ours.get("role")
        and ours.get("toolCallId") in (None, "", theirs.get("toolCallId"))
        and _continues(theirs.get("content"), ours.get("content"))
        and _continues(theirs.get("thinking"), ours.get("thinking"))
        and _has_calls(theirs.get("toolCalls"), ours.get("toolCalls"))
    )


def _continues(theirs: Json, ours: Json) -> bool:
    if not ours or same_json(theirs, ours):
        return True
    if isinstance(theirs, str) and isinstance(ours, str):
        return theirs.startswith(ours)
    if isinstance(theirs, list):
        blocks = ours if isinstance(ours, list) else [{"type": "text", "text": ours}]
        return len(theirs) >= len(blocks) and all(_grew(*pair) for pair in zip(theirs, blocks, strict=False))
    return False


def _grew(theirs: Json, ours: Json) -> bool:
    texts = [one.get("text") if isinstance(one, dict) else None for one in (theirs, ours)]
    if all(isinstance(text, str) for text in texts):
        return str(texts[0]).startswith(str(texts[1]))
    return same_json(theirs, ours)


def _has_calls(theirs: Json, ours: Json) -> bool:
    there = {call.get("id"): call for call in _calls(theirs)}
    return all(
        call.get("id") in there and _has_arguments(there[call.get("id")].get("arguments"), call.get("arguments"))
        for call in _calls(ours)
    )


def _has_arguments(theirs: Json, ours: Json) -> bool:
    """Some tools write the arguments of a call as they come."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return all(key in theirs and _has_arguments(theirs[key], value) for key, value in ours.items())
    if isinstance(theirs, str) and isinstance(ours, str):
        return theirs.startswith(ours)
    return ours is None or ours in ("", {}, []) or same_json(theirs, ours)


def _calls(value: Json) -> Iterable[JsonObject]:
    return [call for call in value if isinstance(call, dict)] if isinstance(value, list) else []
