"""A file of JSON Lines that is followed is read on where it was read to its end, and the session is that of an import of the whole.

Real files grow by a record or by random bytes. In random lives a tool appends records of all kinds, goes back to an older one, says
one again, cuts its file, writes to its middle or replaces it, while people write to the session, edit and delete; a second service
does the same and always reads the file whole.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from growing import record_ends
from test_codex_import import event, item, meta, words

from sessiond.importers import claude_code, growth, registry
from sessiond.importers.growth import BLOCK, Growth
from sessiond.importers.kept_output import FOLDER
from sessiond.importers.reader import ImportReader
from sessiond.importers.reading import Counter, SourceReading
from sessiond.importers.record import Event, MessageRecord, SessionStart
from sessiond.limits import Limits
from sessiond.service import kept_sources
from sessiond.service.kept_sources import KeptSource, KeptSources
from tests.fakes.peer import FakePeer
from tests.importers.collected import corpus
from tests.importers.test_agents_of_today import claude, qwen
from tests.service.test_follow_equals_import import grow, shown
from tests.service.test_intake import SHORTENED, Served
from tests.suite.explore import EVERYTHING, SEED, seeds

RECORDS = 100_000 if EVERYTHING else 100
STEPS = 40


class Following:
    """A service that follows one file. `whole`: how often it was read from its beginning, `on`: how often from where it was."""

    def __init__(self, home: Path, tool: str, *, goes_on: bool = True, limits: Limits | None = None) -> None:
        self.served = Served(home, str(home.parent / f"{home.name}.db"), limits)
        self.whole = self.on = 0
        self._tool = tool
        self._goes_on = goes_on

    async def start(self) -> Following:
        await self.served.start()
        await self._prepare()
        return self

    async def restart(self) -> None:
        await self.served.restart()
        await self._prepare()

    async def _prepare(self) -> None:
        service = self.served.service
        self.sources = await service.transfer.followed(service.stores["default"])
        self.kept: KeptSources = service.transfer._sources["default"].kept
        if not self._goes_on:
            self.kept.put = lambda kept: None  # type: ignore[method-assign]

    async def bring(self, path: Path) -> None:
        before = self.kept.take(str(path))
        if before is not None:
            self.kept.put(before)
        await self.sources.bring(str(path), self._tool)
        for changed in await self.sources.compare(10.0):  # what a follower does at leisure
            await self.sources.bring(changed, self._tool)
        after = self.kept.take(str(path))
        if after is not None:
            self.kept.put(after)
        went_on = before is not None and after is before
        self.on, self.whole = self.on + went_on, self.whole + (not went_on)

    async def digests(self) -> list[Any]:
        """What the ledger knows of the sessions."""
        service = self.served.service
        listed = (await service.list())["sessions"]
        ledger = service.transfer._removals.load()
        return [await ledger.recall("default", one["sessionId"]) for one in listed]


async def same(one: Following, other: Following) -> None:
    expected, found = await shown(other.served), await shown(one.served)
    assert found.keys() == expected.keys()
    for wire_id, exports in expected.items():
        for fmt, text in exports.items():
            assert found[wire_id][fmt].split("\n") == text.split("\n"), (wire_id, fmt)


async def test_what_is_to_be_read_again_is_left_to_the_one_who_follows_it(tmp_path: Path) -> None:
    """Several followers of a store share what is known of its sources."""
    following = await Following(tmp_path, "claude-code").start()
    transfer, store = following.served.service.transfer, following.served.service.stores["default"]
    other = await transfer.followed(store, "2026-01-01T00:00:00Z")
    transfer._sources["default"].came_back("/theirs/a.jsonl", "codex")
    assert await following.sources.compare(0.0, lambda path: path.startswith("/mine/")) == []
    assert await other.compare(0.0, lambda path: path.startswith("/theirs/")) == ["/theirs/a.jsonl"]
    assert await other.compare(0.0, lambda _: True) == []
    await following.served.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tool", ["claude-code", "codex", "pi"])
async def test_real_files(tmp_path: Path, tool: str) -> None:
    """After each of the first records, and at random bytes."""
    chance = random.Random(f"{tool} {SEED}")
    for nth, found in enumerate(path for path in sorted(corpus(tool).iterdir()) if path.suffix == ".jsonl"):
        # Codex says one thing twice, as an event and as an item, in the same words; the corpus hides them under different ones.
        whole = re.sub(rb"REDACTED_(MESSAGE|TEXT)", b"REDACTED", found.read_bytes()[: 400 << 10])
        ends = record_ends(whole)[:RECORDS]
        cuts = [*ends, *(chance.randrange(ends[-1]) for _ in ends[::4])]
        source = tmp_path / str(nth) / "source" / found.name
        following = await Following(tmp_path / str(nth) / "following", tool).start()
        once = await Following(tmp_path / str(nth) / "once", tool).start()
        for state in grow(source, whole[: ends[-1]], cuts):
            state()
            await following.bring(source)
        await once.bring(source)
        await same(following, once)
        assert following.on > following.whole or len(ends) < 5
        await once.served.close()
        await following.served.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Of three blocks and a bit."""
    path = tmp_path / "s.jsonl"
    while not path.exists() or path.stat().st_size < 3.2 * BLOCK:
        append(path)
    return path


