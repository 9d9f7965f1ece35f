"""Random sessions and random requests: no word of a hidden session comes back, everything else is what the daemon itself finds, and
pages add up.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from sessiond.client import Sessiond, SessionInfo, ToolCall
from tests.mcp.served import REVISIONS, ask, served, words
from tests.shell import Shell
from tests.suite.explore import seeds

WORLDS = seeds(few=1, usual=3)
REQUESTS = 40
FOLDERS = (None, "SCOPE", "SCOPE/deep", "SCOPE/", "SCOPE2", "SCOPE/..", "SCOPE/../other", "relative", "/")
TAGS = ((), (), (), ("private",), ("Private ", "zoo"), ("zoo",), ("privateer",))
WORDS = ("elephant", "giraffe", "zebra", "okapi", "日本", "naïve", "foo_bar", "getUserName")
TIMES = ("2026-03-01T23:59:59.999Z", "2026-03-02T00:00:00.000Z", "2026-03-02T12:00:00.000Z", "2027-01-01T00:00:00.000Z")
BOUNDS = {
    "": None,
    "2026-03-02": "2026-03-02T00:00:00.000Z",
    "2026-03-02T14:00+02:00": "2026-03-02T12:00:00.000Z",
    "2026-03-02T12:00:00.001": "2026-03-02T12:00:00.001Z",
    "2026-12-31T23:00:00-01:00": "2027-01-01T00:00:00.000Z",
}
"""As a model writes them, and the same moment as the daemon does. Sessions made by the tests change between the last two."""
SECRET = "sk-ant-api03-" + "Zq9" * 10


class World:
    """Sessions with a word of their own each, so that a leak is seen. `shown`: those that may be shown, and in the scope."""

    def __init__(self, daemon: Sessiond, rng: random.Random, scope: str, *, scoped: bool) -> None:
        self._scope = scope
        self._daemon = daemon
        self._rng = rng
        self._scoped = scoped
        self.marks: dict[str, str] = {}
        for n in range(rng.randint(8, 16)):
            self._make(n)

    def _make(self, n: int) -> None:
        rng = self._rng
        mark = f"mark{n}xyz"
        if self.marks and rng.random() < 0.3:
            parent = self._daemon.session(rng.choice(list(self.marks)))
            chat = parent.fork(name=f"fork {mark}")
            if rng.random() < 0.5:
                chat.update(tags=rng.choice(TAGS), cwd=self._folder())
        else:
            tool = {"source": {"tool": rng.choice(["codex", "pi"])}} if rng.random() < 0.5 else {}
            chat = self._daemon.new(
                name=f"{mark} {rng.choice(WORDS)}", cwd=self._folder(), tags=rng.choice(TAGS), metadata=tool
            )
        self.marks[chat.id] = mark
        for _ in range(rng.randint(1, 12)):
            text = " ".join(rng.choices(WORDS, k=rng.randint(1, 6)))
            call = ToolCall(id="c", name="run", arguments={"what": rng.choice(WORDS)})
            chat.append(
                rng.choice(["user", "assistant", "tool"]),
                f"{text} {mark} {SECRET if rng.random() < 0.2 else ''}",
                tool_calls=[call] if rng.random() < 0.2 else None,
                timestamp=rng.choice(TIMES) if rng.random() < 0.8 else None,
            )
        if rng.random() < 0.4:
            chat.note(rng.choice(WORDS), f"note {mark}")
        if rng.random() < 0.1:
            chat.update(archived=True)

    def _folder(self) -> str | None:
        chosen = self._rng.choice(FOLDERS)
        return None if chosen is None else chosen.replace("SCOPE", self._scope)

    def place(self) -> str:
        """A folder to search in."""
        chosen = self._rng.choice(["SCOPE", "SCOPE", "SCOPE/deep", "SCOPE2", "SCOPE/..", "/", "/nowhere"])
        return chosen.replace("SCOPE", self._scope)

    def infos(self) -> dict[str, SessionInfo]:
        return {one: self._daemon.session(one).info() for one in self.marks}

    def hidden(self) -> set[str]:
        infos = self.infos()

        def is_hidden(info: SessionInfo) -> bool:
            if any(tag.strip().lower() == "private" for tag in info.tags):
                return True
            return info.parent is not None and is_hidden(infos[info.parent.session_id])

        def is_outside(info: SessionInfo) -> bool:
            cwd = os.path.normpath(info.cwd) if info.cwd else ""
            return self._scoped and cwd != self._scope and not cwd.startswith(f"{self._scope}/")

        return {one for one, info in infos.items() if is_hidden(info) or is_outside(info)}


class Narrowed:
    """Filters that a call names, and a plain reading of what they mean."""

    def __init__(self, world: World, rng: random.Random) -> None:
        since, until = (rng.choice(list(BOUNDS)) if rng.random() < 0.4 else "" for _ in range(2))
        self._project = world.place() if rng.random() < 0.4 else ""
        self._tool = rng.choice(["codex", "sessiond", "none"]) if rng.random() < 0.3 else ""
        self._since, self._until = BOUNDS[since], BOUNDS[until]
        self.asked = {"project": self._project, "tool": self._tool, "since": since, "until": until}

    def fit(self, info: SessionInfo) -> bool:
        folder, cwd = os.path.normpath(self._project), os.path.normpath(info.cwd or "")
        inside = cwd.startswith("/") and (cwd + "/").startswith(folder.rstrip("/") + "/")
        tool = info.metadata.get("source", {}).get("tool", "sessiond")
        return (not self._project or inside) and self._tool in ("", tool)

    def has(self, moment: str) -> bool:
        return (self._since or "") <= moment < (self._until or "9")


def _spoken(daemon: Sessiond, infos: dict[str, SessionInfo], word: str) -> set[tuple[str, int]]:
    """The messages that have the word in what somebody said, not in what went into a tool or came out of it."""
    return {
        (session_id, one.seq)
        for session_id in infos
        for one in daemon.session(session_id).messages()
        if one.role != "tool" and word in one.text
    }


async def paged(client: Client, tool: str, key: str, /, **arguments: Any) -> list[dict[str, Any]]:
    """All pages. None is longer than asked for, and none but the first is empty."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = await ask(client, tool, **arguments, cursor=cursor)
        assert len(page[key]) <= arguments["limit"]
        assert page[key] or not cursor
        found += page[key]
        if page["nextCursor"] is None:
            return found
        assert len(page[key]) == arguments["limit"]
        cursor = page["nextCursor"]


