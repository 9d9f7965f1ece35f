"""`sessiond search QUERY`."""

from __future__ import annotations

import re
import time
from typing import Any, TextIO

import click

from sessiond import installation
from sessiond.cli.client import connect
from sessiond.cli.options import Count, as_json, check_exists, filter_of, filters, resolving, tell_unmatched
from sessiond.cli.output import for_people, note, print_json, say
from sessiond.cli.pages import FoundPages, hits
from sessiond.cli.terminal import Paint, colored, pager, paging
from sessiond.client.blocking import Sessiond
from sessiond.doctor.wording import index_problem
from sessiond.words import count

_NOTHING = 1
"""The exit code for no matches, as with grep. With --json it is 0: the document says it."""

_NO_MATCHES = "no matches"

_FIRST_OR = re.compile(r"\A([\W_]*\s)?OR(?=\s)")
"""An OR with no word before it: literal, as long as nothing is put in front."""
_HITS = 50
_PATIENCE_S, _TRIES = 10.0, 20
"""In a search by meaning: people would rather wait for the model and the newest vectors than search again."""
_HELP = """Find messages in all your sessions.

All terms must be in one message, in any order; case and accents do not matter.

\b
  lock order        both words
  "lock order"      the phrase
  lock*             words that begin with it
  lock -deadlock    without the second word
  lock OR mutex     either
  role:user  tag:work  model:opus  store:lisp
  cwd:/src/app  cwd:app               in that folder or below it
  before:2026-02  after:2026-01-11    when the message was written
  in:name           only names of sessions
  in:thinking       also what models thought
  -in:tools         not the input and output of tools

snake_case and camelCase are found whole and in parts; Japanese, Chinese and Korean by any substring.

On a terminal, hits are grouped by session and shown in the pager ($SESSIOND_PAGER, $PAGER, less). Elsewhere, a hit is one
line, with tabs between session, number, role, time and text. With --json the document is the result of session/search.

--cwd means the same as the term cwd:, but with a regular expression it means only that folder itself.

The exit code says whether anything was found: 0 if so, 1 if not. With --json it is 0 either way.
"""


@click.command("search", short_help="Find words in all your sessions.", help=_HELP)
@click.argument("query", nargs=-1, required=True)
@click.option("--mode", type=click.Choice(["text", "regex", "semantic"]), help="How to read QUERY; by default as text.")
@click.option("-E", "--regex", "mode", flag_value="regex", help="QUERY is a Python regular expression.")
@click.option("--semantic", "mode", flag_value="semantic", help="Find by meaning (needs the extra `semantic`).")
@click.option("-l", "--sessions", "only_sessions", is_flag=True, help="Print only the sessions, best first.")
@click.option("-c", "--count", "only_counts", is_flag=True, help="Print only how many hits each session has.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code says whether anything was found.")
@click.option(
    "-A", "--after-context", "after_lines", type=click.IntRange(0), metavar="N", help="Show N lines after a match."
)
@click.option(
    "-B", "--before-context", "before_lines", type=click.IntRange(0), metavar="N", help="Show N lines before it."
)
@click.option("-C", "--context", type=click.IntRange(0), default=0, metavar="N", help="Show N lines before and after.")
@filters
@click.option("--name", help="Only in sessions with this in the name.")
@click.option("--role", help="Only messages of this role.")
@click.option("--session", "session_id", metavar="ID", help="Only in this session.")
@click.option(
    "--before", metavar="DATE", help="Only messages from before DATE (2026, 2026-01, 2026-01-11, or RFC 3339; UTC)."
)
@click.option("--after", metavar="DATE", help="Only messages from DATE or later (likewise).")
@click.option("--thinking", is_flag=True, help="Also search what models thought.")
@click.option("--no-tools", is_flag=True, help="Do not search the input and output of tools.")
@click.option(
    "-n",
    "--limit",
    type=Count(1),
    metavar="N",
    help=f"How many hits at most (default {_HITS}); with -l and -c how many sessions (default all).",
)
@click.option("--all", "everything", is_flag=True, help="Show all of them.")
@paging
@as_json
@resolving("session_id")
def command(
    query: tuple[str, ...],
    mode: str | None,
    session_id: str | None,
    before: str | None,
    after: str | None,
    thinking: bool,
    no_tools: bool,
    limit: int | None,
    everything: bool,
    as_json: bool,
    **given: Any,
) -> int:
    shown = {name: given.pop(name) for name in _SHOWN}
    per_session = shown["only_sessions"] or shown["only_counts"]
    if as_json and per_session:
        raise click.UsageError("--json prints the whole result; it cannot be combined with -l or -c.")
    words = [
        _said("before", before), _said("after", after), "in:thinking" if thinking else "", "-in:tools" if no_tools else "",
    ]  # fmt: skip
    if any(words) and mode == "regex":
        raise click.UsageError(
            "--before, --after, --thinking and --no-tools do not work with a regex; narrow it with --since and --until"
        )
    if mode != "regex" and (within := _within(given["cwd"])):
        words.append(within)
        given["cwd"] = None
    text = _narrowed(" ".join(query), [word for word in words if word])
    wanted = filter_of(session_id=session_id, **given)
    few = None if everything or per_session else limit or _HITS
    with connect() as client:
        found = hits(client, 1 if shown["quiet"] else few, text, mode, wanted)
        begun = time.monotonic()
        for _ in range(_TRIES if mode == "semantic" else 0):
            if not found.incomplete or time.monotonic() > begun + _PATIENCE_S:
                break
            found = hits(client, 1 if shown["quiet"] else few, text, mode, wanted)
        explained = found.incomplete
        if not found.hits:
            check_exists(client, store=given["store"], session_id=session_id)
            explained = tell_unmatched(client, filter_of(**given)) or explained
        if as_json and not shown["quiet"]:
            print_json(found.plain)
            return 0
        if not shown["quiet"]:
            _print(client, found, limit=None if everything else limit, **shown)
            if found.next_cursor and limit is None and not for_people():
                note(f"{len(found.hits)} of {found.total}; --all shows the rest")
            if not found.hits and not explained:
                tell = say if for_people() else note
                tell(_NO_MATCHES if session_id else _nothing(client))
    return 0 if found.hits else _NOTHING


