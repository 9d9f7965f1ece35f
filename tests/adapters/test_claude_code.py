"""The real Claude Code, as the SDK ships it, with a fake model: its sessions are in the store, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from sessiond.adapters.claude_agent_sdk import KEY, SessiondStore
from sessiond.client import Appended, aconnect
from tests.adapters.conftest import KilledHome
from tests.agents.fake_model import LOOKING, FakeModel

FIRST, SECOND = "First prompt RUN echo hello", "Second prompt"


async def ask(prompt: str, url: str, folder: Path, place: str, **options: Any) -> str:
    """The session's id. `place`: a fresh folder of Claude's own files, as on another machine."""
    quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "IS_SANDBOX")
    env = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": str(folder / place),
        **dict.fromkeys(quiet, "1"),
    }
    (folder / "work").mkdir(exist_ok=True)
    asked = ClaudeAgentOptions(
        session_store=SessiondStore(),
        model="fake-model",
        allowed_tools=["Bash"],
        cwd=folder / "work",
        env=env,
        **options,
    )
    done = [message async for message in query(prompt=prompt, options=asked) if isinstance(message, ResultMessage)]
    assert len(done) == 1 and not done[0].is_error, done
    return done[0].session_id


async def test_a_conversation_goes_on_elsewhere(at_home: KilledHome, tmp_path: Path) -> None:
    """A turn with a tool call is live in another client; resumed where Claude has no files of its own, the model is sent all of it."""
    with FakeModel() as model:
        async with await aconnect(name="watcher") as sessiond, await sessiond.changes() as changes:
            session_id = await ask(FIRST, model.url, tmp_path, "here")
            seen: list[str] = []
            while f"Answer 1: {FIRST}" not in seen:
                change = await changes.wait(20)
                assert change is not None
                seen += [one.text for one in change.messages] if isinstance(change, Appended) else []
            (info,) = [one async for one in sessiond.sessions(tags=[KEY])]
            told = [(one.role, one.text) for one in await sessiond.session(info.session_id).messages() if one.text]
            assert [one for one in told if one[0] != "system"] == [
                ("user", FIRST),
                ("assistant", LOOKING),
                ("tool", "hello"),
                ("assistant", f"Answer 1: {FIRST}"),
            ]
        assert await ask(SECOND, model.url, tmp_path, "elsewhere", resume=session_id) == session_id
        sent = [one[1] for one in model.conversation(FIRST) if one[0] in ("user", "assistant")]
        assert sent == [FIRST, LOOKING, f"Answer 1: {FIRST}", SECOND, f"Answer 2: {SECOND}"]
