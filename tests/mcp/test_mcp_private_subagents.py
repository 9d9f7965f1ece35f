"""A subagent was told the words of the agent that sent it out: where that one's session is private, its own is hidden too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiond.adapters import clients
from sessiond.adapters.claude_agent_sdk import SessiondStore
from sessiond.client import Parent, SessionInfo
from sessiond.mcp.scope import Scope, ScopeGate
from tests.adapters.test_claude_agent_sdk import MAIN, SUBAGENT, entry
from tests.mcp.served import ask, refusal, served
from tests.service.test_intake import S, record, transcript
from tests.shell import Shell


async def _hides(shell: Shell, main: str, subagent: str, word: str) -> None:
    """Both are found; once `main` is private, neither is; and both again when it is not."""
    async with served(shell) as client:
        for tag, shown in (("open", {main, subagent}), ("private", set()), ("-private", {main, subagent})):
            assert shell("tag", main, *(["--remove", "private"] if tag == "-private" else [tag])).code == 0
            for mode in ("text", "regex"):
                hits: list[dict[str, Any]] = (await ask(client, "search", query=word, mode=mode))["hits"]
                assert {hit["sessionId"] for hit in hits} == shown, (tag, mode)
            assert {one["sessionId"] for one in (await ask(client, "list"))["sessions"]} == shown, tag
            assert {one.name for one in (await client.list_resources()).resources} == shown, tag
            for session_id in {main, subagent} - shown:
                assert "There is no session" in await refusal(client, "read", sessionId=session_id)


@pytest.mark.parametrize("first", ["main", "subagent"])
async def test_a_subagent_of_an_sdk(shell: Shell, first: str) -> None:
    """In the Claude Agent SDK's store, whichever of the two transcripts is written first."""
    store = SessiondStore(home=str(shell.path))
    for key in (MAIN, SUBAGENT) if first == "main" else (SUBAGENT, MAIN):
        await store.append(key, [entry("a", content="the word elephant")])
    main, subagent = store.session_id(MAIN), store.session_id(SUBAGENT)
    with shell.client() as daemon:
        assert daemon.session(subagent).info().parent == Parent(session_id=main)
        assert daemon.session(main).info().parent is None
    await _hides(shell, main, subagent, "elephant")
    clients.close()


async def test_an_imported_subagent(shell: Shell, tmp_path: Path) -> None:
    """In a file of its own, which names the session of the agent."""
    folder = tmp_path / "p"
    transcript(folder, range(1, 3))
    (folder / "agent-x.jsonl").write_text(record(7, isSidechain=True))
    assert shell("import", str(folder)).code == 0
    await _hides(shell, f"claude-code-{S}1", "claude-code-agent-x", "text")


async def test_a_parent_too_long_to_be_shown_hides() -> None:
    """What a response leaves out could be the private one."""
    gate = ScopeGate(None, Scope(None))  # type: ignore[arg-type]  # nothing is asked of a client
    infos = [SessionInfo(session_id="a", cut=["parent"]), SessionInfo(session_id="b", cut=["summary"])]
    assert set(await gate.among(infos)) == {"b"}
