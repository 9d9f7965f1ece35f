"""`sessiond answer ID [ANSWER]`."""

from __future__ import annotations

import sys

import click

from sessiond.cli import EX_FAILED, options
from sessiond.cli.activity import choice_of, choices_in_words
from sessiond.cli.client import connect
from sessiond.cli.output import clean, one_line, print_json, say
from sessiond.client import requests
from sessiond.client.types import Activity, Question


@click.command("answer", short_help="Answer what a session asks you.")
@options.session_id
@click.argument("words", metavar="[ANSWER]", required=False)
@options.as_json
def command(session_id: str, words: str | None, as_json: bool) -> int:
    """Answer what a session asks: an agent that wants permission, or has a question. `sessiond list --waiting` shows which do.

    ANSWER is one of the choices, by its id or label, or any text if there are none. Without it the question is shown, and on
    a terminal you are asked. The first answer counts, whoever gives it. Exit code 1: somebody else was faster, or nothing is asked.
    """
    with connect() as client:
        shown = client.answer(requests.update(session_id, {}))
        activity = shown.value.session.activity
        question = None if activity is None else activity.question
        if activity is None or question is None:
            print(_unasked(session_id, activity), file=sys.stderr)
            return EX_FAILED
        if words is None and not as_json:
            _show(activity, question)
        if words is None and (as_json or not sys.stdin.isatty()):
            if as_json:
                print_json({"activity": shown.plain["session"]["activity"]})
            return 0
        answer = words if words is not None else click.prompt("Answer")
        choice = choice_of(question, answer)
        sent = requests.answer(session_id, question.id, choice, None if choice is not None else answer)
        accepted = client.answer(sent)
    if as_json:
        print_json(accepted.plain)
    elif accepted.value.accepted:
        say(one_line(f"{session_id}: answered"))
    else:
        print(
            one_line(f"sessiond: {session_id}: somebody else has answered, or it is not asked any more"),
            file=sys.stderr,
        )
    return 0 if accepted.value.accepted else EX_FAILED


def _unasked(session_id: str, activity: Activity | None) -> str:
    if activity is not None and activity.state == "waiting":
        where = f"{activity.client} waits for {activity.waiting_for or 'you'}, and takes the answer only there"
        return one_line(f"sessiond: {session_id}: {where}")
    return one_line(f"sessiond: {session_id} asks nothing; sessiond list --waiting shows those that do")


def _show(activity: Activity, question: Question) -> None:
    say(clean(f"{activity.client}: {activity.text or ''}"))
    for line in choices_in_words(question):
        say(line)
