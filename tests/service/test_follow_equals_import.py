"""Looking at a source while it grows gives the session that one import of the whole gives, whenever it was looked at.

Real files are cut after records and at random bytes, databases after each transaction, and files of our own are rewritten as
the tools do it. What is compared is what exports show, byte for byte; the JSON export without seqs, which count what happened
here, and without the version of the file that was read.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sessiond.errors import TooLarge, Unavailable
from sessiond.service.open_session import OpenSession
from sessiond.service.source_ledger import SourceLedger
from tests.fakes.peer import FakePeer, user
from tests.importers.collected import corpus, lines
from tests.importers.test_agents_of_today import claude, gemini, qwen, said
from tests.importers.test_gemini_compression import compressed
from tests.service.test_intake import SHORTENED, Served
from tests.suite.explore import SEED

FORMATS = ("markdown", "org", "text", "html")


async def shown(served: Served) -> dict[str, dict[str, str]]:
    """Session -> format -> its export."""
    found = {}
    for info in (await served.service.list())["sessions"]:
        wire_id = info["sessionId"]
        exports = {fmt: (await served.service.export(wire_id, fmt))["content"] for fmt in FORMATS}
        exports["org"] = re.sub(r"^:SEQ: \d+\n", "", exports["org"], flags=re.MULTILINE)
        whole = json.loads((await served.service.export(wire_id, "json"))["content"])
        found[wire_id] = exports | {"json": json.dumps(plain(whole), indent=1)}
    return found


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = ("seq", "fingerprint", "exportedAt", "through", "savedAt")
        return {key: plain(one) for key, one in value.items() if key not in left_out}
    return [plain(one) for one in value] if isinstance(value, list) else value


async def same(tmp_path: Path, source: Path, states: Iterable[Callable[[], object]]) -> Served:
    """Look at the source after each of `states`; compare with a daemon that sees only the last one. The first one keeps few messages in
    memory.
    """
    following = await Served(tmp_path / "following", limits=SHORTENED).start()
    for state in states:
        state()
        await following.bring(source)
        await following.shorten()
    once = await Served(tmp_path / "once").start()
    await once.bring(source)
    expected, found = await shown(once), await shown(following)
    assert found.keys() == expected.keys()
    for wire_id, exports in expected.items():
        for fmt, text in exports.items():
            assert found[wire_id][fmt].split("\n") == text.split("\n"), (wire_id, fmt)
    await once.close()
    return following


def grow(path: Path, whole: bytes, cuts: Iterable[int]) -> Iterable[Callable[[], object]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    for cut in sorted({*cuts, len(whole)}):
        yield lambda cut=cut: path.write_bytes(whole[:cut])


REAL = [
    *((f"claude-code/{name}.jsonl", 400) for name in (
        "1af7fc5e-8455-4414-9ccd-011d40f70b2a", "5c0375b4-57a5-4f26-b12d-d022ee4e51b7", "agent-test-hash-123",
    )),
    *((f"codex/rollout-2026-02-23T{name}.jsonl", 400) for name in (
        "12-41-04-019c8a4d-8f45-7010-8b5d-7fad920aa6f9", "13-19-38-019c8a70-dda7-7f33-98ea-f30553347322",
    )),
    ("pi", 150),
    ("aider", 150),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kilobytes"), REAL)
async def test_a_real_file_that_grows(tmp_path: Path, name: str, kilobytes: int) -> None:
    """Cut at the ends of records and in the middle of them; the first part of it, if it is long."""
    found = corpus(name)
    if found.is_dir():
        found = next(path for path in sorted(found.iterdir()) if path.is_file())
    whole = found.read_bytes()[: kilobytes << 10]
    # Codex says one thing twice, as an event and as an item, in the same words; the corpus hides them under different ones.
    whole = re.sub(rb"REDACTED_(MESSAGE|TEXT)", b"REDACTED", whole[: whole.rfind(b"\n") + 1])
    chance = random.Random(f"{name} {SEED}")
    ends = [position + 1 for position, byte in enumerate(whole) if byte == 10]
    cuts = chance.sample(ends, min(12, len(ends))) + [chance.randrange(len(whole)) for _ in range(12)]
    source = tmp_path / "source" / found.name
    following = await same(tmp_path, source, grow(source, whole, cuts))
    await following.close()


async def test_each_record_of_a_tree_with_branches(tmp_path: Path) -> None:
    """Only the last record shows which branch was left: the marks of messages that are here change with it."""
    records = [
        claude("u1", "user", parentUuid=None, message={"role": "user", "content": "first"}),
        claude("u2", "assistant", parentUuid="u1", message={"role": "assistant", "content": [{"type": "text", "text": "one"}]}),
        claude("u3", "user", parentUuid="u2", message={"role": "user", "content": "a way"}),
        claude("u4", "assistant", parentUuid="u3", message={"role": "assistant", "content": "left"}),
        claude("u5", "user", parentUuid="u2", message={"role": "user", "content": "another way"}),
        claude("u6", "assistant", parentUuid="u5", message={"role": "assistant", "content": "taken"}),
        {"type": "ai-title", "aiTitle": "A title", "sessionId": "s"},
        claude("u7", "user", parentUuid="u4", message={"role": "user", "content": "back again"}),
        claude("u8", "assistant", parentUuid="u7", message={"role": "assistant", "content": "yes"}),
    ]  # fmt: skip
    source = tmp_path / "source" / "s.jsonl"
    states = [lambda n=n: lines(source, *records[:n]) for n in range(1, len(records) + 1)]
    following = await same(tmp_path, source, states)
    assert "A title" in str(await shown(following))
    await following.close()


GEMINI_HEAD = {"sessionId": "g1", "projectHash": "p", "startTime": "2026-11-22T10:00:00Z", "lastUpdated": "2026-11-22T10:00:00Z", "kind": "main"}  # fmt: skip
CALL = {"id": "c1", "name": "run_shell_command", "args": {"command": "ls"}, "status": "executing", "timestamp": "2026-11-22T10:00:02Z"}  # fmt: skip
RESULT = [{"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": "a file"}}}]


def gemini_states() -> list[list[dict[str, Any]]]:
    """Gemini appends; a record that it writes again has the id of the earlier one."""
    answer = gemini("m2", "gemini", "")
    records = [
        GEMINI_HEAD,
        gemini("m1", "user", [{"text": "USETOOL: ls"}]),
        answer,
        {**answer, "toolCalls": [CALL]},
        {**answer, "toolCalls": [{**CALL, "status": "success", "result": RESULT, "resultDisplay": "a file"}]},
        gemini("m3", "user", RESULT),
        gemini("m4", "gemini", "There is"),
        gemini("m4", "gemini", "There is a file."),
        gemini("m5", "user", [{"text": "wrong way"}]),
        {"$rewindTo": "m5"},
        gemini("m6", "user", [{"text": "another"}]),
        {"$set": {"summary": "Listing", "lastUpdated": "2026-11-22T10:05:00Z"}},
    ]
    return [records[:n] for n in range(1, len(records) + 1)]


async def test_each_record_of_gemini(tmp_path: Path) -> None:
    """Its calls come in a later version of the message, and take the results with them."""
    source = tmp_path / "source" / "session-2026-11-22T10-00-g1.jsonl"
    following = await same(tmp_path, source, [lambda s=s: lines(source, *s) for s in gemini_states()])
    [exports] = (await shown(following)).values()
    messages = json.loads(exports["json"])["messages"]
    assert [call["name"] for m in messages for call in m.get("toolCalls", [])] == ["run_shell_command"]
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["a file"]
    assert next(m for m in messages if m["id"] == "m5")["metadata"]["rewound"] is True
    await following.close()


async def test_each_record_of_a_compression_of_gemini(tmp_path: Path) -> None:
    """What was kept has new ids in the checkpoint, and is here already."""
    source = tmp_path / "source" / "session-2026-11-22T10-00-g1.jsonl"
    records = compressed()
    following = await same(
        tmp_path, source, [lambda n=n: lines(source, *records[:n]) for n in range(1, len(records) + 1)]
    )
    await following.close()


async def test_each_record_of_qwen(tmp_path: Path) -> None:
    records = [
        qwen("q1", None, "user", message=said("user", {"text": "USETOOL: ls"})),
        qwen("q2", "q1", "assistant", message=said("model", {"text": "so", "thought": True}, {"functionCall": {"id": "c", "name": "shell", "args": {"c": "ls"}}})),
        qwen("q3", "q2", "tool_result", message=said("user", {"functionResponse": {"id": "c", "name": "shell", "response": {"output": "x"}}})),
        qwen("q4", "q3", "assistant", message=said("model", {"text": "done"})),
    ]  # fmt: skip
    source = tmp_path / "source" / "q.jsonl"
    following = await same(tmp_path, source, [lambda n=n: lines(source, *records[:n]) for n in range(1, 5)])
    await following.close()


@pytest.fixture(autouse=True)
def databases_are_closed() -> Iterator[None]:
    """At once, and not when memory is collected: their logs would go while another test looks at the folder."""
    yield
    while OpenCodeDb.opened:
        OpenCodeDb.opened.pop().close()


class OpenCodeDb:
    """A database as opencode 1.18 writes it: a message's row, then its parts one by one, each of them several times."""

    opened: ClassVar[list[OpenCodeDb]] = []

    def __init__(self, path: Path) -> None:
        self.opened.append(self)
        path.parent.mkdir(parents=True)
        self.path = path
        self._db = sqlite3.connect(path)
        self._db.executescript(
            """PRAGMA journal_mode = WAL;
            CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, title TEXT, directory TEXT,
                version TEXT, time_created INTEGER, time_updated INTEGER);
            CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
            CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
                time_updated INTEGER, data TEXT);"""
        )
        self._time = 1_790_000_000_000

    def close(self) -> None:
        self._db.close()

    def session(self, session_id: str, title: str) -> None:
        self._put("session", session_id, "p", None, title, "/w", "1.18", self._now(), self._now())

    def title(self, session_id: str, title: str) -> None:
        with self._db:
            self._db.execute(
                "UPDATE session SET title = ?, time_updated = ? WHERE id = ?", (title, self._now(), session_id)
            )

    def message(self, message_id: str, role: str, session_id: str = "ses_1", **more: Any) -> None:
        old = self._db.execute("SELECT time_created FROM message WHERE id = ?", (message_id,)).fetchone()
        made = old[0] if old else self._now()
        data = json.dumps({"role": role, "time": {"created": made}, **more})
        self._put("message", message_id, session_id, made, self._now(), data)

    def part(self, part_id: str, message_id: str, session_id: str = "ses_1", **data: Any) -> None:
        self._put("part", part_id, message_id, session_id, self._now(), self._now(), json.dumps(data))

    def _put(self, table: str, *values: Any) -> None:
        with self._db:
            places = ", ".join("?" * len(values))
            self._db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({places})", values)

    def _now(self) -> int:
        self._time += 10
        return self._time

    def turn(self) -> list[Callable[[], object]]:
        """The transactions of a prompt with a tool call, while a second prompt is already queued."""
        state = {"status": "pending", "input": {}, "raw": ""}
        running = {"status": "running", "input": {"command": "ls"}, "time": {"start": 1_790_000_000_100}}
        done = {**running, "status": "completed", "output": "a file\n", "title": "List", "metadata": {"exit": 0},
                "time": {"start": 1_790_000_000_100, "end": 1_790_000_000_200}}  # fmt: skip
        return [
            lambda: self.session("ses_1", "New session"),
            lambda: self.message("msg_1", "user"),
            lambda: self.part("prt_1", "msg_1", type="text", text="USETOOL: ls"),
            lambda: self.message("msg_2", "assistant", modelID="fake"),
            lambda: self.part("prt_2", "msg_2", type="step-start"),
            lambda: self.part("prt_3", "msg_2", type="reasoning", text=""),
            lambda: self.part("prt_3", "msg_2", type="reasoning", text="I should look"),
            lambda: self.part("prt_4", "msg_2", type="text", text=""),
            lambda: self.part("prt_4", "msg_2", type="text", text="I shall look."),
            lambda: self.part("prt_5", "msg_2", type="tool", callID="c1", tool="bash", state=state),
            lambda: self.part("prt_5", "msg_2", type="tool", callID="c1", tool="bash", state=running),
            lambda: self.message("msg_3", "user"),
            lambda: self.part("prt_6", "msg_3", type="text", text="and then?"),
            lambda: self.part("prt_5", "msg_2", type="tool", callID="c1", tool="bash", state=done),
            lambda: self.part("prt_7", "msg_2", type="step-finish", tokens={"input": 3, "output": 4}),
            lambda: self.message("msg_2", "assistant", modelID="fake", finish="tool-calls", tokens={"input": 3}),
            lambda: self.title("ses_1", "Listing files"),
            lambda: self.message("msg_4", "assistant", modelID="fake"),
            lambda: self.part("prt_8", "msg_4", type="text", text="That is all."),
            lambda: self.message("msg_4", "assistant", modelID="fake", finish="stop"),
        ]


