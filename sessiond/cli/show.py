"""`sessiond show ID`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from sessiond.cli import options
from sessiond.cli.client import connect
from sessiond.cli.message_view import view
from sessiond.cli.output import clean, for_people, print_json
from sessiond.cli.pages import OpenedSession, from_on, open_, with_earlier
from sessiond.cli.terminal import Paint, colored, pager, paging
from sessiond.cli.way import way_of
from sessiond.words import count


@click.command("show", short_help="Show a session and its newest messages.")
@options.session_id
@click.option("-n", "--last", type=options.Count(0), default=50, show_default=True, help="How many messages.")
@click.option(
    "--from", "first", type=options.Count(1), metavar="SEQ",
    help="The messages from #SEQ on, instead of the newest. A search prints these numbers.",
)  # fmt: skip
@click.option("--full", is_flag=True, help="On a terminal: show thinking, calls and outputs of tools whole.")
@paging
@options.as_json
def command(
    session_id: str, last: int, first: int | None, full: bool, color: str, no_pager: bool, as_json: bool
) -> None:
    """Show a session and its newest messages, and which sessions it goes on from.

    With --json the document is the result of session/open, with --from that of session/read.
    """
    with connect() as client:
        if first is None or last == 0:
            answer = client.answer(open_(session_id, last=last))
            messages, more = with_earlier(client.answer, answer.value, last)
        else:
            page = from_on(client.answer, session_id, first - 1, last)
            messages, more = page.messages, page.has_more
            if as_json:
                print_json(page.plain)
                return
            answer = client.answer(open_(session_id, last=0))
        if as_json:
            print_json({**answer.plain, "messages": messages, "hasMore": more} if first is None else answer.plain)
            return
        way = way_of(client, answer.value.session)
    with pager(not no_pager) as out:
        for line in _header(answer.value, way):
            print(line, file=out)
        if more and first is None:
            print(
                f"… for older messages: sessiond show {session_id} --last {answer.value.session.message_count}",
                file=out,
            )
        for message in messages:
            print("\n" + view(message, Paint(colored(color)), folded=for_people() and not full), file=out)
        if more and first is not None:
            print(f"\n… for newer messages: sessiond show {session_id} --from {messages[-1]['seq'] + 1}", file=out)


def _header(opened: OpenedSession, way: list[str]) -> Iterator[str]:
    info = opened.session
    yield clean(f"{info.session_id}  {info.name or '(no name)'}")
    facts = [count(info.message_count, "message"), info.path, info.model, " ".join(info.tags)]
    yield clean("  ".join(fact for fact in facts if fact))
    if way:
        yield clean("goes on from " + " ← ".join(way))
    for warning in opened.warnings:
        line = "" if warning.line is None else f":{warning.line}"
        yield clean(f"warning: {warning.path}{line}: {warning.message}")