def _nothing(client: Sessiond) -> str:
    """Return what to say when nothing matched, and how to get started if there is nothing to search yet."""
    if any(store.sessions for store in client.status().stores):
        return _NO_MATCHES
    return f"{_NO_MATCHES}: you have no sessions yet; to get started, run `{installation.as_typed()} import`"


def _said(name: str, text: str | None) -> str:
    """The query's term for an option. An invalid time is refused here: in a query it would be a word to search for."""
    if text is None:
        return ""
    from sessiond.index.query import moment_of

    if len(text.split()) != 1 or moment_of(text) is None:
        message = f"{text!r} is not a time; write 2026, 2026-01, 2026-01-11 or 2026-01-11T14:30:22Z"
        raise click.BadParameter(message, param_hint=f"--{name}")
    return f"{name}:{text.strip()}"


def _within(folder: str | None) -> str:
    """The query's term for a folder and those below it. Empty if no term can express it: then the exact filter is used."""
    if not folder or ('"' in folder and len(folder.split()) > 1):
        return ""
    return f"cwd:{folder}" if '"' in folder else f'cwd:"{folder}"'


def _narrowed(query: str, words: list[str]) -> str:
    """The query with more terms that must match. They go in front, because the query may end in an unclosed quote; and an
    OR that the query begins with must not join them.
    """
    if not words:
        return query
    return " ".join(filter(None, (*words, _FIRST_OR.sub(r'\1"OR"', query))))


_SHOWN = (
    "only_sessions", "only_counts", "quiet", "after_lines", "before_lines", "context", "color", "no_pager",
)  # fmt: skip


def _print(client: Sessiond, found: FoundPages, *, limit: int | None, color: str, no_pager: bool, **shown: Any) -> None:
    from sessiond.cli import hits as layout

    people = for_people()
    paint = Paint(colored(color))
    before = shown["context"] if shown["before_lines"] is None else shown["before_lines"]
    after = shown["context"] if shown["after_lines"] is None else shown["after_lines"]
    with pager(people and not no_pager) as out:
        if shown["only_sessions"]:
            layout.sessions(out, found.hits, paint, limit, people=people)
        elif shown["only_counts"]:
            layout.counts(out, found.hits, paint, limit)
        elif people:
            layout.grouped(out, client, found.hits, paint, before, after)
        else:
            layout.lines(out, client, found.hits, paint, before, after)
        if found.incomplete:
            _note(out, people, _missing(client))
        elif found.unfetched:
            skipped = count(found.unfetched, "shared session")
            _note(
                out,
                people,
                f"{skipped} not searched: they were never opened here, and their store has no `mirror = true`",
            )
        if people and found.hits and not shown["only_sessions"] and not shown["only_counts"]:
            number = len(found.hits)
            rest = f"{number} of {found.total}; --all shows the rest" if found.next_cursor else f"{number} found"
            out.write(paint(rest, "2") + "\n")


def _missing(client: Sessiond) -> str:
    """Say why there may be more hits than were found."""
    problem = index_problem(client.status().index)
    # Without a problem the index is complete by now.
    return problem or "the index was still being built, so there may be more; search again"


def _note(out: TextIO, people: bool, text: str) -> None:
    """For people, in the output itself; for a script, on standard error, because standard output is its data."""
    if people:
        out.write(text + "\n")
    else:
        note(text)
