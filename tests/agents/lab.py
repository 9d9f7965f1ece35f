"""A home in which all agents, a fake model and sessiond are: what the tests of `sessiond resume` begin with."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.agents.agents import RESUMED, Agent, cache
from tests.agents.fake_model import FakeModel, Item, Request
from tests.agents.whole import told
from tests.programs import need
from tests.shell import ROOT, Shell

Json = dict[str, Any]
BY_NAME = {agent.name: agent for agent in RESUMED}


class Lab:
    """Use it as a context manager. `envs`: each agent's environment, in the same home."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="sd-lab-"))
        self.folder = self.home / "a work 日本"
        self.folder.mkdir()
        (self.folder / "apple.txt").write_text("an apple\n")
        self.model = FakeModel()
        self.envs = {agent.name: agent.prepare(self.home, self.model.url) for agent in RESUMED}
        bins = [str(Path(agent.program[0]).parent) for agent in RESUMED]
        path = os.pathsep.join([*bins, str(cache() / "node" / "node_modules" / ".bin"), os.environ["PATH"]])
        own = {name: value for name, value in self.envs["opencode"].items() if name.startswith("OPENCODE_")}
        self.shell = Shell(HOME=str(self.home), PATH=path, CI="", **own)

    def __enter__(self) -> Lab:
        self.model.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.shell.close()
        self.model.__exit__()
        shutil.rmtree(self.home)

    def new(self, messages: list[Json], name: str) -> str:
        """A session that an editor wrote. Its id."""
        with self.shell.client() as client:
            given = {"name": name, "cwd": str(self.folder), "messages": messages}
            return str(client.call("session/new", given)["session"]["sessionId"])

    def new_in_emacs(self, messages: list[Json], name: str) -> str:
        """As `new`, written by a real Emacs with our client."""
        program = self.home / "sessiond-of-emacs"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sessiond "$@"\n')
        program.chmod(0o755)
        given = self.home / "given.json"
        given.write_text(json.dumps({"name": name, "cwd": str(self.folder), "messages": messages}))
        form = """(progn (setq sessiond-server (list (getenv "SESSIOND")))
          (let ((given (with-temp-buffer (insert-file-contents (getenv "GIVEN"))
                         (json-parse-buffer :object-type 'plist :null-object :null :false-object :json-false))))
            (princ (plist-get (plist-get (sessiond-call 'session/new given) :session) :sessionId))))"""
        done = subprocess.run(
            [need("emacs"), "-Q", "--batch", "-L", ROOT / "clients" / "emacs", "-l", "sessiond", "--eval", form],
            stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=90, check=False,
            env=self.shell.env | {"SESSIOND": str(program), "GIVEN": str(given), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        assert done.returncode == 0, done
        return done.stdout

    def messages(self, session_id: str) -> list[Json]:
        found: list[Json] = self.shell("show", session_id, "--json", "--last", "1000").json["messages"]
        return found

    def copy(self, session_id: str, agent: Agent, *arguments: str) -> Json:
        """What `sessiond resume --json` says."""
        done = self.shell("resume", session_id, "--in", agent.name, "--json", *arguments)
        assert done.code == 0, done
        found: Json = done.json
        return found

    def go_on(self, agent: Agent, copied: Json, prompt: str) -> list[Item]:
        """Send a prompt to a copy; everything that the model was sent with it."""
        before = len(self.model.requests)
        agent.resume(self.envs[agent.name], Path(copied["cwd"]), copied["id"], prompt)
        return told(self.asked(before, prompt))

    def asked(self, before: int, prompt: str) -> Request:
        """The first request with tools that ends with the prompt; those without are the agents' own, for titles."""
        found = [one for one in self.model.requests[before:] if one.tools and one.items[-1] == ("user", prompt)]
        assert found, [one.items[-1:] for one in self.model.requests[before:]]
        return found[0]

    def bring_in(self, agent: Agent, copied: Json) -> Json:
        """Import what the agent has; the session of a copy."""
        done = self.shell("import", str(self.home / agent.place), "--json")
        assert done.code == 0, done
        for info in self.shell("list", "--json", "--limit", "1000").json["sessions"]:
            if info["metadata"].get("source", {}).get("id") == copied["id"]:
                found: Json = info
                return found
        raise AssertionError((copied, done))

    def source(self, agent: Agent, session_id: str) -> Any:
        """A mark of what the agent has of a session: its file's bytes, or its rows of a database."""
        path = self.home / agent.place
        if path.is_dir():
            named = session_id[:8] if agent.name == "gemini" else session_id
            files = [one for one in sorted(path.rglob("*")) if one.is_file() and named in one.name]
            assert files, (agent.name, session_id)
            return [(one.name, hashlib.sha256(one.read_bytes()).hexdigest()) for one in files]
        with closing(sqlite3.connect(path)) as database:
            return [
                database.execute(f"SELECT * FROM {table} WHERE session_id = ? ORDER BY id", (session_id,)).fetchall()
                for table in ("message", "part")
            ]


def talk(count: int) -> list[Json]:
    """An editor's session: calls with results, Japanese, and a last question with its answer; `4 * count + 3` messages."""
    messages: list[Json] = []
    for n in range(count):
        call = {"id": f"call-{n}", "name": "ls", "arguments": {"path": f"folder {n}", "deep": n % 2 == 0}}
        messages += [
            {"role": "user", "content": f"Question {n}: 日本語?"},
            {"role": "assistant", "content": f"Looking {n}.", "toolCalls": [call]},
            {"role": "tool", "content": f"listing {n}\nof two lines", "toolCallId": f"call-{n}"},
            {"role": "assistant", "content": f"Reply {n}."},
        ]
    return [
        *messages,
        {"role": "user", "content": "And in sum?"},
        {"role": "assistant", "content": "# Sum\n\n> All is well."},
        {"role": "user", "content": "Thank you."},
    ]


def expected(messages: list[Json]) -> list[Item]:
    """A session's messages as the model must be sent them."""
    found: list[Item] = []
    for message in messages:
        if message.get("metadata", {}).get("injected"):
            continue
        content = message["content"]
        texts = [content] if isinstance(content, str) else [one["text"] for one in content if "text" in one]
        if message["role"] == "tool":
            found.append(("result", "\n".join(texts)))
            continue
        found += [(message["role"], text) for text in texts if text]
        for call in message.get("toolCalls", []):
            arguments = call["arguments"]
            value = json.loads(arguments) if isinstance(arguments, str) else arguments
            found.append(("call", call["name"], json.dumps(value, sort_keys=True)))
    return found


def stripped(items: list[Item]) -> list[Item]:
    """White space at the ends of texts is the tools' own."""
    return [(*item[:-1], item[-1].strip()) for item in items]


def only(wanted: list[Item], sent: list[Item]) -> list[Item]:
    """What was sent without what the agent adds by itself: what is not wanted at all. A repetition stays."""
    known = set(stripped(wanted))
    return [item for item in stripped(sent) if item in known]
