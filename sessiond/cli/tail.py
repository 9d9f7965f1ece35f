"""`sessiond tail ID`: follows a session, also across restarts of the daemon."""

from __future__ import annotations

import time
from typing import Any

import click
import msgspec

from sessiond.cli import options
from sessiond.cli.activity import in_words
from sessiond.cli.client import Single, connect_once
from sessiond.cli.output import BRIEF, clean, content_text, message_text, note, one_line, parts_of, print_json, say
from sessiond.cli.pages import PAGE, ShownChange, open_, read_shown, with_earlier
from sessiond.cli.streams import must_be_read
from sessiond.client.requests import plain, read_notice, strange
from sessiond.ready import ready

ready(ShownChange)
_AGAIN_S = 0.05
_OF_MESSAGES = ("appended", "extended", "finished")


@click.command("tail", short_help="Follow a session until interrupted.")
@options.session_id
@click.option(
    "-n", "--last", type=options.Count(0), default=10, show_default=True, help="How many messages to begin with."
)
@options.as_json
def command(session_id: str, last: int, as_json: bool) -> None:
    """Follow a session until interrupted, or until nobody reads the output.

    With --json every change is one document on its own line, as in session/changed: {"kind": "appended", "seq": ...,
    "messages": [...]}. The messages to begin with come the same way.
    """
    follower = _Follower(session_id, as_json)
    while True:
        must_be_read()
        try:
            with connect_once() as connection:
                follower.follow(connection, last)
        except msgspec.MsgspecError as error:
            raise strange("word of a change", error) from None
        except ConnectionError:  # the daemon went away: continue with the next one
            time.sleep(_AGAIN_S)


class _Follower:
    def __init__(self, session_id: str, as_json: bool) -> None:
        self.session_id = session_id
        self.as_json = as_json
        self.since: int | None = None
        """The seq of the last change that was shown; None before the session was opened."""
        self.in_stream: str | None = None
        """The message whose text is being printed as it arrives; its line has not ended yet."""
        self.read_to = 0
        """Messages have been read as they were at this seq: changes of messages up to there say nothing new."""

    def follow(self, connection: Single, last: int) -> None:
        """Until the connection ends (ConnectionError), or the session must be opened again."""
        self._open(connection, last)
        for told in connection.notifications(while_read=True):
            if told.method is None or not told.method.startswith("session/"):
                continue
            notice = read_notice(told.params)
            if notice.about != self.session_id:
                continue
            if told.method == "session/changed":
                for change in notice.changes:
                    self._show_news(plain(change))
            elif told.method == "session/activityChanged" and not self.as_json:
                self._end_stream()
                say(one_line(f"── {in_words(notice.activity)}", 200))
            elif told.method in ("session/resync", "session/reloaded"):
                return
            elif told.method == "session/deleted" and notice.moved_to is not None:
                note(f"{self.session_id} is {notice.moved_to} now")
                self.session_id = notice.moved_to
                return
            elif told.method == "session/deleted":
                raise click.ClickException(
                    f"{self.session_id} was deleted; to bring it back: sessiond restore {self.session_id}"
                )

    def _open(self, connection: Single, last: int) -> None:
        which = {"last": last} if self.since is None else {"since": self.since}
        opened = connection.ask(open_(self.session_id, **which)).value
        if opened.changes is not None:
            for change in opened.changes:
                self.show(plain(change))
        elif self.since is None:
            self._show_all(with_earlier(connection.ask, opened, last)[0])
        else:
            self._show_all(opened.messages)
            more = opened.has_more
            while more:
                page = connection.ask(read_shown(self.session_id, self.since, PAGE)).value
                self._show_all(page.messages)
                self.read_to, more = page.seq, page.has_more and bool(page.messages)
        self.since = max(self.since or 0, opened.session.seq)

    def _show_all(self, messages: list[dict[str, Any]]) -> None:
        for one in messages:
            self.show({"kind": "appended", "seq": one["seq"], "messages": [one]})

    def _show_news(self, sent: dict[str, Any]) -> None:
        """Show a change, unless the pages that were read since have it already."""
        if sent.get("seq", 0) > self.read_to or sent.get("kind") not in _OF_MESSAGES:
            self.show(sent)

    def show(self, sent: dict[str, Any]) -> None:
        """`sent`: the change as the daemon sent it."""
        change = msgspec.convert(sent, ShownChange)
        self.since = max(self.since or 0, change.seq)
        if self.as_json:
            print_json(sent)
        elif change.kind == "extended" and change.message_id is not None:
            self._stream(change.message_id, change.text)
        elif change.kind == "finished":
            self._finish(change)
        else:
            self._end_stream()
            for message in change.messages if change.kind == "appended" else ():
                self._say_message(message)
            _say(change)

    def _say_message(self, message: dict[str, Any]) -> None:
        """Whole; the line of one that is being written stays open for what follows."""
        self._end_stream()
        text = message_text(message)
        said = content_text(message.get("content", ""))
        goes_on = message.get("status") == "streaming" and not message.get("toolCalls")
        if goes_on and said and not said.endswith("\n"):
            print(text, end="", flush=True)
            self.in_stream = message.get("id")
        else:
            say(text.rstrip("\n"))  # one that begins to stream has no text yet

    def _stream(self, message_id: str, text: str) -> None:
        if self.in_stream != message_id:
            self._end_stream()
            self.in_stream = message_id
        print(clean(text), end="", flush=True)

    def _finish(self, change: ShownChange) -> None:
        """Show what a reply did besides its text, and how it ended if that is not well."""
        calls = parts_of({"toolCalls": change.tool_calls}).calls
        ended = change.status not in (None, "done", "streaming")
        if self.in_stream == change.message_id or calls or ended:
            self._end_stream()
        for call in calls:
            say(one_line(call, BRIEF))
        if ended:
            say(f"── {change.status}")

    def _end_stream(self) -> None:
        if self.in_stream is not None:
            self.in_stream = None
            print()


def _say(change: ShownChange) -> None:
    if change.kind == "note":
        heading, content = ("", "") if change.note is None else (change.note.heading, change.note.content)
        say(one_line(f"── note: {heading}: {content}", 200))
    elif change.kind not in ("appended", "state"):
        say(f"── {change.kind}")
