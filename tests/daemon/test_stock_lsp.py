"""What a stock LSP client gets, without any plugin: outline, hover, actions, diagnostics and symbols, from a real daemon."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.home import Home


class Lsp:
    """The base protocol over the Unix socket."""

    def __init__(self, home: Home) -> None:
        self._file = home.client().stream
        self._last = 0
        self.notifications: list[dict] = []

    def send(self, message: dict) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._file.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._file.flush()

    def read(self) -> dict:
        length = 0
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(self._file.read(length))

    def call(self, method: str, params: dict) -> object:
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params})
        while True:
            message = self.read()
            if message.get("id") == self._last:
                assert "result" in message, message
                return message["result"]
            self.notifications.append(message)

    def notification(self, method: str) -> dict:
        while True:
            for message in self.notifications:
                if message.get("method") == method:
                    self.notifications.remove(message)
                    return message["params"]
            self.notifications.append(self.read())


@pytest.fixture
def session(home) -> Path:
    client = home.client()
    client.call("session/new", sessionId="a", name="Locks", messages=[
        {"role": "user", "content": "Which lock\nis first?"},
        {"role": "assistant", "content": "zebra-word", "metadata": {"model": "m-1"}, "toolCalls": [{"id": "c", "name": "grep", "arguments": {}}]},
    ])  # fmt: skip
    [saved] = client.call("session/save", sessionId="a")["saved"]
    return Path(saved["path"])


def opened(home: Home, path: Path) -> tuple[Lsp, dict]:
    lsp = Lsp(home)
    lsp.call("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    lsp.send({"method": "initialized", "params": {}})
    document = {"uri": path.as_uri(), "languageId": "json", "version": 1, "text": path.read_text()}
    lsp.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
    return lsp, {"uri": path.as_uri()}


def test_outline_and_hover(home, session):
    """A node for every turn, named on one line, with its tool calls below; time and model on hover."""
    lsp, document = opened(home, session)
    turns = lsp.call("textDocument/documentSymbol", {"textDocument": document})
    assert [turn["name"] for turn in turns] == ["user: Which lock is first?", "assistant: zebra-word"]
    assert [turn["range"]["start"]["line"] for turn in turns] == [1, 2]
    assert [call["name"] for call in turns[1]["children"]] == ["grep"]
    hover = lsp.call("textDocument/hover", {"textDocument": document, "position": {"line": 2, "character": 3}})
    assert "m-1" in json.dumps(hover)


def test_symbols_lead_to_the_line(home, session):
    """workspace/symbol searches all sessions; a hit leads to its line in the session file."""
    lsp, _ = opened(home, session)
    [symbol] = lsp.call("workspace/symbol", {"query": "zebra"}) or lsp.call("workspace/symbol", {"query": "zebra-word"})
    assert symbol["location"]["uri"] == session.as_uri()
    assert symbol["location"]["range"]["start"]["line"] == 2


def test_actions_are_our_own_requests(home, session):
    """Resume, fork and export, as commands that executeCommand takes."""
    lsp, document = opened(home, session)
    where = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 0}}
    actions = lsp.call(
        "textDocument/codeAction", {"textDocument": document, "range": where, "context": {"diagnostics": []}}
    )
    fork = next(action for action in actions if "Fork" in action["title"])
    command = fork.get("command") if isinstance(fork.get("command"), dict) else fork
    assert command["command"] == "sessiond.session.fork"
    made = lsp.call("workspace/executeCommand", {"command": command["command"], "arguments": command["arguments"]})
    assert made["session"]["parent"] == {"sessionId": "a", "seq": 1}


def test_broken_lines_are_diagnostics_of_the_text_as_it_is_typed(home, session):
    """The opened text counts, not the file, and it never changes the session."""
    lsp = Lsp(home)
    lsp.call("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    text = session.read_text() + "{broken\n"
    document = {"uri": session.as_uri(), "languageId": "json", "version": 1, "text": text}
    lsp.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
    published = lsp.notification("textDocument/publishDiagnostics")
    assert [one["range"]["start"]["line"] for one in published["diagnostics"]] == [3]
    assert home.client().call("session/read", sessionId="a")["seq"] == 2


def test_a_document_outside_all_stores_gets_empty_answers(home, session, tmp_path):
    """No outline, no hover, no complaint."""
    other = tmp_path / "other.jsonl"
    other.write_text(session.read_text())
    lsp, document = opened(home, other)
    assert not lsp.call("textDocument/documentSymbol", {"textDocument": document})
    assert lsp.call("textDocument/hover", {"textDocument": document, "position": {"line": 1, "character": 0}}) is None


BROKEN = {
    "agent-q": ("session-1.el", ";; Agent-Q Session\n(:version 1\n :id #.(run-program)"),
    "sibyl": ("s/session.lisp", '(:version 1 :id "s"\n :messages (("'),
    "theia": ("s.json", '{"messages": [\n'),
    "cortex": ("transcripts/s/transcript.jsonl", '{"role":"user","content":"a","timestamp":1}\n{"role":\n'),
    "amacs": ("chat.org", "* Not a tick\nprose\n"),
}


@pytest.mark.parametrize("system", BROKEN)
def test_a_broken_file_of_every_system_is_a_diagnostic(home, tmp_path, system):
    """What `badFile` or a warning says of a file is in the editor too, at its line, and the file remains as it was."""
    name, text = BROKEN[system]
    path = tmp_path / "theirs" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    home.client().call("store/adopt", path=str(tmp_path / "theirs"), name="s", format=system)
    lsp, _ = opened(home, path)
    found = lsp.notification("textDocument/publishDiagnostics")["diagnostics"]
    assert len(found) == 1
    assert found[0]["message"]
    assert found[0]["range"]["start"]["line"] <= text.count("\n")
    assert path.read_text() == text
