"""Commands with a daemon of another version of protocol 1: what `--json` passes on, and what people still see."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import click
import pytest
from click.testing import CliRunner

from sessiond.cli import group, session_ids, status
from sessiond.cli.import_run import Total
from sessiond.client import requests
from sessiond.client.requests import Answer
from tests.fakes.answers import Answers

INFO = {"sessionId": "s", "seq": 4, "messageCount": 2, "tags": ["a"], "mood": {"is": [1.5, None]}, "parent": None}
MESSAGE = {"id": "m", "seq": 1, "role": "oracle", "content": "x", "aura": 1, "toolCalls": "odd", "status": "pondering"}
OPENED = {"session": INFO, "messages": [MESSAGE], "hasMore": False, "notes": [], "state": {}, "warnings": [], "more": 1}
HIT = {"sessionId": "s", "messageId": None, "seq": None, "snippet": "x", "ranges": [], "score": 2, "why": "x"}
FOUND = {"hits": [HIT], "total": 1, "nextCursor": None, "more": {"a": 1}}
BROUGHT = {"sessions": [INFO], "skipped": 1, "warnings": [{"path": "/a", "message": "m", "line": None, "why": 1}]}
NEWER: dict[str, tuple[str, Any]] = {
    "new": ("session/new", {"session": INFO, "more": 1}),
    "append s x": ("session/append", {"seq": 5, "messages": [{"id": "m", "seq": 5, "more": 1}], "more": 1}),
    "show s": ("session/open", OPENED),
    "rename s n": ("session/update", {"session": INFO, "more": 1}),
    "archive s": ("session/update", {"session": INFO, "more": 1}),
    "fork s": ("session/fork", {"session": INFO, "more": 1}),
    "restore s": ("session/restore", {"session": INFO, "more": 1}),
    "mv s --store t": ("session/move", {"session": INFO, "lost": [], "more": 1}),
    "adopt /": ("store/adopt", {"store": {"name": "n", "more": 1}, "sessions": 1, "warnings": [], "more": 1}),
    "backup /x": ("daemon/backup", {"files": 1, "bytes": 2, "lsn": 3, "more": 1}),
    "list": ("session/list", {"sessions": [INFO], "nextCursor": "c"}),
    "search x": ("session/search", FOUND),
    "import / -y": ("session/import", {**BROUGHT, "untouched": 3}),
}
"""Command -> its request, and a result with members that this version does not know."""


def run(monkeypatch: pytest.MonkeyPatch, line: str, answers: Answers) -> str:
    name, *arguments = line.split()
    module = import_module(f"sessiond.cli.{group.COMMANDS[name]}")
    monkeypatch.setattr(module, "connect", lambda: answers.client)
    monkeypatch.setattr(session_ids, "resolved", lambda names, **_: names)
    command: click.Command = module.command
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.mark.parametrize("line", NEWER)
def test_json_is_what_the_daemon_sent(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Key for key, in order, with members that this version does not know."""
    method, result = NEWER[line]
    shown = run(monkeypatch, f"{line} -n 1 --json" if line == "list" else f"{line} --json", Answers({method: [result]}))
    assert shown == json.dumps(result, separators=(",", ":")) + "\n"


@pytest.mark.parametrize("line", NEWER)
def test_people_see_what_this_version_knows(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Unknown members and odd messages break nothing."""
    method, result = NEWER[line]
    assert run(monkeypatch, line, Answers({method: [result]}))


def test_pages_are_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists: the sessions of all pages and the last cursor. Searches: the last page with the hits of all."""
    first, last = {**INFO, "sessionId": "a"}, {**INFO, "sessionId": "b"}
    pages = [{"sessions": [first], "nextCursor": "c", "more": 1}, {"sessions": [last], "nextCursor": None}]
    shown = run(monkeypatch, "list --all --json", Answers({"session/list": pages}))
    assert json.loads(shown) == {"sessions": [first, last], "nextCursor": None}
    hits = [{**FOUND, "nextCursor": "c", "more": 0}, {**FOUND, "hits": [{**HIT, "sessionId": "t"}]}]
    shown = run(monkeypatch, "search x --all --json", Answers({"session/search": hits}))
    assert json.loads(shown) == {**FOUND, "hits": [HIT, {**HIT, "sessionId": "t"}]}


def test_tags_are_shown_with_their_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they were changed or not, the document has the session and nothing else."""
    changed = {**INFO, "tags": ["a", "b"]}
    answers = Answers({"session/open": [OPENED], "session/update": [{"session": changed, "more": 1}]})
    assert json.loads(run(monkeypatch, "tag s a --json", answers)) == {"session": INFO}
    assert json.loads(run(monkeypatch, "tag s b --json", answers)) == {"session": changed}


def test_an_export_is_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several sessions, each with its id."""
    answers = Answers({"session/export": [{"content": "x", "more": 1}]})
    assert json.loads(run(monkeypatch, "export s --json", answers)) == {"content": "x"}
    several = {"sessions": [{"sessionId": "s", "content": "x"}, {"sessionId": "t", "content": "x"}]}
    assert json.loads(run(monkeypatch, "export s t --json", answers)) == several


def test_imports_of_several_paths_are_one_result() -> None:
    """A session that two of them extended is there once; files that were not looked at are counted only where they are told."""
    total = Total()
    total.add(BROUGHT)
    total.add({**BROUGHT, "sessions": [{**INFO, "seq": 9}]})
    assert total.plain == {"sessions": [{**INFO, "seq": 9}], "skipped": 2, "warnings": BROUGHT["warnings"] * 2}
    total.add({**BROUGHT, "untouched": 2})
    total.add({**BROUGHT, "untouched": 3})
    assert (total.plain["untouched"], total.value.untouched, total.value.skipped) == (5, 5, 4)


def answered(result: dict[str, Any]) -> Answer[Any]:
    return Answers({"daemon/status": [result]}).answer(requests.status())


def test_the_status_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what this version adds; for people also where an older daemon says less."""
    newer = {
        "version": "9",
        "pid": 1,
        "dataDir": "/",
        "stores": [{"name": "default", "path": "/", "more": 1}],
        "more": 1,
    }
    monkeypatch.setattr(status, "ask", lambda: answered(newer))
    monkeypatch.setattr(status, "unpromised", lambda path: None)
    shown = CliRunner().invoke(status.command, ["--json"], standalone_mode=False).output
    assert json.loads(shown) == {"running": True, **newer, "unpromised": []}
    monkeypatch.setattr(status, "ask", lambda: answered({"version": "0.0.1", "pid": 7}))
    assert "version 0.0.1, pid 7" in CliRunner().invoke(status.command, [], standalone_mode=False).output
