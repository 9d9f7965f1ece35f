"""Options that several commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from sessiond.cli.paths import label
from sessiond.folders import is_windows

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from sessiond.client.blocking import Sessiond

F = TypeVar("F", bound=Callable[..., Any])

_MOST = 2**53 - 1
"""Every reader of JSON has it as it is."""

as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document and nothing else on standard output."
)


def sessions(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """The ids that a shell may complete to: asks a running daemon, starts none, and never complains."""
    from click.shell_completion import CompletionItem

    from sessiond.cli.client import connect
    from sessiond.cli.output import one_line
    from sessiond.cli.pages import PAGE
    from sessiond.cli.pages import sessions as listed
    from sessiond.errors import SessiondError

    try:
        with connect(start=False, timeout_s=1.0) as client:
            found = listed(client, PAGE, None, {}).sessions
    except (SessiondError, OSError):
        return []
    return [
        CompletionItem(info.session_id, help=one_line(info.name or ""))
        for info in found
        if info.session_id.startswith(begun)
    ]


def resolving(parameter: str) -> Callable[[F], F]:
    """Before the command runs: the ids of the sessions that were named in other ways (`sessiond.cli.session_ids`). Not while the
    command line is parsed, which completion does too.
    """

    def around(command: F) -> F:
        @functools.wraps(command)
        def resolved_first(*arguments: object, **given: Any) -> object:
            named = given[parameter]
            if named:
                from sessiond.cli.session_ids import resolved

                # What cannot be brought back is named in full.
                whole = given.get("permanent") is True
                ids = resolved([named] if isinstance(named, str) else named, by_beginning=not whole)
                given[parameter] = ids[0] if isinstance(named, str) else tuple(ids)
            return command(*arguments, **given)

        return cast("F", resolved_first)

    return around


def session_id(command: F) -> F:
    """A session that is there, as the parameter `session_id`."""
    argument = click.argument("session_id", metavar="ID", shell_complete=sessions)
    return argument(resolving("session_id")(command))


class Folder(click.Path):
    """A folder that sessions are of, as an absolute path. It need not be on this machine, and may be one of Windows."""

    def __init__(self) -> None:
        super().__init__(resolve_path=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if is_windows(os.fsdecode(value)) else super().convert(value, param, ctx)


class NamedFile(click.Path):
    """A path where standard input or output will not do, because it is read twice, by the daemon, or is a folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            self.fail(
                "'-' would be standard input or output, which will not do here; name a file (./- for one called that)",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


class Count(click.IntRange):
    """A number of at least `least`, and not more than a request can carry."""

    def __init__(self, least: int) -> None:
        super().__init__(least)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number > _MOST:
            self.fail(f"{number} is too large; the largest number is {_MOST}", param, ctx)
        return number


def in_store(text: str, **more: Any) -> Callable[[F], F]:
    """An option `--store` with this help. An empty name, as of a variable that is not set, would mean all stores."""

    def named(_ctx: click.Context, _param: click.Parameter, given: str | None) -> str | None:
        if given == "":
            raise click.BadParameter("the name of the store is empty; name one, or leave the option out")
        return given

    return click.option("--store", help=text, callback=named, **more)


def filters(command: F) -> F:
    """The filters of `session/list` and `session/search`; `filter_of` turns them into the request's `filter`."""
    options = [
        in_store("Only sessions in this store."),
        click.option("--tag", "tags", multiple=True, help="Only sessions with this tag; repeat it to require several."),
        click.option("--model", help="Only sessions with this model."),
        click.option("--tool", help="Only sessions imported from this tool; sessiond: those that were not imported."),
        click.option(
            "--cwd",
            type=Folder(),
            help="Only sessions of this folder (search: also of those below).",
        ),
        click.option(
            "--since",
            metavar="TIME",
            help="Only sessions changed at or after TIME: RFC 3339, a date, yesterday, 7d, 2h.",
        ),
        click.option("--until", metavar="TIME", help="Only sessions changed before TIME."),
        click.option("--archived", is_flag=True, help="Archived sessions instead."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def filter_of(**given: Any) -> dict[str, Any]:
    """Drop what was not given; a date becomes the start of that day, in local time."""
    found: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in given.items() if value
    }
    if "cwd" in found:
        found["cwd"] = label(found["cwd"])
    for name in ("since", "until"):
        if name in found:
            found[name] = _moment(name, found[name])
    return found


def _moment(name: str, text: str) -> str:
    from datetime import UTC, datetime

    from sessiond.cli.moments import FORMS, moment_of

    try:
        moment = moment_of(text, datetime.now(UTC))
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not a time; write {FORMS}", param_hint=f"--{name}") from None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_ANY = {
    "tags": "has the tag {!r}",
    "model": "has a model {!r}",
    "tool": "came from {!r}",
    "cwd": "is of {}",
    "name": "has {!r} in its name",
    "since": "was changed since {}",
    "until": "was changed before {}",
}
"""What a session has that matches a filter."""


def tell_unmatched(client: Sessiond, wanted: dict[str, Any]) -> bool:
    """After nothing was found: say which of the filters match no session even alone, as one that was misspelt does. `wanted`: as
    `filter_of` gives it. Asked only then, so that a list of something costs no further request. Returns whether one was named.
    """
    from sessiond.cli.output import note
    from sessiond.cli.pages import sessions

    told = False
    kept: dict[str, object] = {name: wanted[name] for name in ("archived", "deleted") if name in wanted}
    for name in _ANY.keys() & wanted.keys():
        for one in wanted[name] if name == "tags" else [wanted[name]]:
            alone: dict[str, object] = {name: [one] if name == "tags" else one, **kept}
            if not sessions(client, 1, "-updatedAt", alone).sessions:
                note(f"no {'archived ' if 'archived' in kept else ''}session {_ANY[name].format(one)}")
                told = True
    return told


def check_exists(client: Sessiond, *, store: str | None, session_id: str | None = None) -> None:
    """After nothing was found: InvalidParams or SessionNotFound if the reason is that the store or session does not exist.

    Checked only then, so that a search that finds something costs no further request.
    """
    from sessiond.errors import BadFile, InvalidParams, Unavailable

    if store is not None:
        stores = sorted(one.name for one in client.status().stores)
        if store not in stores:
            raise InvalidParams(f"store: there is no store {store!r}", hint=f"one of {', '.join(stores)}")
    if session_id is not None:
        try:
            client.call("session/read", {"sessionId": session_id, "last": 1}, again=True)
        except (BadFile, Unavailable):
            return  # it exists, although it cannot be read now