async def test_each_transaction_of_opencode(tmp_path: Path) -> None:
    """A message is imported before its parts are there, and a result comes when the next prompt is already written."""
    db = OpenCodeDb(tmp_path / "source" / "opencode.db")
    following = await same(tmp_path, db.path, db.turn())
    [exports] = (await shown(following)).values()
    messages = json.loads(exports["json"])["messages"]
    assert [(m["role"], m["content"]) for m in messages] == [
        ("user", "USETOOL: ls"), ("assistant", "I shall look."), ("tool", "a file\n"), ("user", "and then?"), ("assistant", "That is all."),
    ]  # fmt: skip
    assert messages[1]["toolCalls"][0]["arguments"] == {"command": "ls"}
    assert messages[1]["thinking"] == "I should look"
    assert "Listing files" in exports["markdown"]
    await following.close()


async def test_some_transactions_are_missed(tmp_path: Path) -> None:
    """Whichever of the states were seen."""
    for seed in range(6):
        chance = random.Random(seed)
        db = OpenCodeDb(tmp_path / str(seed) / "source" / "opencode.db")
        transactions = db.turn()
        seen = sorted({*chance.sample(range(len(transactions)), 5), len(transactions) - 1})
        states: list[Callable[[], object]] = []
        for first, last in zip([-1, *seen], seen, strict=False):
            states.append(lambda some=transactions[first + 1 : last + 1]: [one() for one in some])
        following = await same(tmp_path / str(seed), db.path, states)
        await following.close()


