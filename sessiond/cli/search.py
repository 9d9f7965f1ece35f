"""`sessiond search QUERY`."""

from __future__ import annotations

import re
import time
from typing import Any, TextIO

import click

from sessiond.cli.client import Client
from sessiond.cli.options import as_json, check_exists, filter_of, filters
from sessiond.cli.output import for_people, note, print_json
from sessiond.cli.status import index_problem
from sessiond.cli.terminal import Paint, colored, pager, paging

_NOTHING = 1
"""The exit code of `-q` where there is nothing. Without it a search that finds nothing is done, as any command that is."""

_FIRST_OR = re.compile(r"\A([\W_]*\s)?OR(?=\s)")
"""With no word before it: literal, as long as nothing is put in front."""
_HITS = 50
_PAGE = 1000
_PATIENCE_S, _TRIES = 10.0, 20
"""By meaning: a person would rather wait for the model and the newest vectors than ask again."""
_HELP = """Find messages in all your sessions.

All terms must be in one message, in any order; case and accents make no difference.

\b
  lock order        both words
  "lock order"      the phrase
  lock*             words that begin so
  lock -deadlock    without that word
  lock OR mutex     either
  role:user  tag:work  model:opus  store:lisp
  cwd:/src/app  cwd:app               of that folder and those in it
  before:2026-02  after:2026-01-11    when it was said
  in:name           names of sessions only
  in:thinking       what models thought, too
  -in:tools         not what went into tools and came out of them

snake_case and camelCase are found whole and in parts, Japanese, Chinese and Korean by any substring.

On a terminal hits stand under their session, in the pager ($SESSIOND_PAGER, $PAGER, less). Elsewhere a hit is one line
with tabs between: session, number, role, time, text. With --json the document is what session/search answers.

--cwd is the word cwd:, with a regular expression it is that folder itself.

With -q the exit code says whether anything was found: 0 or 1.
"""


@click.command("search", short_help="Find words in all your sessions.", help=_HELP)
@click.argument("query", nargs=-1, required=True)
@click.option("--mode", type=click.Choice(["text", "regex", "semantic"]), help="How to read QUERY; text by default.")
@click.option("-E", "--regex", "mode", flag_value="regex", help="QUERY is a regular expression (Python's).")
@click.option("--semantic", "mode", flag_value="semantic", help="Find by meaning (needs the extra `semantic`).")
@click.option("-l", "--sessions", "only_sessions", is_flag=True, help="Only the sessions, the best first.")
@click.option("-c", "--count", "only_counts", is_flag=True, help="Only how many hits each session has.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing: the exit code says whether there is something.")
@click.option(
    "-A", "--after-context", "after_lines", type=click.IntRange(0), metavar="N", help="N lines after a match."
)
@click.option("-B", "--before-context", "before_lines", type=click.IntRange(0), metavar="N", help="N lines before it.")
@click.option("-C", "--context", type=click.IntRange(0), default=0, metavar="N", help="N lines before and after.")
@filters
@click.option("--name", help="Only in sessions with this in the name.")
@click.option("--role", help="Only messages of this role.")
@click.option("--session", "session_id", metavar="ID", help="Only in this session.")
@click.option(
    "--before", metavar="DATE", help="Only what was said before (2026, 2026-01, 2026-01-11, or RFC 3339; UTC)."
)
@click.option("--after", metavar="DATE", help="Only what was said then or later (likewise).")
@click.option("--thinking", is_flag=True, help="What models thought, too.")
@click.option("--no-tools", is_flag=True, help="Not what went into tools and came out of them.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help=f"How many hits at most ({_HITS}, if not given); with -l and -c how many sessions (all).",
)
@click.option("--all", "everything", is_flag=True, help="All of them.")
@paging
@as_json
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
        raise click.UsageError("--json is the whole answer: -l and -c are for lines.")
    words = [
        _said("before", before), _said("after", after), "in:thinking" if thinking else "", "-in:tools" if no_tools else "",
    ]  # fmt: skip
    if any(words) and mode == "regex":
        raise click.UsageError(
            "--before, --after, --thinking and --no-tools are for words; --since and --until narrow a regex"
        )
    if mode != "regex" and (within := _within(given["cwd"])):
        words.append(within)
        given["cwd"] = None
    text = _narrowed(" ".join(query), [word for word in words if word])
    params = {"query": text, "filter": filter_of(sessionId=session_id, **given)}
    if mode is not None:
        params["mode"] = mode
    few = None if everything or per_session else limit or _HITS
    with Client.connect() as client:
        found = hits(client, 1 if shown["quiet"] else few, params)
        begun = time.monotonic()
        for _ in range(_TRIES if mode == "semantic" else 0):
            if not found.get("incomplete") or time.monotonic() > begun + _PATIENCE_S:
                break
            found = hits(client, 1 if shown["quiet"] else few, params)
        if not found["hits"]:
            check_exists(client, store=given["store"], session_id=session_id)
        if as_json:
            print_json(found)
        elif shown["quiet"]:
            return 0 if found["hits"] else _NOTHING
        else:
            _print(client, found, limit=None if everything else limit, **shown)
            if found["nextCursor"] and limit is None and not for_people():
                note(f"{len(found['hits'])} of {found['total']}; --all shows the rest")
    return 0


