"""`sessiond resume ID --in TOOL`."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from sessiond.cli import options
from sessiond.cli.client import connect
from sessiond.cli.output import one_line, print_json, say
from sessiond.cli.paths import here
from sessiond.errors import Unavailable
from sessiond.words import count

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

TOOLS = ("claude", "codex", "pi", "gemini", "qwen", "opencode", "cline", "llm", "aider", "sessiond")


def _tools(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return what a shell may complete to; those that show a help say which are not installed."""
    import shutil

    from click.shell_completion import CompletionItem

    def why(name: str) -> str | None:
        return None if name == "sessiond" or shutil.which(name) else "not installed"

    return [CompletionItem(name, help=why(name)) for name in TOOLS if name.startswith(begun)]


@click.command("resume", short_help="Go on with a session in another tool.")
@click.argument("session_id", metavar="[ID]", required=False, shell_complete=options.sessions)
@click.option("--in", "tool", type=click.Choice(TOOLS), shell_complete=_tools, help="The tool that goes on with it.")
@click.option("--at", type=options.Count(1), metavar="SEQ", help="Copy only what was said up to this seq.")
@click.option("--last", type=options.Count(1), metavar="N", help="Copy only the last N messages.")
@click.option("--no-tools", is_flag=True, help="Copy texts only, without calls of tools and their results.")
@click.option(
    "--cwd", type=click.Path(readable=False), metavar="DIR", help="The folder to work in, if not the session's own."
)
@click.option("--dry-run", is_flag=True, help="Only say what the tool would not be told.")
@click.option("--run", is_flag=True, help="Start the tool in the session's folder.")
@click.option("-y", "--yes", is_flag=True, help="With --run: do not ask first.")
@click.option("--targets", is_flag=True, help="List the tools, and which of them are installed.")
@options.as_json
@options.resolving("session_id")
def command(
    session_id: str | None, tool: str | None, targets: bool, run: bool, yes: bool, as_json: bool, dry_run: bool, **given: Any
) -> int:  # fmt: skip
    """Go on with a session in another tool.

    Writes a new session of that tool's own, with everything that its model needs to know, and prints the command that
    goes on with it. The session itself, and the files of the tool that it came from, stay as they are. What is not
    copied is said on standard error. In a terminal, --run asks first if that is a picture or a call that the first tool's
    model knew.

    With --json the document is {"sessionId", "tool", "id", "path", "cwd", "command", "lost": [{"what", "count"}],
    "messages"}; with --targets it is {"targets": [{"tool", "program", "installed", "path"}]}.
    """
    if targets:
        return _list_targets(as_json)
    if session_id is None or tool is None:
        raise click.UsageError("Which session, and where? sessiond resume ID --in TOOL; --targets lists the tools.")
    if run and (as_json or dry_run):
        raise click.UsageError("--run cannot be used with --json or --dry-run.")
    if given["at"] is not None and given["last"] is not None and tool == "sessiond":
        raise click.UsageError("--at and --last cannot be used together for sessiond itself.")
    from sessiond.cli.resume_document import Wish
    from sessiond.cli.resume_run import resume

    wish = Wish(given["at"], given["last"], not given["no_tools"], given["cwd"], dry_run)
    asks = run and wish.calls and not yes and sys.stdin.isatty() and sys.stderr.isatty()
    with connect() as client:
        document = resume(client, session_id, tool, wish, _agree if asks else None)
    if as_json:
        print_json(document)
        return 0
    if not asks:
        _tell_lost(document)
    if dry_run:
        print(f"would copy {count(document['messages'], 'message')}", file=sys.stderr)
        return 0
    print(one_line(f"copied {count(document['messages'], 'message')}; start it in {document['cwd']}"), file=sys.stderr)
    if run:
        return _run(document)
    say(shlex.join(document["command"]))
    return 0


def _tell_lost(document: dict[str, Any]) -> None:
    for one in document["lost"]:
        print(f"not copied: {one['count']:,} × {one['what']}", file=sys.stderr)


def _agree(document: dict[str, Any]) -> None:
    """Say what would be lost, while it can still be read: the tool then takes the whole screen. click.Abort if that will not do."""
    from sessiond.resume.fitting import KNEW

    _tell_lost(document)
    if not any(one["what"] in KNEW for one in document["lost"]):
        return
    if not click.confirm(f"Go on in {document['tool']} without that?", default=True, err=True):
        print("nothing was copied", file=sys.stderr)
        raise click.Abort


def _list_targets(as_json: bool) -> int:
    from sessiond.cli.resume_run import targets

    found = targets()
    if as_json:
        print_json({"targets": found})
        return 0
    for one in found:
        say(f"{one['tool']:<10} {one['path'] or 'not installed'}")
    return 0


def _run(document: dict[str, Any]) -> int:
    """Become the tool. Returns only if that fails."""
    words = [here(word) for word in document["command"]]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.chdir(here(document["cwd"]))
        os.execvp(words[0], words)  # noqa: S606
    except OSError as error:
        hint = f"the copy is there; in {document['cwd']}, start it with: {shlex.join(document['command'])}"
        raise Unavailable(f"{words[0]} cannot be started: {error.strerror}", hint=hint) from None