def append(path: Path, *, end: str = "\n", text: str = "words " * 60) -> None:
    number = path.read_text().count("\n") if path.exists() else 0
    record = claude(f"u{number}", "user", message={"role": "user", "content": f"{number} {text}"})
    with path.open("a") as file:
        file.write(json.dumps({**record, "parentUuid": f"u{number - 1}" if number else None}) + end)


def read_whole(path: Path) -> Growth | None:
    reading = SourceReading("claude-code", str(path), Counter(), grows=True)
    while reading.batch():
        pass
    return reading.growth


def messages(events: list[Event] | None) -> list[str]:
    assert events is not None
    return [one.message["content"].split()[0] for one in events if isinstance(one, MessageRecord)]


def test_only_what_is_new_is_read(source: Path) -> None:
    """No more than the block in which the file ended, and what was written since."""
    grown = read_whole(source)
    assert grown is not None
    count = source.read_text().count("\n")
    assert messages(grown.read_on()) == []
    for number in (count, count + 1):
        append(source)
        assert messages(grown.read_on()) == [str(number)]
    append(source, end="")
    assert grown.read_on() is None, "a whole record without its line end is one for an import"


@pytest.mark.parametrize("size", range(6))
def test_a_file_of_a_few_bytes(tmp_path: Path, size: int) -> None:
    """Shorter than what is looked for at the beginning of each file: it is looked at again when it has grown."""
    path = tmp_path / "s.jsonl"
    append(path)
    data = path.read_bytes()
    path.write_bytes(data[:size])
    read_whole(path)
    path.write_bytes(data)
    grown = read_whole(path)
    assert grown is not None
    append(path)
    assert messages(grown.read_on()) == ["1"]


def test_a_line_that_is_being_written_waits(source: Path) -> None:
    grown = read_whole(source)
    assert grown is not None
    count = source.read_text().count("\n")
    append(source)
    line = source.read_bytes().splitlines(keepends=True)[-1]
    with source.open("r+b") as file:
        file.truncate(source.stat().st_size - len(line) + 40)
    assert (messages(grown.read_on()), grown.at_end) == ([], False)
    with source.open("ab") as file:
        file.write(line[40:])
    assert (messages(grown.read_on()), grown.at_end) == ([str(count)], True)