@pytest.mark.parametrize("seed", range(30))
async def test_a_crash_at_each_write_of_the_ledger(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon dies before or after some of the writes, and may die again at the next start."""
    chance = random.Random(seed)
    keep = SourceLedger.keep
    ledger = tmp_path / "imports.db"

    async def kept(self: SourceLedger, *args: Any) -> None:
        if chance.random() < 0.4:
            raise Unavailable("died before")
        await keep(self, *args)
        await self.flush()
        if chance.random() < 0.2:
            raise Unavailable("died after")

    monkeypatch.setattr(SourceLedger, "keep", kept)
    db = OpenCodeDb(tmp_path / "source" / "opencode.db")
    following = await Served(tmp_path / "following", ledger=str(ledger)).start()

    async def look() -> bool:
        store = following.service.stores["default"]
        wanted: dict[str, Any] = {"format": None, "since": None, "dry_run": False, "progress": None, "followed": True}
        try:
            await following.service.transfer.import_(str(db.path), store, **wanted)
        except Unavailable:
            await following.restart()
            return False
        return True

    for one in db.turn():
        one()
        if chance.random() < 0.12:  # the source changes more than once between two looks
            await look()
    while not await look():
        pass
    once = await Served(tmp_path / "once").start()
    monkeypatch.setattr(SourceLedger, "keep", keep)
    await once.bring(db.path)
    assert await shown(following) == await shown(once)
    await once.close()
    await following.close()


# What is here stays


@pytest.fixture
async def served(tmp_path: Path) -> Any:
    made = await Served(tmp_path / "home").start()
    yield made
    await made.close()


def told(path: Path, *texts: str) -> Path:
    return lines(path, *(
        claude(f"id-{text}", "user", parentUuid=None, message={"role": "user", "content": text}, timestamp="2026-11-22T10:00:00Z")
        for text in texts
    ))  # fmt: skip


async def read(served: Served, wire_id: str) -> list[tuple[str, bool]]:
    """Text and whether it is marked as compacted."""
    page = await served.service.read(wire_id)
    return [(m["content"], m.get("metadata", {}).get("compacted", False)) for m in page["messages"]]


async def test_what_a_tool_takes_away_stays_in_its_place(served: Served, tmp_path: Path) -> None:
    """A compaction rewrites the file: a summary instead of the beginning."""
    source = tmp_path / "source" / "s.jsonl"
    await served.bring(told(source, "a", "b", "c", "d"))
    await served.bring(told(source, "a", "summary", "d", "e"))
    wanted = [("a", False), ("b", True), ("c", True), ("summary", False), ("d", False), ("e", False)]
    assert await read(served, "claude-code-s") == wanted
    await served.bring(source)
    await served.restart()
    await served.bring(told(source, "a", "summary", "d", "e", "f"))
    assert await read(served, "claude-code-s") == [*wanted, ("f", False)]


async def test_what_comes_back_is_no_longer_marked(served: Served, tmp_path: Path) -> None:
    """The file was looked at while the tool rewrote it."""
    source = tmp_path / "source" / "s.jsonl"
    await served.bring(told(source, "a", "b", "c"))
    await served.bring(told(source, "a"))
    assert await read(served, "claude-code-s") == [("a", False), ("b", True), ("c", True)]
    await served.bring(told(source, "a", "b", "c", "d"))
    assert await read(served, "claude-code-s") == [("a", False), ("b", False), ("c", False), ("d", False)]


async def test_what_was_said_here_stays_and_is_not_marked(served: Served, tmp_path: Path) -> None:
    source = tmp_path / "source" / "s.jsonl"
    peer = FakePeer()
    await served.bring(told(source, "a", "b"))
    await served.service.append(peer, "claude-code-s", [user("mine")])
    await served.bring(told(source, "a", "between", "b", "c"))
    wanted = [("a", False), ("between", False), ("b", False), ("mine", False), ("c", False)]
    assert await read(served, "claude-code-s") == wanted
    await served.bring(told(source, "a", "between", "c"))
    wanted[2] = ("b", True)
    assert await read(served, "claude-code-s") == wanted


async def test_what_was_renamed_here_keeps_its_name(served: Served, tmp_path: Path) -> None:
    source = tmp_path / "source" / "s.jsonl"
    title = {"type": "custom-title", "customTitle": "theirs", "sessionId": "s"}
    records = [claude("u1", "user", parentUuid=None, message={"role": "user", "content": "a"})]
    await served.bring(lines(source, *records, title))
    await served.service.update(FakePeer(), "claude-code-s", {"name": "mine"})
    later = {**title, "customTitle": "theirs again"}
    [info] = (await served.bring(lines(source, *records, later, {**records[0], "uuid": "u2"})))["sessions"]
    assert info["name"] == "mine"


@pytest.mark.parametrize("titled", [True, False])
async def test_a_name_that_was_removed_here_stays_away(served: Served, tmp_path: Path, titled: bool) -> None:
    """One that the tool gave, or the first words. The tool writes the same, then another one, into the same file or the next."""
    source = tmp_path / "source" / "s.jsonl"
    title = {"type": "custom-title", "customTitle": "theirs", "sessionId": "s"}
    first = claude("u1", "user", parentUuid=None, message={"role": "user", "content": "a"})
    named = [title] if titled else []
    await served.bring(lines(source, first, *named))
    await served.service.update(FakePeer(), "claude-code-s", {"name": None})
    second = claude("u2", "assistant", parentUuid="u1", message={"role": "assistant", "content": "b"})
    [info] = (await served.bring(lines(source, first, *named, second)))["sessions"]
    assert info["name"] is None
    again = [{**title, "customTitle": "theirs again"}] if titled else []
    third = claude("u3", "user", parentUuid="u2", message={"role": "user", "content": "c"})
    [info] = (await served.bring(lines(source, first, *named, second, third, *again)))["sessions"]
    assert info["name"] is None
    if not titled:
        summary = {"type": "summary", "summary": "Theirs", "leafUuid": "u3"}
        other = claude("u9", "user", parentUuid=None, sessionId="other", message={"role": "user", "content": "x"})
        await served.bring(lines(tmp_path / "source" / "other.jsonl", summary, other))
        assert (await served.service.open(FakePeer(), "claude-code-s"))["session"]["name"] is None


async def test_a_revision_that_is_too_large_is_tried_again(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source" / "session-g1.jsonl"
    *_, earlier, last = gemini_states()
    await served.bring(lines(source, *gemini_states()[2]))
    with monkeypatch.context() as patch:

        async def cut(*_: object) -> None:
            raise TooLarge("a change of 99 bytes is too large to be recorded", limit=1)

        patch.setattr(OpenSession, "cut", cut)
        await served.bring(lines(source, *earlier))
    assert "toolCalls" not in str(await shown(served))
    await served.bring(lines(source, *last))
    once = await Served(tmp_path / "once").start()
    await once.bring(source)
    assert await shown(served) == await shown(once)
    await once.close()


async def test_an_attached_client_sees_a_message_completed(served: Served, tmp_path: Path) -> None:
    """As a removal and an append, which every client knows; the whole is in one record of the journal."""
    source = tmp_path / "source" / "session-g1.jsonl"
    states = gemini_states()
    await served.bring(lines(source, *states[2]))
    peer = FakePeer()
    await served.service.open(peer, "gemini-cli-g1")
    await served.bring(lines(source, *states[4]))
    kinds = [change["kind"] for note in peer.take("session/changed") for change in note["changes"]]
    assert kinds[:2] == ["truncated", "appended"]
