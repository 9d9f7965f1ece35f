"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sessiond.cli.paths import label
from sessiond.folders import is_windows

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from sessiond.client.blocking import Sessiond

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document and nothing else on standard output."
)


def sessions(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """The ids that a shell may complete to: asks a running daemon, starts none, and never complains."""
    from click.shell_completion import CompletionItem

    from sessiond.cli.client import connect
    from sessiond.cli.pages import PAGE
    from sessiond.cli.pages import sessions as listed
    from sessiond.errors import SessiondError

    try:
        with connect(start=False, timeout_s=1.0) as client:
            found = listed(client, PAGE, None, {}).sessions
    except (SessiondError, OSError):
        return []
    return [
        CompletionItem(info.session_id, help=info.name or "") for info in found if info.session_id.startswith(begun)
    ]


session_id = click.argument("session_id", metavar="ID", shell_complete=sessions)


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


def filters(command: F) -> F:
    """The filters of `session/list` and `session/search`; `filter_of` turns them into the request's `filter`."""
    options = [
        click.option("--store", help="Only sessions in this store."),
        click.option("--tag", "tags", multiple=True, help="Only sessions with this tag; repeat it to require several."),
        click.option("--model", help="Only sessions with this model."),
        click.option("--tool", help="Only sessions imported from this tool; sessiond: those that were not imported."),
        click.option(
            "--cwd",
            type=Folder(),
            help="Only sessions of this folder (search: also of those below).",
        ),
        click.option("--since", metavar="TIME", help="Only sessions changed at or after TIME (RFC 3339, or a date)."),
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

    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        message = f"{text!r} is not a time; write 2026-01-11 or 2026-01-11T14:30:22Z"
        raise click.BadParameter(message, param_hint=f"--{name}") from None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
