"""`sessiond import [PATH...]`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from sessiond.cli import EX_FAILED
from sessiond.cli.client import connect
from sessiond.cli.import_report import summary
from sessiond.cli.options import NamedFile, as_json, filter_of, in_store
from sessiond.cli.output import one_line, print_json
from sessiond.words import count, in_bytes

if TYPE_CHECKING:
    from sessiond.cli.import_run import ImportPath


@click.command("import", short_help="Import your history from other tools.")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=NamedFile())
@click.option("-f", "--format", "form", help="The format, if it cannot be detected: claude-code, codex, aider, ...")
@in_store("Import into this store instead of the default one.")
@click.option("--since", metavar="TIME", help="Only sessions with a message since then (a date, or RFC 3339).")
@click.option("--dry-run", is_flag=True, help="Only say what would be imported.")
@click.option(
    "--report", is_flag=True, help="Say what was found, tool by tool, so that you see that nothing is missing."
)
@click.option("--follow", is_flag=True, help="Keep importing what the tools write, until interrupted.")
@click.option("-y", "--yes", is_flag=True, help="Without a path: do not ask.")
@as_json
def command(
    paths: tuple[str, ...], dry_run: bool, report: bool, follow: bool, yes: bool, as_json: bool, **given: str | None
) -> int:
    """Import sessions from other tools: files, or folders with everything in them.

    Without a PATH it looks where the known tools keep their files, shows what it found, and asks. Repeating it adds only
    what is new. It says how much came from each tool, if there are several; with --json always. With --json and --follow it
    prints one document a line, whenever something was imported. Exit code 1: a file that you named could not be imported.
    """
    from sessiond.cli.import_run import ImportChoice, ImportPath, Total, bring_in

    if follow and dry_run:
        raise click.UsageError("--follow and --dry-run cannot be used together.")
    if follow and report:
        raise click.UsageError("--follow and --report cannot be used together.")
    # The counts of each tool come with a report.
    choice = ImportChoice(given["store"], filter_of(since=given["since"]).get("since"), dry_run, report=not follow)
    missing = [path for path in paths if not os.path.exists(path)]
    for path in missing:
        print(one_line(f"sessiond: {path}: no such file or folder"), file=sys.stderr)
    for path in [path for path in paths if path not in missing and _is_ours(path) and not os.path.isfile(path)]:
        print(
            one_line(f"sessiond: {path}: a pipe cannot be imported; write it to a file, and import that"),
            file=sys.stderr,
        )
        missing.append(path)
    if paths:
        targets = [ImportPath(_absolute(path), given["form"]) for path in paths if path not in missing]
    else:
        targets = _known(given["form"])
        _show(targets, as_json)
        if targets and not dry_run and not yes and not _agreed(as_json):
            return 0
    if follow and targets:
        from sessiond.cli.import_follow import follow as go_on

        go_on(targets, choice, as_json)
        return 0
    total = Total()
    if targets:
        with connect() as client:
            total = bring_in(client, targets, choice)
    tools = total.tools
    if not report:
        total.plain.pop("report", None)
    if as_json:
        print_json(total.plain | ({"tools": tools} if tools else {}))
    elif targets:
        summary(total.value, dry_run, tools)
    return EX_FAILED if missing or (paths and any(target.failed for target in targets)) else 0


def _is_ours(path: str) -> bool:
    """Return whether the path is a descriptor of this process, as a shell gives it for `<(command)`. The daemon has others."""
    return os.path.abspath(path).startswith(("/dev/fd/", "/dev/std", "/proc/self/fd/"))


def _absolute(path: str) -> str:
    return os.path.realpath(path) if _is_ours(path) else os.path.abspath(path)


def _known(form: str | None) -> list[ImportPath]:
    """Return what the known tools keep on this machine."""
    from sessiond.cli.import_run import ImportPath
    from sessiond.importers.registry import known_places

    places = known_places(os.path.expanduser("~"), os.environ)
    return [ImportPath(place.path, place.tool) for place in places if form in (None, place.tool)]


def _show(targets: list[ImportPath], as_json: bool) -> None:
    """Show what was found: on standard output for people, on standard error if a script reads standard output."""
    if not targets:
        text = "found no sessions of a known tool; name a PATH (Aider's, gptel's and ChatGPT's exports are wherever you put them)"
        print(text, file=sys.stderr if as_json else sys.stdout)
        return
    for target in targets:
        files, size = target.size()
        line = f"{target.tool}\t{target.path}\t{count(files, 'file')}\t{in_bytes(size)}"
        print(
            one_line(line.expandtabs(4)) if as_json else line.replace("\t", "  "), file=sys.stderr if as_json else None
        )


def _agreed(as_json: bool) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("Cannot ask without a terminal: add --yes, or name a PATH.")
    if click.confirm("Import them?", default=True, err=as_json):
        return True
    print("nothing was imported", file=sys.stderr)
    return False
