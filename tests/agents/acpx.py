"""acpx in front of `sessiond acp` in front of a real agent with a fake model; and what was said by acpx's journal."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from sessiond.client import Message
from tests.agents.agents import AGENTS, cache
from tests.agents.fake_model import FakeModel
from tests.shell import ROOT, Shell

DEADLINE_S = 100
EDITOR, RECORDER, AGENT = "acpx", "recorder", "agent"
_VERSIONS = dict(re.findall(r"^(\w+)=([\d.]+)$", (Path(__file__).parent / "install").read_text(), re.MULTILINE))
INSTALLED = cache().parent / ("acp-" + "-".join(_VERSIONS[name] for name in ("acpx", "claude_acp", "pi_acp")))
_ACPX = INSTALLED / "acpx" / "node_modules" / ".bin" / "acpx"
COMMANDS = {
    "opencode": [str(cache() / "opencode" / "node_modules" / ".bin" / "opencode"), "acp"],
    "claude": [str(INSTALLED / "claude-acp" / "node_modules" / ".bin" / "claude-agent-acp")],
    "pi": [str(INSTALLED / "pi-acp" / "node_modules" / ".bin" / "pi-acp")],
}
_PI_ASKS = """export default (pi) => pi.on("tool_call", async (event, context) => {
  if (!(await context.ui.confirm("Run it?", event.input.command))) return { block: true, reason: "The user said no." };
});
"""
Said: TypeAlias = list[tuple[str, str]]
"""Prompts, texts, calls and results, in order: who, and what."""


class Acpx:
    """A home of its own. `asks`: the agent asks before it runs a command, also if it does not do so by itself."""

    def __init__(self, name: str, path: Path, model: FakeModel, shell: Shell, *, asks: bool = False) -> None:
        (agent,) = [one for one in AGENTS if one.name == name]
        self.path = path
        self.work = path / "work"
        self.work.mkdir(parents=True)
        (self.work / "apple.txt").write_text("an apple\n")
        self.env = {
            **agent.prepare(path, model.url),
            "SESSIOND_HOME": str(shell.path),
            "ANTHROPIC_MODEL": "fake-model",
            "CLAUDE_CODE_EXECUTABLE": str(cache() / "claude" / "node_modules" / ".bin" / "claude"),
            "PI_ACP_PI_COMMAND": str(cache() / "pi" / "node_modules" / ".bin" / "pi"),
        }
        if name == "pi":
            settings = {"defaultProvider": "fake", "defaultModel": "fake-model", "quietStartup": True}
            (path / ".pi" / "agent" / "settings.json").write_text(json.dumps(settings))
        if asks:
            _make_it_ask(name, path)
        self.arguments = ["acp", "--", *COMMANDS[name]]
        self.command = shell.command(*self.arguments)
        program = path / "recorded"  # acpx splits the agent's command at blanks, and needs a program without them
        program.write_text(f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec {' '.join(map(_quoted, self.command))}\n")
        program.chmod(0o755)
        self._agent = f"'{program}'"

    def start(self, *arguments: str, may: tuple[str, ...] = ("--approve-all",)) -> subprocess.Popen[str]:
        node = cache() / "node" / "node_modules" / ".bin" / "node"
        command = [str(node), str(_ACPX.resolve()), "--ttl", "3", *may, "--cwd", str(self.work), "--agent", self._agent]
        return subprocess.Popen(
            [*command, *arguments], env=self.env, cwd=self.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def __call__(
        self, *arguments: str, may: tuple[str, ...] = ("--approve-all",), codes: tuple[int, ...] = (0,)
    ) -> str:
        """What it printed. `codes`: the exit statuses that it may have."""
        running = self.start(*arguments, may=may)
        out, _ = running.communicate(timeout=DEADLINE_S)
        assert running.returncode in codes, (arguments, running.returncode, out[-3000:])
        return out

    def journal(self) -> list[dict[str, Any]]:
        """The protocol as acpx wrote it down, of all its sessions, in order."""
        paths = sorted(
            (self.path / ".acpx" / "sessions").glob("*.stream*.ndjson"), key=lambda path: path.stat().st_mtime_ns
        )
        lines = [line for path in paths for line in path.read_text().splitlines()]
        return [message for line in lines if (message := json.loads(line)).get("jsonrpc") == "2.0"]

    # Its processes

    def kill(self, who: str) -> None:
        """kill -9 the client, the recorder or the agent: the process that speaks the protocol."""
        (passing,) = self.passing()
        number = passing
        if who == EDITOR:
            number = _parent(passing)
        elif who == AGENT:
            (number,) = _children(passing)
        os.kill(number, signal.SIGKILL)

    def passing(self) -> list[int]:
        """The processes that pass bytes in this home."""
        words = b"\0".join(map(os.fsencode, self.command))
        return [number for number in self._mine() if words in _of(number, "cmdline")]

    def running(self) -> list[str]:
        """Everything that runs in this home, but its daemon and the daemon's own processes."""
        found = [_of(number, "cmdline").replace(b"\0", b" ").decode() for number in self._mine()]
        return [line for line in found if line and not re.search(r"sessiond serve|/sessiond/index/", line)]

    def _mine(self) -> list[int]:
        mark = b"HOME=" + os.fsencode(self.path)
        return [number for number in _processes() if mark in _of(number, "environ").split(b"\0")]


