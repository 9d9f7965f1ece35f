"""`sessiond hook AGENT`: what the hooks of Claude Code and Codex run. An event comes in on standard input; what it says of the agent goes
to the daemon.

                      Claude Code            Codex
    UserPromptSubmit  works                  works
    PreToolUse                               works
    PermissionRequest asks, beside the       waits for permission: Codex shows no dialog before
                      agent's own dialog     its hooks have ended, so nothing may be asked here
    Notification      waits for permission; it comes some seconds after the dialog
    PostToolUse       works; the question    works
                      about this call ends
    Stop, StopFailure, Interrupt, SessionEnd: nothing goes on

A dialog that asks more than for permission (`_OWN_DIALOGS`) takes its answer only there.

An agent must not suffer from its hook: whatever happens here, the exit code is 0, and no daemon is started.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from typing import NamedTuple

import click

from sessiond.cli.client import connect
from sessiond.cli.output import one_line
from sessiond.client import requests
from sessiond.client.blocking import Sessiond
from sessiond.client.types import Choice
from sessiond.errors import DaemonUnreachable, SessiondError, SessionNotFound

TOOLS = {"claude": "claude-code", "codex": "codex"}
"""Agent -> the tool whose sessions are imported."""
_WORKS = {"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure"}
_OVER = {"Stop", "StopFailure", "Interrupt", "SessionEnd"}
_CHOICES = [Choice(id="allow", label="Allow", kind="allow"), Choice(id="deny", label="Deny", kind="deny")]
_IMPORTED_S = 60.0
"""How long a question waits until the session that it is about is imported. A follower looks at all of a tool every 10 seconds."""
_OWN_DIALOGS = {"AskUserQuestion": "question", "ExitPlanMode": "plan"}
"""Tool -> what its dialog waits for. Allowing the tool to run does not answer what it asks."""
_BACK_S = 60.0
"""How long to look for a daemon that has ended while it was asked."""
_LOOK_S = 0.2
_TIMEOUT_S = 2.0
"""How long the agent is kept waiting by a daemon that does not respond."""
_SHELLS = {"sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "busybox"}


class Event(NamedTuple):
    """`name`: of the event. `text`: what the tool is to do, in a few words. `call`: stands for that call of the tool; None where the
    event is not about one.
    """

    name: str
    session_id: str
    tool: str
    text: str
    call: str | None
    is_permission: bool


@click.command("hook", short_help="Report what an agent does; its hooks run this.")
@click.argument("agent", type=click.Choice(sorted(TOOLS)))
def command(agent: str) -> None:
    """Report what an agent does to the daemon, so that `sessiond list --waiting` and every client show it.

    The hooks of Claude Code and Codex run this; `sessiond setup AGENT --hooks` prints the lines for that. It reads an event
    of the agent on standard input. For Claude Code, permission may then be given in any client of sessiond, too.
    """
    try:
        event = _event(TOOLS[agent], json.load(sys.stdin))
        if event is not None:
            with connect(start=False, timeout_s=_TIMEOUT_S, name=agent) as client:
                _report(client, agent, event, _process(os.environ))
    except (
        SessiondError,
        OSError,
        ValueError,
        subprocess.SubprocessError,
    ) as error:  # the agent goes on, whatever it is
        print(one_line(f"sessiond: {error}"), file=sys.stderr)


def _event(tool: str, sent: object) -> Event | None:
    """None: nothing to report. ValueError if it is something else."""
    from sessiond.importers.draft import suggest_id

    if not isinstance(sent, dict) or not isinstance(sent.get("session_id"), str):
        raise ValueError("expected an event of an agent on standard input")
    name = str(sent.get("hook_event_name"))
    is_permission = sent.get("notification_type") == "permission_prompt"
    if name not in {*_WORKS, *_OVER, "PermissionRequest"} and not is_permission:
        return None
    called = str(sent.get("tool_name") or "")
    return Event(
        name, suggest_id(tool, sent["session_id"]), called, _in_words(sent), _call(called, sent), is_permission
    )


def _call(tool: str, sent: dict[str, object]) -> str | None:
    """By what it is given: a request for permission does not name the id of its call."""
    if not tool:
        return None
    given = json.dumps(sent.get("tool_input"), sort_keys=True).encode()
    return f"{tool[:100]}-{hashlib.sha256(given).hexdigest()[:16]}"


def _in_words(sent: dict[str, object]) -> str:
    """`Bash: touch a`."""
    given = sent.get("tool_input")
    if isinstance(given, dict) and isinstance(asked := given.get("questions"), list) and asked:
        given = asked[0]
    detail = next((value for value in given.values() if isinstance(value, str)), "") if isinstance(given, dict) else ""
    return one_line(": ".join(part for part in (str(sent.get("tool_name") or ""), detail) if part), 500)


def _report(client: Sessiond, agent: str, event: Event, process: int) -> None:
    chat = client.session(event.session_id)
    if event.name == "PermissionRequest" and (waits_for := _OWN_DIALOGS.get(event.tool)) is not None:
        chat.activity("waiting", waiting_for=waits_for, text=event.text, process=process)
    elif event.name == "PermissionRequest" and agent == "claude":
        _ask(client, event, process)
    elif event.name == "PermissionRequest" or event.is_permission:
        chat.activity("waiting", waiting_for="permission", text=event.text or None, process=process)
    elif event.name in _WORKS:
        chat.activity("working", text=event.text or None, process=process, tool_call_id=event.call)
    else:
        chat.activity("idle", process=process)


def _ask(client: Sessiond, event: Event, process: int) -> None:
    """Print the decision, unless the person has decided in the agent's own dialog: then the next event withdraws the question."""
    asked = requests.ask(event.session_id, event.text, _CHOICES, "permission", event.call, process)
    imported_by, back_by = time.monotonic() + _IMPORTED_S, 0.0
    while True:
        try:
            answer = client.answer(asked, timeout_s=float("inf")).value
            break
        except SessionNotFound:  # its first words are being imported
            if time.monotonic() > imported_by:
                raise
            back_by = 0.0
        except DaemonUnreachable:  # its successor is asked; the agent's dialog is open meanwhile
            back_by = back_by or time.monotonic() + _BACK_S
            if time.monotonic() > back_by:
                raise
        time.sleep(_LOOK_S)
    decision: dict[str, object] = {"behavior": "allow" if answer.choice == "allow" else "deny"}
    if decision["behavior"] == "deny":
        decision["message"] = answer.text or f"denied in {answer.client}"
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}))


def _process(env: os._Environ[str]) -> int:
    """The agent's: it says so itself, or it is the first ancestor other than a shell."""
    if (named := env.get("CLAUDE_PID", "")).isdecimal():
        return int(named)
    process = os.getppid()
    while (found := _parent_of_shell(process)) > 1:
        process = found
    return process


def _parent_of_shell(process: int) -> int:
    """The parent of a process, if that is a shell; else 0."""
    command = ["ps", "-o", "ppid=,comm=", "-p", str(process)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    shown = told.stdout.split(None, 1)
    if len(shown) < 2 or os.path.basename(shown[1].strip()).lstrip("-") not in _SHELLS:
        return 0
    return int(shown[0])
