"""`sessiond follow on|off|status`."""

from __future__ import annotations

import os

import click

from sessiond.cli.client import connect
from sessiond.cli.options import NamedFile, as_json
from sessiond.cli.output import clean, print_json, say, table
from sessiond.client import requests
from sessiond.client.daemon_types import Followed, FollowedPlace
from sessiond.client.requests import Answer
from sessiond.words import count, in_bytes, local_time

_ALL = "all"
_tools = click.argument("tools", nargs=-1, metavar="[TOOL]...")
_paths = click.option(
    "--path",
    "paths",
    multiple=True,
    type=NamedFile(path_type=str),
    metavar="PATH",
    help="A folder or file of the TOOL's in another place; may be repeated.",
)


@click.group("follow", short_help="Keep what other tools write, from now on.")
def command() -> None:
    """Import what other tools write while they write it: the daemon does it by itself whenever it runs.

    What a tool later compacts, rewrites or deletes stays here. Which tools are followed is kept in config.toml, as tools under
    [follow]. A daemon that follows tools does not exit when it is idle; `sessiond service` starts it at login.
    """


@command.command("on", short_help="Follow tools: those named, or all.")
@_tools
@_paths
@as_json
def on(tools: tuple[str, ...], paths: tuple[str, ...], as_json: bool) -> None:
    """Follow TOOL... in addition to those that are followed already; without a name, all tools that sessiond can import.

    With --path, only those places of the TOOL: another profile, a container's home, a folder of Windows.
    """
    add = _places(tools, paths) or tools or [_ALL]
    with connect() as client:
        answer = client.answer(requests.follow(add=add))
        if not paths and (more := _only_here(answer.value)):
            answer = client.answer(requests.follow(add=more))
    _show(answer, as_json=as_json)


@command.command("off", short_help="Stop following tools: those named, or all.")
@_tools
@_paths
@as_json
def off(tools: tuple[str, ...], paths: tuple[str, ...], as_json: bool) -> None:
    """Stop following TOOL...; without a name, all of them. What was imported stays.

    With --path, only those places of the TOOL.
    """
    remove = _places(tools, paths) or tools
    with connect() as client:
        answer = client.answer(requests.follow(remove=remove) if remove else requests.follow([]))
    _show(answer, as_json=as_json)


@command.command("status", short_help="Say what is followed.")
@as_json
def status(as_json: bool) -> None:
    """Say which tools are followed, where, how much was imported, and which problems there are."""
    with connect() as client:
        answer = client.answer(requests.follow())
    _show(answer, as_json=as_json)


def _places(tools: tuple[str, ...], paths: tuple[str, ...]) -> list[str]:
    """Return the places as `daemon/follow` names them. click.UsageError."""
    if not paths:
        return []
    if len(tools) != 1:
        raise click.UsageError("--path belongs to one tool: name it")
    if "" in paths:
        raise click.UsageError("--path is empty: name a folder or a file (. is the current folder)")
    return [f"{tools[0]}:{os.path.abspath(os.path.expanduser(one))}" for one in paths]


def _only_here(followed: Followed) -> list[str]:
    """Places that the variables of this shell name (CLAUDE_CONFIG_DIR and its like), and that the daemon does not know: it may have
    been started elsewhere.
    """
    from sessiond.importers.registry import known_places  # takes a moment to load

    there = {(one.tool, one.path) for one in followed.places if not one.asked}
    mine = known_places(os.path.expanduser("~"), os.environ)
    wanted = [one for one in mine if _ALL in followed.tools or one.tool in followed.tools]
    return [f"{one.tool}:{one.path}" for one in wanted if (one.tool, one.path) not in there]


def _waiting(place: FollowedPlace) -> str:
    """Say how far behind a place is: files, bytes, and for how long the first of them has waited."""
    if not place.waiting:
        return ""
    size = "size not known" if place.waiting_bytes is None else in_bytes(place.waiting_bytes)
    return f"{count(place.waiting, 'file')}, {size}, for {place.waiting_seconds:.0f} s"


def _show(answer: Answer[Followed], *, as_json: bool) -> None:
    if as_json:
        print_json(answer.plain)
        return
    followed = answer.value
    if not followed.tools and not followed.places:
        say("nothing is followed; begin with: sessiond follow on")
        return
    say(f"following {', '.join(followed.tools) or 'only what commands ask for'}")
    home = os.path.expanduser("~")
    rows = [
        (
            place.tool,
            place.path.replace(home, "~", 1) if place.path.startswith(home + "/") else place.path,
            count(place.sessions, "session"),
            local_time(place.last_at) if place.last_at else "",
            _waiting(place),
            f"{place.reading_seconds:.1f} s",
        )
        for place in followed.places
    ]
    if rows:
        table(("TOOL", "PLACE", "NEW OR CHANGED", "LAST", "TO BE READ", "READING TOOK"), rows)
    else:
        say("none of their folders exists yet; they are looked for every 10 s")
    if asked := sum(place.asked for place in followed.places):
        say(f"{count(asked, 'place')} only as long as a command runs, such as sessiond import --follow")
    for place in followed.places:
        if place.problem:
            say(clean(f"{place.tool}: {place.problem}"))
    if followed.behind:
        say(f"{count(followed.behind, 'file')} still to be read")