def _make_it_ask(name: str, path: Path) -> None:
    if name == "opencode":
        config = path / ".config" / "opencode" / "opencode.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "permission": {"bash": "ask"}}))
    elif name == "claude":
        settings = path / "work" / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"permissions": {"defaultMode": "default"}}))
    elif name == "pi":
        extension = path / ".pi" / "agent" / "extensions" / "ask.js"
        extension.parent.mkdir(parents=True)
        extension.write_text(_PI_ASKS)


def _quoted(word: str) -> str:
    return f"'{word}'"


def _processes() -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*"):
        yield int(path.name)


def _of(number: int, what: str) -> bytes:
    """A file of a process; nothing if it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/{what}").read_bytes()
    return b""


def _parent(number: int) -> int:
    return int(_of(number, "stat").rpartition(b")")[2].split()[1])


def _children(number: int) -> list[int]:
    return [
        one for one in _processes() if (stat := _of(one, "stat")) and int(stat.rpartition(b")")[2].split()[1]) == number
    ]


# What was said


def by_journal(journal: Iterable[dict[str, Any]]) -> Said:
    """Texts of one speaker are put together. What commands printed may be told beside the protocol, for terminals."""
    said: Said = []
    called: set[str] = set()
    over: set[str] = set()
    printed: dict[str, str] = {}
    for message in journal:
        params = message.get("params") or {}
        if message.get("method") == "session/prompt":
            said.append(("user", params["prompt"][0]["text"]))
        update = params.get("update") or {}
        number = update.get("toolCallId")
        if update.get("sessionUpdate") == "agent_message_chunk":
            said.append(("assistant", update["content"]["text"]))
        elif number and number not in called:
            called.add(number)
            said.append(("call", number))
        if number and (output := (update.get("_meta") or {}).get("terminal_output")):
            printed[number] = printed.get(number, "") + output["data"]
        if number and update.get("status") in ("completed", "failed") and number not in over:
            over.add(number)
            texts = [one["content"]["text"] for one in update.get("content") or [] if one.get("type") == "content"]
            texts += filter(None, [printed.get(number)])
            raw = update.get("rawOutput")
            said.append(("tool", "\n".join(texts or ([raw] if isinstance(raw, str) else []))))
    return _joined(said)


def by_record(messages: Iterable[Message]) -> Said:
    said: Said = []
    for one in messages:
        if one.role == "system":
            continue
        said += [("call", call.id) for call in one.tool_calls or []]
        if one.text or not one.tool_calls:
            said.append((one.role, one.text))
    return _joined(said)


def chosen(journal: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the client answered to questions for permission, in order."""
    asked: set[Any] = set()
    found = []
    for message in journal:
        if message.get("method") == "session/request_permission":
            asked.add(message["id"])
        elif "method" not in message and message.get("id") in asked and "outcome" in (message.get("result") or {}):
            asked.discard(message["id"])
            found.append(message["result"]["outcome"])
    return found


def turns(said: Said) -> dict[str, Said]:
    """By prompt: what followed."""
    found: dict[str, Said] = {}
    for who, text in said:
        if who == "user":
            assert text not in found, text
            found[text] = []
        else:
            found[next(reversed(found))].append((who, text))
    return found


def begins(whole: Said, begin: Said) -> bool:
    """Whether `begin` is how `whole` begins, as far as it goes; its last text may be cut."""
    if not begin:
        return True
    *before, (who, text) = begin
    at = len(before)
    return whole[:at] == before and len(whole) > at and whole[at][0] == who and whole[at][1].startswith(text)


def _joined(said: Said) -> Said:
    """Pieces of one reply as one."""
    joined: Said = []
    for who, text in said:
        if who == "assistant" and joined and joined[-1][0] == who:
            text = joined.pop()[1] + text
        joined.append((who, text))
    return joined