def test_what_was_written_while_the_tree_was_read(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pass did not see it, so that the tree would have a hole."""
    real = claude_code.tree_of

    def tree_of(path: str, *more: Any) -> Any:
        tree = real(path, *more)
        append(source)
        return tree

    monkeypatch.setattr(claude_code, "tree_of", tree_of)
    grown = read_whole(source)
    assert grown is not None
    append(source)
    assert grown.read_on() is None


def test_what_is_not_the_same_file_any_more(source: Path) -> None:
    """Shorter, another one, changed in its last block, or grown by too much."""
    data = source.read_bytes()

    def shorter() -> None:
        source.write_bytes(data[:-1000])

    def replaced() -> None:
        source.with_suffix(".new").write_bytes(b"x" + data[1:])
        source.with_suffix(".new").replace(source)

    def changed() -> None:
        source.write_bytes(data[:-50] + b"x" + data[-49:])
        append(source)

    def far_larger() -> None:
        with source.open("ab") as file:
            file.write(b"\n" * (growth.MOST + 1))

    for what in (shorter, replaced, changed, far_larger):
        source.write_bytes(data)
        grown = read_whole(source)
        assert grown is not None
        what()
        assert grown.read_on() is None, what


def test_a_change_in_the_middle_is_found(source: Path) -> None:
    """At leisure, whatever block it is in, also of what was read on."""
    for _ in range(150):
        append(source)
    grown = read_whole(source)
    assert grown is not None
    for _ in range(150):
        append(source)
    assert grown.read_on() is not None
    data = source.read_bytes()
    for place in range(10, len(data) // BLOCK * BLOCK, BLOCK // 2):
        source.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        blocks = len(data) // BLOCK + 1
        assert not all(grown.check(1) for _ in range(blocks)), place
    source.write_bytes(data)
    assert all(grown.check(2) for _ in range(20))
    assert grown.unchecked == 0


@pytest.mark.parametrize("head", [b"\xef\xbb\xbf", b"\xff\xfe"])
def test_a_file_that_is_not_read_byte_by_byte_is_read_whole(source: Path, head: bytes) -> None:
    text = source.read_text()
    source.write_bytes(head + text.encode("utf-16-le" if head == b"\xff\xfe" else "utf-8"))
    assert read_whole(source) is None


def test_a_record_that_was_not_ended_was_read(source: Path) -> None:
    append(source, end="")
    assert read_whole(source) is None


async def test_what_a_process_has_read_is_read_on(source: Path) -> None:
    reader = ImportReader()
    reader.large = reader.grows = True
    try:
        async for _ in reader.batches(registry.Found("claude-code", str(source), 0)):
            pass
        count = source.read_text().count("\n")
        append(source)
        assert reader.growth is not None
        assert messages(reader.growth.read_on()) == [str(count)]
    finally:
        reader.close()


def test_the_end_is_said_with_a_copy(tmp_path: Path) -> None:
    """What Codex's end says is said again, with its tokens, when they come."""
    path = tmp_path / "rollout-s.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (meta(), words("user", "hi"), words("assistant", "yes"))))
    reading = SourceReading("codex", str(path), Counter(), grows=True)
    said = reading.batch()
    assert [type(one).__name__ for one in said].index("Ending") < len(said) - 2
    with path.open("a") as file:
        counts = {"input_tokens": 3, "output_tokens": 5, "total_tokens": 8}
        file.write(
            json.dumps(event("token_count", info={"total_token_usage": counts, "last_token_usage": counts})) + "\n"
        )
    assert reading.growth is not None
    assert messages(reading.growth.read_on()) == ["yes"]
    assert messages(reading.growth.end()) == messages(reading.growth.end()) == ["yes"]


async def test_a_message_that_was_known_before_comes_back(tmp_path: Path, source: Path) -> None:
    """It was gone from its file, and is in what was written since."""
    following = await Following(tmp_path / "home", "claude-code").start()
    await following.bring(source)
    data = source.read_bytes()
    last = data.splitlines(keepends=True)[-1]
    source.write_bytes(data[: -len(last)])
    await following.bring(source)
    assert "compacted" in str(await shown(following.served))
    source.write_bytes(data)
    await following.bring(source)
    assert "compacted" not in str(await shown(following.served))
    await following.served.close()


@pytest.mark.parametrize("change", ["grows", "is inserted", "is swapped", "is gone", "is here as well"])
async def test_a_source_is_read_whole_beside_a_shortened_session(tmp_path: Path, source: Path, change: str) -> None:
    """After a restart its first change is found by reading all of it: the session's old messages stay out of memory, unless they are
    concerned.
    """
    one = await Following(tmp_path / "one", "claude-code", limits=SHORTENED).start()
    other = await Following(tmp_path / "other", "claude-code", goes_on=False).start()
    lines = source.read_bytes().splitlines(keepends=True)
    if change == "is here as well":
        source.write_bytes(b"".join(lines[:9]))
    for following in (one, other):
        await following.bring(source)
        if change == "is here as well":
            (session,) = (await following.served.service.list())["sessions"]
            said = {"id": "by hand", "role": "user", "content": "by hand", "timestamp": "2026-11-24T00:00:00.000Z"}
            await following.served.service.append(FakePeer(), session["sessionId"], [said])
            source.write_bytes(b"".join(lines))
            await following.bring(source)
            source.write_bytes(b"".join(lines[:9]))
    source.write_bytes(b"".join(lines))
    await one.served.shorten()
    for following in (one, other):
        await following.restart()
    if change == "is inserted":
        new = json.dumps({**claude("new", "user", message={"role": "user", "content": "new"}), "parentUuid": "u5"})
        source.write_bytes(b"".join([*lines[:6], new.encode() + b"\n", *lines[6:]]))
    elif change == "is swapped":
        source.write_bytes(b"".join([*lines[:5], lines[6], lines[5], *lines[7:]]))
    elif change == "is gone":
        source.write_bytes(b"".join([*lines[:5], *lines[6:]]))
    append(source)
    wholes: list[str] = []
    files: Any = one.served.house.store._files
    read = files.read
    files.read = lambda local_id: (wholes.append(local_id), read(local_id))[1]
    for following in (one, other):
        await following.bring(source)
    assert bool(wholes) == (change != "grows")
    await same(one, other)
    for following in (one, other):
        await following.served.close()


async def test_a_file_counts_as_read_when_its_last_line_is_whole(tmp_path: Path, source: Path) -> None:
    following = await Following(tmp_path / "home", "claude-code").start()
    for state, behind in ((b"", []), (b'{"type": "user", "uu', [str(source)]), (b'id": "x"}\n', [])):
        with source.open("ab") as file:
            file.write(state)
        await following.bring(source)
        assert await following.sources.behind([str(source)]) == behind, state
    assert (following.whole, following.on) == (1, 2)
    await following.served.close()


async def test_what_comes_beside_a_file_is_read(tmp_path: Path, source: Path) -> None:
    """An output that its record names, written after it."""
    folder = source.parent / source.stem / FOLDER
    folder.mkdir(parents=True)
    shown_first = f"<persisted-output>\nOutput too large. Full output saved to: {folder}/o.txt\n"
    block = {"type": "tool_result", "tool_use_id": "c", "content": shown_first}
    with source.open("a") as file:
        file.write(json.dumps(claude("u_", "user", message={"role": "user", "content": [block]})) + "\n")
    following = await Following(tmp_path / "home", "claude-code").start()
    await following.bring(source)
    append(source)
    await following.bring(source)
    assert following.on == 1
    (folder / "o.txt").write_text("all of it")
    await following.bring(source)
    assert "all of it" in str(await shown(following.served))
    await following.served.close()


def test_of_too_many_those_that_grew_last_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order they were read."""
    monkeypatch.setattr(kept_sources, "_HELD_SOURCES", 2)
    kept = KeptSources()
    paths = [tmp_path / f"{name}.jsonl" for name in "abcd"]
    for path, written in zip(paths, (4, 1, 3, 2), strict=True):
        append(path)
        os.utime(path, (written, written))
        grown = read_whole(path)
        assert grown is not None
        kept.put(KeptSource(grown, "claude-code", "", SessionStart("s", "s", {}), {}, {}, {}, []))
    assert [str(path) in kept for path in paths] == [True, False, True, False]


# Random lives


class Writer:
    """What a tool writes. `records`: all of the file's."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.count = 0

    def text(self) -> str:
        self.count += 1
        return f"words {self.count} " + "and more " * self.chance.choice((1, 3, 400))

    def next(self) -> dict[str, Any]:
        raise NotImplementedError


class ClaudeWriter(Writer):
    name = "claude-code"

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.turns: list[dict[str, Any]] = []
        self.last: str | None = None

    def next(self) -> dict[str, Any]:
        kind = self.chance.choices(
            ("turn", "title", "summary", "noise", "aside", "back", "again", "system", "attachment"),
            (20, 1, 1, 2, 1, 1, 1, 1, 1),
        )[0]
        self.count += 1
        base = {
            "sessionId": "s",
            "cwd": "/w",
            "timestamp": f"2026-11-23T10:{self.count // 60:02d}:{self.count % 60:02d}.000Z",
        }
        if kind == "title":
            return {"type": "ai-title", "aiTitle": f"Title {self.count}", "sessionId": "s"}
        if kind == "summary":
            leaf = self.chance.choice([one["uuid"] for one in self.turns] or ["elsewhere"])
            return {"type": "summary", "summary": f"Summary {self.count}", "leafUuid": leaf}
        if kind == "noise":
            return {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, **base}
        if kind == "again" and self.turns:
            again = self.chance.choice(self.turns)
            return again if self.chance.random() < 0.5 else {**again, "version": "3"}
        uuid, parent = f"u{self.count}", self.last
        if kind == "back" and self.turns:
            parent = self.chance.choice(self.turns)["uuid"]
        record = {**base, "uuid": uuid, "parentUuid": parent, "isSidechain": kind == "aside"}
        if kind == "system":
            record |= {"type": "system", "subtype": "informational", "content": self.text()}
        elif kind == "attachment":
            record |= {"type": "attachment", "attachment": {"type": "x", "content": self.text()}}
        else:
            record |= self._turn(uuid)
        if kind != "aside":
            self.last = uuid
            self.turns.append(record)
        return record

    def _turn(self, uuid: str) -> dict[str, Any]:
        way = self.chance.choice(("user", "assistant", "assistant", "call", "result"))
        if way == "user":
            return {"type": "user", "message": {"role": "user", "content": self.text()}}
        if way == "result":
            block = {"type": "tool_result", "tool_use_id": f"c{self.count - 1}", "content": self.text()}
            return {"type": "user", "message": {"role": "user", "content": [block]}}
        blocks: list[dict[str, Any]] = [{"type": "text", "text": self.text()}]
        if way == "call":
            blocks.append({"type": "tool_use", "id": f"c{self.count}", "name": "ls", "input": {"path": "/"}})
        usage = {"input_tokens": self.count, "output_tokens": 2}
        message = {"role": "assistant", "id": f"m{self.count // 2}", "model": "opus", "content": blocks, "usage": usage}
        return {"type": "assistant", "message": message}


class QwenWriter(Writer):
    name = "qwen"

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.uuids: list[str] = []

    def next(self) -> dict[str, Any]:
        back = self.uuids and self.chance.random() < 0.1
        parent = self.chance.choice(self.uuids) if back else self.uuids[-1] if self.uuids else None
        uuid = f"q{self.count}-{self.count % 10}"
        kind, role = self.chance.choice((("user", "user"), ("assistant", "model")))
        self.uuids.append(uuid)
        if self.chance.random() < 0.1:
            return qwen(uuid, parent, "system", subtype="custom_title", systemPayload={"customTitle": self.text()})
        return qwen(uuid, parent, kind, message={"role": role, "parts": [{"text": self.text()}]})


class PiWriter(Writer):
    name = "pi"

    def next(self) -> dict[str, Any]:
        if not self.count:
            self.count += 1
            return {"type": "session", "id": "p", "timestamp": "2026-11-23T10:00:00.000Z", "cwd": "/w"}
        kind = self.chance.choices(("message", "compaction", "model_change", "session_info", "odd"), (12, 1, 1, 1, 1))[
            0
        ]
        base = {
            "id": f"r{self.count}",
            "parentId": None,
            "type": kind,
            "timestamp": f"2026-11-23T10:00:{self.count % 60:02d}.000Z",
        }
        self.count += 1
        role = self.chance.choice(("user", "assistant"))
        return (
            base
            | {
                "message": {"message": {"role": role, "content": self.text(), "model": "m"}},
                "compaction": {"summary": self.text()},
                "model_change": {"modelId": f"m{self.count}"},
                "session_info": {"name": f"Name {self.count}"},
                "odd": {"what": self.count},
            }[kind]
        )


class CodexWriter(Writer):
    name = "codex"

    def __init__(self, chance: random.Random) -> None:
        super().__init__(chance)
        self.total = 0
        self.waiting: list[dict[str, Any]] = [meta()]
        self.events = chance.random() < 0.7
        self.items: list[dict[str, Any]] = []

    def next(self) -> dict[str, Any]:
        if not self.waiting:
            self.waiting = self._turn()
        return self.waiting.pop(0)

    def _turn(self) -> list[dict[str, Any]]:
        text = self.text()
        way = self.chance.choice(
            ("user", "assistant", "assistant", "reasoning", "call", "tokens", "compacted", "context")
        )
        if way == "user":
            said = words("user", self.chance.choice((text, f"<environment_context>{text}")))
            found = [said, *([event("user_message", message=text)] if self.events else [])]
        elif way == "assistant":
            found = [event("agent_message", message=text), words("assistant", text)]
        elif way == "reasoning":
            found = [event("agent_reasoning", text=text)]
        elif way == "call":
            call = f"c{self.count}"
            found = [
                item(type="function_call", name="ls", call_id=call, arguments="{}"),
                item(type="function_call_output", call_id=call, output=text),
            ]
        elif way == "tokens":
            self.total += 10
            counts = {"input_tokens": self.total, "output_tokens": 5, "total_tokens": self.total + 5}
            found = [event("token_count", info={"total_token_usage": counts, "last_token_usage": counts})]
        elif way == "compacted":
            history = self.chance.sample(self.items, min(2, len(self.items)))
            found = [
                {
                    "timestamp": "2026-11-23T10:00:00.000Z",
                    "type": "compacted",
                    "payload": {"message": text, "replacement_history": history},
                }
            ]
        else:
            found = [
                {
                    "timestamp": "2026-11-23T10:00:00.000Z",
                    "type": "turn_context",
                    "payload": {"model": f"m{self.count}"},
                }
            ]
        self.chance.shuffle(found)
        self.items += [one["payload"] for one in found if one["type"] == "response_item"]
        return found


WRITERS = (ClaudeWriter, CodexWriter, PiWriter, QwenWriter)


class Life:
    """A file, and two services that follow it: one reads it on, the other always whole."""

    def __init__(self, folder: Path, writer: type[Writer], seed: int) -> None:
        self.chance = random.Random(f"{writer.name} {seed}")  # type: ignore[attr-defined]
        self.writer = writer(self.chance)
        name = "rollout-2026-11-23T10-00-00-s.jsonl" if writer is CodexWriter else "s.jsonl"
        self.source = folder / "source" / name
        self.source.parent.mkdir(parents=True)
        tool = writer.name  # type: ignore[attr-defined]
        self.one = Following(folder / "one", tool, limits=self.chance.choice((None, SHORTENED)))
        self.other = Following(folder / "other", tool, goes_on=False)
        self._time = itertools.count(1_795_000_000)

    async def both(self, do: Callable[[Following], Awaitable[object]]) -> None:
        await do(self.one)
        await do(self.other)

    def write(self) -> None:
        """What the tool does to its file."""
        what = self.chance.choices(
            ("append", "cut off", "middle", "shorter", "replace", "touch", "empty"), (24, 4, 1, 1, 1, 1, 0.3)
        )[0]
        data = self.source.read_bytes() if self.source.exists() else b""
        if what == "append" or not data:
            more = b"".join(
                json.dumps(self.writer.next()).encode() + b"\n" for _ in range(self.chance.choice((1, 1, 2, 6)))
            )
            with self.source.open("ab") as file:
                file.write(more)
        elif what == "cut off":
            line = json.dumps(self.writer.next()).encode() + b"\n"
            cut = self.chance.choice((len(line) - 1, self.chance.randrange(len(line))))
            with self.source.open("ab") as file:
                file.write(line[:cut])
            if self.chance.random() < 0.8:
                self.rest = line[cut:]
        elif what == "middle":
            self.source.write_bytes(data.replace(b"and more", b"AND MORE", 1))
        elif what == "shorter":
            self.source.write_bytes(data[: self.chance.randrange(len(data))])
        elif what == "replace":
            self.source.with_suffix(".new").write_bytes(data)
            self.source.with_suffix(".new").replace(self.source)
        elif what == "empty":
            self.source.write_bytes(b"")
        os.utime(self.source, (when := next(self._time), when))

    rest = b""

    async def people(self) -> None:
        """What somebody does to the session here."""
        listed = (await self.one.served.service.list())["sessions"]
        if not listed:
            return
        session = listed[0]["sessionId"]
        message = f"by-hand-{next(self._time)}"
        what = self.chance.choices(("append", "rename", "truncate", "delete", "restart"), (3, 1, 1, 0.3, 1))[0]

        async def do(following: Following) -> None:
            service = following.served.service
            if what == "append":
                said = {"id": message, "role": "user", "content": "by hand", "timestamp": "2026-11-24T00:00:00.000Z"}
                await service.append(FakePeer(), session, [said])
            elif what == "rename":
                await service.update(FakePeer(), session, {"name": message})
            elif what == "truncate":
                found = (await service.read(session))["messages"]
                if len(found) > 2:
                    await service.truncate(FakePeer(), session, found[-2]["seq"])
            elif what == "delete":
                await service.delete(session, permanent=False)
            else:
                await following.restart()

        await self.both(do)

    async def live(self) -> None:
        await self.both(Following.start)
        for _ in range(STEPS):
            if self.rest and self.chance.random() < 0.5:
                with self.source.open("ab") as file:
                    file.write(self.rest)
                self.rest = b""
            elif self.chance.random() < 0.15:
                await self.people()
                continue
            else:
                self.write()
            if self.chance.random() < 0.8:
                await self.both(lambda following: following.bring(self.source))
                if self.chance.random() < 0.6:
                    await self.one.served.shorten()
                if self.chance.random() < 0.4:  # it reads all messages
                    await same(self.one, self.other)
        await self.both(lambda following: following.bring(self.source))
        await same(self.one, self.other)
        assert await self.one.digests() == await self.other.digests()
        await self.both(lambda following: following.served.close())


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are compared whole as soon as they are looked at."""
    monkeypatch.setattr(kept_sources, "_AT_REST_S", 0.0)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("rests")
@pytest.mark.parametrize("writer", WRITERS, ids=lambda one: one.name)
async def test_random_lives(tmp_path: Path, writer: type[Writer]) -> None:
    on = whole = 0
    for seed in seeds(4, 100):
        life = Life(tmp_path / str(seed), writer, seed)
        try:
            await life.live()
        except BaseException:
            print(f"seed {seed}: {life.source}")
            raise
        on, whole = on + life.one.on, whole + life.one.whole
    assert on > whole / 4, (on, whole)
