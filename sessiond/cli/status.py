"""`sessiond status`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import click

from sessiond import program
from sessiond.cli.client import ask_if_running
from sessiond.cli.options import as_json
from sessiond.cli.output import print_json, say
from sessiond.client import requests
from sessiond.client.daemon_types import AgentHostStatus, ConfigStatus, HubStatus, Status
from sessiond.client.requests import Answer
from sessiond.doctor.wording import index_problem, problem_of, unpromised_in_words
from sessiond.endpoint import places
from sessiond.fs.network import unpromised
from sessiond.words import count, local_time


@click.command("status", short_help="Show what is running, where, and what it holds.")
@as_json
def command(as_json: bool) -> None:
    """Show what is running, where, and what it holds. Never starts a daemon."""
    answer = ask()
    if as_json:
        print_json({"running": False} if answer is None else _document(answer))
    elif answer is None:
        say(f"no daemon is running; the data folder is {places().data}")
    else:
        for name, value in _lines(answer.value):
            say(f"{name:<12} {value}")


def ask() -> Answer[Status] | None:
    """Ask how the daemon is; None if no daemon is running. DaemonUnreachable if one is but does not answer."""
    return ask_if_running(places(), requests.status())


class Unpromised(NamedTuple):
    """A folder on a file system about which nothing is promised."""

    path: str
    kind: str


def _document(answer: Answer[Status]) -> dict[str, object]:
    folders = [{"path": one.path, "fileSystem": one.kind} for one in elsewhere(answer.value)]
    return {"running": True, **answer.plain, "unpromised": folders}


def elsewhere(status: Status) -> list[Unpromised]:
    """Folders of the daemon's that are on such a file system."""
    paths = [status.data_dir, *(store.path for store in status.stores if store.name != "default")]
    found = [(path, unpromised(path)) for path in paths]
    return [Unpromised(path, kind) for path, kind in found if kind is not None]


def hub_in_words(hub: HubStatus) -> str:
    """Say whether the words of a shared store are shared: shared, waiting with a count, or offline since a time."""
    waiting = f"{count(hub.pending, 'change')} waiting here" if hub.pending else ""
    lag = f"{count(hub.lag, 'change')} still to be fetched" if hub.lag else ""
    if hub.state == "online":
        problem = f"PROBLEM: {hub.problem}" if hub.problem else ""
        return ", ".join(filter(None, (waiting or "shared", lag, problem)))
    since = f"offline since {local_time(hub.since)}" if hub.since else "offline"
    return ", ".join(filter(None, (since, waiting, lag, hub.problem)))


def hub_in_brief(hub: HubStatus) -> str:
    """The same for a status line: `shared`, `3 waiting`, or `offline since 14:30, 3 waiting`; on another day with the date."""
    waiting = f"{hub.pending} waiting" if hub.pending else ""
    if hub.state == "online":
        return waiting or "shared"
    since = local_time(hub.since or "")
    today = local_time(datetime.now(UTC).isoformat()).partition(" ")[0]
    since = since.removeprefix(f"{today} ")
    return ", ".join(filter(None, (f"offline since {since}" if since else "offline", waiting)))


def _connections_in_words(status: Status) -> str:
    named = (name if number == 1 else f"{name} ({number})" for name, number in sorted(status.clients.items()))
    return ": ".join(filter(None, (str(status.connections), ", ".join(named))))


def _lines(status: Status) -> list[tuple[str, str]]:
    lines = [
        ("daemon", f"version {status.version}, pid {status.pid}, since {local_time(status.started_at)}"),
        ("data", status.data_dir),
        ("socket", str(status.socket)),
    ]
    if program.is_newer_than(status.started_at):
        lines.append(("NOTE", f"{program.UPDATED}; {program.WHAT_TO_DO}"))
    for kind, listening in (("tcp", status.tcp), ("ws", status.ws)):
        if listening is not None:
            where = f"{listening.host}:{listening.port}, token in {listening.token_file}"
            lines.append((kind, where))
    if status.ahp is not None:
        lines += _agent_host(status.ahp)
    for store in status.stores:
        problem = problem_of(store)
        what = f"{store.name} ({store.format}, {count(store.sessions, 'session')}) {store.path}"
        lines.append(("store", what if problem is None else f"{what}  PROBLEM: {problem}"))
        if store.hub is not None:
            lines.append(("hub", f"of {store.name}: {hub_in_words(store.hub)}"))
    lines += [("NOTE", unpromised_in_words(one.path, one.kind)) for one in elsewhere(status)]
    lines += [
        ("connections", _connections_in_words(status)),
        ("sessions", f"{status.open_sessions} open, {status.dirty_sessions} not saved yet"),
        ("journal", f"{status.journal.bytes} bytes, lsn {status.journal.lsn}"),
    ]
    problem = index_problem(status.index) or status.index.problem
    if problem is not None:
        lines.append(("INDEX", problem))
    for damage in status.damage:
        lines.append(("DAMAGE", f"{count(damage.records, 'record')} of the journal lost; see {damage.path}"))
    if status.read_only is not None:
        lines.append(("READ-ONLY", f"{status.read_only.reason}, since {local_time(status.read_only.since)}"))
    return lines + _settings(status.config)


def _agent_host(status: AgentHostStatus) -> list[tuple[str, str]]:
    lines = []
    for one in status.listeners:
        where = one.socket or f"{one.host}:{one.port}, token in {one.token_file}"
        lines.append(("ahp", where + ("; windows may write" if one.write else "")))
    lines += [("ahp", f"PROBLEM: {problem}") for problem in status.problems]
    said = f"{count(status.windows, 'window')} of VS Code"
    if status.refused:
        said += f"; the last one that was refused speaks only {', '.join(status.refused)} of the Agent Host Protocol"
    return [*lines, ("", said)]


def _settings(config: ConfigStatus) -> list[tuple[str, str]]:
    """Return what the file sets, and apart from it what holds only for this daemon, because of its environment and flags."""
    lines = [("config", config.file)]
    lines += [("", f"{name} = {one.value}") for name, one in config.values.items() if one.source == config.file]
    others = [
        f"{name} = {one.value} ({one.source})" for name, one in config.values.items() if one.source != config.file
    ]
    return lines + [("" if place else "overrides", one) for place, one in enumerate(others)]
