"""`sessiond hook`: what Claude Code's and Codex' hooks report to a real daemon. The events are those of the agents themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sessiond.client import Sessiond
from tests.shell import Shell, wait_until

ID = "5e1f0c9a-0000-4000-8000-000000000001"
CALL = {"tool_name": "Bash", "tool_input": {"command": "touch a", "description": "Make a"}}


class Agent:
    """A process that stands for the agent, and a session that was imported from it."""

    def __init__(self, user: Shell, client: Sessiond, name: str) -> None:
        self.user, self.client, self.name = user, client, name
        self.session_id = f"{'claude-code' if name == 'claude' else name}-{ID}"
        client.new(id=self.session_id, name="Build")
        self.process = subprocess.Popen(["sleep", "600"])
        user.env["CLAUDE_PID"] = str(self.process.pid)

    def event(self, event: str, **more: Any) -> str:
        """What the hook prints."""
        sent = {"session_id": ID, "transcript_path": f"/x/{ID}.jsonl", "cwd": "/x", "hook_event_name": event, **more}
        done = self.user("hook", self.name, stdin=json.dumps(sent))
        assert (done.code, done.err) == (0, "")
        return done.out

    def start(self, event: str, **more: Any) -> subprocess.Popen[str]:
        process: subprocess.Popen[str] = self.user.start("hook", self.name, text=True)
        assert process.stdin is not None
        process.stdin.write(json.dumps({"session_id": ID, "hook_event_name": event, **more}))
        process.stdin.close()
        process.stdin = None  # else `communicate` would write to it
        return process

    @property
    def doing(self) -> tuple[str, str | None, str | None] | None:
        activity = self.client.session(self.session_id).info().activity
        return None if activity is None else (activity.state, activity.waiting_for, activity.text)

    def asks(self) -> bool:
        activity = self.client.session(self.session_id).info().activity
        return activity is not None and activity.question is not None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def client(user: Shell) -> Iterator[Sessiond]:
    with user.client() as made:
        yield made


@pytest.fixture(params=["claude", "codex"])
def agent(request: pytest.FixtureRequest, user: Shell, client: Sessiond) -> Iterator[Agent]:
    made = Agent(user, client, request.param)
    yield made
    made.end()


@pytest.fixture
def claude(user: Shell, client: Sessiond) -> Iterator[Agent]:
    made = Agent(user, client, "claude")
    yield made
    made.end()


def test_a_turn(agent: Agent) -> None:
    """Works from the prompt to the end; what is of no interest changes nothing."""
    agent.event("SessionStart", source="startup")
    assert agent.doing is None
    agent.event("UserPromptSubmit", prompt="Hi")
    assert agent.doing == ("working", None, None)
    agent.event("PostToolUse", **CALL, tool_response="")
    assert agent.doing == ("working", None, "Bash: touch a")
    activity = agent.client.session(agent.session_id).info().activity
    assert activity is not None
    assert activity.client == agent.name
    agent.event("Stop", last_assistant_message="Done")
    assert agent.doing is None
    agent.event("UserPromptSubmit", prompt="And now?")
    agent.event("SessionEnd", reason="other")
    assert agent.doing is None


def test_what_it_did_ends_with_the_agent(agent: Agent) -> None:
    """It was killed, so no event says that it is over."""
    agent.event("UserPromptSubmit", prompt="Hi")
    agent.end()
    wait_until(lambda: agent.doing is None)


@pytest.mark.parametrize(
    ("choice", "decision"),
    [("allow", {"behavior": "allow"}), ("deny", {"behavior": "deny", "message": "denied in cli"})],
)
def test_permission_is_given_anywhere(claude: Agent, choice: str, decision: dict[str, str]) -> None:
    """The hook prints what Claude Code obeys."""
    hook = claude.start("PermissionRequest", **CALL)
    wait_until(claude.asks)
    assert claude.doing == ("waiting", "permission", "Bash: touch a")
    assert claude.user("answer", claude.session_id, choice).code == 0
    out, err = hook.communicate(timeout=30)
    assert json.loads(out) == {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    assert (hook.returncode, err) == (0, "")


def test_permission_that_was_given_in_the_agent(claude: Agent) -> None:
    """Its own dialog is open meanwhile; when it goes on, the question is withdrawn, and the hook decides nothing."""
    hook = claude.start("PermissionRequest", **CALL)
    wait_until(claude.asks)
    claude.event("PostToolUse", **CALL)
    assert hook.communicate(timeout=30)[0] == ""
    assert (hook.returncode, claude.doing) == (0, ("working", None, "Bash: touch a"))
    hook = claude.start("PermissionRequest", **CALL)
    wait_until(claude.asks)
    hook.send_signal(signal.SIGTERM)  # as Claude Code does at Esc
    hook.communicate(timeout=30)
    wait_until(lambda: not claude.asks())
    hook = claude.start("PermissionRequest", **CALL)
    wait_until(claude.asks)
    claude.end()  # it was killed, and its hook was not
    assert hook.communicate(timeout=30)[0] == ""
    assert hook.returncode == 0


def test_an_open_question_stays_open(claude: Agent) -> None:
    """Claude Code says once more that it waits, some seconds later; and another call of the same turn ends."""
    hook = claude.start("PermissionRequest", **CALL)
    wait_until(claude.asks)
    claude.event("Notification", notification_type="permission_prompt", message="Claude needs your permission")
    claude.event("PostToolUse", tool_name="Read", tool_input={"file_path": "/b"}, tool_response="")
    assert claude.asks()
    assert claude.user("answer", f"default/{claude.session_id}", "allow").code == 0
    assert '"allow"' in hook.communicate(timeout=30)[0]


def test_a_dialog_that_wants_more_than_permission(claude: Agent) -> None:
    """To allow it from elsewhere would answer nothing."""
    options = [{"label": "pg", "description": "x"}, {"label": "my", "description": "y"}]
    asked = {"questions": [{"question": "Which database?", "header": "DB", "options": options}]}
    assert claude.event("PermissionRequest", tool_name="AskUserQuestion", tool_input=asked) == ""
    assert claude.doing == ("waiting", "question", "AskUserQuestion: Which database?")
    assert not claude.asks()
    assert claude.event("PermissionRequest", tool_name="ExitPlanMode", tool_input={"plan": "Do it"}) == ""
    assert claude.doing == ("waiting", "plan", "ExitPlanMode: Do it")


@pytest.mark.parametrize("way", ["kill", "stop"])
def test_a_daemon_that_ends_is_asked_again(claude: Agent, way: str) -> None:
    """Its successor, that is: the dialog is open meanwhile."""
    hook = claude.start("PermissionRequest", **CALL)
    wait_until(claude.asks)
    if way == "kill":
        claude.user.kill()
    else:
        assert claude.user("stop").code == 0
    time.sleep(1)  # nobody listens for a while
    claude.user("list")
    wait_until(claude.asks)
    assert claude.user("answer", claude.session_id, "allow").code == 0
    assert '"allow"' in hook.communicate(timeout=30)[0]


def test_a_notice_says_that_it_waits(claude: Agent) -> None:
    """Also where nobody may answer but in the agent."""
    claude.event("Notification", notification_type="idle_prompt", message="Claude is waiting for your input")
    assert claude.doing is None
    claude.event("Notification", notification_type="permission_prompt", message="Claude needs your permission")
    assert claude.doing == ("waiting", "permission", None)


def test_codex_is_not_kept_waiting(user: Shell, client: Sessiond) -> None:
    """It shows its dialog only when its hooks have ended."""
    codex = Agent(user, client, "codex")
    assert codex.event("PermissionRequest", **CALL) == ""
    assert (codex.doing, codex.asks()) == (("waiting", "permission", "Bash: touch a"), False)
    codex.event("PostToolUse", **CALL)
    assert codex.doing == ("working", None, "Bash: touch a")
    codex.end()


def test_the_agent_is_found_through_shells(user: Shell, client: Sessiond) -> None:
    """Without its own word, it is the first ancestor other than a shell: here the test itself."""
    codex = Agent(user, client, "codex")
    codex.end()
    del user.env["CLAUDE_PID"]
    sent = json.dumps({"session_id": ID, "hook_event_name": "UserPromptSubmit"})
    hook = " ".join(user.command("hook", "codex"))
    shell = ["sh", "-c", f"sh -c 'printf %s \"$EVENT\" | {hook}; true'; true"]
    subprocess.run(shell, env={**user.env, "EVENT": sent}, check=True, timeout=60)
    assert codex.doing == ("working", None, None)
    assert os.getpid()  # which goes on, so two seconds later it works still


@pytest.mark.parametrize(
    "sent", ["", "{", "[]", "{}", '{"session_id": 1}', '{"session_id": "nowhere", "hook_event_name": "Stop"}']
)
def test_an_agent_does_not_suffer(user: Shell, sent: str) -> None:
    """Whatever comes in, and without a daemon, which is not started."""
    done = user("hook", "claude", stdin=sent)
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith("sessiond: ")
    assert not user.held()
