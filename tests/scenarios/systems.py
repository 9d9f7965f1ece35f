"""The five systems' own code, run as they run it, next to a daemon."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.home import Client
from tests.programs import need, run

SYSTEMS = Path(__file__).parent.parent / "formats" / "systems"
_UTF8 = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}


def wire(folder: Path, session: str) -> str:
    """The id on the wire of a session in an adopted folder."""
    return f"{folder.parent.name}/{session}"


def adopt(client: Client, folder: Path, system: str) -> dict[str, Any]:
    """Mount a folder; it must be recognised by itself where it holds anything."""
    params = {} if any(folder.iterdir()) else {"format": system}
    adopted: dict[str, Any] = client.call("store/adopt", path=str(folder), name=folder.parent.name, **params)
    assert adopted["store"]["format"] == system
    return adopted


def say(client: Client, session_id: str, *messages: tuple[str, Any], **rest: Any) -> dict[str, Any]:
    wires = [{"role": role, "content": content, **rest} for role, content in messages]
    answer: dict[str, Any] = client.call("session/append", sessionId=session_id, messages=wires)
    return answer


def texts(client: Client, session_id: str, **page: Any) -> list[Any]:
    return [one["content"] for one in client.call("session/read", sessionId=session_id, **page)["messages"]]


def found(client: Client, query: str, **more: Any) -> list[str]:
    """The sessions in which a search finds something."""
    return sorted({hit["sessionId"] for hit in client.call("session/search", query=query, **more)["hits"]})


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does; fails after a while."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _emacs(file: str, home: Path, *arguments: str) -> None:
    command = ["timeout", "60", need("emacs"), "-Q", "--batch", "-l", str(SYSTEMS / file), *arguments]
    run(command, env={**_UTF8, "HOME": str(home)})


def amacs(folder: Path, *calls: list[Any]) -> list[Any]:
    """Answers of functions of amacs; `@name` in an argument is a file of the folder."""
    beside = folder.parent
    asked = [[f"{folder}/{a[1:]}" if isinstance(a, str) and a.startswith("@") else a for a in call] for call in calls]
    (beside / "calls.json").write_text(json.dumps(asked))
    _emacs("amacs.el", beside, "-f", "amacs-main", f"{beside}/calls.json", f"{beside}/answers.json")
    answers: list[Any] = json.loads((beside / "answers.json").read_text())
    return answers


def agent_q(folder: Path, command: str, wanted: Any = None) -> Any:
    """`report` answers what its sessions hold; `create` and `resave` write the sessions that are described."""
    plan = folder.parent / "plan.json"
    if command == "report":
        _emacs("agent-q.el", folder.parent, "--eval", f'(aq-report "{folder}/" "{plan}")')
        return json.loads(plan.read_text("utf-8"))
    plan.write_text(json.dumps(wanted, ensure_ascii=False), "utf-8")
    _emacs("agent-q.el", folder.parent, "--eval", f'(aq-{command} "{plan}" "{folder}/")')
    return None


def cortex(base: Path, *calls: list[Any]) -> dict[str, Any]:
    """A new adapter of cortex; `{answers, warnings}`."""
    plan = base.parent / "calls.json"
    plan.write_text(json.dumps(calls))
    told: dict[str, Any] = json.loads(run([need("node"), str(SYSTEMS / "cortex.mjs"), str(base), str(plan)]))
    return told


def theia(file: Path, *calls: list[Any]) -> list[Any]:
    """A new storage service of Theia over a file."""
    plan = file.parent.parent / "calls.json"
    plan.write_text(json.dumps(calls))
    answers: list[Any] = json.loads(run([need("node"), str(SYSTEMS / "theia.mjs"), str(file), str(plan)]))
    return answers


def sibyl(folder: Path, command: str, *arguments: str) -> Any:
    """`report ID...` answers what sibyl loads; `create FORM` and `resave FORM` save what a form describes."""
    beside = folder.parent / "plan.lisp"
    program = [need("sbcl"), "--script", str(SYSTEMS / "sibyl.lisp"), command]
    if command == "report":
        run([*program, str(folder), str(beside), *arguments], env=_UTF8)
        return json.loads(beside.read_text("utf-8"))
    beside.write_text(arguments[0], "utf-8")
    run([*program, str(beside), str(folder)], env=_UTF8)
    return None