def _said(name: str, text: str | None) -> str:
    """The query's word for an option. A time that is none would be a word to look for, as everything that is typed."""
    if text is None:
        return ""
    from sessiond.index.query import moment_of

    if len(text.split()) != 1 or moment_of(text) is None:
        message = f"{text!r} is no time; write 2026, 2026-01, 2026-01-11 or 2026-01-11T14:30:22Z"
        raise click.BadParameter(message, param_hint=f"--{name}")
    return f"{name}:{text.strip()}"


def _within(folder: str | None) -> str:
    """The query's word for a folder and those in it. Empty where none can be written: the filter takes it then, exactly."""
    if not folder or ('"' in folder and len(folder.split()) > 1):
        return ""
    return f"cwd:{folder}" if '"' in folder else f'cwd:"{folder}"'


def _narrowed(query: str, words: list[str]) -> str:
    """The query with more that must hold. In front, because it may end in a quote that is not closed, and nothing of it
    may join what is added with an OR that it begins with.
    """
    if not words:
        return query
    return " ".join(filter(None, (*words, _FIRST_OR.sub(r'\1"OR"', query))))


_SHOWN = (
    "only_sessions", "only_counts", "quiet", "after_lines", "before_lines", "context", "color", "no_pager",
)  # fmt: skip


def hits(client: Client, limit: int | None, params: dict[str, Any]) -> dict[str, Any]:
    """Up to `limit` hits (None: all), over as many pages as that takes. Shape: `session/search`'s result."""
    found: dict[str, Any] = {}
    cursor: str | None = None
    while True:
        page_size = _PAGE if limit is None else min(_PAGE, limit - len(found.get("hits", [])))
        more = {"cursor": cursor} if cursor else {}
        page = client.call("session/search", {**params, **more, "limit": page_size})
        cursor = page["nextCursor"]
        found = {**page, "hits": [*found.get("hits", []), *page["hits"]]}
        if cursor is None or (limit is not None and len(found["hits"]) >= limit):
            return found


def _print(
    client: Client, found: dict[str, Any], *, limit: int | None, color: str, no_pager: bool, **shown: Any
) -> None:
    from sessiond.cli import found as layout

    people = for_people()
    paint = Paint(colored(color))
    before = shown["context"] if shown["before_lines"] is None else shown["before_lines"]
    after = shown["context"] if shown["after_lines"] is None else shown["after_lines"]
    with pager(people and not no_pager) as out:
        if shown["only_sessions"]:
            layout.sessions(out, found["hits"], paint, limit, people=people)
        elif shown["only_counts"]:
            layout.counts(out, found["hits"], paint, limit)
        elif people:
            layout.grouped(out, client, found["hits"], paint, before, after)
        else:
            layout.lines(out, client, found["hits"], paint, before, after)
        if found.get("incomplete"):
            _note(out, people, _missing(client))
        if people and not shown["only_sessions"] and not shown["only_counts"]:
            number = len(found["hits"])
            rest = f"{number} of {found['total']}; --all shows the rest" if found["nextCursor"] else f"{number} found"
            out.write(paint(rest, "2") + "\n")


def _missing(client: Client) -> str:
    """Why there may be more than was found."""
    problem = index_problem(client.call("daemon/status")["index"])
    # The words of all are there, or are by now.
    return problem or "the index was still being built: there may be more; search again"


def _note(out: TextIO, people: bool, text: str) -> None:
    """For people beside what they read; for a script on standard error, because standard output is its data."""
    if people:
        out.write(text + "\n")
    else:
        note(text)
