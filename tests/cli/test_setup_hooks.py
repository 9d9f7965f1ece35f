"""`sessiond setup AGENT --hooks`: the lines, and where they go."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.shell import Shell

FILES = {"claude": ".claude/settings.json", "codex": ".codex/hooks.json"}


@pytest.mark.parametrize("agent", FILES)
def test_they_are_added_once(user: Shell, agent: str) -> None:
    """Everything else in the file stays, comments included; the command is one that can be run from anywhere."""
    path = user.path / FILES[agent]
    path.parent.mkdir()
    path.write_text('{\n  // mine\n  "model": "opus",\n  "hooks": {"PreCompact": [{"hooks": []}]}\n}\n')
    done = user("setup", agent, "--hooks", "--write")
    assert (done.code, done.out) == (0, f"added to {path}\n")
    assert ("trust these hooks" in done.err) == (agent == "codex")
    text = path.read_text()
    assert "// mine" in text
    found = json.loads(text.replace("// mine", ""))
    assert (found["model"], found["hooks"].pop("PreCompact")) == ("opus", [{"hooks": []}])
    printed = user("setup", agent, "--hooks").out
    head, _, lines = printed.partition("\n")
    assert head == f"// {path}"
    assert json.loads(lines) == {"hooks": found["hooks"]}
    (hook,) = found["hooks"]["PermissionRequest"][0]["hooks"]
    assert hook["timeout"] == (3600 if agent == "claude" else 10)
    words = shlex.split(hook["command"])
    assert words[-2:] == ["hook", agent]
    assert Path(next(word for word in words if "=" not in word)).is_absolute()
    assert user("setup", agent, "--hooks", "--write").out == f"{path} already has them\n"
    assert path.read_text() == text


def test_a_file_is_made(user: Shell) -> None:
    assert user("setup", "claude", "--hooks", "--write").code == 0
    assert "Stop" in json.loads((user.path / FILES["claude"]).read_text())["hooks"]


@pytest.mark.parametrize(
    "text",
    [
        '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "beep"}]}]}}',
        '{"hooks": []}',
        "[",
        '{"hooks"',
        "\x80",
    ],
)
def test_what_cannot_be_changed_safely_is_left_alone(user: Shell, text: str) -> None:
    """Hooks of somebody's own, for example: a list may have an order."""
    path = user.path / FILES["claude"]
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    done = user("setup", "claude", "--hooks", "--write")
    assert done.code == 1
    assert "cannot be changed safely" in done.err
    assert "sessiond setup claude --hooks" in done.err
    assert ("there are hooks of Stop: add ours" in done.err) == ("beep" in text)
    assert path.read_bytes() == text.encode("latin-1")


def test_others_have_none(user: Shell) -> None:
    assert "--hooks knows claude and codex" in user("setup", "gemini", "--hooks").err
    assert "need the name of an agent" in user("setup", "--hooks").err
