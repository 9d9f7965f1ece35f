"""`sessiond import --follow`: imports what is there, has the daemon import what the tools write from then on, and shows what came."""

from __future__ import annotations

import sys
import time

import msgspec

from sessiond.cli.client import connect, connect_once
from sessiond.cli.import_report import summary, warning_text
from sessiond.cli.import_run import ImportChoice, ImportPath, bring_in
from sessiond.cli.output import one_line, print_json, say
from sessiond.cli.paths import on_wire
from sessiond.cli.streams import must_be_read
from sessiond.client.failures import AnswerLost
from sessiond.client.requests import follow_places, plain, strange
from sessiond.client.types import Imported, SessionInfo
from sessiond.client.wire import Incoming
from sessiond.ready import ready
from sessiond.words import count

ready(Imported)
_AGAIN_S = 0.2


def follow(targets: list[ImportPath], choice: ImportChoice, as_json: bool) -> None:
    """Import what is there and what is written, until interrupted or until nobody reads the output. If the daemon ends, go on with the
    next one, which reads what was written meanwhile.
    """
    shown = _Shown(as_json)
    while True:
        try:
            with connect() as client:
                total = bring_in(client, targets, choice)
            break
        except AnswerLost:
            must_be_read()
    shown.first(total.value, total.plain)
    places = [(on_wire(target.path), target.tool) for target in targets]
    text = f"following {count(len(targets), 'place')}; press Ctrl-C to end"
    while True:
        must_be_read()
        try:
            with connect_once() as connection:
                connection.ask(follow_places(places, store=choice.store, since=choice.since))
                if text and not as_json:
                    say(text)
                text = ""
                for told in connection.notifications(while_read=True):
                    if told.method == "session/imported":
                        shown.told(told)
        except ConnectionError:
            time.sleep(_AGAIN_S)


class _Shown:
    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._known: set[str] = set()
        """Warnings that were shown."""

    def first(self, result: Imported, as_sent: dict[str, object]) -> None:
        self._known.update(warning_text(warning) for warning in result.warnings)
        if self._as_json:
            print_json(as_sent)
        else:
            summary(result, dry_run=False)
        sys.stdout.flush()

    def told(self, notice: Incoming) -> None:
        """DaemonUnreachable if it has a shape that protocol 1 does not have."""
        try:
            result = msgspec.json.decode(notice.params, type=Imported)
        except msgspec.MsgspecError as error:
            raise strange("word of an import", error) from None
        for text in dict.fromkeys(warning_text(one) for one in result.warnings):
            if text not in self._known:
                self._known.add(text)
                print(text, file=sys.stderr, flush=True)
        if not result.sessions:
            return
        if self._as_json:
            print_json({"skipped": 0} | plain(notice.params))
        else:
            for info in result.sessions:
                say(_row(info))
        sys.stdout.flush()


def _row(info: SessionInfo) -> str:
    return one_line(f"{info.session_id}  {count(info.message_count, 'message')}  {info.name or ''}")
