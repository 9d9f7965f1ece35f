"""`sessiond status`."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.client import connect_if_running
from sessiond.cli.options import as_json
from sessiond.cli.output import count, local_time, print_json, say
from sessiond.endpoint import places
from sessiond.fs.network import unpromised


@click.command("status", short_help="Show what is running, where, and what it holds.")
@as_json
def command(as_json: bool) -> None:
    """Show what is running, where, and what it holds. Never starts a daemon."""
    status = ask()
    if as_json:
        print_json(
            {"running": False} if status is None else {"running": True, **status, "unpromised": elsewhere(status)}
        )
    elif status is None:
        say(f"no daemon is running; the data folder is {places().data}")
    else:
        for name, value in _lines(status):
            say(f"{name:<12} {value}")


def ask() -> dict[str, Any] | None:
    """The result of `daemon/status`, or None if no daemon is running. DaemonUnreachable if one is but does not answer."""
    client = connect_if_running(places())
    if client is None:
        return None
    with client:
        status: dict[str, Any] = client.call("daemon/status")
    return status


def elsewhere(status: dict[str, Any]) -> list[dict[str, str]]:
    """Folders of `daemon/status` on file systems about which nothing is promised: `{path, fileSystem}` each."""
    paths = [str(status["dataDir"]), *(str(store["path"]) for store in status["stores"] if store["name"] != "default")]
    found = [(path, unpromised(path)) for path in paths]
    return [{"path": path, "fileSystem": kind} for path, kind in found if kind is not None]


def unpromised_in_words(path: str, kind: str) -> str:
    return f"{path} is on {kind}: nothing is promised about network file systems and FUSE"


def problem_of(store: dict[str, Any]) -> str | None:
    """Why a store of `daemon/status` cannot be read or written; None if it can."""
    problem = store.get("problem")
    if not problem:
        return None
    return str(problem.get("message") or problem.get("kind")) if isinstance(problem, dict) else str(problem)


def index_problem(index: dict[str, Any]) -> str | None:
    """Why searches may not find everything, from the `index` of `daemon/status`; None if they do."""
    if index["state"] == "failing":
        return f"the index cannot be written ({index['problem']}): new messages may be missing"
    if index["state"] == "building":
        read = f" ({index['read']:,} of {count(index['found'], 'session')} read)" if index["found"] else ""
        return f"the index is still being built{read}, so there may be more"
    return None


def _lines(status: dict[str, Any]) -> list[tuple[str, str]]:
    lines = [
        ("daemon", f"version {status['version']}, pid {status['pid']}, since {local_time(status['startedAt'])}"),
        ("data", status["dataDir"]),
        ("socket", str(status["socket"])),
    ]
    for kind in ("tcp", "ws"):
        listening = status.get(kind)
        if listening:
            where = f"{listening['host']}:{listening['port']}, token in {listening['tokenFile']}"
            lines.append((kind, where))
    for store in status["stores"]:
        problem = problem_of(store)
        what = f"{store['name']} ({store['format']}, {count(store['sessions'], 'session')}) {store['path']}"
        lines.append(("store", what if problem is None else f"{what}  PROBLEM: {problem}"))
    lines += [("NOTE", unpromised_in_words(one["path"], one["fileSystem"])) for one in elsewhere(status)]
    journal = status["journal"]
    lines += [
        ("connections", str(status["connections"])),
        ("sessions", f"{status['openSessions']} open, {status['dirtySessions']} not saved yet"),
        ("journal", f"{journal['bytes']} bytes, lsn {journal['lsn']}"),
    ]
    problem = index_problem(status["index"])
    if problem is not None:
        lines.append(("INDEX", problem))
    for damage in status.get("damage", ()):
        lines.append(("DAMAGE", f"{count(damage['records'], 'record')} of the journal lost; see {damage['path']}"))
    if status.get("readOnly"):
        lines.append(("READ-ONLY", f"{status['readOnly']['reason']}, since {local_time(status['readOnly']['since'])}"))
    config = status.get("config") or {}
    lines.append(("config", str(config.get("file", ""))))
    for name, one in config.get("values", {}).items():
        lines.append(("", f"{name} = {one['value']} ({one['source']})"))
    return lines
