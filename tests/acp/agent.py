"""An agent for tests, which a recorder runs. It speaks the Agent Client Protocol by rule.

A prompt's words say what it does: `think`, `tool`, `ask` (for permission), `again` (for another one, by the same id), `wait`
(until it is cancelled or ends), `long`, `silent`; `fail` alone is an error. It ends every other turn with the last block of the
prompt said back, word by word. With `--check` each message is checked against the
protocol's own types.

    agent.py SESSION [--check] [--can load,resume,list] [--repeats all|nothing|texts|tail|refuse] [--memory FILE] [--heard FILE]

What it can, it does from FILE, which outlives it. Each prompt is written to `--heard` with all that its model knows by then.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

_parser = argparse.ArgumentParser()
_parser.add_argument("session")
_parser.add_argument("--check", action="store_true")
_parser.add_argument("--can", default="")
_parser.add_argument("--repeats", default="all")
_parser.add_argument("--memory")
_parser.add_argument("--heard")
GIVEN = _parser.parse_args()
CHECKED = GIVEN.check
if CHECKED:
    from acp import schema

_TEXTS = ("user_message_chunk", "agent_message_chunk")


class Agent:
    def __init__(self) -> None:
        self.session = GIVEN.session
        self.made = 0
        self.can = GIVEN.can.split(",")
        self.said: dict[str, list[dict[str, Any]]] = {}
        """Sessions of this process: prompts and updates."""
        self.told: dict[str, list[str]] = {}
        """By session: what prompts said before their last block."""
        if GIVEN.memory and Path(GIVEN.memory).exists():
            self.kept = json.loads(Path(GIVEN.memory).read_text())
        else:
            self.kept = {}

    def out(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def update(self, what: str, **fields: Any) -> None:
        params = {"sessionId": self.session, "update": {"sessionUpdate": what, **fields}}
        self.said.setdefault(self.session, []).append(params["update"])
        if CHECKED:
            schema.SessionNotification.model_validate(params)
        self.out({"method": "session/update", "params": params})

    def text(self, kind: str, text: str) -> None:
        self.update(kind, content={"type": "text", "text": text})

    def read(self) -> dict[str, Any]:
        line = sys.stdin.readline()
        if not line:
            sys.exit(7)
        return json.loads(line)

    def run(self) -> None:
        while True:
            message = self.read()
            number, method = message.get("id"), message.get("method")
            params = message.get("params") or {}
            if method == "initialize":
                info = {"name": "rule", "version": "1"}
                sessions = {name: {} for name in self.can if name in ("list", "resume")}
                can = {"loadSession": "load" in self.can, "sessionCapabilities": sessions} if GIVEN.can else {}
                self.out({"id": number, "result": {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": can}})
            elif method == "session/new":
                self.made += 1
                self.session = GIVEN.session if self.made == 1 else f"{GIVEN.session}x{self.made}"
                self.said[self.session] = []
                models = {"currentModelId": "m-1", "availableModels": []}
                self.out({"id": number, "result": {"sessionId": self.session, "models": models}})
            elif method == "session/list":
                sessions = [{"sessionId": key, "cwd": "/tmp"} for key in self.kept]
                self.out({"id": number, "result": {"sessions": sessions}})
            elif method in ("session/load", "session/resume"):
                self.open(number, method, params["sessionId"])
            elif method == "session/prompt":
                if CHECKED:
                    schema.PromptRequest.model_validate(message["params"])
                self.session = params["sessionId"]
                if self.session not in self.said:
                    self.out({"id": number, "error": {"code": -32602, "message": f"no session {self.session}"}})
                    continue
                self.hear(params["prompt"])
                if params["prompt"][-1]["text"] == "fail":
                    self.out({"id": number, "error": {"code": -32000, "message": "The model is down."}})
                    continue
                reason = self.turn(params["prompt"][-1]["text"])
                if GIVEN.memory:
                    self.kept[self.session] = self.said[self.session]
                    Path(GIVEN.memory).write_text(json.dumps(self.kept))
                self.out({"id": number, "result": {"stopReason": reason}})

    def open(self, number: Any, method: str, session: str) -> None:
        self.session = session
        if method == "session/load" and not GIVEN.memory:  # an agent that says one thing of every session
            self.text("user_message_chunk", "first")
            self.text("agent_message_chunk", "first ")
        elif session not in self.kept or GIVEN.repeats == "refuse":
            self.out({"id": number, "error": {"code": -32002, "message": f"{session} is gone"}})
            return
        else:
            self.said[session] = []
            for update in self.kept[session] if method == "session/load" else ():
                last = [n for n, one in enumerate(self.kept[session]) if one["sessionUpdate"] == _TEXTS[0]][-1]
                if (
                    GIVEN.repeats == "all"
                    or (GIVEN.repeats == "texts" and update["sessionUpdate"] in _TEXTS)
                    or (GIVEN.repeats == "tail" and self.kept[session].index(update) >= last)
                ):
                    self.update(update["sessionUpdate"], **{k: v for k, v in update.items() if k != "sessionUpdate"})
            self.said[session] = list(self.kept[session])
        self.out({"id": number, "result": {}})

    def hear(self, prompt: list[dict[str, Any]]) -> None:
        said = self.said[self.session]
        if GIVEN.heard:
            known = [one["content"]["text"] for one in said if one["sessionUpdate"] == "user_message_chunk"]
            known += self.told.get(self.session, [])
            self.told.setdefault(self.session, []).extend(one["text"] for one in prompt[:-1])
            heard = {"session": self.session, "known": known, "prompt": [one["text"] for one in prompt]}
            with open(GIVEN.heard, "a") as file:
                file.write(json.dumps(heard) + "\n")
        said.append({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": prompt[-1]["text"]}})

    def turn(self, prompt: str) -> str:
        words = prompt.split()
        if "think" in words:
            self.text("agent_thought_chunk", "Let me ")
            self.text("agent_thought_chunk", "think.")
        if "plan" in words:
            self.update("plan", entries=[{"content": "Do it", "priority": "high", "status": "pending"}])
        if "entitle" in words:
            self.update("session_info_update", title=f"The agent's {words[-1]}")
        if "tool" in words:
            self.text("agent_message_chunk", "I shall look.")
            self.update("tool_call", toolCallId="c1", title="ls", kind="execute", status="pending")
            if "ask" in words:
                self.ask()
            if "again" in words:  # with the same id
                self.text("agent_message_chunk", f"rm: {self.ask('rm')}. ")
            self.update("tool_call_update", toolCallId="c1", status="in_progress", rawInput={"command": "ls"})
            content = [{"type": "content", "content": {"type": "text", "text": "apple.txt"}}]
            self.update("tool_call_update", toolCallId="c1", status="completed", content=content)
        for word in [] if "silent" in words else words:
            self.text("agent_message_chunk", word + " ")
        if "long" in words:
            for n in range(1000):
                self.text("agent_message_chunk", f"{n} ")
        if "wait" in words:
            while self.read().get("method") != "session/cancel":
                pass
            return "cancelled"
        return "end_turn"

    def ask(self, title: str = "ls") -> str | None:
        """The option that was chosen."""
        options = [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
        params = {"sessionId": self.session, "toolCall": {"toolCallId": "c1", "title": title}, "options": options}
        if CHECKED:
            schema.RequestPermissionRequest.model_validate(params)
        self.out({"id": 900, "method": "session/request_permission", "params": params})
        while (answer := self.read()).get("id") != 900:
            pass
        return answer["result"]["outcome"].get("optionId")


if __name__ == "__main__":
    Agent().run()
