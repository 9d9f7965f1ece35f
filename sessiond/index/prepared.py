"""Messages -> what the index writes for them: their words, and their texts in compressed chunks. Pure.

This is Python's half of indexing, apart from SQLite's, so that it can be done in another process (`preparing_worker.py`).
The same messages give the same words in both processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from sessiond.index import chunks
from sessiond.index.sessions import moment
from sessiond.index.text import Texts, searchable
from sessiond.index.tokens import identifiers, plain, stream
from sessiond.model.message import Message

BARRIER = " \u00b7 "
"""Between texts, and between the parts of two identifiers: a token that never occurs in a text, so that phrases do not cross it."""

Columns: TypeAlias = tuple[str, str, str, str, str, str]
"""body, tool, parts, tool_parts, thought, thought_parts: a document's words as FTS5 gets them."""

UsageColumns: TypeAlias = tuple[int, int, int, int, int, float | None, str | None, str | None]
"""What a message reports of used tokens, in the order of the table `usage`."""

_encoder = msgspec.msgpack.Encoder()


class PackedChunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`live`: how many documents are in it. `starts`: where each begins, packed. `data`: its compressed bytes."""

    live: int
    starts: bytes
    data: bytes


class PreparedDoc(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message. `at` in milliseconds since 1970; `chunk` counts from 0 within the same Prepared."""

    key: str
    seq: int
    at: int
    role: str
    chunk: int
    start: int
    size: int
    columns: Columns
    usage: UsageColumns | None = None


class Prepared(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`bad`: the ids of messages whose words could not be found, and why. They are documents without words."""

    docs: list[PreparedDoc]
    chunks: list[PackedChunk]
    bad: list[tuple[str, str]] = []


def prepare(messages: Iterable[Message]) -> Prepared:
    docs: list[PreparedDoc] = []
    bad: list[tuple[str, str]] = []
    packed = Packing()
    for message in messages:
        found = read(message)
        if found.problem is not None:
            bad.append((message.id, found.problem))
        chunk, start, size = packed.add(chunks.pack(message.id, found.texts))
        at = moment(message.timestamp)
        words = columns(found.texts)
        docs.append(PreparedDoc(message.id, message.seq, at, message.role, chunk, start, size, words, found.usage))
    return Prepared(docs, packed.end(), bad)


def apart(prepared: Prepared) -> Iterator[Prepared]:
    """The same documents, each by itself, for when they cannot be written together."""
    bad = dict(prepared.bad)
    for doc, texts in texts_of(prepared):
        packed = Packing()
        chunk, start, size = packed.add(chunks.pack(doc.key, texts))
        one = msgspec.structs.replace(doc, chunk=chunk, start=start, size=size)
        yield Prepared([one], packed.end(), [(doc.key, bad[doc.key])] if doc.key in bad else [])


class ReadMessage(msgspec.Struct, frozen=True, gc=False):
    """The part of a message that the index takes. `problem`: why that is nothing."""

    texts: Texts
    usage: UsageColumns | None = None
    problem: str | None = None


def read(message: Message) -> ReadMessage:
    """Never raises: whatever anybody wrote into a message costs that message only."""
    try:
        return ReadMessage(searchable(message), usage_of(message))
    except Exception as error:  # a bug of ours, with one message: those around it are found
        return ReadMessage([], problem=f"{type(error).__name__}: {error}")


def usage_of(message: Message) -> UsageColumns | None:
    metadata = message.rest.get("metadata")
    if not isinstance(metadata, dict) or "tokens" not in metadata:
        return None
    from sessiond.model.token_usage import token_usage_of  # a start is faster

    found = token_usage_of(metadata)
    if found is None:
        return None
    counts = (found.input, found.cache_read, found.cache_write, found.output, found.reasoning)
    return (*counts, found.cost, found.model, found.request)


def texts_of(prepared: Prepared) -> Iterator[tuple[PreparedDoc, Texts]]:
    """The documents with their texts, read back from the chunks."""
    data = [chunks.decompress(chunk.data) for chunk in prepared.chunks]
    for doc in prepared.docs:
        yield doc, chunks.unpack(data[doc.chunk][doc.start : doc.start + doc.size])[1]  # type: ignore[misc]


class Packing:
    """Puts packed documents into chunks, one after another."""

    def __init__(self) -> None:
        self._done: list[PackedChunk] = []
        self._data = bytearray()
        self._starts: list[int] = []

    def add(self, packed: bytes) -> tuple[int, int, int]:
        """Its place: the chunk's number from 0, start, size."""
        place = len(self._done), len(self._data), len(packed)
        self._starts.append(len(self._data))
        self._data += packed
        if len(self._data) >= chunks.CHUNK_BYTES:
            self.close()
        return place

    def end(self) -> list[PackedChunk]:
        self.close()
        return self._done

    def close(self) -> None:
        """End the chunk: what is added next goes into a chunk of its own."""
        if self._starts:
            starts, data = chunks.packed_starts(self._starts), chunks.compress(bytes(self._data))
            self._done.append(PackedChunk(len(self._starts), starts, data))
            self._data, self._starts = bytearray(), []


def columns(texts: Texts) -> Columns:
    """Always the same for the same texts: FTS5 does not keep the text, and needs the same words again to remove them."""
    if len(texts) == 1 and texts[0][0] == "text":
        bare = plain(texts[0][1])
        return stream(bare), "", _parts(identifiers(bare)), "", "", ""
    streams: dict[str, list[str]] = {"text": [], "tool": [], "thought": []}
    inside: dict[str, set[str]] = {"text": set(), "tool": set(), "thought": set()}
    for kind, text in texts:
        bare = plain(text)
        streams[kind].append(stream(bare))
        inside[kind].update(identifiers(bare))
    return (
        BARRIER.join(streams["text"]),
        BARRIER.join(streams["tool"]),
        _parts(inside["text"]),
        _parts(inside["tool"]),
        BARRIER.join(streams["thought"]),
        _parts(inside["thought"]),
    )


def _parts(found: set[str]) -> str:
    return BARRIER.join(sorted(found)) if found else ""


# As bytes: on the way to the worker and back, and while they wait


def requested(messages: Sequence[Message]) -> bytes:
    """The fields that `prepare` uses, as MessagePack: much less than the whole messages. Raises msgspec's error for values
    that do not fit.
    """
    return _encoder.encode(
        [
            (m.id, m.seq, m.role, m.content, m.timestamp, m.rest.get("toolCalls"), m.rest.get("thinking"), _tokens(m))
            for m in messages
        ]
    )


def _tokens(message: Message) -> Any:
    metadata = message.rest.get("metadata")
    return metadata.get("tokens") if isinstance(metadata, dict) else None


def prepare_requested(request: bytes) -> Prepared:
    """The same as `prepare` of the messages."""
    rows: list[Any] = msgspec.msgpack.decode(request)
    return prepare(
        Message(
            id=key,
            seq=seq,
            role=role,
            content=content,
            timestamp=timestamp,
            rest={"toolCalls": calls, "thinking": thinking, "metadata": {"tokens": tokens}}
            if calls or thinking or tokens
            else {},
        )
        for key, seq, role, content, timestamp, calls, thinking, tokens in rows
    )


_decoder = msgspec.msgpack.Decoder(Prepared)


def answered(prepared: Prepared) -> bytes:
    return _encoder.encode(prepared)


def from_answer(answer: bytes) -> Prepared:
    """The inverse of `answered`."""
    return _decoder.decode(answer)
