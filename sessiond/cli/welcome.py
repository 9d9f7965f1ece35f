"""The text that `sessiond` without arguments shows to a person: what it is, what is on this machine, and what to do next.

An editor that runs the same command has a pipe for its standard input, and gets the relay.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import click
import msgspec

from sessiond.cli.client import connect, connect_if_running
from sessiond.cli.editors import Editor, found_editors, is_set_up
from sessiond.cli.first_steps import NO_MODEL, first_steps
from sessiond.cli.import_run import ImportChoice, ImportPath, bring_in
from sessiond.cli.output import say
from sessiond.client import requests
from sessiond.endpoint import Places, places, user_home
from sessiond.errors import SessiondError
from sessiond.words import count


class FoundTool(msgspec.Struct):
    """A tool and what it keeps on this machine: the places that exist, and how many files in them may be its sessions."""

    name: str
    targets: list[ImportPath]
    files: int = 0


@click.command("welcome", hidden=True)
def command() -> int:
    """Say what sessiond is, what is on this machine, and what to do next."""
    where = places()
    say(
        "sessiond keeps every conversation with a model, for all your tools: searchable, shared live, in your own files."
    )
    say()
    tools = found_tools()
    if _has_sessions(where):
        _say_what_is_here(where, tools)
    else:
        _offer(tools)
    say()
    _say_next(found_editors(), imported=_has_sessions(where))
    return 0


def found_tools() -> list[FoundTool]:
    """Tools whose places exist and are not empty, those with the most files first."""
    from sessiond.importers.registry import known_places

    tools: dict[str, FoundTool] = {}
    for place in known_places(user_home(os.environ), os.environ):
        tool = tools.setdefault(place.tool, FoundTool(place.tool, []))
        target = ImportPath(place.path, place.tool)
        tool.targets.append(target)
        tool.files += target.size()[0]
    return sorted((one for one in tools.values() if one.files), key=lambda one: -one.files)


def _has_sessions(where: Places) -> bool:
    """Return whether this is more than a first look: the data folder has a session, or config.toml exists."""
    if os.path.exists(where.config + "/config.toml"):
        return True
    try:
        with os.scandir(where.data + "/sessions") as entries:
            return any(not entry.name.startswith(".") for entry in entries)
    except OSError:
        return False


def _listed(tools: Sequence[FoundTool]) -> str:
    return ", ".join(f"{tool.name}: {count(tool.files, 'file')}" for tool in tools)


def _offer(tools: Sequence[FoundTool]) -> None:
    """Say which histories are here, and import them if the person wants that."""
    if not tools:
        say("No history of a known tool was found here. If you have some elsewhere: sessiond import PATH")
        return
    say(f"Found on this machine: {_listed(tools)}.")
    if not click.confirm("Import them? The files stay where they are.", default=False):
        say("Later: sessiond import")
        return
    with connect() as client:
        total = bring_in(
            client, [target for tool in tools for target in tool.targets], ImportChoice(None, None, False)
        ).value
    messages = sum(one.message_count for one in total.sessions)
    say(f"Imported {count(len(total.sessions), 'session')} with {count(messages, 'message')}.")
    say("To keep what these tools write from now on: sessiond follow on")


def _say_what_is_here(where: Places, tools: Sequence[FoundTool]) -> None:
    """For somebody who has used it before: what runs, and what could still be imported."""
    try:
        connection = connect_if_running(where)
        if connection is None:
            say("No daemon is running; the first command that needs it starts it.")
        else:
            with connection:
                status = connection.ask(requests.status()).value
            held = sum(store.sessions for store in status.stores)
            say(f"The daemon is running (pid {status.pid}) and has {count(held, 'session')}.")
    except (SessiondError, OSError) as error:
        say(f"The daemon cannot be asked: {error}. Run: sessiond doctor")
    if tools:
        say(
            f"Tools that keep sessions on this machine: {_listed(tools)}. What they wrote since the last import: sessiond import"
        )


def _say_next(editors: Sequence[Editor], *, imported: bool) -> None:
    if left := [one.title for one in editors if not is_set_up(one)]:
        say(f"Editors here that can share sessions, not set up yet: {', '.join(left)}. See: sessiond setup")
    say("Next:")
    for line in first_steps(imported=imported):
        say(line)
    say()
    say(NO_MODEL)
    say("Topics and commands: sessiond help. The main job, in a throwaway home: sessiond demo")
    say("An editor runs the same command and speaks JSON-RPC with it; for that at a terminal: sessiond --stdio")
