"""Every wire transcript, replayed against a real daemon over its Unix socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.home import Client, Home

FILES = sorted(Path(__file__).parent.glob("*.wire"))


class Replay:
    def __init__(self, home: Home) -> None:
        self.home = home
        self.clients: dict[str, Client] = {}
        self.asked: dict[str, int] = {}
        self.names: dict[str, Any] = {}

    def line(self, line: str) -> None:
        who, mark, rest = line[0], line[1], line[2:].strip()
        client = self.clients.get(who) or self.clients.setdefault(who, self.home.client())
        if mark == "-":
            self.clients.pop(who).close()
        elif mark == ">" and rest.startswith("!"):
            method, _, params = rest[1:].strip().partition(" ")
            client.notify(method, self.filled(json.loads(params or "{}")))
        elif mark == ">":
            method, _, params = rest.partition(" ")
            self.asked[who] = client.send(method, self.filled(json.loads(params or "{}")))
        elif mark == "<":
            answer = client.answer(self.asked[who])
            assert "result" in answer, answer
            self.match(json.loads(rest), answer["result"], "result")
        elif mark == "!":
            kind, _, data = rest.partition(" ")
            answer = client.answer(self.asked[who])
            assert answer.get("error", {}).get("data", {}).get("kind") == kind, answer
            self.match(json.loads(data or "{}"), answer["error"]["data"], "error.data")
        else:
            assert mark == "*", f"not a line of a transcript: {line}"
            method, _, params = rest.partition(" ")
            self.match(json.loads(params or "{}"), client.notification(method), method)

    def filled(self, value: Any) -> Any:
        if isinstance(value, str) and value in self.names:
            return self.names[value]
        if isinstance(value, dict):
            return {key: self.filled(item) for key, item in value.items()}
        return [self.filled(item) for item in value] if isinstance(value, list) else value

    def match(self, expected: Any, found: Any, where: str) -> None:
        if expected == "...":
            return
        if isinstance(expected, str) and expected.startswith("$"):
            assert self.names.setdefault(expected, found) == found, where
        elif isinstance(expected, dict):
            assert isinstance(found, dict), (where, found)
            for key, value in expected.items():
                assert key in found, f"{where}.{key} is missing in {found}"
                self.match(value, found[key], f"{where}.{key}")
        elif isinstance(expected, list):
            assert isinstance(found, list), (where, found)
            assert len(found) == len(expected), f"{where}: {found}"
            for number, (one, other) in enumerate(zip(expected, found, strict=True)):
                self.match(one, other, f"{where}[{number}]")
        else:
            assert found == expected, f"{where}: {found!r} is not {expected!r}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(home, path):
    """The daemon answers as the transcript says."""
    replay = Replay(home)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            try:
                replay.line(line)
            except AssertionError as error:
                raise AssertionError(f"{path.name}:{number}: {line}\n{error}") from error
