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
STAYS = "sessiond web"
"""The command that runs in the foreground until it is stopped."""


class Reader:
    """Somebody who has tools of their own, reads the README and types."""

    def __init__(self, shell: Shell) -> None:
        self.home = shell
        self.path = shell.path / "a home"
        bin_ = shell.path / "bin"
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
        self.env = {**shell.env, "HOME": str(self.path), "PATH": path, "BROWSER": str(bin_ / "browser")}

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
    """Every command succeeds, in one shell, as it stands there; two programs share a session; none is left out."""
    shell = Typist(reader)
    done: dict[str, str] = {}
    for command in COMMANDS:
        if command == STAYS:
            done[command] = first_line(reader, command)
            continue
        code, said = shell.types(command)
        if "--semantic" in command and code:
            assert re.search(r"pip install .*'numpy\S+ 'wordllama\S+", said)
        else:
            assert code == 0, (command, said)
        done[command] = said
    assert "1 session" in done["sessiond import --yes"]
    assert "A list" in done["sessiond list"] + shell.types("sessiond list")[1]
    assert "http://127.0.0.1:" in done["sessiond web"]
    wait_until(lambda: "The lock order is" in reader.types("sessiond search lock order role:assistant").stdout)
    wait_until(lambda: "claude-x\t1\t1\t70" in reader.types("sessiond stats --by model").stdout)
    assert "agent-q" in reader.types("sessiond status").stdout
    assert "remember the milk" in shell.types("sessiond show $ID")[1]
    assert "remember the milk" in shell.ends_in("kill %1")  # what `tail` saw in the background
    assert len(done) == len(COMMANDS) == 11


class Typist:
    """One shell that stays, as a person's does. What a command in its background writes goes to a file."""

    def __init__(self, reader: Reader) -> None:
        self._beside = reader.path / "beside"
        self._shell = subprocess.Popen(
            ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=reader.env, cwd=reader.path,
        )  # fmt: skip

    def types(self, command: str) -> tuple[int, str]:
        """Its exit code and what it wrote."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        if command.endswith("&"):
            command = f"{command[:-1]} > '{self._beside}' &"
        self._shell.stdin.write(f'{command}\necho "<$?>"\n')
        self._shell.stdin.flush()
        said = ""
        while not (found := re.search(r"<(\d+)>\n$", said)):
            line = self._shell.stdout.readline()
            assert line, said
            said += line
        return int(found[1]), said[: found.start()]

    def ends_in(self, command: str) -> str:
        """What the command in the background has written, once it has written something and `command` has ended it."""
        wait_until(lambda: "milk" in self._beside.read_text())
        assert self.types(command)[0] == 0
        self._shell.communicate("wait\n", timeout=TIMEOUT_S)
        return self._beside.read_text()


def first_line(reader: Reader, command: str) -> str:
    """What a command that goes on says first."""
    process = reader.leaves_running(command)
    assert process.stdout is not None
    line = process.stdout.readline()
    process.terminate()
    process.communicate(timeout=TIMEOUT_S)
    return line
