"""The README's minute: each of its commands is run by a shell, in a home with a blank, in the order in which it stands there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.shell import ROOT, Shell, wait_until

TIMEOUT_S = 60
SESSION = "session-20260111-143022"
"""The session that the README speaks of."""
COMMANDS = [
    line.removeprefix("$ ").partition("  #")[0].strip()
    for line in re.findall(r"^\$ .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
]
TRANSCRIPT = [
    {"type": "user", "message": {"role": "user", "content": "Which lock order is right?"}},
    {
        "type": "assistant",
        "message": {
            "role": "assistant",
            "model": "claude-x",
            "content": [{"type": "text", "text": "The lock order is ..."}],
            "usage": {"input_tokens": 70, "output_tokens": 8},
        },
    },
]
STAY = ("sessiond web", f"sessiond tail {SESSION}")
"""Commands that run until they are stopped."""


class Reader:
    """Somebody who has tools of their own, reads the README and types."""

    def __init__(self, home: Shell) -> None:
        self.home = home
        self.path = home.path / "a home"
        bin_ = home.path / "bin"
        bin_.mkdir()
        (bin_ / "sessiond").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sessiond "$@"\n')
        (bin_ / "sessiond").chmod(0o755)
        (bin_ / "browser").write_text("#!/bin/sh\nexit 0\n")
        (bin_ / "browser").chmod(0o755)
        projects = self.path / ".claude" / "projects" / "-work"
        projects.mkdir(parents=True)
        lines = [
            {
                "uuid": f"u{n}",
                "parentUuid": f"u{n - 1}" if n else None,
                "sessionId": "s",
                "timestamp": f"2026-01-11T14:30:2{n}Z",
                "cwd": "/work",
                **record,
            }
            for n, record in enumerate(TRANSCRIPT)
        ]
        (projects / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        adopted = ROOT / "tests" / "formats" / "golden" / "agent-q" / "adopted"
        shutil.copytree(adopted, self.path / ".emacs.d" / "agent-q-sessions")
        path = os.pathsep.join((str(bin_), os.environ["PATH"]))
        self.env = {**home.env, "HOME": str(self.path), "PATH": path, "BROWSER": str(bin_ / "browser")}

    def types(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, shell=True, check=False, capture_output=True, text=True, env=self.env, cwd=self.path, timeout=TIMEOUT_S
        )  # fmt: skip

    def leaves_running(self, command: str) -> subprocess.Popen[str]:
        return self.home.start(*command.split()[1:], text=True, env=self.env, cwd=self.path)


@pytest.fixture
def reader() -> Iterator[Reader]:
    home = Shell()
    yield Reader(home)
    home.close()


def test_the_minute(reader: Reader) -> None:
    """Every command succeeds, those that go on show what they are for, and none is left out."""
    with reader.home.client() as client:
        client.call("session/new", {"sessionId": SESSION, "name": "A list"})
    done: dict[str, str] = {}
    for command in COMMANDS:
        if command in STAY:
            done[command] = first_line(reader, command)
            continue
        ended = reader.types(command)
        if "--semantic" in command and ended.returncode:
            assert "pip install 'sessiond[semantic]'" in ended.stderr
        else:
            assert ended.returncode == 0, (command, ended)
        done[command] = ended.stdout
    assert "1 session" in done["sessiond import ~/.claude/projects"]
    assert "A list" in done["sessiond list"]
    assert "http://127.0.0.1:" in done["sessiond web"]
    wait_until(lambda: "The lock order is" in reader.types('sessiond search "lock order" role:assistant').stdout)
    wait_until(lambda: "claude-x\t1\t1\t70" in reader.types("sessiond stats --by model").stdout)
    assert "agent-q" in reader.types("sessiond status").stdout
    assert "remember the milk" in reader.types(f"sessiond show {SESSION}").stdout
    assert "remember the bread" in done[f"sessiond tail {SESSION}"]
    assert len(done) == len(COMMANDS) == 10


def first_line(reader: Reader, command: str) -> str:
    """What a command that goes on says first."""
    process = reader.leaves_running(command)
    assert process.stdout is not None
    if "tail" in command:
        wait_until(lambda: attached(reader) > 0)
        reader.types(f"echo 'remember the bread' | sessiond append {SESSION}")
    lines = [process.stdout.readline()]
    while "tail" in command and "bread" not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], lines
    process.terminate()
    process.wait(TIMEOUT_S)
    return "".join(lines)


def attached(reader: Reader) -> int:
    """How many connections have the session open."""
    listed = json.loads(reader.types("sessiond list --json").stdout)["sessions"]
    return int(next(one["attached"] for one in listed if one["sessionId"] == SESSION))
