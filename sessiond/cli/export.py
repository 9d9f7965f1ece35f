"""`sessiond export [ID...]`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sessiond.cli import EX_FAILED, options
from sessiond.cli.client import connect
from sessiond.cli.output import ENDED, clean, one_line, print_json, reason, say
from sessiond.client.blocking import Sessiond
from sessiond.client.failures import AnswerLost
from sessiond.client.types import Exported
from sessiond.errors import SessiondError
from sessiond.words import count

if TYPE_CHECKING:
    from sessiond.cli.export_run import Exporter

Result = tuple[str, Exported]
"""The id of a session, and what its export made."""
FORMATS = ("jsonl", "json", "markdown", "org", "html", "text", "openai", "anthropic")
_SHORT = {"md": "markdown", "txt": "text"}
_ENDINGS = {
    ".md": "markdown", ".markdown": "markdown", ".org": "org", ".html": "html", ".htm": "html", ".txt": "text",
    ".jsonl": "jsonl", ".openai.json": "openai", ".anthropic.json": "anthropic", ".json": "json",
}  # fmt: skip
"""What a file is called -> what is written into it, where no format is given."""


def _format(_ctx: click.Context, _param: click.Parameter, given: str | None) -> str | None:
    return None if given is None else _SHORT.get(given, given)


@click.command("export", short_help="Export sessions as Markdown, Org, HTML, JSON, ...")
@click.argument("session_ids", metavar="[ID]...", nargs=-1, shell_complete=options.sessions)
@click.option(
    "-f", "--format", "form", type=click.Choice((*FORMATS, *_SHORT)), callback=_format,
    help="By default what the ending of --output says (.md, .org, .html, .txt, .jsonl, .json), else markdown.",
)  # fmt: skip
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Write to this file; several sessions: a file each in this folder. - is standard output, as without it.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that already exist.")
@click.option("--redact", is_flag=True, help="Blank whatever looks like a key or token, home folders and user names.")
@click.option("--all", "everything", is_flag=True, help="All sessions, archived ones too.")
@options.filters
@options.as_json
@options.resolving("session_ids")
def command(
    session_ids: tuple[str, ...], form: str | None, output: str | None, overwrite: bool, redact: bool, everything: bool, as_json: bool,
    **given: object,
) -> int:  # fmt: skip
    """Export sessions to another format: those named, or all that match the filters. "jsonl" and "json" lose nothing.

    Several sessions go into a folder, or one after another to standard output (with -f json: in one array). With --json the
    document is {"content": ...} or {"path": ..., "bytes": ...}; for several, {"sessions": [{"sessionId": ..., ...}]}.
    """
    from sessiond.cli.export_run import Exporter, ExportFolder, single

    output = None if output == "-" else output
    filtered = any(given.values())
    if session_ids and (filtered or everything):
        raise click.UsageError("Name sessions, or select them with --all or a filter, but not both.")
    if not session_ids and not filtered and not everything:
        raise click.UsageError(
            "Which sessions? Name them, or select them with --all or a filter such as --tag or --since."
        )
    with connect() as client:
        ids = list(session_ids) or _found(client, given, everything)
        several = len(ids) != 1 or not session_ids
        is_folder = output is not None and (output.endswith("/") or os.path.isdir(os.path.expanduser(output)))
        folder = several or is_folder
        if several and output is not None and not is_folder and _ending(output):
            raise click.UsageError(f"{count(len(ids), 'session')} cannot go into one file: --output names a folder.")
        form = form or _by_ending(None if folder else output)
        if several and form == "html" and output is None and not as_json:
            raise click.UsageError("Several HTML pages cannot go to one output: name a folder with --output.")
        exporter = Exporter(client, form, redact=redact, overwrite=overwrite)
        if output is None:
            place = None
        else:
            target = os.path.abspath(os.path.expanduser(output))
            place = ExportFolder(target, form) if folder else single(target)
        results, failed = _each(exporter, ids, place, alone=not several)
    if several and not results:
        print(count(0, "session"), file=sys.stderr)
    if several and form == "json" and output is None and not as_json:
        results = [("", _array(results))]
    _tell(exporter.blanked, results, alone=not several, redact=redact, as_json=as_json)
    return EX_FAILED if failed else 0


def _by_ending(output: str | None) -> str:
    return _ENDINGS.get(_ending(output or ""), "markdown")


def _ending(output: str) -> str:
    """The one that says what is written; empty if none does."""
    return next((ending for ending in _ENDINGS if output.lower().endswith(ending)), "")


def _found(client: Sessiond, given: dict[str, Any], everything: bool) -> list[str]:
    from sessiond.cli.pages import sessions

    wanted = options.filter_of(**given)
    filters = [wanted, {**wanted, "archived": True}] if everything and not given["archived"] else [wanted]
    found = [sessions(client, None, "createdAt", one, whole=True).sessions for one in filters]
    if not any(found):
        options.check_exists(client, store=given["store"])
        options.tell_unmatched(client, wanted)
    return [info.session_id for page in found for info in page]


def _each(
    exporter: Exporter, ids: list[str], place: Callable[[str], str] | None, *, alone: bool
) -> tuple[list[Result], bool]:
    """The result of each export, and whether any failed. Among several, one that fails does not stop the others."""
    results, failed = [], False
    for session_id in ids:
        try:
            path = None if place is None else place(session_id)
            results.append((session_id, exporter.export(session_id, path)))
        except (SessiondError, OSError) as error:
            if alone:
                raise
            failed = True
            why = (
                ENDED if isinstance(error, AnswerLost) else reason(error) if isinstance(error, OSError) else str(error)
            )
            print(one_line(f"sessiond: {session_id}: {why}"), file=sys.stderr)
    return results, failed


def _array(results: list[Result]) -> Exported:
    """All documents in one array, which any JSON reader reads and `sessiond import` imports."""
    return Exported(content="[" + ",\n".join((made.content or "").rstrip("\n") for _, made in results) + "]\n")


def _tell(blanked: Counter[str], results: list[Result], *, alone: bool, redact: bool, as_json: bool) -> None:
    if redact:
        kinds = ", ".join(f"{number:,} × {kind}" for kind, number in sorted(blanked.items()))
        print(f"blanked: {kinds or 'nothing'}", file=sys.stderr)
    if as_json:
        document: dict[str, object] = {
            "sessions": [{"sessionId": session_id, **_document(made)} for session_id, made in results]
        }
        if alone:
            document = _document(results[0][1])
        print_json({**document, "redacted": dict(blanked)} if redact else document)
        return
    for _, made in results:
        if made.content is None:
            say(f"{made.path}: {made.bytes} bytes")
        elif sys.stdout.isatty():
            sys.stdout.write(clean(made.content))
        else:
            sys.stdout.buffer.write(made.content.encode())


def _document(made: Exported) -> dict[str, object]:
    return {"path": made.path, "bytes": made.bytes} if made.content is None else {"content": made.content}