@pytest.mark.parametrize("seed", WORLDS)
async def test_nothing_hidden_comes_back_and_everything_else_does(shell: Shell, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    scoped, redact = bool(seed % 2), seed % 3 == 2
    scope = tmp_path / "app"
    scope.mkdir()
    flags = ["--write", *(["--cwd", str(scope)] if scoped else []), *(["--redact"] if redact else [])]
    with shell.client() as daemon:
        world = await asyncio.to_thread(World, daemon, rng, str(scope), scoped=scoped)
        async with served(shell, *flags, mode=REVISIONS[seed % 2]) as client:
            for _ in range(REQUESTS):
                await _request(client, daemon, world, rng, redact=redact)
                if rng.random() < 0.2:  # tags change while the server runs
                    daemon.session(rng.choice(list(world.marks))).update(tags=rng.choice(TAGS))


async def _request(client: Client, daemon: Sessiond, world: World, rng: random.Random, *, redact: bool) -> None:
    hidden = world.hidden()
    limit = rng.choice([1, 2, 3, 7, 50])
    said: Any
    match rng.choice(["search", "search", "search", "list", "read", "resource", "resources"]):
        case "search":
            query, mode = rng.choice([
                (rng.choice(WORDS), "text"), (" OR ".join(rng.sample(WORDS, 2)), "text"), (f"-{rng.choice(WORDS)}", "text"),
                ("OR zebra", "text"), ("zebra OR", "text"), ("!!!", "text"), (f"tag:private {rng.choice(WORDS)}", "text"),
                (rng.choice(list(world.marks.values())), "text"), (rng.choice(WORDS), "regex"), (r"mark\d+xyz", "regex"),
            ])  # fmt: skip
            role = rng.choice(["", "", "user"])
            limits = Narrowed(world, rng)
            tools = mode != "text" or not query.replace("_", "").isalnum() or rng.random() < 0.3
            asked = {"query": query, "mode": mode, "role": role, "tools": tools, **limits.asked}
            said = await paged(client, "search", "hits", **asked, limit=limit)
            infos = world.infos()
            spoken = None if tools else _spoken(daemon, infos, query)
            wanted = [
                (hit.session_id, hit.seq)
                for hit in daemon.search(query, mode=mode, **({"role": role} if role else {}))
                if hit.session_id not in hidden
                and limits.fit(infos[hit.session_id])
                and limits.has(hit.timestamp)
                and (spoken is None or hit.message_id is None or (hit.session_id, hit.seq) in spoken)
            ]
            assert sorted(map(str, wanted)) == sorted(str((hit["sessionId"], hit["seq"])) for hit in said), asked
        case "list":
            tag, archived = rng.choice(["", "zoo", "private"]), rng.random() < 0.2
            limits, name = Narrowed(world, rng), rng.choice(["", "", "MARK1", "fork", "elephant"])
            asked = {"tag": tag, "archived": archived, "name": name, **limits.asked}
            said = await paged(client, "list", "sessions", **asked, limit=limit)
            assert [one["sessionId"] for one in said] == [
                one.session_id
                for one in daemon.sessions(archived=archived or None)
                if one.session_id not in hidden
                and (not tag or tag in one.tags)
                and name.lower() in (one.name or "").lower()
                and limits.fit(one)
                and limits.has(one.updated_at)
            ], asked
        case "read":
            session_id = rng.choice(list(world.marks))
            said = await _walk(client, session_id, rng)
            expected_seqs = [one.seq for one in daemon.session(session_id).messages()]
            assert said is None if session_id in hidden else [one["seq"] for one in said or []] == expected_seqs
        case "resource":
            session_id = rng.choice(list(world.marks))
            uri, said = f"sessiond://session/{session_id}", None
            if session_id in hidden:
                with pytest.raises(MCPError, match="There is no session"):
                    await client.read_resource(uri)
            else:
                said = (await client.read_resource(uri)).contents[0].text
        case "resources":
            said = [one.model_dump(mode="json") for one in (await client.list_resources()).resources]
            every = daemon.sessions()
            assert [one["name"] for one in said] == [one.session_id for one in every if one.session_id not in hidden]
    text = json.dumps(said, ensure_ascii=False)
    for session_id, mark in world.marks.items():
        owners = {one for one in world.marks if mark in _marks_of(daemon, one)}
        assert mark not in text or owners - hidden, (mark, session_id)
        assert session_id not in hidden or not re.search(re.escape(session_id) + r"(?![\w-])", text)
    assert not redact or SECRET not in text


def _marks_of(daemon: Sessiond, session_id: str) -> str:
    """All words of a session: a fork has those of what it was forked from."""
    chat = daemon.session(session_id)
    return " ".join(
        [chat.info().name or "", *(one.text for one in chat.messages()), *(one.content for one in chat.notes())]
    )


async def _walk(client: Client, session_id: str, rng: random.Random) -> list[dict[str, Any]] | None:
    """All messages of a session, page by page from its end or from a message in it; None if it is not there."""
    first: dict[str, Any] = {"around": rng.randint(1, 12)} if rng.random() < 0.5 else {}
    result = await client.call_tool("read", {"sessionId": session_id, "maxTokens": 400, **first})
    if result.is_error:
        assert "There is no session" in words(result)
        return None
    page = result.structured_content
    found = page["messages"]
    before, after = page["olderBefore"], page["newerAfter"]
    while before is not None:
        page = await ask(client, "read", sessionId=session_id, before=before, maxTokens=400)
        found, before = page["messages"] + found, page["olderBefore"]
    while after is not None:
        page = await ask(client, "read", sessionId=session_id, after=after, maxTokens=400)
        found, after = found + page["messages"], page["newerAfter"]
    return found
